"""What a model is shown of a tool's result: valid JSON under a length, with the cut marked.

Pure. The record keeps the whole; here is decided which evidence refs the model saw, and only
those may be cited later.
"""

import json
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Any

from gatekeeper.types import EvidenceRef
from runs.harness.wire import ToolAnswer, ToolAnswerError, ToolAnswerRef

REF_SHARE = 0.6
MAX_REF_CHARS = 4_000
CUT_MARK = " …[cut]"
MIN_LIST = 1
MIN_STRING = 80


def answer_text(
    invocation_id: str,
    tool_name: str,
    status: str,
    output: Any,
    refs: Sequence[EvidenceRef],
    error: ToolAnswerError | None,
    limit: int,
) -> tuple[str, frozenset[str], bool]:
    """The tool message, the raw paths it shows, and whether anything was cut. `limit` in characters."""
    shown, used = _fitting(refs, int(limit * REF_SHARE))
    cut_refs = len(shown) < len(refs) or any(len(ref.text) > MAX_REF_CHARS for ref in refs)
    small, cut_output = cap_json(output, max(400, limit - used))
    answer = ToolAnswer(
        invocation_id=invocation_id,
        tool_name=tool_name,
        status=status,
        evidence_refs=[ToolAnswerRef.model_construct(raw_path=ref.raw_path, text=_cut(ref.text)) for ref in shown],
        output=small,
        truncated=cut_refs or cut_output,
        error=error,
    )
    return answer.model_dump_json(), frozenset(ref.raw_path for ref in shown), answer.truncated


def _fitting(refs: Sequence[EvidenceRef], room: int) -> tuple[list[EvidenceRef], int]:
    """The longest head of `refs` that fits; always at least one, so that something can be cited."""
    shown: list[EvidenceRef] = []
    used = 0
    for ref in refs:
        size = len(encode_basestring(_cut(ref.text))) + len(ref.raw_path) + 32
        if shown and used + size > room:
            break
        shown.append(ref)
        used += size
    return shown, used


def _cut(text: str) -> str:
    return text if len(text) <= MAX_REF_CHARS else text[:MAX_REF_CHARS] + CUT_MARK


def cap_json(value: Any, limit: int) -> tuple[Any, bool]:
    """`value` cut to at most about `limit` characters of JSON: lists lose their tails, then strings theirs."""
    if len(_dump(value)) <= limit:
        return value, False
    list_cap, string_cap = 64, 2_000
    while True:
        small = _capped(value, list_cap, string_cap)
        if len(_dump(small)) <= limit:
            return small, True
        if list_cap == MIN_LIST and string_cap == MIN_STRING:
            return {"cut": f"the output is longer than {limit} characters"}, True
        list_cap, string_cap = max(MIN_LIST, list_cap // 2), max(MIN_STRING, string_cap // 2)


def _capped(value: Any, list_cap: int, string_cap: int) -> Any:
    if isinstance(value, dict):
        return {key: _capped(item, list_cap, string_cap) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kept = [_capped(item, list_cap, string_cap) for item in value[:list_cap]]
        return kept if len(value) <= list_cap else [*kept, f"…[{len(value) - list_cap} more cut]"]
    if isinstance(value, str) and len(value) > string_cap:
        return value[:string_cap] + CUT_MARK
    return value


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def _dump(value: Any) -> str:
    return _ENCODER.encode(value)
