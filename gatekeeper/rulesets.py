"""Rule sets in the database: which one is in force, and how a new one comes about.

Every change makes a new numbered set; none is ever changed. Writers are serialized by one advisory
lock, so numbers have no gaps and a change is always made on the set that its author saw.

    RuleSetError
    ├── NoRuleSet         there is none yet, or none of that number
    ├── StaleRuleSet      somebody else made a newer set meanwhile
    └── InvalidChange     the settings or the reason cannot be used
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction

from gatekeeper.canonical import MalformedRules, numbered, read_rules, rules_document
from gatekeeper.models import Rule
from gatekeeper.models import RuleSet as RuleSetRow
from gatekeeper.shipped import ShippedRule, shipped_rules
from gatekeeper.types import RuleMode, RuleSet, RuleSetting, Severity

SYNC_REASON = "Shipped rules synchronized."


class RuleSetError(Exception):
    """The text is one sentence that may be shown to the person who asked."""


class NoRuleSet(RuleSetError):
    pass


class StaleRuleSet(RuleSetError):
    def __init__(self, shown: int, newest: int) -> None:
        super().__init__(f"Rule set {shown} is no longer the newest: it is {newest} now. Look at it and try again.")
        self.newest = newest


class InvalidChange(RuleSetError):
    pass


@dataclass(frozen=True, slots=True)
class SyncOutcome:
    """What `sync` did. `new_set` tells whether it made a rule set."""

    created: tuple[str, ...]
    updated: tuple[str, ...]
    retired: tuple[str, ...]
    rule_set: RuleSet
    new_set: bool


def current() -> RuleSet:
    """The rule set in force: the newest. Raises `NoRuleSet`, or `MalformedRules` if the row was tampered with."""
    row = RuleSetRow.objects.order_by("-number").first()
    if row is None:
        raise NoRuleSet("There is no rule set yet; run `manage.py sync_rules`.")
    return _read(row)


def load(number: int) -> RuleSet:
    """The set of that number. Raises as `current`."""
    row = RuleSetRow.objects.filter(number=number).first()
    if row is None:
        raise NoRuleSet(f"There is no rule set {number}.")
    return _read(row)


def save_change(
    shown_number: int, changed: Iterable[RuleSetting], *, by: AbstractBaseUser | None, reason: str
) -> RuleSet:
    """Put `changed` settings over the set that the author was shown, and make the result the newest.

    Rules not in `changed` stay as they are. Nothing is written, and the set in force returned, where nothing
    differs. Raises `StaleRuleSet`, `InvalidChange`, `NoRuleSet`.
    """
    changes = {setting.code: setting for setting in changed}
    _check_change(changes, reason)
    with transaction.atomic():
        _wait_for_other_writers()
        newest = current()
        if newest.number != shown_number:
            raise StaleRuleSet(shown_number, newest.number)
        proposed = numbered(newest.number + 1, (changes.get(rule.code, rule) for rule in newest.rules))
        if proposed.digest == newest.digest:
            return newest
        for setting in changes.values():
            row = Rule.objects.get(code=setting.code)
            row.mode, row.severity, row.params = setting.mode, setting.severity, dict(setting.params)
            row.save(update_fields=["mode", "severity", "params", "updated_at"])
        return _insert(proposed, by, reason.strip())


def sync() -> SyncOutcome:
    """Bring the rows up to the shipped metadata; make a rule set if there is none or the rows say another thing.

    Titles and descriptions follow the file; modes, severities and parameters stay as an admin set them. Parameters
    that are new in the file are added with their shipped value, those no longer in it are taken out. Raises
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
        newest = RuleSetRow.objects.order_by("-number").first()
        proposed = numbered(newest.number + 1 if newest else 1, map(_setting_of, kept))
        new_set = newest is None or newest.digest != proposed.digest
        in_force = _insert(proposed, None, SYNC_REASON) if newest is None or new_set else _read(newest)
    return SyncOutcome(
        tuple(row.code for row in created), tuple(row.code for row in updated), tuple(retired), in_force, new_set
    )


def _read(row: RuleSetRow) -> RuleSet:
    rule_set = numbered(row.number, read_rules(row.rules))
    if rule_set.digest != row.digest:
        raise MalformedRules(f"Rule set {row.number} does not match its digest.")
    return rule_set


def _insert(rule_set: RuleSet, by: AbstractBaseUser | None, reason: str) -> RuleSet:
    RuleSetRow.objects.create(
        number=rule_set.number,
        digest=rule_set.digest,
        rules=rules_document(rule_set.rules),
        created_by_id=by.pk if by else None,
        reason=reason,
    )
    return rule_set


def _wait_for_other_writers() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gatekeeper.rulesets'))")


def _check_change(changes: dict[str, RuleSetting], reason: str) -> None:
    """Only known rules, with the parameters that the rule has, of the type that they have."""
    if not reason.strip():
        raise InvalidChange("Say why the rules change.")
    known = {rule.code: rule.params for rule in shipped_rules()}
    for code, setting in changes.items():
        if code not in known:
            raise InvalidChange(f"There is no rule {code}.")
        defaults = known[code]
        if setting.params.keys() != defaults.keys():
            raise InvalidChange(f"{code} takes the parameters {', '.join(sorted(defaults)) or 'none'}.")
        for name, value in setting.params.items():
            wanted = type(defaults[name])
            if type(value) is not wanted:
                raise InvalidChange(f"Parameter {name} of {code} must be of type {wanted.__name__}.")
            if isinstance(value, int | float) and not 0 <= value <= 1_000_000:
                raise InvalidChange(f"Parameter {name} of {code} must be between 0 and 1000000.")


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
