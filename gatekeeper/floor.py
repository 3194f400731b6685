"""The floor of safety: the rules without which an invented citation could be published.

Who may change rules may make these stricter. To have one below what is shipped takes a superuser, and while such a
rule set is in force, every run made under it says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gatekeeper.rules import GK002, GK003, GK004, GK005, GK006
from gatekeeper.shipped import shipped_rules
from gatekeeper.types import RuleMode, RuleSetting, Severity

FLOOR = (GK002, GK003, GK004, GK005, GK006)
MODES = (RuleMode.OFF, RuleMode.SHADOW, RuleMode.ENFORCED)
SEVERITIES = (Severity.LOW_CONFID, Severity.REJECT)
MORE_IS_STRICTER = frozenset({(GK005, "min_chars")})
"""Parameters that are stricter the larger they are. Any other value than the shipped one of another counts as lower."""

Value = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Lowering:
    """`what`: mode, severity, or a parameter of that name."""

    code: str
    what: str
    shipped: Value
    now: Value


def lowerings(settings: Iterable[RuleSetting]) -> tuple[Lowering, ...]:
    """Where these settings are below the floor, in the order of the codes. A rule that is missing is off."""
    shipped = {rule.code: rule.setting for rule in shipped_rules()}
    given = {setting.code: setting for setting in settings}
    found = []
    for code in FLOOR:
        now = given.get(code) or RuleSetting(code, RuleMode.OFF, shipped[code].severity, shipped[code].params)
        found += _below(shipped[code], now)
    return tuple(found)


def lowered_codes(settings: Iterable[RuleSetting]) -> tuple[str, ...]:
    """The rules of the floor that are below it, each once."""
    return tuple(dict.fromkeys(lowering.code for lowering in lowerings(settings)))


def lowered_further(before: Iterable[RuleSetting], after: Iterable[RuleSetting]) -> tuple[Lowering, ...]:
    """What is below the floor after a change and was not so low before it: what a superuser must decide."""
    standing = {setting.code: setting for setting in before}
    return tuple(
        lowering
        for lowering in lowerings(after)
        if (was := standing.get(lowering.code)) is not None
        and _is_lower(lowering.code, lowering.what, lowering.now, than=_value(was, lowering.what))
    )


def _below(shipped: RuleSetting, now: RuleSetting) -> list[Lowering]:
    return [
        Lowering(now.code, what, _value(shipped, what), _value(now, what))
        for what in ("mode", "severity", *sorted(shipped.params))
        if _is_lower(now.code, what, _value(now, what), than=_value(shipped, what))
    ]


def _value(setting: RuleSetting, what: str) -> Value:
    match what:
        case "mode":
            return setting.mode
        case "severity":
            return setting.severity
        case _:
            return setting.params.get(what, "")


def _is_lower(code: str, what: str, value: Value, *, than: Value) -> bool:
    match what:
        case "mode":
            return MODES.index(RuleMode(str(value))) < MODES.index(RuleMode(str(than)))
        case "severity":
            return SEVERITIES.index(Severity(str(value))) < SEVERITIES.index(Severity(str(than)))
    if (code, what) in MORE_IS_STRICTER and isinstance(value, int | float) and isinstance(than, int | float):
        return value < than
    return value != than
