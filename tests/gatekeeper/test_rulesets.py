"""Rules and rule sets in the database: synchronizing, changing, and that no set ever changes."""

import json
import threading
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.db.utils import DatabaseError

from gatekeeper import rulesets, shipped
from gatekeeper.canonical import MalformedRules
from gatekeeper.models import Rule, RuleSet
from gatekeeper.rules import CODES, GK005, GK007
from gatekeeper.types import RuleMode, RuleSetting, Severity
from tests.factories import UserFactory


@pytest.fixture
def no_rules() -> None:
    """An empty database, whatever a data migration or a set-up hook put there."""
    with transaction.atomic(), connection.cursor() as cursor:
        # A replica's session fires no triggers: those of the rule sets refuse this, as they should.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("TRUNCATE gatekeeper_rule, gatekeeper_rule_set")
        cursor.execute("SET LOCAL session_replication_role = origin")


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_rules")]


def setting(code: str, **changes: object) -> RuleSetting:
    rule = next(rule for rule in rulesets.current().rules if rule.code == code)
    return replace(rule, **changes)  # type: ignore[arg-type]


def test_the_first_sync_makes_the_shipped_set() -> None:
    outcome = rulesets.sync()
    assert outcome.created == CODES
    assert outcome.new_set
    assert rulesets.current() == rulesets.load(1) == outcome.rule_set == shipped.shipped_rule_set()


def test_a_second_sync_changes_nothing() -> None:
    rulesets.sync()
    stamps = list(Rule.objects.values_list("updated_at", flat=True))
    outcome = rulesets.sync()
    assert (outcome.created, outcome.updated, outcome.retired, outcome.new_set) == ((), (), (), False)
    assert RuleSet.objects.count() == 1
    assert list(Rule.objects.values_list("updated_at", flat=True)) == stamps


def test_sync_keeps_what_an_admin_decided_and_updates_texts() -> None:
    rulesets.sync()
    changed = setting(GK005, mode=RuleMode.SHADOW, severity=Severity.LOW_CONFID, params={"min_chars": 12})
    rulesets.save_change(1, [changed], by=None, reason="Trying it out.")
    Rule.objects.filter(code=GK005).update(title="Old", description="Old")
    outcome = rulesets.sync()
    row = Rule.objects.get(code=GK005)
    assert (row.mode, row.severity, row.params) == ("SHADOW", "LOW_CONFID", {"min_chars": 12})
    assert "Old" not in {row.title, row.description}
    assert (outcome.updated, outcome.new_set, outcome.rule_set.number) == ((GK005,), False, 2)


def test_sync_brings_parameters_and_rules_up_to_the_file() -> None:
    rulesets.sync()
    Rule.objects.filter(code=GK005).update(params={"gone": 1})
    Rule.objects.filter(code=GK007).delete()
    Rule.objects.create(code="GK000_RETIRED", title="t", description="d", mode="OFF", severity="REJECT")
    outcome = rulesets.sync()
    assert (outcome.created, outcome.updated, outcome.retired) == ((GK007,), (GK005,), ("GK000_RETIRED",))
    assert Rule.objects.get(code=GK005).params == {"min_chars": 8}
    # The rules are again those of set 1.
    assert (outcome.new_set, RuleSet.objects.count()) == (False, 1)


def test_without_any_set_there_is_none_in_force() -> None:
    with pytest.raises(rulesets.NoRuleSet, match="sync_rules"):
        rulesets.current()
    with pytest.raises(rulesets.NoRuleSet, match="rule set 7"):
        rulesets.load(7)


def test_a_change_makes_a_new_set_and_leaves_the_old_one() -> None:
    rulesets.sync()
    before = rulesets.current()
    person = UserFactory()
    made = rulesets.save_change(1, [setting(GK007, mode=RuleMode.SHADOW)], by=person, reason=" Too strict. ")
    row = RuleSet.objects.get(number=2)
    assert rulesets.current() == rulesets.load(2) == made
    assert rulesets.load(1) == before
    assert (row.created_by, row.reason, row.digest) == (person, "Too strict.", made.digest)
    assert made.digest != before.digest
    assert Rule.objects.get(code=GK007).mode == "SHADOW"


def test_a_change_on_an_older_set_is_refused() -> None:
    rulesets.sync()
    rulesets.save_change(1, [setting(GK007, mode=RuleMode.OFF)], by=None, reason="One.")
    with pytest.raises(rulesets.StaleRuleSet) as refused:
        rulesets.save_change(1, [setting(GK005, mode=RuleMode.OFF)], by=None, reason="Two.")
    assert refused.value.newest == 2
    assert Rule.objects.get(code=GK005).mode == "ENFORCED"


def test_a_change_of_nothing_makes_no_set() -> None:
    rulesets.sync()
    assert rulesets.save_change(1, [setting(GK007)], by=None, reason="None.").number == 1
    assert RuleSet.objects.count() == 1


