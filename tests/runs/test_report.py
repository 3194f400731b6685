from typing import Any

import pytest

from runs.report import run_json, text_report
from tests.factories import RunFactory, published


def run(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "runId": "run_1",
        "outcome": "SUCCESS",
        "query": "HighErrorRate on checkout-api",
        "failureCode": None,
        "cancelReason": None,
        "publishedResult": published().model_dump(mode="json", by_alias=True),
        "safeContent": {
            "headline": "A diagnosis was released",
            "reason": "It stood.",
            "lookedAt": ["query_logs: 1 × OK"],
        },
        "model": "offline",
        "tokens": {"input": 1000, "output": 234, "total": 1234},
        "modelCalls": 9,
        "toolCalls": 3,
        "url": "http://127.0.0.1:8000/runs/run_1/",
    }
    return values | changes


def test_a_released_run_reads_with_the_evidence_under_each_statement() -> None:
    assert (
        text_report(run())
        == """\
The connection pool of checkout-api is exhausted.

Confidence  NORMAL
Asked       HighErrorRate on checkout-api
Scope       checkout-api, 10:00 to 10:10 UTC

 1. The pool is exhausted: 10 of 10 connections are active.
      c1 · observation · query_logs inv_aaaaaa $.lines[0].text
        | total=10, active=10, idle=0, waiting=61

 2. No deployment was found in the window.
      c2 · negative_observation · query_logs inv_bbbbbb $.no_evidence
        | query_logs found nothing for 'deploy'

Limitations
  - Metrics could not be read.

Sources
  - Database connection pool exhausted (connection-pool-exhausted)

run_1 · offline · 9 model calls, 3 tool calls · 1,234 tokens
http://127.0.0.1:8000/runs/run_1/"""
    )


def test_low_confidence_is_said_first_thing() -> None:
    low = published().model_copy(update={"confidence": "LOW"}).model_dump(mode="json", by_alias=True)
    assert "Confidence  LOW: read it as a lead" in text_report(run(publishedResult=low))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"outcome": "DEGRADED"}, "Outcome  DEGRADED"),
        ({"outcome": "FAILED", "failureCode": "MODEL_REFUSED"}, "Outcome  FAILED (MODEL_REFUSED)"),
        ({"outcome": "CANCELLED", "cancelReason": "DEADLINE"}, "Outcome  CANCELLED (DEADLINE)"),
    ],
)
def test_a_run_without_result_says_why_and_what_was_looked_at(changes: dict[str, Any], line: str) -> None:
    text = text_report(run(publishedResult=None, **changes))
    assert line in text.splitlines()
    assert "It stood." in text
    assert "  - query_logs: 1 × OK" in text


def test_evidence_cannot_steer_the_terminal_or_flood_it() -> None:
    hostile = published().model_dump(mode="json", by_alias=True)
    hostile["claims"][0]["evidence"][0]["evidenceExcerpt"] = "\x1b[2J\x07red\n" + "line\n" * 50
    text = text_report(run(publishedResult=hostile))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "more lines on the run's page" in text


@pytest.mark.django_db
def test_a_row_reads_like_the_api_s_json() -> None:
    row = RunFactory(success=True)
    assert "The connection pool of checkout-api is exhausted." in text_report(run_json(row, "http://x/"))
