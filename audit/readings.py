"""Puts on record who reads the restricted texts of a run, before they are fetched.

The row of the run's head is the lock: whoever holds it gives out the next number and hash, so that the readings of a
run have neither gap nor fork, whoever reads at the same time.
"""

from datetime import UTC, datetime
from typing import Any

from django.db import connection, transaction

from audit import chain
from audit.models import ReasoningAccess
from runs.access import Caller

# Takes the lock, and brings back the number to use and the hash to follow.
_NEXT = """
    INSERT INTO reasoning_access_head AS head (run_id, sequence_no, hash) VALUES (%s, 1, %s)
    ON CONFLICT (run_id) DO UPDATE SET sequence_no = head.sequence_no + 1
    RETURNING sequence_no, hash
"""
_MOVE = "UPDATE reasoning_access_head SET hash = %s WHERE run_id = %s"


def record_access(caller: Caller, run_id: str, what: str) -> None:
    """Put on record that `caller` reads restricted text of a run. Called before the text is fetched."""
    reading: dict[str, Any] = {
        "run_id": run_id,
        "reader": caller.name[:150],
        "user_id": caller.user_id,
        "token_name": caller.token.name if caller.token else None,
        "what": what,
        "at": datetime.now(UTC),
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_NEXT, [run_id, chain.reading_genesis(run_id)])
        reading["sequence_no"], previous_hash = cursor.fetchone()
        row_hash = chain.reading_hash(previous_hash, reading)
        ReasoningAccess.objects.create(**reading, previous_hash=previous_hash, hash=row_hash)
        cursor.execute(_MOVE, [row_hash, run_id])
