"""What a run is given of prompts, sources and time: pinned at its start, and tried out in a rehearsal."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from pytest_django.fixtures import Settings

from gatekeeper import rulesets
from prompts.actions import do_activate, save_version, sync_shipped
from prompts.models import PromptVersion
from runs.harness.ports import Role
from runs.harness.run import Conclusion, Kit, RunInput
from runs.incidents import NoSuchIncident, bundled, incident
from runs.models import Alert, DiagnosisRun
from runs.rehearsals import Scene, rehearse, scene_of_incident, scene_of_run
from runs.worker import WorkerLoop
from superbiz.env import BASE_DIR
from tests.factories import RunFactory, UserFactory, withheld
from tests.runs.watching import Told

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 10.0
INCIDENT = "pool-exhausted"


class Kernel:
    """Notes the kit of each run; holds a run where `hold` says so, until `go` is set or it is stopped."""

    def __init__(self) -> None:
        self.kits: list[Kit] = []
        self.hold = False
        self.begun = threading.Event()
        self.go = threading.Event()

    async def __call__(self, _run: RunInput, kit: Kit) -> Conclusion:
        self.kits.append(kit)
        self.begun.set()
        while self.hold and not self.go.is_set():  # noqa: ASYNC110 (the event is another thread's)
            await asyncio.sleep(0.01)
        return withheld()

    def versions(self) -> list[str]:
        return [kit.prompts[Role.CHAT_VERIFIER].version for kit in self.kits]


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def workers(kernel: Kernel, told: Told) -> Iterator[Callable[[], WorkerLoop]]:
    sync_shipped()
    rulesets.sync()
    loops: list[WorkerLoop] = []

    def start() -> WorkerLoop:
        loops.append(WorkerLoop(announce=False, drive=kernel))
        loops[-1].start()
        return loops[-1]

    yield start
    for loop in loops:
        loop.close()


@pytest.fixture
def anna(workers: object) -> User:
    return UserFactory.create(username="anna")


@pytest.fixture
def second(anna: User) -> PromptVersion:
    first = PromptVersion.objects.get(prompt_id="chat_verifier")
    return save_version(first, first.text + "Be brief.\n", by=anna, reason="a try")


def activate(version: PromptVersion, by: User) -> None:
    shown = version.prompt.newest_activation()
    do_activate(version, shown=shown.id if shown else None, by=by, reason="now")


def row(run_id: str) -> DiagnosisRun:
    return DiagnosisRun.objects.get(id=run_id)


def kept(_run_ids: object) -> None:
    """The test drives the run itself."""


# ---- what a run pins --------------------------------------------------------------------------------------------


def test_workers_that_have_served_before_give_the_next_run_what_was_made_active(
    workers: Callable[[], WorkerLoop], kernel: Kernel, anna: User, second: PromptVersion
) -> None:
    loops = [workers(), workers()]
    for loop in loops:
        loop.drive(RunFactory().id)
    activate(second, anna)
    for loop in loops:
        loop.drive(RunFactory().id)
    assert kernel.versions() == ["chat-verifier-v1", "chat-verifier-v1", "chat-verifier-v2", "chat-verifier-v2"]


def test_a_change_while_a_run_goes_does_not_reach_it(
    workers: Callable[[], WorkerLoop], kernel: Kernel, anna: User, second: PromptVersion
) -> None:
    loop, kernel.hold = workers(), True
    run_id = RunFactory().id
    thread = threading.Thread(target=loop.drive, args=[run_id])
    thread.start()
    assert kernel.begun.wait(WAIT_S)
    activate(second, anna)
    kernel.go.set()
    thread.join(WAIT_S)
    stored = row(run_id)
    assert stored.pinned_prompts["prompts"]["chat_verifier"] == 1
    assert stored.prompt_set_version == "aiops-prompts-v1"
    assert kernel.kits[0].prompts[Role.CHAT_VERIFIER].text == second.based_on.text  # type: ignore[union-attr]


def test_another_attempt_of_a_run_has_the_prompts_of_its_first(
    workers: Callable[[], WorkerLoop], kernel: Kernel, anna: User, second: PromptVersion
) -> None:
    loop, kernel.hold = workers(), True
    run_id = RunFactory().id
    thread = threading.Thread(target=loop.drive, args=[run_id])
    thread.start()
    assert kernel.begun.wait(WAIT_S)
    loop.begin_shutdown()
    thread.join(WAIT_S)
    assert row(run_id).status == "QUEUED"
    activate(second, anna)
    kernel.hold = False
    loop = workers()
    loop.drive(run_id)
    loop.drive(RunFactory().id)
    assert kernel.versions() == ["chat-verifier-v1", "chat-verifier-v1", "chat-verifier-v2"]
    assert kernel.kits[1].prompt_set_version == "aiops-prompts-v1"


# ---- rehearsals -------------------------------------------------------------------------------------------------


def test_a_rehearsal_of_an_incident_reads_its_recording_with_the_version_it_tries(
    workers: Callable[[], WorkerLoop], kernel: Kernel, anna: User, second: PromptVersion
) -> None:
    run_id = rehearse(scene_of_incident(INCIDENT), {"chat_verifier": 2}, by=anna, title="a try", hand_over=kept)
    assert workers().drive(run_id)
    kit, stored = kernel.kits[0], row(run_id)
    assert kernel.versions() == ["chat-verifier-v2"]
    assert kit.evidence_now is not None
    assert kit.evidence_now() == incident(INCIDENT).now
    assert {"query_logs", "query_metrics", "query_alerts", "lookup_knowledge"} <= set(kit.tools)
    assert not kit.looks_back
    assert (stored.trigger, stored.is_rehearsal, stored.prompt_set_version) == (
        "EVAL", True, "aiops-prompts-v1+rehearsal",
    )  # fmt: skip


def test_a_rehearsal_has_its_own_session_and_touches_no_alert(
    workers: object, anna: User, second: PromptVersion
) -> None:
    stored = row(rehearse(scene_of_incident(INCIDENT), {"chat_verifier": 2}, by=anna, title="a try", hand_over=kept))
    assert stored.session_id.startswith("rehearsal-")
    assert (stored.session.owner, stored.requested_by, stored.alert_id) == (anna, anna, None)
    assert not Alert.objects.exists()


def test_a_repeated_run_asks_the_configured_tools_as_of_its_time(
    workers: Callable[[], WorkerLoop], kernel: Kernel, anna: User, second: PromptVersion, settings: Settings
) -> None:
    settings.SUPERBIZ = settings.SUPERBIZ.model_copy(update={"log_dir": BASE_DIR})
    began = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
    past = RunFactory(success=True, started_at=began)
    scene = scene_of_run(past)
    assert scene == Scene(past.query, scene.subject, began, of_run=past.id)
    run_id = rehearse(scene, {"chat_verifier": 2}, by=anna, title="a try", beside=past.id, hand_over=kept)
    workers().drive(run_id)
    kit, stored = kernel.kits[0], row(run_id)
    assert kit.evidence_now is not None
    assert (kit.evidence_now(), kit.looks_back) == (began, True)
    assert "query_logs" in kit.tools
    assert (stored.query, stored.subject) == (past.query, past.subject)
    assert (stored.rehearsal["of_run"], stored.rehearsal["beside"]) == (past.id, past.id)


def test_a_rehearsal_of_a_version_that_is_not_there_fails_as_configuration(
    workers: Callable[[], WorkerLoop], anna: User
) -> None:
    run_id = rehearse(scene_of_incident(INCIDENT), {"chat_verifier": 9}, by=anna, title="a try", hand_over=kept)
    workers().drive(run_id)
    assert row(run_id).failure_code == "CONFIGURATION"


def test_every_bundled_incident_can_be_rehearsed() -> None:
    assert len(bundled()) >= 10
    for one in bundled():
        assert one.subject.alert is not None
        assert one.query
        assert incident(one.slug) == one


@pytest.mark.parametrize("slug", ["", "..", "no-such", "../incidents/pool-exhausted", "pool-exhausted\0"])
def test_only_bundled_incidents_are_found(slug: str) -> None:
    with pytest.raises(NoSuchIncident):
        incident(slug)
