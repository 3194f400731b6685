"""A limit for what a page asks the database: it says that it took too long, and nobody waits for it."""

import contextlib
from collections.abc import Iterator

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled


class TookTooLong(Exception):
    """The database was told to stop."""


@contextlib.contextmanager
def time_limit(ms: int) -> Iterator[None]:
    """Each statement inside may take that long. Raises `TookTooLong`."""
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(ms)])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TookTooLong from error
        raise
