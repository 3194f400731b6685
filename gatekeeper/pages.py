"""What the pages of rules show: the rules as they are, what a set changed, what a proposal would change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from gatekeeper import floor, rulesets
from gatekeeper.canonical import MalformedRules
from gatekeeper.changes import Changes, Difference, State, differences, put_on
from gatekeeper.models import MODES, SEVERITIES, Rule, RuleProposal, RuleSet

MODE_WORDS = dict(MODES)
SEVERITY_WORDS = dict(SEVERITIES)
FIELD_WORDS = {"mode": _("mode"), "severity": _("severity"), "description": _("description")}
EFFECTS = {
    "ENFORCED": _("counts: a claim that fails it is removed, or the answer marked"),
    "SHADOW": _("is evaluated and recorded, without effect: how a rule is tried"),
    "OFF": _("is not evaluated"),
}
MEANWHILE_SHOWN = 20


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule as a set has it. `lowered`: where it is below the floor of safety. `own`: an admin described it."""

    code: str
    title: str
    told: str
    own: bool
    mode: str
    mode_words: object
    severity: str
    severity_words: object
    params: tuple[tuple[str, object], ...]
    on_the_floor: bool
    lowered: tuple[floor.Lowering, ...]


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One field of one rule, in words. `replaces`: what somebody else made of it meanwhile goes."""

    code: str
    what: object
    before: object
    after: object
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class SetRow:
    """A rule set beside the one before it. `changes` None: one of the two cannot be read."""

    row: RuleSet
    changes: tuple[ChangeRow, ...] | None
    in_force: bool


@dataclass(frozen=True, slots=True)
class ProposalPage:
    """A proposal on the newest set. `meanwhile`: the sets made since its author saw the rules, oldest first.

    `lowered`: what it lowers below the floor of safety, further than it is.
    """

    proposal: RuleProposal
    newest: RuleSet
    changes: tuple[ChangeRow, ...]
    meanwhile: tuple[SetRow, ...]
    more_meanwhile: int
    lowered: tuple[floor.Lowering, ...]


# ---- rules ------------------------------------------------------------------------------------------------------


def rules_of(row: RuleSet) -> tuple[RuleRow, ...]:
    """The rules that the set has, in the order of the codes. Raises `MalformedRules`."""
    state = rulesets.state_of(row)
    known = {rule.code: rule for rule in Rule.objects.all()}
    lowered = floor.lowerings(state.settings)
    return tuple(
        RuleRow(
            code=setting.code,
            title=known[setting.code].title if setting.code in known else "",
            told=state.own.get(setting.code) or (known[setting.code].description if setting.code in known else ""),
            own=setting.code in state.own,
            mode=setting.mode.value,
            mode_words=MODE_WORDS[setting.mode.value],
            severity=setting.severity.value,
            severity_words=SEVERITY_WORDS[setting.severity.value],
            params=tuple(sorted(setting.params.items())),
            on_the_floor=setting.code in floor.FLOOR,
            lowered=tuple(each for each in lowered if each.code == setting.code),
        )
        for setting in state.settings
    )


# ---- sets -------------------------------------------------------------------------------------------------------


def set_rows(rows: Sequence[RuleSet]) -> tuple[SetRow, ...]:
    """Each with what it changed, in their order. Three queries, whatever their number."""
    earlier = RuleSet.objects.filter(number__in=[row.number - 1 for row in rows])
    states = {row.number: _state(row) for row in (*earlier, *rows)}
    newest = RuleSet.objects.order_by("-number").values_list("number", flat=True).first()
    return tuple(SetRow(row, _changed(states, row.number), row.number == newest) for row in rows)


def _changed(states: Mapping[int, State | None], number: int) -> tuple[ChangeRow, ...] | None:
    if number == 1:
        return ()
    before, after = states.get(number - 1), states.get(number)
    return change_rows(differences(before, after)) if before is not None and after is not None else None


def _state(row: RuleSet) -> State | None:
    try:
        return rulesets.state_of(row)
    except MalformedRules:
        return None


def compared(before: RuleSet, after: RuleSet) -> tuple[ChangeRow, ...]:
    """Raises `MalformedRules`."""
    return change_rows(differences(rulesets.state_of(before), rulesets.state_of(after)))


# ---- proposals --------------------------------------------------------------------------------------------------


def proposal_page(proposal: RuleProposal) -> ProposalPage:
    """Raises `NoRuleSet` and `MalformedRules`."""
    newest = rulesets.newest_row()
    shown, now = rulesets.state_of(rulesets.row_of(proposal.shown_number)), rulesets.state_of(newest)
    after = put_on(now, Changes.model_validate(proposal.changes))
    theirs = {(change.code, change.what) for change in differences(shown, now)}
    since = RuleSet.objects.filter(number__gt=proposal.shown_number).select_related("created_by").order_by("-number")
    rows = set_rows(list(since[:MEANWHILE_SHOWN]))
    return ProposalPage(
        proposal=proposal,
        newest=newest,
        changes=change_rows(differences(now, after), theirs),
        meanwhile=rows[::-1],
        more_meanwhile=max(0, newest.number - proposal.shown_number - len(rows)),
        lowered=floor.lowered_further(now.settings, after.settings),
    )


def change_rows(
    changes: Sequence[Difference], theirs: frozenset[tuple[str, str]] | set[tuple[str, str]] = frozenset()
) -> tuple[ChangeRow, ...]:
    return tuple(
        ChangeRow(
            code=change.code,
            what=FIELD_WORDS.get(change.what, change.what),
            before=_value_words(change.what, change.before),
            after=_value_words(change.what, change.after),
            replaces=(change.code, change.what) in theirs,
        )
        for change in changes
    )


def _value_words(what: str, value: object) -> object:
    if value is None:
        return _("not there")
    match what:
        case "mode":
            return MODE_WORDS[str(value)]
        case "severity":
            return SEVERITY_WORDS[str(value)]
        case "description":
            return value or _("the shipped one")
    return _("empty") if value == "" else value
