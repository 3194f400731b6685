"""Notices of runs of alerts: who is owed which, and what became of it.

The row of a notice is written in the transaction that starts or ends its run, so there is one exactly where that
happened, whichever process did it, and once, however often the run is tried again. `runs.postman` sends them.

**Once.** A service takes no key by which it would know a notice again, so a sender that dies in the middle of a call
cannot learn whether it arrived. A claim that died before the call began is sent by another worker: certainly once. A
call that the service refused, or did not answer, is made again, a bounded number of times. A call that died with its
worker is not made again but kept as UNCERTAIN and shown: a page that wakes the on-call twice costs more trust than one
that is named as doubtful, and the answer stands on the run's page anyway.

Runs of the evaluations tell nobody, and neither do those of a person's own session.
"""

import hashlib
from dataclasses import dataclass

import structlog
from django.conf import settings
from django.db import Error, connection, transaction
from django.utils.crypto import get_random_string
from prometheus_client import Counter

from runs.models import DiagnosisRun, RunNotice
from runs.models.run import Trigger
from runs.noticetext import Message, message_of

log = structlog.get_logger(__name__)

TRIGGERS = (Trigger.ALERT, Trigger.MANUAL)
# Waits before the second try, the third …
BACK_OFF_S = (5, 30, 120, 600)
MAX_ATTEMPTS = len(BACK_OFF_S) + 1
CLAIM_LOST_AFTER_S = 30
# Longer than any call to a service takes.
CALL_LOST_AFTER_S = 120
STALE_AFTER_S = 24 * 3600
FORGOTTEN_AFTER_S = 3600

notices_settled = Counter("superbiz_notices", "Notices of runs, by what became of a try.", ["outcome"])


@dataclass(frozen=True, slots=True)
class Target:
    """An address of `SUPERBIZ_NOTIFY_URLS`: `key` stands for it in the outbox, `name` on pages."""

    key: str
    name: str
    url: str


def targets() -> tuple[Target, ...]:
    """The addresses, each once."""
    urls = dict.fromkeys(settings.SUPERBIZ.notify_urls)
    return tuple(
        Target(hashlib.sha256(url.encode()).hexdigest()[:16], f"{url.partition(':')[0].lower()} #{number}", url)
        for number, url in enumerate(urls, start=1)
    )


_PUT = """
    INSERT INTO run_notice
        (run_id, occasion, target, service, state, attempts, created_at, due_at, changed_at, last_error)
    SELECT run.id, %s, target.key, target.name, 'PENDING', 0, now(), now(), now(), ''
    FROM diagnosis_run AS run
    JOIN chat_session AS session ON session.id = run.session_id AND session.owner_id IS NULL
    CROSS JOIN unnest(%s::text[], %s::text[]) AS target(key, name)
    WHERE run.id = %s AND run.trigger = ANY(%s) AND jsonb_typeof(run.subject -> 'alert') = 'object'
    ON CONFLICT ON CONSTRAINT run_notice_once DO NOTHING
"""


def put(run_id: str, occasion: RunNotice.Occasion) -> None:
    """Owe every address a notice, inside the open transaction. Never raises: a run ends whether or not it is told."""
    owed = targets()
    if not owed or (occasion == RunNotice.Occasion.STARTED and not settings.SUPERBIZ.notify_started):
        return
    keys, names = [target.key for target in owed], [target.name for target in owed]
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_PUT, [occasion, keys, names, run_id, list(TRIGGERS)])
    except Error as error:
        notices_settled.labels(outcome="unwritten").inc()
        log.error("a notice could not be written", run_id=run_id, occasion=occasion, exc_info=error)


# ---- sending --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """A notice that this worker holds. `attempt` counts from 1."""

    id: int
    token: str
    attempt: int
    run_id: str
    occasion: str


