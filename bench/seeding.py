"""The explorer's data: 100,000 runs with some 900,000 events, one run of 10,000 events, some of 15.

Made once, in an instance of its own under `var/bench/`, and kept there; its folder carries the version of what is
made here, and newer migrations are applied to it as to any database. Everything is drawn from one seed; only the time
of the newest run is that of the seeding. `python -m bench.seeding` makes it and says where it lies.
"""

import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import phrases
from superbiz.embedded import locked
from superbiz.env import BASE_DIR
from superbiz.places import Places

if TYPE_CHECKING:
    from django.db import models

    from bench.roads import Told

VERSION = 3
FOLDER = BASE_DIR / "var" / "bench" / f"explorer-{VERSION}"
"""The `SUPERBIZ_VAR` of the instance that holds the data."""

RUNS = 100_000
EVENTS = 900_000
DAYS = 90
LONG_RUN = "run_00000000long0000"
LONG_EVENTS = 10_000
SHORT_RUNS = tuple(f"run_0000000short000{n}" for n in range(5))
"""15 events each."""
LONG_SEARCHES, SHORT_SEARCHES = 3_331, 3
BATCH = 2_000

# Of 100 runs: how they end. The rest of the statuses are the few that are open now.
OUTCOMES = {"RELEASED": 55, "NOTHING": 5, "LOW": 14, "WITHHELD": 11, "FAILED": 8, "CANCELLED": 7}
TRIGGERS = {"ALERT": 86, "CHAT": 10, "MANUAL": 3, "EVAL": 1}
WAITING, GOING = 20, 12


@dataclass(frozen=True, slots=True)
class Incident:
    """One kind of alert on one service; its runs share a session and an episode."""

    number: int
    alertname: str
    labels: Mapping[str, str]
    chinese: bool

    @property
    def fingerprint(self) -> str:
        return f"{self.number:016x}"

    @property
    def session_id(self) -> str:
        return f"alert-{self.fingerprint}"


def incidents() -> list[Incident]:
    """Every alert name on every service; later ones fire more rarely (`Draw._run`)."""
    rng = random.Random(7)
    pairs = [(name, service) for name in phrases.ALERTS for service in phrases.SERVICES]
    rng.shuffle(pairs)
    return [
        Incident(
            number,
            name,
            {
                "alertname": name,
                "service": service,
                "severity": rng.choice(phrases.SEVERITIES),
                "cluster": rng.choice(phrases.CLUSTERS),
                "namespace": service.split("-")[0],
            },
            number % 9 == 4,
        )
        for number, (name, service) in enumerate(pairs, 1)
    ]


