"""JSON columns of a run that say what it runs with: what it pinned at its start, and what a rehearsal is about."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict


class PinnedPrompts(BaseModel):
    """Column `diagnosis_run.pinned_prompts`, version 1: the set, and version numbers by prompt name.

    Written by the run's first attempt. A later one takes the same, whatever was made active meanwhile.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    prompt_set: str
    prompts: dict[str, int]


def pinned_numbers(column: Any) -> dict[str, int]:
    """Version numbers by prompt name, of the column's value; empty before the run has pinned them."""
    return dict(PinnedPrompts.model_validate(column).prompts) if column else {}


class Rehearsal(BaseModel):
    """Column `diagnosis_run.rehearsal`, version 1: a run that tries something out and counts for nothing.

    `prompts`: version numbers by prompt name, in place of the active ones. `now`: the reference time of all tools.
    `incident`: the bundled incident whose recording the tools read; None: the tools as they are configured.
    `of_run`: the run that is repeated. `beside`: the run to compare with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    prompts: dict[str, int]
    now: AwareDatetime
    incident: str | None = None
    of_run: str | None = None
    beside: str | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """What an attempt is to be equipped with beside what is active and configured now."""

    rehearsal: Rehearsal | None = None
    pinned: PinnedPrompts | None = None


NOTHING_SPECIAL = Order()
