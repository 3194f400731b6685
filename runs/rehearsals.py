"""Rehearsals: real runs that try a prompt version out, driven by the worker like any other.

A rehearsal has a session of its own, belongs to no alert row and is told to nobody; its row says what it is
(`runs.pins.Rehearsal`). It repeats the subject and question of a past run, its tools looking back from that run's
time, or takes a bundled incident, its tools reading the recording.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.utils.crypto import get_random_string

from runs.harness.run import Subject
from runs.incidents import incident
from runs.lifecycle import RunRequest, open_session, queue_run
from runs.models import DiagnosisRun
from runs.models.run import Trigger
from runs.pins import Rehearsal
from runs.tasks import enqueue
from runs.tools.recorded import recorded_now

SESSION_PREFIX = "rehearsal-"


@dataclass(frozen=True, slots=True)
class Scene:
    """What a rehearsal is about, whichever prompts it tries."""

    query: str
    subject: Subject
    now: datetime
    incident: str | None = None
    of_run: str | None = None


def scene_of_incident(slug: str, question: str | None = None) -> Scene:
    """The incident's alert; or a question of somebody who looks at it. Raises `runs.incidents.NoSuchIncident`."""
    found = incident(slug)
    if question is not None:
        return Scene(question, Subject(), found.now, incident=slug)
    return Scene(found.query, found.subject, found.now, incident=slug)


def scene_of_run(run: DiagnosisRun) -> Scene:
    """The same question again. Where recorded evidence is configured its own moment counts, as for every run."""
    recorded = settings.SUPERBIZ.recorded_evidence
    now = recorded_now(recorded) if recorded else run.started_at or run.queued_at
    return Scene(run.query, Subject.model_validate(run.subject), now, of_run=run.id)


def rehearse(
    scene: Scene,
    prompts: Mapping[str, int],
    *,
    by: AbstractBaseUser,
    title: str,
    beside: str | None = None,
    hand_over: Callable[[Iterable[str]], object] = enqueue,
) -> str:
    """Queue a rehearsal with these prompt versions; after the commit its id goes to `hand_over`. Returns the id."""
    rehearsal = Rehearsal(
        prompts=dict(prompts), now=scene.now, incident=scene.incident, of_run=scene.of_run, beside=beside
    )
    session_id = SESSION_PREFIX + get_random_string(20).lower()
    with transaction.atomic():
        open_session(session_id, title=title, owner_id=by.pk)
        run_id = queue_run(
            RunRequest(
                session_id=session_id,
                trigger=Trigger.EVAL,
                query=scene.query,
                subject=scene.subject,
                requested_by=by.pk,
                rehearsal=rehearsal,
            )
        )
        transaction.on_commit(lambda: hand_over([run_id]))
    return run_id
