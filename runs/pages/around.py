"""What stands around a run: for most runs nothing does, and its page need not ask for each kind of it."""

from dataclasses import dataclass

from django.db import connection

_QUERY = """
    SELECT EXISTS (SELECT FROM run_notice WHERE run_id = %(run)s),
           EXISTS (SELECT FROM run_feedback WHERE run_id = %(run)s AND replaced_at IS NULL),
           EXISTS (SELECT FROM diagnosis_run WHERE again_of_id = %(run)s)
"""


@dataclass(frozen=True, slots=True)
class Around:
    """`notices`: some went or go out; `feedback`: some holds; `asked_again`: another run asks the same."""

    notices: bool
    feedback: bool
    asked_again: bool


def around(run_id: str) -> Around:
    """One query."""
    with connection.cursor() as cursor:
        cursor.execute(_QUERY, {"run": run_id})
        return Around(*cursor.fetchone())
