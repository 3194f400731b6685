"""Columns that PostgreSQL derives from other columns of the run, for the run list to filter, search and sort by.

Derived once, when what they come from is written; nobody can write them. `SEARCHABLE` is made by a migration:

    searchable('Pool 你好')  →  'pool ~4f60~597d'

pg_trgm sees letters only where the database's locale does, and in many it sees none beyond ASCII; so each other
character is written as its number. `runs.searching` writes what is searched for the same way.
"""

from django.db.models import Case, F, Func, Value, When
from django.db.models.functions import Coalesce

SEARCHABLE = """
CREATE OR REPLACE FUNCTION searchable(words text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT CASE WHEN words ~ '^[\\x01-\\x7f]*$' THEN lower(words) ELSE (
        SELECT string_agg(CASE WHEN ascii(c) < 128 THEN c ELSE '~' || to_hex(ascii(c)) END, '' ORDER BY place)
        FROM regexp_split_to_table(lower(normalize(words, NFKC)), '') WITH ORDINALITY AS each(c, place)
    ) END
$$
"""
NO_SEARCHABLE = "DROP FUNCTION searchable(text)"


def alert_name() -> Func:
    return Func(F("subject"), template="(%(expressions)s #>> '{alert,alertname}')")


def search_text() -> Func:
    """What the run was asked and what it answered."""
    conclusion = Func(F("published_result"), template="(%(expressions)s ->> 'conclusion')")
    words = [F("query"), Value("\n"), Coalesce(alert_name(), Value("")), Value("\n"), Coalesce(conclusion, Value(""))]
    return Func(Func(*words, template="(%(expressions)s)", arg_joiner=" || "), function="searchable")


def took_ms() -> Func:
    """From the first start to the end; null while there is none."""
    template = "(extract(epoch FROM %(expressions)s) * 1000)::bigint"
    return Func(F("finished_at"), F("started_at"), template=template, arg_joiner=" - ")


def total_tokens() -> Case:
    """Null until the end: while a run goes its counters change all the time, and an index on them would slow that."""
    return Case(When(finished_at__isnull=False, then=F("input_tokens") + F("output_tokens")), default=None)


# Told apart by what the claims are and where they come from. A metric or an alert list that was quoted, but decided
# nothing, is neutral; a log line is not, and a draft that had a decisive observation had found something.
_NOTHING_NOTABLE = """(
    status = 'SUCCESS' AND intent = 'DIAGNOSIS'
    AND jsonb_path_exists(published_result, '$.claims[*] ? (@.kind != "guidance")')
    AND NOT jsonb_path_exists(published_result,
        '$.claims[*] ? (@.kind == "observation").evidence[*].toolName
            ? (@ != "query_metrics" && @ != "query_alerts")')
    AND NOT jsonb_path_exists(COALESCE(%(expressions)s, '{}'::jsonb),
        '$.verifier_evaluation.executor_structured_output.claims[*]
            ? (@.kind == "observation" && @.critical == true)')
)"""


def nothing_notable() -> Func:
    """Whether all that was released says that the searches found nothing of note: the answer is "nothing found"."""
    return Func(F("self_evaluation"), template=_NOTHING_NOTABLE)
