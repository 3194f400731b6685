"""A finished run as a text for a terminal. Pure: the run comes as the API's JSON, or from its row by `run_json`."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runs.models import DiagnosisRun

WIDTH = 100
EXCERPT_LINES = 8
QUOTE = "        | "
LOW_CONFIDENCE = "LOW: read it as a lead, not as a finding."


def run_json(run: DiagnosisRun, url: str) -> dict[str, Any]:
    """The parts of the API's run that a report needs."""
    return {
        "runId": run.id,
        "outcome": run.outcome,
        "query": run.query,
        "failureCode": run.failure_code,
        "cancelReason": run.cancel_reason,
        "publishedResult": run.published_result,
        "safeContent": run.safe_content,
        "model": run.model,
        "tokens": {"total": run.input_tokens + run.output_tokens},
        "modelCalls": run.model_calls,
        "toolCalls": run.tool_calls,
        "url": url,
    }


def text_report(run: Mapping[str, Any]) -> str:
    """The released diagnosis with the evidence under each statement; else why there is none."""
    published = run.get("publishedResult")
    body = _released(published) if published else _without_result(run)
    return "\n".join([*body, "", *_footer(run)])


def _released(published: Mapping[str, Any]) -> Iterator[str]:
    low = published["confidence"] == "LOW"
    yield from _wrapped(published["conclusion"])
    yield ""
    yield f"Confidence  {LOW_CONFIDENCE if low else published['confidence']}"
    yield from _wrapped(published["query"], "Asked       ", " " * 12)
    if published["scope"]:
        yield from _wrapped(published["scope"], "Scope       ", " " * 12)
    claims = {claim["claimId"]: claim for claim in published["claims"]}
    for number, statement in enumerate(published["statements"], start=1):
        yield ""
        yield from _wrapped(statement["text"], f"{number:>2}. ", "    ")
        for claim_id in statement["claimIds"]:
            yield from _evidence(claim_id, claims.get(claim_id))
    yield from _listed("Limitations", published["limitations"])
    documents = published["sourceDocuments"]
    yield from _listed("Sources", [f"{document['title']} ({document['documentId']})" for document in documents])


def _evidence(claim_id: str, claim: Mapping[str, Any] | None) -> Iterator[str]:
    if claim is None:
        return
    for evidence in claim["evidence"]:
        where = f"{evidence['toolName']} {evidence['sourceInvocationId']} {evidence['rawPath']}"
        yield f"      {claim_id} · {claim['kind']} · {where}"
        yield from _excerpt(evidence["evidenceExcerpt"])


def _excerpt(text: str) -> Iterator[str]:
    lines = [line for part in text.splitlines() for line in _wrapped(part, QUOTE, QUOTE)]
    yield from lines[:EXCERPT_LINES]
    if len(lines) > EXCERPT_LINES:
        yield f"{QUOTE}… {len(lines) - EXCERPT_LINES} more lines on the run's page"


def _without_result(run: Mapping[str, Any]) -> Iterator[str]:
    safe = run.get("safeContent") or {"headline": "The run has not ended.", "reason": "", "lookedAt": []}
    yield from _wrapped(safe["headline"])
    if safe["reason"]:
        yield from _wrapped(safe["reason"])
    yield ""
    yield from _wrapped(run["query"], "Asked    ", " " * 9)
    code = run.get("failureCode") or run.get("cancelReason")
    yield f"Outcome  {run.get('outcome')}{f' ({code})' if code else ''}"
    yield from _listed("Looked at", safe["lookedAt"])


def _listed(title: str, items: Iterable[str]) -> Iterator[str]:
    lines = [line for item in items for line in _wrapped(item, "  - ", "    ")]
    if lines:
        yield from ("", title, *lines)


def _footer(run: Mapping[str, Any]) -> Iterator[str]:
    calls = f"{run['modelCalls']} model calls, {run['toolCalls']} tool calls"
    yield f"{run['runId']} · {run['model'] or 'no model'} · {calls} · {run['tokens']['total']:,} tokens"
    yield run["url"]


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Lines of bounded width; what cannot be broken stays whole. No control characters reach a terminal."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    lines = textwrap.wrap(
        printable, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return lines or [first.rstrip()]
