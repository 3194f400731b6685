"""The canonical form of a value, and the hashes made of it.

Canonical JSON, so that the same content always gives the same bytes:

* UTF-8, no white space, object keys sorted by code point, nothing escaped that need not be;
* a number with an integral value is written as an integer (`1.0` is `1`, `1e22` has all its digits), any
  other float in Python's shortest form: PostgreSQL's jsonb keeps the value of a number, not its spelling;
* NaN and the infinities are refused; `plain` turns them into strings before they are stored;
* date-times are strings in UTC with six digits of microseconds and a `Z`: `2026-01-31T08:00:00.000000Z`;
* decimals are strings without exponent and without trailing zeros: `0.0012`;
* enums are their value; tuples are arrays; any other type is refused with `TypeError`.

A digest is the lower-case hex SHA-256 of `superbiz:1:TAG`, a NUL byte and the canonical JSON. The tag says what
kind of thing was hashed, so that the digest of one kind can never stand for another.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

REPLACEMENT = "\ufffd"
LARGEST_INTEGER = 10**400
"""Integers from it on are kept as strings: readers of JSON rarely take them. Beyond any float that is finite."""


def clean_text(text: str) -> str:
    """The text as PostgreSQL takes it: NUL and lone surrogates become U+FFFD."""
    if "\x00" in text:
        text = text.replace("\x00", REPLACEMENT)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utc_text(at: datetime) -> str:
    """`at` in UTC with microseconds and Z. Raises ValueError without a zone."""
    if at.tzinfo is None:
        raise ValueError("a date-time without a zone has no canonical form")
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("a decimal that is not finite has no canonical form")
    text = format(value.normalize(), "f")
    return "0" if text in {"-0", "0"} else text


def _converted(value: Any, on_float: Callable[[float], Any]) -> Any:
    """`value` in JSON's own types, every text cleaned. All that is kept passes here, so the common types come first."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() and "\x00" not in value else clean_text(value)
    if kind is dict:
        return {
            key if type(key) is str and key.isascii() and "\x00" not in key else clean_text(str(key)): _converted(
                item, on_float
            )
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [_converted(item, on_float) for item in value]
    if value is None or kind is bool:
        return value
    return _converted_otherwise(value, on_float)


def _converted_otherwise(value: Any, on_float: Callable[[float], Any]) -> Any:
    if isinstance(value, Enum):
        return _converted(value.value, on_float)
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int):
        return value if abs(value) < LARGEST_INTEGER else str(value)
    if isinstance(value, float):
        return on_float(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _converted(item, on_float) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_converted(item, on_float) for item in value]
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, Decimal):
        return decimal_text(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")


def _float_to_store(number: float) -> float | str:
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _float_to_hash(number: float) -> float | int:
    if not math.isfinite(number):
        raise ValueError("a number that is not finite has no canonical form")
    exact = Decimal(repr(number))
    return int(exact) if exact == exact.to_integral_value() else number


def plain(value: Any) -> Any:
    """A JSON column's value: JSON's own types only, texts cleaned, numbers that are not finite as strings."""
    return _converted(value, _float_to_store)


# Made once: `json.dumps` would make an encoder for each call with options.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_json(value: Any) -> bytes:
    """The canonical bytes of `value`. Raises TypeError or ValueError for what has none."""
    return _encode(_converted(value, _float_to_hash)).encode()


def digest(tag: str, value: Any) -> str:
    """SHA-256 of the tag and the canonical JSON, as 64 lower-case hex digits."""
    return hashlib.sha256(f"superbiz:1:{tag}".encode() + b"\x00" + canonical_json(value)).hexdigest()
