"""A model that plays every role plausibly, honest or, as executor, with forged evidence beside.

Each forged claim's text holds a marker `FABRICATED-<KIND>`: wherever that string turns up, a forgery got through.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.servers.chat_wire import Answer, Call, Question, Reaction

EVIDENCE_TOOLS = ("lookup_knowledge", "query_logs", "query_metrics", "query_alerts")
NO_EVIDENCE = "$.no_evidence"
EXCERPT_CHARS = 300
CLAIMS_PER_ANSWER = 2

_LOUD = re.compile(r"\b(FATAL|CRITICAL|ERROR|SEVERE|exhausted|timed out|refused)\b")
_GREETING = re.compile(r"^\s*(hi|hello|hey|thanks|thank you|who are you|what can you do|你好|谢谢)\b", re.IGNORECASE)
_HOW_TO = re.compile(r"\b(how|runbook|procedure|what does)\b|怎么|如何|手册", re.IGNORECASE)


class Forgery(Enum):
    """A lie about evidence, as the executor's model may tell it; the value is the marker's last part."""

    INVENTED_INVOCATION = "INVENTED-INVOCATION"
    WRONG_TOOL = "WRONG-TOOL"
    INVENTED_PATH = "INVENTED-PATH"
    EDITED_DIGIT = "EDITED-DIGIT"
    OTHER_RUN = "OTHER-RUN"
    NO_EVIDENCE_AT_ALL = "NO-EVIDENCE-AT-ALL"
    POSITIVE_AS_NEGATIVE = "POSITIVE-AS-NEGATIVE"

    @property
    def marker(self) -> str:
        return f"FABRICATED-{self.value}"


@dataclass(frozen=True)
class Brain:
    """Answers a `Question` in its role. `honest` False leaves only the forged claims.

    `other_run` is a citation (the wire's four fields) that is true in another run; `OTHER_RUN` needs it.
    """

    forgeries: tuple[Forgery, ...] = ()
    honest: bool = True
    other_run: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if Forgery.OTHER_RUN in self.forgeries and self.other_run is None:
            raise ValueError("OTHER_RUN needs the citation of another run")

    def __call__(self, question: Question) -> Reaction:
        match question.schema:
            case "router_intent":
                return Answer({"intent": _intent(question)})
            case "system_chat_reply":
                return Answer({"reply": "I look into alerts and questions about services, and cite what I find."})
            case "chat_plan" | "aiops_plan":
                return Answer(_plan(question))
            case "aiops_supervision":
                return Answer(_supervision(question))
            case "executor_evidence_v2":
                return self._execute(question)
            case "verifier_evaluation":
                return Answer(_evaluation(question))
            case "composer_output":
                return Answer(_composition(question))
            case _:
                return Answer("Nobody told me in which role I speak.")

    def _execute(self, question: Question) -> Answer:
        if question.tools and not question.tool_answers and "conclude_now" not in question.inputs[-1]:
            calls = tuple(Call(name, _arguments(name, question)) for name in question.tools if name in EVIDENCE_TOOLS)
            if calls:
                return Answer(calls=calls, thinking="I look at what is there before I say anything.")
        claims = list(_honest_claims(question)) if self.honest else []
        claims += [_forged(kind, question, self.other_run) for kind in self.forgeries]
        return Answer({"answer_version": "executor_evidence_v2", "claims": claims}, thinking="Now I sum up.")


# ---- the roles without tools ------------------------------------------------------------------


def _intent(question: Question) -> str:
    query = str(question.inputs[-1].get("query", ""))
    if _GREETING.search(query):
        return "SYSTEM_CHAT"
    return "KNOWLEDGE_QUERY" if _HOW_TO.search(query) else "DIAGNOSIS"


def _plan(question: Question) -> dict[str, Any]:
    offered = [tool["name"] for tool in question.inputs[0].get("tools", []) if tool["name"] in EVIDENCE_TOOLS]
    steps = [{"step": f"Look at what {name} has.", "tool_hint": name} for name in offered]
    return {"focus": f"What is behind: {_subject(question)}"[:500], "steps": steps}


def _supervision(question: Question) -> dict[str, Any]:
    state = question.inputs[-1]
    allowed = list(state.get("allowed", ["PLAN", "EXECUTE", "FINISH"]))
    planned = state["plan"] is not None if "plan" in state else state.get("round", 1) > 1
    executed = bool(state["tools_tried"]) if "tools_tried" in state else state.get("round", 1) > 2
    wanted = "FINISH" if executed else "EXECUTE" if planned else "PLAN"
    return {"next": wanted if wanted in allowed else allowed[0], "reason": "It is the next thing to do."}


def _evaluation(question: Question) -> dict[str, Any]:
    claims = question.inputs[-1]["claims"]
    ids = [claim["claim_id"] for claim in claims]
    return {
        "verdict": "PASS",
        "groundedness_score": 1.0,
        "critical_fact_count": sum(bool(claim.get("critical")) for claim in claims),
        "claim_checks": [{"claim_id": name, "supported": True, "reason": "The excerpt says so."} for name in ids],
        "facts_checked": ids,
        "rationale": "Each claim restates its excerpt.",
    }


def _composition(question: Question) -> dict[str, Any]:
    claims = question.inputs[-1]["claims"]
    ordered = sorted(claims, key=lambda claim: not claim.get("critical"))
    return {
        "conclusion": " ".join(claim["claim_text"] for claim in ordered[:2])[:1900] or "Nothing was found.",
        "scope": "What the tools of this run returned.",
        "statements": [{"text": c["claim_text"], "claim_ids": [c["claim_id"]]} for c in claims],
        "limitations": [],
    }


# ---- the executor ----------------------------------------------------------------------------


def _subject(question: Question) -> str:
    given = question.inputs[0]
    alert = given.get("alert") or {}
    labels = alert.get("labels", {})
    return str(given.get("query") or alert.get("alertname") or labels.get("alertname") or "this alert")


def _arguments(tool: str, question: Question) -> dict[str, Any]:
    """Sensible arguments, of those the tool's schema has."""
    given = question.inputs[0]
    alert, window = given.get("alert") or {}, given.get("window") or {}
    annotations = alert.get("annotations", {})
    service = alert.get("labels", {}).get("service")
    wanted: dict[str, dict[str, Any]] = {
        "lookup_knowledge": {
            "query": " ".join(filter(None, (alert.get("alertname"), annotations.get("summary")))) or _subject(question)
        },
        "query_logs": {"level": "WARN", "service": service, "start": window.get("start"), "end": window.get("end")},
        "query_metrics": {
            "query": f'{{service="{service}"}}' if service else '{__name__=~".+"}',
            "start": window.get("start"),
            "end": window.get("end"),
        },
        "query_alerts": {},
    }
    known = question.parameters(tool)
    return {name: value for name, value in wanted[tool].items() if name in known and value is not None}


def _honest_claims(question: Question) -> Iterator[dict[str, Any]]:
    """Up to two claims an answer, each quoting a ref; claims that a repair names are left out."""
    failed = set(_claim_ids(question.inputs[-1].get("repair")))
    number = 0
    for answer in question.tool_answers:
        for ref in _telling(answer):
            number += 1
            if (claim_id := f"c{number}") not in failed:
                yield _claim(claim_id, _kind(answer, ref), _said(ref), _cite(answer, ref), critical=number == 1)


def _claim_ids(found: Any) -> Iterator[str]:
    if isinstance(found, Mapping):
        if isinstance(found.get("claim_id"), str):
            yield found["claim_id"]
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from _claim_ids(part)


def _telling(answer: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """The refs worth quoting: log lines that say ERROR first; no passage that is mere reference."""
    if answer["status"] not in {"OK", "NO_EVIDENCE", "DEDUPLICATED"}:
        return []
    refs = [ref for ref in answer["evidence_refs"] if _relevance(answer, ref) != "REFERENCE"]
    singles = [ref for ref in refs if ".patterns[" not in ref["raw_path"]]
    return sorted(singles, key=lambda ref: not _LOUD.search(ref["text"]))[:CLAIMS_PER_ANSWER]


def _relevance(answer: Mapping[str, Any], ref: Mapping[str, str]) -> str | None:
    place = re.fullmatch(r"\$\.hits\[(\d+)\]\.text", ref["raw_path"])
    return answer["output"]["hits"][int(place[1])].get("relevance") if place else None


def _kind(answer: Mapping[str, Any], ref: Mapping[str, str]) -> str:
    if ref["raw_path"] == NO_EVIDENCE:
        return "negative_observation"
    return "guidance" if answer["tool_name"] == "lookup_knowledge" else "observation"


def _excerpt(ref: Mapping[str, str]) -> str:
    """The ref's first line, or as many whole words of it as fit."""
    line = ref["text"].strip().splitlines()[0].strip()
    if len("".join(line.split())) < 8:
        return ref["text"]
    return line if len(line) <= EXCERPT_CHARS else line[:EXCERPT_CHARS].rsplit(" ", 1)[0]


def _said(ref: Mapping[str, str]) -> str:
    return _excerpt(ref)[:1000]


def _cite(answer: Mapping[str, Any], ref: Mapping[str, str], **changed: str) -> dict[str, str]:
    honest = {
        "source_invocation_id": answer["invocation_id"],
        "tool_name": answer["tool_name"],
        "raw_path": ref["raw_path"],
        "evidence_excerpt": _excerpt(ref),
    }
    return {**honest, **changed}


def _claim(claim_id: str, kind: str, text: str, *evidence: Mapping[str, str], critical: bool = True) -> dict[str, Any]:
    return {
        "claim_id": claim_id,
        "kind": kind,
        "claim_text": text,
        "critical": critical,
        "evidence": [dict(citation) for citation in evidence],
    }


# ---- forgeries -------------------------------------------------------------------------------


def _forged(forgery: Forgery, question: Question, other_run: Mapping[str, str] | None) -> dict[str, Any]:
    """A claim that is false in one way only: all else about its citation is as an honest one's."""
    claim_id, text, kind = (
        f"x-{forgery.name.lower()}"[:40],
        f"{forgery.marker} is what broke the service.",
        "observation",
    )
    answer, ref = _something(question)
    match forgery:
        case Forgery.NO_EVIDENCE_AT_ALL:
            return _claim(claim_id, kind, text)
        case Forgery.OTHER_RUN:
            assert other_run is not None
            return _claim(claim_id, kind, text, other_run)
        case Forgery.INVENTED_INVOCATION:
            citation = _cite(answer, ref, source_invocation_id="inv_zzzzzz")
        case Forgery.WRONG_TOOL:
            wrong = next(name for name in EVIDENCE_TOOLS if name != answer["tool_name"])
            citation = _cite(answer, ref, tool_name=wrong)
        case Forgery.INVENTED_PATH:
            citation = _cite(answer, ref, raw_path="$.lines[9999].text")
        case Forgery.EDITED_DIGIT:
            citation = _cite(answer, ref, evidence_excerpt=_with_digit_edited(_excerpt(ref)))
        case Forgery.POSITIVE_AS_NEGATIVE:
            kind, citation = "negative_observation", _cite(answer, ref)
    return _claim(claim_id, kind, text, citation)


def _something(question: Question) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """A real ref to lie about: a log line with a digit if there is one, else whatever was found, else an invention."""
    found = [
        (answer, ref)
        for answer in question.tool_answers
        if answer["status"] == "OK"
        for ref in answer["evidence_refs"]
        if ref["raw_path"] != NO_EVIDENCE
    ]
    found.sort(key=lambda pair: (pair[0]["tool_name"] != "query_logs", not re.search(r"\d", _excerpt(pair[1]))))
    nothing = {"invocation_id": "inv_zzzzzz", "tool_name": "query_logs"}
    return found[0] if found else (nothing, {"raw_path": "$.lines[0].text", "text": "ERROR 42 connections were lost"})


def _with_digit_edited(excerpt: str) -> str:
    """The excerpt with its last digit one higher (9 becomes 0), or with a digit put in front."""
    digits = list(re.finditer(r"\d", excerpt))
    if not digits:
        return f"7 {excerpt}"
    last = digits[-1]
    return excerpt[: last.start()] + str((int(last[0]) + 1) % 10) + excerpt[last.end() :]
