import json
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audit.canonical import canonical_json, clean_text, digest, plain
from gatekeeper.types import EvidenceStatus

WITHOUT_ZONE = datetime(2026, 1, 31, tzinfo=UTC).replace(tzinfo=None)
IN_CHINA = timezone(timedelta(hours=8))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [None, True, "é"]}, '{"a":[null,true,"é"],"b":1}'),
        (1.0, "1"),
        (-0.0, "0"),
        (1e22, "10000000000000000000000"),
        (1e23, "100000000000000000000000"),
        (0.1, "0.1"),
        (Decimal("0.001200"), '"0.0012"'),
        (Decimal("0E-6"), '"0"'),
        (Decimal("1E+3"), '"1000"'),
        (datetime(2026, 1, 31, 8, tzinfo=UTC), '"2026-01-31T08:00:00.000000Z"'),
        (datetime(2026, 1, 31, 16, 0, 0, 5, tzinfo=IN_CHINA), '"2026-01-31T08:00:00.000005Z"'),
        (EvidenceStatus.OK, '"OK"'),
        ((1, 2), "[1,2]"),
        ("a\x00\ud800b", '"a\ufffd\ufffdb"'),
    ],
)
def test_each_value_has_one_form(value: Any, expected: str) -> None:
    assert canonical_json(value).decode() == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), WITHOUT_ZONE, {1, 2}, b"x", object()])
def test_what_has_no_form_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical_json(value)


def test_the_tag_is_part_of_the_digest() -> None:
    assert digest("frame", 1) == digest("frame", 1.0) != digest("genesis", 1)


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert clean_text("\ud83d\ude00\ud83d") == "\U0001f600\ufffd"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.django_db
@settings(max_examples=60)
@given(json_values)
@example(1e300)
@example(-1.7976931348623157e308)
@example(5e-324)
@example(10**401)
def test_what_is_stored_as_jsonb_comes_back_with_the_same_digest(value: Any) -> None:
    stored = plain(value)
    with connection.cursor() as cursor:
        cursor.execute("SELECT (%s::jsonb)::text", [json.dumps(stored)])
        (text,) = cursor.fetchone()
    assert digest("x", json.loads(text)) == digest("x", stored)
