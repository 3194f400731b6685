import pytest

from runs.tools.selectors import NoSelector, parse_selector, selects

METRIC = {"__name__": "up", "job": "api", "pod": "api-1"}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("up", True),
        ("down", False),
        ('{job="api"}', True),
        ("{job='api',}", True),
        ('{ job = `api` , pod != "x" }', True),
        ('up{job="web"}', False),
        ('up{job!="web"}', True),
        ('{job=~"a.*"}', True),
        ('{job=~"a"}', False),
        ('{job=~"web|api"}', True),
        ('up{pod!~"api-.+"}', False),
        ('up{zone=""}', True),
        ('up{zone!=""}', False),
        ('{__name__=~"u.",job="api"}', True),
        (r'{job="a\"b"}', False),
    ],
)
def test_selectors_match_as_in_prometheus(selector: str, matches: bool) -> None:
    assert selects(parse_selector(selector), METRIC) is matches


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{job=~".*"}',
        '{job=""}',
        "rate(up[5m])",
        "up[5m]",
        "up offset 5m",
        'up{job="api"} > 1',
        "up{job=api}",
        'up{job="a" pod="b"}',
        '{job=~"("}',
        '{job=~"(a+)+"}',
        '{job=~"a*b*c*d*e"}',
        '{job=~"' + "a" * 300 + '"}',
        "up or down",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NoSelector):
        parse_selector(text)
