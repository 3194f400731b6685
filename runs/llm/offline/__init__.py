"""The offline model: deterministic and extractive, with no key, no network, no clock and no randomness."""

from runs.llm.offline.model import OfflineModel

__all__ = ["OfflineModel"]
