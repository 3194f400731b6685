"""The fixture of an observer that keeps what it is told."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from runs.observers import observers
from tests.runs import watching


@pytest.fixture
def told(settings: Settings) -> Iterator[watching.Told]:
    """The one observer of this test."""
    observers.cache_clear()
    settings.RUN_OBSERVERS = ["tests.runs.watching.current_observer"]
    watching.told.append(watching.Told())
    yield watching.told[-1]
    watching.told.pop()
    observers.cache_clear()
