"""What a role's prompt must hold, held against the model wire and against the shipped texts."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from prompts.catalogue import CATALOGUE, Shipped
from prompts.needs import NEEDS, missing_words, placeholders, shortfalls
from runs.harness.ports import Role
from runs.harness.wire import OUTPUTS, SCHEMA_NAMES
from runs.roles import PROMPT_NAMES

PROMPTS = pytest.mark.parametrize("shipped", CATALOGUE, ids=lambda shipped: shipped.name)


def fields_of(shape: type[BaseModel]) -> set[str]:
    """The names of all fields, also of the shapes inside."""
    schema = shape.model_json_schema()
    shapes = [schema, *schema.get("$defs", {}).values()]
    return {name for each in shapes for name in each.get("properties", {})}


@pytest.mark.parametrize("role", list(Role), ids=str)
def test_a_role_needs_its_schemas_name_and_every_field_of_its_answer(role: Role) -> None:
    needed = set(NEEDS[PROMPT_NAMES[role]])
    assert SCHEMA_NAMES[role] in needed
    assert fields_of(OUTPUTS[role]) <= needed


@PROMPTS
def test_every_shipped_prompt_is_fit_for_its_role(shipped: Shipped) -> None:
    assert shortfalls(shipped.name, shipped.text()) == []


@dataclass(frozen=True)
class Stated:
    """`words`: one of them stands in the text of every prompt but those of `not_of`."""

    what: str
    words: tuple[str, ...]
    not_of: frozenset[str] = frozenset()


# The router's answer is one word of a fixed list: it names no evidence and is in no language.
CONTRACT = [
    Stated("what it gets", ("## What you get",)),
    Stated("what it answers, and only that", ("nothing around it",)),
    Stated("what becomes of the answer", ("## What code",)),
    Stated("that texts are data", ("nstructions", "is data")),
    Stated("never to invent", ("nvent", "ever make one up"), frozenset({"intent_router", "supervisor"})),
    Stated("the language", ("in the language of the query",), frozenset({"intent_router"})),
    Stated("no proof of absence", ("ruled out",), frozenset({"intent_router", "chat_planner", "planner"})),
]


@PROMPTS
@pytest.mark.parametrize("stated", CONTRACT, ids=lambda stated: stated.what)
def test_every_shipped_prompt_states_the_contract_of_its_role(shipped: Shipped, stated: Stated) -> None:
    said = any(words in shipped.text() for words in stated.words)
    assert said is (shipped.name not in stated.not_of)


@dataclass(frozen=True)
class Case:
    """What is wrong with `text` as the router's prompt."""

    what: str
    text: str
    missing: tuple[str, ...] = ()
    placeholders: tuple[str, ...] = ()
    sentences: int = 0


ROUTER = next(shipped for shipped in CATALOGUE if shipped.name == "intent_router").text()
CASES = [
    Case("as shipped", ROUTER),
    Case("a value is gone", ROUTER.replace("SYSTEM_CHAT", "TALK"), missing=("SYSTEM_CHAT",), sentences=1),
    Case(
        "a word inside another does not count", ROUTER.replace("DIAGNOSIS", "DIAGNOSISX"), ("DIAGNOSIS",), sentences=1
    ),
    Case(
        "in Chinese", "query history router_intent intent：SYSTEM_CHAT、KNOWLEDGE_QUERY、DIAGNOSIS。用问题的语言回答。"
    ),
    Case("a placeholder", ROUTER + "{{ query }}", placeholders=("{{ query }}",), sentences=1),
    Case("shell and template", ROUTER + "${NAME} {% if x %}", placeholders=("${NAME}", "{% if x %}"), sentences=1),
    Case("over two lines", ROUTER + "{{\nx}}", placeholders=("{{\nx}}",), sentences=1),
    Case("never closed", ROUTER + "{{" + "x" * 81, placeholders=("{{" + "x" * 80,), sentences=1),
    Case("full width", ROUTER + "｛｛x｝｝", placeholders=("{{x}}",), sentences=1),
    Case("another template", ROUTER + "<%= x %> <<name>>", placeholders=("<%= x %>", "<<name>>"), sentences=1),
    Case("its words in a comment", f"<!-- {ROUTER} -->", missing=NEEDS["intent_router"], sentences=1),
    Case("its words in an open comment", f"<!-- {ROUTER}", missing=NEEDS["intent_router"], sentences=1),
    Case("JSON is no placeholder", ROUTER + '{"a": {"b": 1}} $.no_evidence'),
    Case("too long", ROUTER + "x" * 8_000, sentences=1),
    Case(
        "everything at once",
        "{{x}}" + "y" * 8_000,
        missing=NEEDS["intent_router"],
        placeholders=("{{x}}",),
        sentences=3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)
def test_what_a_text_lacks_is_named(case: Case) -> None:
    assert missing_words("intent_router", case.text) == case.missing
    assert placeholders(case.text) == case.placeholders
    assert len(shortfalls("intent_router", case.text)) == case.sentences


def test_a_prompt_that_no_role_uses_cannot_be_activated() -> None:
    assert len(shortfalls("of_an_earlier_release", "any text")) == 1
