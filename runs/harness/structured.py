"""From a reply's text to the type its role has to answer with. Pure.

Servers differ in how well they keep a model to a schema, so the JSON is looked for in three places: the whole
text, a fenced block, and the first object in the prose that fits. What is found is validated in pydantic's lax
mode ("true" for true, "0.9" for 0.9); names of enums must be exact, unknown fields are refused.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from runs.errors import ModelContractViolated

MAX_TEXT_CHARS = 1_000_000
MAX_OBJECTS_TRIED = 50
MAX_FAULTS_TOLD = 6

Output = TypeVar("Output", bound=BaseModel)

_FENCE = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


def parse_reply(text: str | None, output: type[Output]) -> Output:
    """The validated answer. Raises `ModelContractViolated`: NOT_JSON where no JSON object is found, else SCHEMA.

    The reason names fields and kinds of fault, never a word of what the model wrote.
    """
    if text is None or not text.strip():
        raise ModelContractViolated("The answer is empty.", error_code="EMPTY")
    if len(text) > MAX_TEXT_CHARS:
        raise ModelContractViolated(f"The answer is longer than {MAX_TEXT_CHARS} characters.", error_code="NOT_JSON")
    first_fault: ValidationError | None = None
    for candidate in objects_in(text):
        try:
            return output.model_validate(candidate)
        except ValidationError as error:
            first_fault = first_fault or error
    if first_fault is None:
        raise ModelContractViolated("The answer holds no JSON object.", error_code="NOT_JSON")
    raise ModelContractViolated(f"The answer does not fit: {_told(first_fault)}.", error_code="SCHEMA") from None


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects of a text, likeliest first. None of a text longer than MAX_TEXT_CHARS.

    NUL, which no database stores as text, comes out as U+FFFD.
    """
    if len(text) > MAX_TEXT_CHARS:
        return
    found = _objects(text)
    yield from map(_without_nul, found) if "\\u0000" in text else found


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for candidate in (text, *_FENCE.findall(text)):
        found = _loads(candidate.strip().removeprefix("\ufeff"))
        if isinstance(found, dict):
            yield found
    position, tried = text.find("{"), 0
    while position >= 0 and tried < MAX_OBJECTS_TRIED:
        tried += 1
        end = position + 1
        try:
            found, end = _DECODER.raw_decode(text, position)
            yield found
        except (ValueError, RecursionError):
            pass  # not an object that starts here; the next brace may open one
        position = text.find("{", end)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _loads(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _told(error: ValidationError) -> str:
    """Faults as `claims[2].kind (enum)`, bounded."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = list(dict.fromkeys(f"{_path(fault)} ({fault['type']})" for fault in faults))
    more = len(told) - MAX_FAULTS_TOLD
    return ", ".join(told[:MAX_FAULTS_TOLD]) + (f" and {more} more" if more > 0 else "")


def _path(fault: Any) -> str:
    """Where a fault is. The name of an unknown field is the model's own text and is left out."""
    place = list(fault["loc"])
    if fault["type"] == "extra_forbidden":
        place[-1] = "?"
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return path.removeprefix(".") or "answer"