class Draw:
    """The rows of runs, drawn from one seed. `now`: when the newest one came in."""

    def __init__(self, now: datetime, count: int) -> None:
        self.rng = random.Random(11)
        self.now = now
        self.count = count
        self.incidents = incidents()
        self.events = 0

    def runs(self) -> "Iterator[Told]":
        from bench.roads import FIXED_FRAMES, FRAMES_A_ROUND, tell

        special = {LONG_RUN: LONG_SEARCHES} | dict.fromkeys(SHORT_RUNS, SHORT_SEARCHES)
        names = [*special, *(self._run_id(n) for n in range(self.count - len(special)))]
        for number, run_id in enumerate(names):
            ending = "RELEASED" if run_id in special else self._one_of(OUTCOMES)
            left = self.count - number
            if left <= WAITING + GOING:
                ending = "QUEUED" if left <= WAITING else "RUNNING"
            # What is still missing to the whole is spread over the runs that are left.
            owed = (EVENTS * self.count / RUNS - self.events) / max(1, left - WAITING - GOING)
            rounds = max(1, round((owed - FIXED_FRAMES) / FRAMES_A_ROUND + self.rng.uniform(-0.9, 0.9)))
            searches = special.get(run_id) or rounds
            run, took, incident = self._run(run_id, number, ending)
            told = tell(run, [self._search(incident) for _ in range(searches)], took)
            self.events += len(told.frames)
            yield told

    def _run_id(self, number: int) -> str:
        from runs import ids

        at = round(self._queued_at(number).timestamp() * 1000)
        return ids.run_id(at)[:12] + f"{number:08d}"

    def _queued_at(self, number: int) -> datetime:
        """Later runs come later; a few share their moment."""
        share = (number - number % 3 if number % 50 == 2 else number) / self.count
        return self.now - timedelta(days=DAYS) * (1 - share)

    def _one_of(self, weights: Mapping[str, int]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def _search(self, incident: Incident) -> Any:
        from bench.roads import Search

        tool = self.rng.choice(("query_logs", "query_logs", "query_metrics", "lookup_knowledge"))
        line = "" if self.rng.random() < 0.2 else phrases.line(self.rng, incident.labels["service"])
        return Search(tool, incident.labels["service"], line)

    def _run(self, run_id: str, number: int, ending: str) -> tuple[dict[str, Any], timedelta, Incident]:
        # A few kinds of alert make most of the noise, as everywhere.
        incident = self.incidents[min(int(self.rng.paretovariate(0.6)), len(self.incidents)) - 1]
        took = timedelta(seconds=min(290, self.rng.lognormvariate(3.2, 0.7)))
        trigger = "ALERT" if ending in {"QUEUED", "RUNNING"} else self._one_of(TRIGGERS)
        queued_at = self._queued_at(number)
        run = self._asked(run_id, incident, trigger, queued_at, number) | _state(ending, queued_at, took)
        said = phrases.conclusion(self.rng, incident.labels["service"], ending, chinese=incident.chinese)
        return run | _concluded(ending, run["query"], said), took, incident

    def _asked(self, run_id: str, incident: Incident, trigger: str, queued_at: datetime, number: int) -> dict[str, Any]:
        from runs.harness.run import AlertSubject, Subject

        chat = trigger == "CHAT"
        asked = phrases.question(self.rng, incident.labels["service"], chinese=incident.chinese)
        alert = AlertSubject(
            alertname=incident.alertname,
            severity=incident.labels["severity"],
            starts_at=queued_at,
            labels=dict(incident.labels),
            fingerprint=incident.fingerprint,
        )
        subject = Subject() if chat else Subject(alert=alert)
        return {
            "id": run_id,
            "session_id": f"chat-{number % 40:03d}" if chat else incident.session_id,
            "alert_id": None if chat else incident.number,
            "trigger": trigger,
            "intent": self.rng.choice(("DIAGNOSIS", "DIAGNOSIS", "KNOWLEDGE_QUERY")) if chat else "DIAGNOSIS",
            "query": asked if chat else f"{incident.alertname} on {incident.labels['service']}",
            "subject": subject.model_dump(mode="json"),
            "requested_by_id": number % len(phrases.PEOPLE) + 1 if chat or trigger == "MANUAL" else None,
            "requested_by_token_id": (1 if number % 5 else 2) if trigger == "ALERT" else None,
            "queued_at": queued_at,
            "enqueued_at": queued_at,
        }


def _state(ending: str, queued_at: datetime, took: timedelta) -> dict[str, Any]:
    """The columns of status, outcome and time."""
    status = {"RELEASED": "SUCCESS", "NOTHING": "SUCCESS", "LOW": "SUCCESS", "WITHHELD": "DEGRADED"}.get(ending, ending)
    ended = status not in {"QUEUED", "RUNNING"}
    begun = status != "QUEUED"
    started_at = queued_at + timedelta(milliseconds=140) if begun else None
    return {
        "status": status,
        "outcome": status if ended else None,
        "failure_code": "MODEL_UNAVAILABLE" if status == "FAILED" else None,
        "cancel_reason": "DEADLINE" if status == "CANCELLED" else None,
        "started_at": started_at,
        "finished_at": started_at + took if started_at and ended else None,
        "attempts": int(begun),
        "lease_token": "seeded" if status == "RUNNING" else None,
        "heartbeat_at": started_at,
        "cancel_requested_at": None,
        "cancel_requested_reason": None,
    }


def _concluded(ending: str, query: str, said: phrases.Said) -> dict[str, Any]:
    """What the run decided and published."""
    released = ending in {"RELEASED", "NOTHING", "LOW"}
    verdict = {"RELEASED": "PASS", "NOTHING": "PASS", "LOW": "LOW_CONFID", "WITHHELD": "REJECT"}.get(ending)
    decisions = {"RELEASED": "RELEASED", "NOTHING": "RELEASED", "LOW": "RELEASED_LOW_CONFIDENCE"}
    ended = ending not in {"QUEUED", "RUNNING"}
    return {
        "verdict": verdict,
        "release_decision": decisions.get(ending, "WITHHELD" if ending == "WITHHELD" else None),
        "published_result": phrases.published(query, said, low=ending == "LOW") if released else None,
        "safe_content": {"headline": said.headline, "reason": said.reason, "lookedAt": ["query_logs: 1 × OK"]}
        if ended
        else None,
        "self_evaluation": phrases.evaluation(said, verdict) if verdict else None,
        "model": "offline" if ending != "QUEUED" else "",
        "rule_set_version": None if ending == "QUEUED" else 1,
        "prompt_set_version": None if ending == "QUEUED" else "aiops-prompts-v1",
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": None,
        "model_calls": 0,
        "tool_calls": 0,
        "emitted": {},
        "trace_event_count": None,
        "trace_head_hash": None,
        "record_complete": None,
    }


# ---- into the database ------------------------------------------------------------------------------------------


def copy(model: "type[models.Model]", rows: Iterable[Mapping[str, Any]]) -> None:
    """COPY of rows that name their columns alike, all columns that are not made by the database."""
    from django.db import connection
    from psycopg.types.json import Jsonb

    rows = list(rows)
    if not rows:
        return
    fields = {field.attname: field for field in model._meta.concrete_fields}
    names = [name for name in fields if name in rows[0]]
    as_json = {name for name in names if fields[name].get_internal_type() == "JSONField"}
    quote = connection.ops.quote_name
    columns = ", ".join(quote(fields[name].column) for name in names)
    with connection.cursor() as cursor:
        statement = f"COPY {quote(model._meta.db_table)} ({columns}) FROM STDIN"
        with cursor.copy(statement) as pipe:
            for row in rows:
                pipe.write_row(
                    [Jsonb(row[name]) if name in as_json and row[name] is not None else row[name] for name in names]
                )


def _copy_told(batch: "list[Told]") -> None:
    from audit.models import AgentReasoning, AgentStep, ModelCallRow, ToolInvocation, TraceEvent, TraceHead
    from runs.models import DiagnosisRun

    copy(DiagnosisRun, (told.run for told in batch))
    copy(TraceHead, (told.head for told in batch if told.frames))
    copy(TraceEvent, (row for told in batch for row in told.frames))
    copy(AgentStep, (row for told in batch for row in told.steps))
    copy(AgentReasoning, (row for told in batch for row in told.reasoning))
    copy(ModelCallRow, (row for told in batch for row in told.calls))
    copy(ToolInvocation, (row for told in batch for row in told.invocations))


def _copy_surroundings(now: datetime) -> None:
    """People, tokens, sessions and alerts that the runs name."""
    from django.contrib.auth.models import User

    from runs.models import Alert, ApiToken, ChatSession

    User.objects.bulk_create(User(id=n, username=name, password="!") for n, name in enumerate(phrases.PEOPLE, 1))
    ApiToken.objects.bulk_create(
        ApiToken(id=n, name=name, digest=f"{n:064x}", scopes=["alerts:write"], created_at=now)
        for n, name in enumerate(phrases.TOKENS, 1)
    )
    began = now - timedelta(days=DAYS)
    stamps = {"created_at": began, "updated_at": now}
    alerts = incidents()
    copy(ChatSession, ({"id": each.session_id, "title": each.alertname, "owner_id": None, **stamps} for each in alerts))
    chats = ({"id": f"chat-{n:03d}", "title": "", "owner_id": n % len(phrases.PEOPLE) + 1} for n in range(40))
    copy(ChatSession, (chat | stamps for chat in chats))
    copy(
        Alert,
        (
            {
                "id": each.number,
                "fingerprint": each.fingerprint,
                "alert_name": each.alertname,
                "severity": each.labels["severity"],
                "status": "RESOLVED",
                "source": "ALERTMANAGER",
                "group_key": "",
                "labels": dict(each.labels),
                "annotations": {},
                "generator_url": "",
                "first_received_at": began,
                "last_received_at": now,
                "occurrences": 1,
            }
            for each in alerts
        ),
    )


def _count_on() -> None:
    """The rows above brought their keys along; the next ones are given after them."""
    from django.contrib.auth.models import User
    from django.core.management.color import no_style
    from django.db import connection

    from runs.models import Alert, ApiToken

    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [User, ApiToken, Alert]):
            cursor.execute(statement)