def test_going_back_makes_a_new_number_with_the_old_digest() -> None:
    rulesets.sync()
    rulesets.save_change(1, [setting(GK007, mode=RuleMode.OFF)], by=None, reason="There.")
    back = rulesets.save_change(2, [setting(GK007, mode=RuleMode.ENFORCED)], by=None, reason="And back.")
    assert (back.number, back.digest) == (3, rulesets.load(1).digest)


@pytest.mark.parametrize(
    ("changed", "reason", "says"),
    [
        (RuleSetting("GK999_X", RuleMode.OFF, Severity.REJECT), "Why.", "no rule GK999_X"),
        (RuleSetting(GK005, RuleMode.OFF, Severity.REJECT, {"min_chars": 8}), "  ", "Say why"),
        (RuleSetting(GK005, RuleMode.OFF, Severity.REJECT, {}), "Why.", "takes the parameters min_chars"),
        (RuleSetting(GK005, RuleMode.OFF, Severity.REJECT, {"min_chars": "8"}), "Why.", "must be of type int"),
        (RuleSetting(GK005, RuleMode.OFF, Severity.REJECT, {"min_chars": True}), "Why.", "must be of type int"),
        (RuleSetting(GK005, RuleMode.OFF, Severity.REJECT, {"min_chars": -1}), "Why.", "must be between"),
    ],
)
def test_an_unusable_change_is_refused(changed: RuleSetting, reason: str, says: str) -> None:
    rulesets.sync()
    with pytest.raises(rulesets.InvalidChange, match=says):
        rulesets.save_change(1, [changed], by=None, reason=reason)
    assert RuleSet.objects.count() == 1


def test_a_set_can_be_neither_changed_nor_deleted() -> None:
    rulesets.sync()
    with pytest.raises(DatabaseError, match="Cannot update or delete"), transaction.atomic():
        RuleSet.objects.update(reason="Another.")
    with pytest.raises(DatabaseError, match="Cannot update or delete"), transaction.atomic():
        RuleSet.objects.all().delete()


def test_a_set_that_does_not_match_its_digest_is_refused() -> None:
    rulesets.sync()
    row = RuleSet.objects.get()
    RuleSet.objects.create(number=2, digest="0" * 64, rules=row.rules, reason="Forged.")
    with pytest.raises(MalformedRules, match="Rule set 2"):
        rulesets.current()


@pytest.mark.parametrize(
    "wrong", [{"mode": "ALWAYS"}, {"severity": "PASS"}], ids=["an unknown mode", "an unknown severity"]
)
def test_the_database_refuses_other_modes_and_severities(wrong: dict[str, str]) -> None:
    rulesets.sync()
    with pytest.raises(IntegrityError), transaction.atomic():
        Rule.objects.filter(code=GK005).update(**wrong)


@pytest.mark.parametrize("wrong", [{"number": 0}, {"number": 1}, {"digest": "xyz"}])
def test_the_database_refuses_other_numbers_and_digests(wrong: dict[str, object]) -> None:
    rulesets.sync()
    row = {"number": 2, "digest": "0" * 64, "rules": {}, "reason": "r"} | wrong
    with pytest.raises(IntegrityError), transaction.atomic():
        RuleSet.objects.create(**row)


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_at_once_one_wins() -> None:
    rulesets.sync()
    changed = [setting(code, mode=RuleMode.OFF) for code in (GK005, GK007)]
    outcomes: list[object] = []

    def change(one: RuleSetting) -> None:
        try:
            outcomes.append(rulesets.save_change(1, [one], by=None, reason="At once.").number)
        except rulesets.StaleRuleSet as stale:
            outcomes.append(stale.newest)
            outcomes.append("stale")
        finally:
            connection.close()

    threads = [threading.Thread(target=change, args=(one,)) for one in changed]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["2", "2", "stale"]
    assert RuleSet.objects.count() == 2


def sync_rules() -> str:
    out = StringIO()
    call_command("sync_rules", stdout=out)
    return out.getvalue()


def test_the_command_says_what_it_did() -> None:
    assert sync_rules().startswith("Rules: 9 created, 0 updated, 0 retired; rule set 1 (new, ")
    assert sync_rules().startswith("Rules: 0 created, 0 updated, 0 retired; rule set 1 (unchanged, ")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not rule metadata"),
        ('{"rules": []}', "must list each of"),
        ('{"rules": [{"code": "GK001_ANSWER_VERSION"}]}', "is not rule metadata"),
        (None, "cannot be read"),
    ],
)
def test_the_command_ends_with_one_line_on_a_bad_file(
    content: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rules.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    monkeypatch.setattr(shipped, "RULES_FILE", path)
    with pytest.raises(CommandError, match=says) as error:
        sync_rules()
    assert "\n" not in str(error.value)


def test_the_shipped_file_holds_a_mode_and_a_severity_known_here() -> None:
    rows = json.loads(shipped.RULES_FILE.read_text(encoding="utf-8"))["rules"]
    assert [row["code"] for row in rows] == list(CODES)
