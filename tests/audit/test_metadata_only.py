"""Frames hold metadata only: what tries to put a text into one, of whatever type, is refused and leaves no trace."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError, create_model

from audit.append import Item, Outcome, append
from audit.models import TraceEvent
from runs.harness.events import DETAILS, Details, Emission, EventType, Frame
from runs.models import DiagnosisRun
from tests.audit.emissions import at
from tests.audit.recording import ref, running

SENTENCE = "The pool of checkout-api is exhausted because connections leak. "
TEXT = SENTENCE * 10
TYPES = list(EventType)


def plain_value(annotation: Any) -> Any:
    """The least value of a field's type."""
    if type(None) in get_args(annotation):
        return None
    return {int: 1, bool: False}.get(annotation, () if "tuple" in str(annotation) else "x")


def least(event_type: EventType) -> dict[str, Any]:
    return {name: plain_value(field.annotation) for name, field in DETAILS[event_type].model_fields.items()}


def text_fields(event_type: EventType) -> list[tuple[str, Any]]:
    """Fields that take words, each with `TEXT` in the form that it takes."""
    found: list[tuple[str, Any]] = []
    for name, field in DETAILS[event_type].model_fields.items():
        words = str(field.annotation)
        if "tuple" in words:
            found.append((name, (TEXT,)))
        elif "str" in words:
            found.append((name, TEXT))
    return found


FIELDS = [(event_type, name, text) for event_type in TYPES for name, text in text_fields(event_type)]
NUMBERS = [
    (event_type, name)
    for event_type in TYPES
    for name in DETAILS[event_type].model_fields
    if name not in dict(text_fields(event_type))
]


def frame_of(event_type: EventType, details: Details, summary: str = "x", status: str | None = None) -> Frame:
    return Frame(event_type, details, summary, at(0), status=status)


def record(run: DiagnosisRun, frame: Frame) -> Outcome:
    (outcome,) = append([Item(ref(run), Emission(frame))], fenced=False)
    return outcome


def stored(run: DiagnosisRun) -> str:
    return str(list(TraceEvent.objects.filter(run=run).values()))


def test_every_type_has_a_closed_shape() -> None:
    assert set(DETAILS) == set(EventType)
    for shape in DETAILS.values():
        assert shape.model_config["extra"] == "forbid"
        assert shape.model_config["frozen"]


@pytest.mark.parametrize("event_type", TYPES)
def test_no_shape_takes_a_field_that_it_does_not_know(event_type: EventType) -> None:
    DETAILS[event_type].model_validate(least(event_type))
    with pytest.raises(ValidationError):
        DETAILS[event_type].model_validate({**least(event_type), "claim_text": SENTENCE})


@pytest.mark.parametrize(("event_type", "name", "text"), FIELDS, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("wrapped", ["as it is", "in an object", "in a list"])
def test_no_field_takes_a_text(event_type: EventType, name: str, text: Any, wrapped: str) -> None:
    value = {"as it is": text, "in an object": {"text": SENTENCE}, "in a list": [{"text": SENTENCE}]}[wrapped]
    with pytest.raises(ValidationError):
        DETAILS[event_type].model_validate({**least(event_type), name: value})


@pytest.mark.parametrize(("event_type", "name"), NUMBERS)
def test_no_number_takes_words(event_type: EventType, name: str) -> None:
    with pytest.raises(ValidationError):
        DETAILS[event_type].model_validate({**least(event_type), name: SENTENCE})


@pytest.mark.django_db
@pytest.mark.parametrize("event_type", TYPES)
def test_a_frame_that_brings_more_than_its_shape_is_refused_and_the_next_is_recorded(event_type: EventType) -> None:
    run, shape = running(), DETAILS[event_type]
    leaky = create_model("Leaky", __base__=shape, claim_text=(str, SENTENCE))
    bent = shape.model_construct(**{**least(event_type), **dict(text_fields(event_type))})
    assert record(run, frame_of(event_type, leaky(**least(event_type)))) is Outcome.INVALID
    assert record(run, frame_of(event_type, bent)) is Outcome.INVALID
    assert not TraceEvent.objects.filter(run=run).exists()
    assert record(run, frame_of(event_type, shape(**least(event_type)))) is Outcome.RECORDED
    assert "checkout-api" not in stored(run)


@pytest.mark.django_db
@pytest.mark.parametrize("event_type", TYPES)
def test_summary_and_status_are_cut_short_and_say_so(event_type: EventType) -> None:
    run = running()
    frame = frame_of(event_type, DETAILS[event_type](**least(event_type)), TEXT, TEXT)
    assert record(run, frame) is Outcome.RECORDED
    row = TraceEvent.objects.get(run=run)
    assert (len(row.summary), row.summary[-1]) == (200, "…")
    assert row.status is not None
    assert len(row.status) == 30
