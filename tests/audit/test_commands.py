import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import connection

from audit.models import PrunedRun, TraceEvent
from audit.readings import record_access
from audit.record import load_record
from audit.verification import verify
from gatekeeper import rulesets
from gatekeeper.types import RuleMode, RuleSetting, Severity
from runs import lifecycle
from runs.access import Caller
from runs.models import DiagnosisRun
from tests.audit import emissions
from tests.audit.recording import append_now, finished_run, ref, running
from tests.audit.selfevaluations import CLAIM, evaluation
from tests.factories import AlertFactory, UserFactory, conclusion

pytestmark = pytest.mark.django_db


def run_command(name: str, *arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, **options)
    return out.getvalue()


def as_superuser(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET LOCAL session_replication_role = replica")
        cursor.execute(sql)
        cursor.execute("SET LOCAL session_replication_role = origin")


# ---- verify_ledger --------------------------------------------------------------------------------------------


def test_an_honest_ledger_is_verified() -> None:
    finished_run(), running()
    assert run_command("verify_ledger") == "2 runs verified, no problems.\n"


def test_problems_are_listed_and_the_exit_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    honest, forged = finished_run(), finished_run("stp_2")
    as_superuser(f"UPDATE diagnosis_trace_event SET summary = 'x' WHERE run_id = '{forged.id}' AND sequence_no = 3")
    with pytest.raises(SystemExit) as exit_:
        call_command("verify_ledger")
    assert exit_.value.code == 1
    out = capsys.readouterr().out
    assert f"{forged.id}: frame 3: EDITED" in out
    assert honest.id not in out
    assert run_command("verify_ledger", honest.id) == "1 runs verified, no problems.\n"


def test_records_of_a_run_that_is_gone_are_found() -> None:
    run = finished_run()
    as_superuser(f"DELETE FROM diagnosis_run WHERE id = '{run.id}'")
    with pytest.raises(SystemExit):
        run_command("verify_ledger")


def test_an_unknown_run_is_bad_input() -> None:
    with pytest.raises(CommandError, match="There is no run run_none") as error:
        run_command("verify_ledger", "run_none")
    assert error.value.returncode == 2


def test_heads_are_one_line_for_each_ended_run() -> None:
    run = finished_run()
    append_now(running(), [emissions.routing()])
    assert run_command("verify_ledger", heads=True) == f"{run.id} 8 {run.trace_head_hash}\n"


@pytest.mark.parametrize(
    ("wanted", "told"), [("run_none", "There is no run"), ("a\0b", "holds no NUL"), (None, "has not ended")]
)
def test_heads_of_a_run_that_has_none_are_bad_input(wanted: str | None, told: str) -> None:
    run = running()
    append_now(run, [emissions.routing()])
    with pytest.raises(CommandError, match=told) as refused:
        run_command("verify_ledger", wanted or run.id, heads=True)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("left", ["reasoning_access", "alert"])
def test_a_run_of_which_only_a_mention_is_left_is_found(left: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run()
    record_access(Caller(user=UserFactory.create()), run.id, "reasoning")
    AlertFactory.create(last_run=run)
    tables = ("diagnosis_trace_event", "diagnosis_trace_head", "agent_reasoning_audit", "model_call_ledger")
    own = {"reasoning_access", "reasoning_access_head"} - {left}
    for table in {*tables, "tool_invocation", "agent_step", *own}:
        as_superuser(f"DELETE FROM {table} WHERE run_id = '{run.id}'")
    if left != "alert":
        as_superuser("DELETE FROM alert")
    as_superuser(f"DELETE FROM diagnosis_run WHERE id = '{run.id}'")
    with pytest.raises(SystemExit) as exit_:
        call_command("verify_ledger")
    assert exit_.value.code == 1
    assert f"{run.id}: diagnosis_run {run.id}: REMOVED" in capsys.readouterr().out


# ---- prune_ledger ---------------------------------------------------------------------------------------------


def aged(run: DiagnosisRun, days: int) -> DiagnosisRun:
    DiagnosisRun.objects.filter(id=run.id).update(finished_at=datetime.now(UTC) - timedelta(days=days))
    return run


def test_old_runs_are_removed_whole_and_leave_a_tombstone() -> None:
    old, young, waiting = aged(finished_run(), 91), aged(finished_run("stp_2"), 89), running()
    record_access(Caller(user=UserFactory.create()), old.id, "reasoning")
    heads = run_command("verify_ledger", heads=True)
    assert run_command("prune_ledger", older_than="90d").startswith("1 runs")
    assert set(DiagnosisRun.objects.values_list("id", flat=True)) == {young.id, waiting.id}
    record = load_record(old.id)
    assert (record.frames, record.head, record.ledgers.steps, record.ledgers.calls) == ((), None, (), ())
    tombstone = PrunedRun.objects.get()
    assert (tombstone.run_id, tombstone.trace_event_count, tombstone.trace_head_hash) == (
        old.id,
        8,
        old.trace_head_hash,
    )
    assert run_command("verify_ledger", heads=True) == heads, "what was kept elsewhere still matches"
    with pytest.raises(CommandError, match="was pruned"):
        run_command("verify_ledger", old.id)


def test_nothing_of_a_pruned_run_is_left_in_any_table() -> None:
    run = aged(finished_run(), 91)
    record_access(Caller(user=UserFactory.create()), run.id, "reasoning")
    AlertFactory.create(last_run=run)
    run_command("prune_ledger", older_than="90d", reason="asked for by its owner")
    pointing = [
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.fields
        if field.related_model is DiagnosisRun or (field.name == "run_id" and model is not PrunedRun)
    ]
    assert len(pointing) > 9
    left = [
        f"{model.__name__}.{name}"
        for model, name in pointing
        if model._default_manager.filter(**{name: run.id}).exists()
    ]
    assert left == []
    kept = PrunedRun.objects.get()
    assert (kept.trigger, kept.outcome, kept.reason) == ("ALERT", "SUCCESS", "asked for by its owner")
    assert kept.reading_count == 1
    assert kept.pruned_by.startswith("prune_ledger (")


def test_a_dry_run_removes_nothing() -> None:
    run = aged(finished_run(), 91)
    out = run_command("prune_ledger", older_than="90d", dry_run=True)
    assert re.match(r"1 runs ended before .* none was removed\.", out)
    assert verify(load_record(run.id)) != [], "the test moved its end by hand"
    assert TraceEvent.objects.filter(run=run).count() == 8


def test_the_triggers_are_back_after_pruning() -> None:
    aged(finished_run(), 91)
    run = finished_run("stp_2")
    run_command("prune_ledger", older_than="90d")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(Exception, match="append-only"):
            cursor.execute("DELETE FROM diagnosis_trace_event WHERE run_id = %s", [run.id])


@pytest.mark.parametrize("text", ["90", "d", "-1d", "9y", "1000000d", "999999w", "0d", "23h", "0w", "٩٠d"])
def test_a_wrong_age_is_one_line(text: str) -> None:
    with pytest.raises(CommandError, match="takes an age"):
        run_command("prune_ledger", f"--older-than={text}")


# ---- regate ---------------------------------------------------------------------------------------------------


def judged_run(*claims: dict[str, Any]) -> DiagnosisRun:
    run = running()
    append_now(run, emissions.small_run())
    assert lifecycle.finish(ref(run), conclusion(self_evaluation=evaluation(*claims)))
    return run


def only_rule(code: str, mode: RuleMode) -> int:
    rulesets.sync()
    newest = rulesets.current()
    changes = [
        RuleSetting(rule.code, mode if rule.code == code else RuleMode.OFF, Severity.REJECT, rule.params)
        for rule in newest.rules
    ]
    chief = UserFactory.create(is_superuser=True)
    return rulesets.save_change(newest.number, changes, by=chief, reason="for a test").number


def test_a_stored_run_is_judged_again_and_stands() -> None:
    rulesets.sync()
    run = judged_run()
    out = run_command("regate", run.id)
    assert f"{run.id}: PASS (rule set 1) → PASS (rule set 1)" in out
    assert "c1: accepted → accepted\n" in out
    assert out.endswith("0 of 1 runs would be judged otherwise.\n")


def test_a_forged_excerpt_falls_under_the_rule_that_looks_at_it() -> None:
    citation = {**CLAIM["evidence"][0], "evidence_excerpt": "total=10, active=99, idle=0"}
    run = judged_run({**CLAIM, "evidence": [citation]})
    number = only_rule("GK005_EXCERPT_SUPPORTED", RuleMode.ENFORCED)
    out = run_command("regate", run.id, rule_set=number)
    assert f"→ REJECT (rule set {number})" in out
    assert "c1: accepted → removed (GK005_EXCERPT_SUPPORTED)  *" in out
    assert out.endswith("1 of 1 runs would be judged otherwise.\n")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (["run_none"], {}, "There is no run run_none"),
        (["run_none"], {"rule_set": 99}, "There is no rule set 99"),
    ],
)
def test_regate_says_what_it_cannot_use(arguments: list[str], options: dict[str, int], message: str) -> None:
    rulesets.sync()
    with pytest.raises(CommandError, match=message) as error:
        run_command("regate", *arguments, **options)
    assert error.value.returncode == 2


def test_a_run_without_a_draft_cannot_be_judged_again() -> None:
    rulesets.sync()
    with pytest.raises(CommandError, match="keeps no draft"):
        run_command("regate", running().id)
