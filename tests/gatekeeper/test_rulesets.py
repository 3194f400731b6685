"""Rules and rule sets in the database: synchronizing, changing, and that no set ever changes."""

import json
import threading
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.db.utils import DatabaseError

from gatekeeper import rulesets, shipped
from gatekeeper.canonical import MalformedRules
from gatekeeper.changes import Changes, RuleChange
from gatekeeper.models import Rule, RuleSet
from gatekeeper.rules import CODES, GK002, GK005, GK007, GK008
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
    rulesets.save_change(1, [changed], by=UserFactory(is_superuser=True), reason="Trying it out.")
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
        (RuleSetting(GK007, RuleMode.OFF, Severity.REJECT), "\u200b", r"cannot be seen: U\+200B"),
        (RuleSetting(GK007, RuleMode.OFF, Severity.REJECT), "Why \u202eyhw.", r"cannot be seen: U\+202E"),
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
    changed = [setting(code, mode=RuleMode.OFF) for code in (GK008, GK007)]
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


def test_a_shipped_floor_that_rises_above_the_rules_makes_a_set_that_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rulesets.sync()
    path = tmp_path / "rules.json"
    path.write_text(shipped.RULES_FILE.read_text(encoding="utf-8").replace('"min_chars": 8', '"min_chars": 12'))
    monkeypatch.setattr(shipped, "RULES_FILE", path)
    outcome = rulesets.sync()
    assert (outcome.new_set, outcome.rule_set.number, outcome.rule_set.lowered) == (True, 2, (GK005,))
    assert outcome.rule_set.digest == rulesets.load(1).digest
    assert not rulesets.sync().new_set


# ---- descriptions -----------------------------------------------------------------------------------------------


def test_a_description_of_our_own_makes_a_set_and_survives_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    rulesets.sync()
    rulesets.save_change(1, [], by=UserFactory(), reason="For us.", descriptions={GK007: " Ask Mei first. "})
    Rule.objects.filter(code=GK007).update(description="An older file's words")
    outcome = rulesets.sync()
    row = Rule.objects.get(code=GK007)
    assert (row.told, row.own_description) == ("Ask Mei first.", "Ask Mei first.")
    assert row.description.startswith("Every number, error code")
    assert (outcome.new_set, outcome.rule_set.number) == (False, 2)
    assert rulesets.state_of(rulesets.newest_row()).own == {GK007: "Ask Mei first."}
    assert rulesets.load(2).digest == rulesets.load(1).digest, "a description judges nothing"


@pytest.mark.parametrize("back", ["", "the shipped one"])
def test_the_shipped_description_comes_back(back: str) -> None:
    rulesets.sync()
    shipped_text = Rule.objects.get(code=GK007).description
    rulesets.save_change(1, [], by=UserFactory(), reason="For us.", descriptions={GK007: "Ours."})
    rulesets.save_change(2, [], by=UserFactory(), reason="Back.", descriptions={GK007: back and shipped_text})
    assert Rule.objects.get(code=GK007).own_description == ""
    assert RuleSet.objects.get(number=3).own_descriptions == {}


# ---- the floor --------------------------------------------------------------------------------------------------


def test_only_a_superuser_lowers_the_floor_and_the_set_says_so() -> None:
    rulesets.sync()
    lower = setting(GK005, params={"min_chars": 4})
    for person in (None, UserFactory(permissions=["change_rule"])):
        with pytest.raises(rulesets.BelowTheFloor, match="GK005"):
            rulesets.save_change(1, [lower], by=person, reason="Short lines.")
    assert rulesets.save_change(1, [lower], by=UserFactory(is_superuser=True), reason="So be it.").lowered == (GK005,)
    assert rulesets.current().lowered == (GK005,)
    assert RuleSet.objects.get(number=2).lowered == [GK005]


def test_what_is_low_already_stays_free_to_be_worked_on() -> None:
    rulesets.sync()
    rulesets.save_change(
        1, [setting(GK005, params={"min_chars": 4})], by=UserFactory(is_superuser=True), reason="Short lines."
    )
    person = UserFactory()
    rulesets.save_change(2, [setting(GK007, mode=RuleMode.SHADOW)], by=person, reason="Another rule.")
    rulesets.save_change(3, [setting(GK005, params={"min_chars": 6})], by=person, reason="Up.")
    with pytest.raises(rulesets.BelowTheFloor):
        rulesets.save_change(4, [setting(GK005, params={"min_chars": 5})], by=person, reason="Down.")
    up = rulesets.save_change(4, [setting(GK005, params={"min_chars": 20})], by=person, reason="Up and above.")
    assert up.lowered == ()


