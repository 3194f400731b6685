"""Tests that commit are cleaned up with TRUNCATE, which the ledgers' triggers refuse, as they should.

As a replica the session fires no ordinary triggers; `SET LOCAL` ends with the flush's transaction.
"""

from collections.abc import Sequence
from typing import Any

from django.db.backends.postgresql.base import DatabaseWrapper as PostgresWrapper
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresOperations


class DatabaseOperations(PostgresOperations):
    def sql_flush(self, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        statements = super().sql_flush(style, tables, **options)
        return ["SET LOCAL session_replication_role = replica;", *statements] if statements else []


class DatabaseWrapper(PostgresWrapper):
    ops_class = DatabaseOperations
