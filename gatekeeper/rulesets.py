"""Rule sets in the database: which one is in force, and how a new one comes about.

Every change makes a new numbered set; none is ever changed. Writers are serialized by one advisory
lock, so numbers have no gaps and a change is always made on the set that its author saw. Whatever a person
changes is in the rules' admin history in the same transaction.

    RuleSetError          the text is one sentence for the person who asked
    ├── NoRuleSet         there is none yet, or none of that number
    ├── StaleRuleSet      somebody else made a newer set meanwhile
    ├── InvalidChange     the settings or the reason cannot be used
    ├── BelowTheFloor     only a superuser may do that
    └── NothingChanges    the rules are so already
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.utils.translation import gettext as _

from gatekeeper import floor
from gatekeeper.canonical import MalformedRules, numbered, read_rules, rules_document
from gatekeeper.changes import Changes, Difference, State, changes_between, differences, put_on
from gatekeeper.models import Rule, RuleProposal
from gatekeeper.models import RuleSet as RuleSetRow
from gatekeeper.shipped import ShippedRule, shipped_rules
from gatekeeper.text import unseen
from gatekeeper.types import RuleMode, RuleSet, RuleSetting, Severity

SYNC_REASON = "Shipped rules synchronized."
MAX_REASON_CHARS = 500
MAX_DESCRIPTION_CHARS = 2000
MAX_TEXT_PARAM_CHARS = 2000
LARGEST_PARAM = 1_000_000


class RuleSetError(Exception):
    """The text is one sentence that may be shown to the person who asked."""


class NoRuleSet(RuleSetError):
    pass


class StaleRuleSet(RuleSetError):
    def __init__(self, shown: int, newest: int) -> None:
        words = _("Rule set %(shown)d is no longer the newest: it is %(newest)d now. Look at it and try again.")
        super().__init__(words % {"shown": shown, "newest": newest})
        self.newest = newest


class InvalidChange(RuleSetError):
    pass


class BelowTheFloor(RuleSetError):
    def __init__(self, lowered: tuple[floor.Lowering, ...]) -> None:
        codes = ", ".join(dict.fromkeys(lowering.code for lowering in lowered))
        super().__init__(_("Only a superuser may lower the floor of safety: %(codes)s.") % {"codes": codes})
        self.lowered = lowered


class NothingChanges(RuleSetError):
    pass


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What `sync` did. `new_set` tells whether it made a rule set."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    retired: tuple[str, ...]
    rule_set: RuleSet
    new_set: bool


# ---- reading ----------------------------------------------------------------------------------------------------


def current() -> RuleSet:
    """The rule set in force: the newest. Raises `NoRuleSet`, or `MalformedRules` if the row was tampered with."""
    return _read(newest_row())


def load(number: int) -> RuleSet:
    """The set of that number. Raises as `current`."""
    return _read(row_of(number))


def newest_row() -> RuleSetRow:
    """Raises `NoRuleSet`."""
    row = RuleSetRow.objects.order_by("-number").first()
    if row is None:
        raise NoRuleSet(_("There is no rule set yet; run `manage.py sync_rules`."))
    return row


def row_of(number: int) -> RuleSetRow:
    """Raises `NoRuleSet`."""
    row = RuleSetRow.objects.filter(number=number).first() if number < 2**31 else None
    if row is None:
        raise NoRuleSet(_("There is no rule set %(number)d.") % {"number": number})
    return row


def state_of(row: RuleSetRow) -> State:
    """What the set holds. Raises `MalformedRules`."""
    return State(_read(row).rules, row.own_descriptions)


def _read(row: RuleSetRow) -> RuleSet:
    rule_set = numbered(row.number, read_rules(row.rules))
    if rule_set.digest != row.digest:
        raise MalformedRules(_("Rule set %(number)d does not match its digest.") % {"number": row.number})
    return replace(rule_set, lowered=tuple(row.lowered))


# ---- changes by people ------------------------------------------------------------------------------------------


def save_change(
    shown_number: int,
    changed: Iterable[RuleSetting],
    *,
    by: AbstractBaseUser | None,
    reason: str,
    descriptions: Mapping[str, str] | None = None,
    restores: int | None = None,
) -> RuleSet:
    """Put `changed` settings and own descriptions over the set that the author was shown; the result is the newest.

    What is not named stays as it is. An empty description, or the shipped one, takes the own one away. Nothing is
    written, and the set in force returned, where nothing differs. `restores`: the set that this one repeats. Raises
    `StaleRuleSet`, `InvalidChange`, `NoRuleSet`, and `BelowTheFloor` where `by` is no superuser.
    """
    why = check_reason(reason)
    settings = {setting.code: setting for setting in changed}
    told = _checked_descriptions(descriptions or {})
    check_settings(settings.values())
    with transaction.atomic():
        _wait_for_other_writers()
        newest = newest_row()
        if newest.number != shown_number:
            raise StaleRuleSet(shown_number, newest.number)
        before = state_of(newest)
        own = {code: text for code, text in {**before.own, **told}.items() if text}
        after = State(tuple(settings.get(rule.code, rule) for rule in before.settings), own)
        changes = differences(before, after)
        if not changes:
            return _read(newest)
        check_floor(before, after, by)
        _keep_rows(after, {change.code for change in changes})
        made = _insert(newest.number + 1, after, by, why, restores)
        if by is not None:
            _log(by, made, changes, why)
        return made


def propose(
    shown_number: int, changes: Changes, *, by: AbstractBaseUser, reason: str = "", restores: int | None = None
) -> RuleProposal:
    """Keep a change to be looked at: of what is named only that which differs.

    Raises `NoRuleSet`, `InvalidChange`, `BelowTheFloor`, `NothingChanges`.
    """
    before = state_of(row_of(shown_number))
    named = put_on(before, changes)
    check_settings(named.settings)
    after = State(named.settings, {code: text for code, text in _checked_descriptions(named.own).items() if text})
    changes = changes_between(before, after)
    if changes == Changes():
        raise NothingChanges(_("Nothing would change: the rules are so already."))
    check_floor(before, after, by)
    told = _tidy(reason)[:MAX_REASON_CHARS]
    _check_seen(told)
    return RuleProposal.objects.create(
        shown_number=shown_number,
        changes=changes.model_dump(mode="json"),
        restores=restores,
        reason=told,
        created_by_id=by.pk,
    )


def propose_restore(number: int, *, by: AbstractBaseUser) -> RuleProposal:
    """A proposal that makes the rules what they were in set `number`. Raises as `propose`."""
    newest, old = newest_row(), row_of(number)
    return propose(newest.number, changes_between(state_of(newest), state_of(old)), by=by, restores=number)


def save_proposal(proposal: RuleProposal, shown_number: int, *, by: AbstractBaseUser, reason: str) -> RuleSet:
    """Make the proposed change on the set that was shown with it. Raises as `save_change`, and `NothingChanges`.

    The new set is told to restore another only where it holds the same rules.
    """
    changes = Changes.model_validate(proposal.changes)
    with transaction.atomic():
        before = state_of(row_of(shown_number))
        after = put_on(before, changes)
        changed = [setting for setting in after.settings if setting != before.setting(setting.code)]
        descriptions = {code: after.own.get(code, "") for code in changes.rules}
        restores = proposal.restores if proposal.restores and _repeats(after, proposal.restores) else None
        made = save_change(shown_number, changed, by=by, reason=reason, descriptions=descriptions, restores=restores)
        if made.number == shown_number:
            raise NothingChanges(_("Nothing would change: the rules are so already."))
        RuleProposal.objects.filter(pk=proposal.pk).update(saved_as=made.number)
    return made


def _repeats(after: State, number: int) -> bool:
    """Whether the rules are again what they were in set `number`; others may have changed them meanwhile."""
    return not differences(state_of(row_of(number)), after)


# ---- changes by a release ---------------------------------------------------------------------------------------


def sync() -> SyncOutcome:
    """Bring the rows up to the shipped metadata; make a rule set if there is none or the rows say another thing.

    Titles and shipped descriptions follow the file; modes, severities, parameters and descriptions of our own stay as
    an admin set them. Parameters that are new in the file are added with their shipped value, those no longer in it
    are taken out. A file that raises the floor above the rules makes a set too: one that says so. Raises
    `gatekeeper.shipped.MalformedMetadata`.
    """
    shipped = shipped_rules()
    with transaction.atomic():
        _wait_for_other_writers()
        rows = {row.code: row for row in Rule.objects.all()}
        created = [_row_of(rule) for rule in shipped if rule.code not in rows]
        Rule.objects.bulk_create(created)
        updated = [rows[rule.code] for rule in shipped if rule.code in rows and _follow(rows[rule.code], rule)]
        for row in updated:
            row.save(update_fields=["title", "description", "params", "updated_at"])
        retired = sorted(rows.keys() - {rule.code for rule in shipped})
        if retired:
            Rule.objects.filter(code__in=retired).delete()

        kept = [*created, *(row for code, row in rows.items() if code not in retired)]
        now = State(
            tuple(map(_setting_of, kept)), {row.code: row.own_description for row in kept if row.own_description}
        )
        newest = RuleSetRow.objects.order_by("-number").first()
        if newest is None or not _says(newest, now):
            in_force, new_set = _insert(newest.number + 1 if newest else 1, now, None, SYNC_REASON), True
        else:
            in_force, new_set = _read(newest), False
    return SyncOutcome(
        tuple(row.code for row in created), tuple(row.code for row in updated), tuple(retired), in_force, new_set
    )


def _says(row: RuleSetRow, now: State) -> bool:
    """Whether the set holds this state and judges its floor as it is judged now."""
    same = row.digest == numbered(row.number, now.settings).digest
    return same and tuple(row.lowered) == floor.lowered_codes(now.settings)


def _wait_for_other_writers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gatekeeper.rulesets'))")


def _insert(
    number: int, state: State, by: AbstractBaseUser | None, reason: str, restores: int | None = None
) -> RuleSet:
    rule_set = replace(numbered(number, state.settings), lowered=floor.lowered_codes(state.settings))
    RuleSetRow.objects.create(
        number=number,
        digest=rule_set.digest,
        rules=rules_document(rule_set.rules),
        own_descriptions=dict(state.own),
        lowered=list(rule_set.lowered),
        restores=restores,
        created_by_id=by.pk if by else None,
        reason=reason,
    )
    return rule_set


def _keep_rows(state: State, codes: Iterable[str]) -> None:
    for code in codes:
        setting, row = state.setting(code), Rule.objects.get(code=code)
        if setting is not None:
            row.mode, row.severity, row.params = setting.mode, setting.severity, dict(setting.params)
            row.own_description = state.own.get(code, "")
            row.save(update_fields=["mode", "severity", "params", "own_description", "updated_at"])


def _log(by: AbstractBaseUser, made: RuleSet, changes: Iterable[Difference], why: str) -> None:
    """One entry in the history of each rule: what it was, what it is, the set, the reason."""
    for code in dict.fromkeys(change.code for change in changes):
        told = "; ".join(
            f"{change.what}: {_shown(change.before)} → {_shown(change.after)}"
            for change in changes
            if change.code == code
        )
        message = _("%(changes)s. Rule set %(number)d. Why: %(why)s")
        words = {"changes": told, "number": made.number, "why": why}
        LogEntry.objects.log_actions(by.pk, [Rule(code=code)], CHANGE, message % words, single_object=True)


def _shown(value: object) -> str:
    return str(value) if value not in {"", None} else "–"


# ---- checks -----------------------------------------------------------------------------------------------------


def check_reason(reason: str) -> str:
    """The reason as it is kept. Raises `InvalidChange`."""
    why = _tidy(reason)
    if not why:
        raise InvalidChange(_("Say why the rules change."))
    _check_seen(why)
    if len(why) > MAX_REASON_CHARS:
        raise InvalidChange(_("The reason may have %(limit)d characters.") % {"limit": MAX_REASON_CHARS})
    return why


def check_settings(settings: Iterable[RuleSetting]) -> None:
    """Only known rules, with the parameters that the rule has, of the type that they have. Raises `InvalidChange`."""
    known = {rule.code: rule.params for rule in shipped_rules()}
    for setting in settings:
        code, defaults = setting.code, known.get(setting.code)
        if defaults is None:
            raise InvalidChange(_("There is no rule %(code)s.") % {"code": code})
        if setting.params.keys() != defaults.keys():
            names = ", ".join(sorted(defaults)) or _("none")
            raise InvalidChange(_("%(code)s takes the parameters %(names)s.") % {"code": code, "names": names})
        for name, value in setting.params.items():
            _check_parameter(code, name, value, type(defaults[name]))


def _check_parameter(code: str, name: str, value: object, wanted: type) -> None:
    words = {"name": name, "code": code, "type": wanted.__name__, "most": LARGEST_PARAM}
    if type(value) is not wanted:
        raise InvalidChange(_("Parameter %(name)s of %(code)s must be of type %(type)s.") % words)
    if isinstance(value, int | float) and not 0 <= value <= LARGEST_PARAM:
        raise InvalidChange(_("Parameter %(name)s of %(code)s must be between 0 and %(most)d.") % words)
    if isinstance(value, str) and (len(value) > MAX_TEXT_PARAM_CHARS or "\x00" in value):
        raise InvalidChange(_("Parameter %(name)s of %(code)s is too long, or holds a NUL character.") % words)


def check_floor(before: State, after: State, by: AbstractBaseUser | None) -> None:
    """Raises `BelowTheFloor` where the change lowers the floor of safety further and `by` is no superuser."""
    lowered = floor.lowered_further(before.settings, after.settings)
    if lowered and not getattr(by, "is_superuser", False):
        raise BelowTheFloor(lowered)


def _checked_descriptions(descriptions: Mapping[str, str]) -> dict[str, str]:
    """As they are kept: empty where the shipped one is meant. Raises `InvalidChange`."""
    shipped = {rule.code: rule.description for rule in shipped_rules()}
    kept = {}
    for code, text in descriptions.items():
        told = text.replace("\r\n", "\n").strip()
        if code not in shipped:
            raise InvalidChange(_("There is no rule %(code)s.") % {"code": code})
        if "\x00" in told or len(told) > MAX_DESCRIPTION_CHARS:
            words = {"limit": MAX_DESCRIPTION_CHARS}
            raise InvalidChange(_("A description may have %(limit)d characters, and no NUL character.") % words)
        _check_seen(told)
        kept[code] = "" if told == shipped[code] else told
    return kept


def _check_seen(text: str) -> None:
    if codes := unseen(text):
        raise InvalidChange(_("The text holds characters that cannot be seen: %(codes)s.") % {"codes": codes[:200]})


def _tidy(text: str) -> str:
    return " ".join(text.replace("\x00", "").split())


# ---- rows -------------------------------------------------------------------------------------------------------


def _row_of(rule: ShippedRule) -> Rule:
    return Rule(
        code=rule.code,
        title=rule.title,
        description=rule.description,
        mode=rule.mode.value,
        severity=rule.severity.value,
        params=dict(rule.params),
    )


def _follow(row: Rule, rule: ShippedRule) -> bool:
    """Take over what the file decides; whether anything changed."""
    params = {name: row.params.get(name, default) for name, default in rule.params.items()}
    before = (row.title, row.description, row.params)
    row.title, row.description, row.params = rule.title, rule.description, params
    return before != (rule.title, rule.description, params)


def _setting_of(row: Rule) -> RuleSetting:
    return RuleSetting(row.code, RuleMode(row.mode), Severity(row.severity), dict(row.params))