_CLAIM = """
    UPDATE run_notice SET state = 'CLAIMED', claim_token = %(token)s, attempts = attempts + 1,
        changed_at = clock_timestamp()
    WHERE id = (
        SELECT id FROM run_notice
        WHERE target = %(target)s AND state IN ('PENDING', 'CLAIMED', 'SENDING') AND due_at <= clock_timestamp()
            AND (state = 'PENDING'
                OR (state = 'CLAIMED' AND changed_at < clock_timestamp() - make_interval(secs => %(lost)s)))
        ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, attempts, run_id, occasion
"""


def claim(target_key: str) -> Claim | None:
    """The notice that this address has been owed for longest, and that no living worker holds. None: there is none."""
    token = get_random_string(24)
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"token": token, "target": target_key, "lost": CLAIM_LOST_AFTER_S})
        row = cursor.fetchone()
    return Claim(row[0], token, *row[1:]) if row else None


def begin(held: Claim) -> Message | None:
    """What to send, from now on at the risk of its arriving. None: the claim is another's now."""
    run = DiagnosisRun.objects.defer("self_evaluation").get(id=held.run_id)
    message = message_of(run, held.occasion, f"{settings.SUPERBIZ.base_url}/runs/{run.id}/")
    return message if _move(held, ("CLAIMED",), "SENDING") else None


def sent(held: Claim) -> None:
    notices_settled.labels(outcome="sent").inc()
    _move(held, ("SENDING",), "SENT")


def refused(held: Claim, reason: str) -> None:
    """It was not sent: again later, or, after the last try, never. `reason` is free of secrets."""
    last = held.attempt >= MAX_ATTEMPTS
    notices_settled.labels(outcome="failed" if last else "refused").inc()
    log.warning("a notice was not taken", run_id=held.run_id, attempt=held.attempt, last=last, reason=reason)
    wait_s = 0 if last else BACK_OFF_S[held.attempt - 1]
    _move(held, ("CLAIMED", "SENDING"), "FAILED" if last else "PENDING", reason, wait_s)


_MOVE = """
    UPDATE run_notice SET state = %s, claim_token = %s, last_error = %s, changed_at = clock_timestamp(),
        due_at = greatest(due_at, clock_timestamp() + make_interval(secs => %s))
    WHERE id = %s AND claim_token = %s AND state = ANY(%s)
"""


def _move(held: Claim, before: tuple[str, ...], after: str, reason: str = "", wait_s: int = 0) -> bool:
    token = held.token if after == "SENDING" else None
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, [after, token, reason[:300], wait_s, held.id, held.token, list(before)])
        return bool(cursor.rowcount)


_TIDY = """
    UPDATE run_notice SET state = told.state, last_error = told.why, claim_token = NULL, changed_at = clock_timestamp()
    FROM (
        SELECT id,
            CASE WHEN state = 'SENDING' THEN 'UNCERTAIN' ELSE 'FAILED' END AS state,
            CASE WHEN state = 'SENDING' THEN %(uncertain)s WHEN target = ANY(%(known)s) THEN %(stale)s
                ELSE %(forgotten)s END AS why
        FROM run_notice
        WHERE (state = 'SENDING' AND changed_at < clock_timestamp() - make_interval(secs => %(call_lost)s))
            OR (state IN ('PENDING', 'CLAIMED')
                AND created_at < clock_timestamp() - make_interval(secs => %(stale_after)s))
            OR (state = 'PENDING' AND created_at < clock_timestamp() - make_interval(secs => %(forgotten_after)s)
                AND NOT target = ANY(%(known)s))
        FOR UPDATE SKIP LOCKED
    ) AS told
    WHERE run_notice.id = told.id
"""


def tidy() -> int:
    """Settle what nobody sends any more: cut off in the call, owed for a day, to an address that is gone."""
    with connection.cursor() as cursor:
        cursor.execute(
            _TIDY,
            {
                "known": [target.key for target in targets()],
                "uncertain": "The worker was lost while it sent this notice: it may have arrived.",
                "stale": "It could not be sent within a day.",
                "forgotten": "The address is no longer among SUPERBIZ_NOTIFY_URLS.",
                "call_lost": CALL_LOST_AFTER_S,
                "stale_after": STALE_AFTER_S,
                "forgotten_after": FORGOTTEN_AFTER_S,
            },
        )
        return cursor.rowcount
