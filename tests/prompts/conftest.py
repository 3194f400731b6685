import pytest
from django.contrib.auth.models import User

from prompts.actions import sync_shipped
from prompts.models import Prompt, PromptVersion
from tests.factories import UserFactory


@pytest.fixture
def shipped(db: None) -> None:
    sync_shipped()


@pytest.fixture
def prompt(shipped: None) -> Prompt:
    return Prompt.objects.get(name="chat_verifier")


@pytest.fixture
def first(prompt: Prompt) -> PromptVersion:
    return prompt.versions.get(number=1)


@pytest.fixture
def anna(db: None) -> User:
    return UserFactory.create(username="anna", is_staff=True, is_superuser=True)


@pytest.fixture
def bert(db: None) -> User:
    return UserFactory.create(username="bert", is_staff=True, is_superuser=True)