def fill(count: int = RUNS, now: datetime | None = None) -> int:
    """Put everything into the database that Django is set up for, which must hold no runs. Returns how many events."""
    from django.db import connection, transaction

    draw = Draw(now or datetime.now(UTC), count)
    with transaction.atomic():
        _copy_surroundings(draw.now)
        _count_on()
    for batch in batched(draw.runs(), BATCH):
        with transaction.atomic():
            _copy_told(batch)
    if not connection.in_atomic_block:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
    return draw.events


def batched(rows: "Iterator[Told]", size: int) -> "Iterator[list[Told]]":
    while batch := list(islice(rows, size)):
        yield batch


# ---- the instance that keeps it ---------------------------------------------------------------------------------


def prepare_folder(folder: Path = FOLDER) -> None:
    """Remove what an unfinished seeding or an older version left, unless somebody works there."""
    for other in folder.parent.glob("explorer-*"):
        if (other != folder or not _marker(folder).exists()) and _is_idle(other):
            shutil.rmtree(other)


def _is_idle(folder: Path) -> bool:
    lock = Places(folder).owner_lock
    if not lock.exists():
        return True
    with locked(lock) as mine:
        return mine is not None


def _marker(folder: Path) -> Path:
    """Written when everything is there."""
    return folder / "seeded"


def ensure_filled(folder: Path = FOLDER) -> None:
    """Inside the instance: make the data unless they are there."""
    if _marker(folder).exists():
        return
    print(f"making {RUNS:,} runs under {folder}, once …", file=sys.stderr, flush=True)
    events = fill()
    _marker(folder).write_text(f"{events}\n")


def main() -> None:
    """Make the data, if they are not there."""
    from bench.apart import bare_environment, free_port, own_servers

    bare = bare_environment()
    os.environ.clear()
    os.environ.update(bare, SUPERBIZ_VAR=str(FOLDER), PORT=str(free_port()))
    prepare_folder()
    with own_servers():
        ensure_filled()
    print(f"The data lie in {FOLDER}; set SUPERBIZ_VAR to it to look at them.")


if __name__ == "__main__":
    main()