# ---- proposals --------------------------------------------------------------------------------------------------


def shadow(code: str) -> Changes:
    return Changes(rules={code: RuleChange(mode=RuleMode.SHADOW)})


def test_a_proposal_is_saved_on_what_others_did_meanwhile() -> None:
    rulesets.sync()
    person = UserFactory()
    proposal = rulesets.propose(1, shadow(GK007), by=person)
    rulesets.save_change(1, [setting(GK008, mode=RuleMode.OFF)], by=None, reason="Meanwhile.")
    with pytest.raises(rulesets.StaleRuleSet):
        rulesets.save_proposal(proposal, 1, by=person, reason="Mine.")
    made = rulesets.save_proposal(proposal, 2, by=person, reason="Mine.")
    modes = {rule.code: rule.mode for rule in made.rules}
    assert (made.number, modes[GK007], modes[GK008]) == (3, RuleMode.SHADOW, RuleMode.OFF)
    proposal.refresh_from_db()
    assert proposal.saved_as == 3


def test_a_restored_set_is_a_new_number_that_names_the_old_one() -> None:
    rulesets.sync()
    person = UserFactory()
    rulesets.save_change(1, [setting(GK007, mode=RuleMode.OFF)], by=person, reason="x", descriptions={GK008: "Ours."})
    proposal = rulesets.propose_restore(1, by=person)
    made = rulesets.save_proposal(proposal, 2, by=person, reason="It hid figures.")
    row = RuleSet.objects.get(number=3)
    assert (made.number, made.digest, row.restores, row.own_descriptions) == (3, rulesets.load(1).digest, 1, {})
    assert Rule.objects.get(code=GK008).own_description == ""
    with pytest.raises(rulesets.NothingChanges):
        rulesets.propose_restore(1, by=person)


def test_a_restore_over_what_others_changed_is_not_called_one() -> None:
    rulesets.sync()
    person = UserFactory()
    rulesets.save_change(1, [setting(GK008, mode=RuleMode.SHADOW)], by=person, reason="x")
    proposal = rulesets.propose_restore(1, by=person)
    rulesets.save_change(2, [setting(GK007, mode=RuleMode.OFF)], by=person, reason="Meanwhile.")
    made = rulesets.save_proposal(proposal, 3, by=person, reason="Back.")
    modes = {rule.code: rule.mode for rule in made.rules}
    assert (modes[GK008], modes[GK007]) == (RuleMode.ENFORCED, RuleMode.OFF)
    assert RuleSet.objects.get(number=4).restores is None


@pytest.mark.parametrize("text", ["Ours\u202e.", "\u2060"])
def test_a_description_and_a_first_reason_can_be_seen(text: str) -> None:
    rulesets.sync()
    with pytest.raises(rulesets.InvalidChange, match="cannot be seen"):
        rulesets.save_change(1, [], by=UserFactory(), reason="For us.", descriptions={GK007: text})
    with pytest.raises(rulesets.InvalidChange, match="cannot be seen"):
        rulesets.propose(1, shadow(GK007), by=UserFactory(), reason=text)


def test_a_restore_below_the_floor_takes_a_superuser() -> None:
    rulesets.sync()
    chief = UserFactory(is_superuser=True)
    rulesets.save_change(1, [setting(GK002, mode=RuleMode.SHADOW)], by=chief, reason="Down.")
    rulesets.save_change(2, [setting(GK002, mode=RuleMode.ENFORCED)], by=chief, reason="Up.")
    with pytest.raises(rulesets.BelowTheFloor):
        rulesets.propose_restore(2, by=UserFactory())
    by_chief = rulesets.propose_restore(2, by=chief)
    with pytest.raises(rulesets.BelowTheFloor):
        rulesets.save_proposal(by_chief, 3, by=UserFactory(), reason="I was only passed it on.")


def test_every_change_is_in_the_history_of_its_rule() -> None:
    rulesets.sync()
    person = UserFactory(username="anna")
    changed = [setting(GK007, mode=RuleMode.SHADOW, severity=Severity.REJECT), setting(GK008, mode=RuleMode.OFF)]
    rulesets.save_change(1, changed, by=person, reason="Too strict at night.")
    entries = {entry.object_id: entry for entry in LogEntry.objects.all()}
    assert entries.keys() == {GK007, GK008}
    assert all((entry.user, entry.is_change()) == (person, True) for entry in entries.values())
    told = entries[GK007].get_change_message()
    assert told == ("mode: ENFORCED → SHADOW; severity: LOW_CONFID → REJECT. Rule set 2. Why: Too strict at night.")


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
