"""Changes of rules as values: what differs between two states, put on a third. Pure.

A state is what a rule set holds: the settings that judge, and the descriptions that admins wrote. A change names only
the fields that it changes, so that what others did meanwhile to other fields stays.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, StrictStr

from gatekeeper.types import RuleMode, RuleSetting, Severity

Value = int | float | bool | str


@dataclass(frozen=True, slots=True)
class State:
    """`own`: descriptions that admins wrote, by code; a rule without one shows the shipped one."""

    settings: tuple[RuleSetting, ...]
    own: Mapping[str, str] = field(default_factory=dict)

    def setting(self, code: str) -> RuleSetting | None:
        return next((setting for setting in self.settings if setting.code == code), None)


class RuleChange(BaseModel):
    """Of one rule. None, or a parameter that is not named: it stays. An empty description: the shipped one again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: RuleMode | None = None
    severity: Severity | None = None
    params: dict[str, StrictBool | StrictInt | StrictFloat | StrictStr] = {}
    description: str | None = None


class Changes(BaseModel):
    """Column `gatekeeper_rule_proposal.changes`, version 1: the changed rules by code."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = 1
    rules: dict[str, RuleChange] = {}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one rule. `what`: mode, severity, description, or a parameter of that name.

    None: the rule is not there on that side.
    """

    code: str
    what: str
    before: Value | None
    after: Value | None


def changes_between(before: State, after: State) -> Changes:
    """What leads from one to the other, for the rules that both have."""
    rules = {}
    for setting in after.settings:
        was = before.setting(setting.code)
        if was is None:
            continue
        own = after.own.get(setting.code, "")
        change = RuleChange(
            mode=setting.mode if setting.mode is not was.mode else None,
            severity=setting.severity if setting.severity is not was.severity else None,
            params={
                name: value
                for name, value in setting.params.items()
                if name in was.params and value != was.params[name]
            },
            description=own if own != before.own.get(setting.code, "") else None,
        )
        if change != RuleChange():
            rules[setting.code] = change
    return Changes(rules=rules)


def put_on(state: State, changes: Changes) -> State:
    """The state with the changes made. Rules and parameters that it does not have are left out."""
    own = dict(state.own)
    settings = []
    for setting in state.settings:
        change = changes.rules.get(setting.code)
        if change is not None:
            known = {name: value for name, value in change.params.items() if name in setting.params}
            setting = replace(
                setting,
                mode=change.mode or setting.mode,
                severity=change.severity or setting.severity,
                params={**setting.params, **known},
            )
            if change.description is not None:
                own[setting.code] = change.description
        settings.append(setting)
    return State(tuple(settings), {code: text for code, text in own.items() if text})


def differences(before: State, after: State) -> tuple[Difference, ...]:
    """Field by field, in the order of the codes."""
    found: list[Difference] = []
    for code in sorted({setting.code for setting in (*before.settings, *after.settings)}):
        old, new = _fields(before, code), _fields(after, code)
        found += [
            Difference(code, what, old.get(what), new.get(what))
            for what in dict.fromkeys([*old, *new])
            if old.get(what) != new.get(what)
        ]
    return tuple(found)


def touched(changes: Iterable[Difference]) -> tuple[str, ...]:
    """The rules concerned, each once."""
    return tuple(dict.fromkeys(change.code for change in changes))


def _fields(state: State, code: str) -> dict[str, Value]:
    setting = state.setting(code)
    if setting is None:
        return {}
    return {
        "mode": setting.mode.value,
        "severity": setting.severity.value,
        **dict(sorted(setting.params.items())),
        "description": state.own.get(code, ""),
    }
