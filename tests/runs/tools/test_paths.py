from typing import Any

import pytest

from runs.tools.paths import resolve

VALUE: dict[str, Any] = {"lines": [{"text": "a"}, {"text": "b"}], "now": "t", "no_evidence": "none"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [("$.lines[1].text", "b"), ("$.now", "t"), ("$.no_evidence", "none"), ("$.lines[0]", {"text": "a"}), ("$", VALUE)],
)
def test_a_path_leads_to_its_value(path: str, expected: Any) -> None:
    assert resolve(path, VALUE) == expected


@pytest.mark.parametrize("path", ["$.lines[2].text", "$.other", "$.now.x", "$.now[0]", "$.lines.text"])
def test_a_path_to_nothing_is_a_lookup_error(path: str) -> None:
    with pytest.raises(LookupError):
        resolve(path, VALUE)


@pytest.mark.parametrize("path", ["", "lines[0]", "$lines", "$.lines[*].text", "$..text", "$.lines[-1]", "$['now']"])
def test_other_syntax_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not a path"):
        resolve(path, VALUE)
