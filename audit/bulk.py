"""Inserts many rows of one table with one statement and one parameter: a JSON array.

The ledger is written for every step of every run, and Django's own `bulk_create` spends most of its time on making
and quoting a list for each column. Here the rows go as JSON, which Python's encoder writes and PostgreSQL reads fast.
"""

import functools
import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import connection, models


@functools.cache
def _columns(model: type[models.Model]) -> tuple[tuple[str, str, str], ...]:
    """(attribute, column, type) of each field but the key that the database gives."""
    return tuple(
        (field.attname, field.column, field.db_type(connection) or "")
        for field in model._meta.concrete_fields
        if field is not model._meta.auto_field and field.column is not None
    )


@functools.cache
def _statement(model: type[models.Model], unless_there: bool) -> str:
    quote = connection.ops.quote_name
    columns = ", ".join(quote(column) for _, column, _ in _columns(model))
    typed = ", ".join(f"{quote(column)} {kind}" for _, column, kind in _columns(model))
    return (
        f"INSERT INTO {quote(model._meta.db_table)} ({columns})"  # noqa: S608 (names of our own tables and columns)
        f" SELECT {columns} FROM jsonb_to_recordset(%s::jsonb) AS rows ({typed})"
        f"{' ON CONFLICT DO NOTHING' if unless_there else ''}"
    )


def _as_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not a column's value")


def insert(rows: Sequence[models.Model], *, unless_there: bool = False) -> None:
    """Insert the rows, all of one model, in their order. Their keys are not set where the database gives them.

    `unless_there`: rows that a unique constraint knows already are passed over.

    Raises `django.db.Error`s as the database gives them, and ValueError or TypeError for what is no column's value.
    """
    if not rows:
        return
    model = type(rows[0])
    columns = _columns(model)
    values = [{column: getattr(row, attribute) for attribute, column, _ in columns} for row in rows]
    with connection.cursor() as cursor:
        cursor.execute(_statement(model, unless_there), [json.dumps(values, default=_as_text, allow_nan=False)])
