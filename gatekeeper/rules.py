"""The rules: one pure function a code, from (case, claim, params) to what it found.

A rule answers about one claim: a single finding that passed or does not apply (`passed` None), or one
finding for each evidence item at fault. Each rule fails closed: what cannot be looked up has not been
shown. The gate (`gatekeeper.gate`) leaves out failures that only follow from another one.

`GK001` looks at the draft as a whole: it is given no claim.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from gatekeeper.terms import Source, unsupported_terms
from gatekeeper.text import bounded, fold, hidden_characters, solid_length
from gatekeeper.types import (
    ANSWER_VERSION,
    NO_EVIDENCE_PATH,
    Case,
    Citation,
    Claim,
    ClaimKind,
    EvidenceRef,
    EvidenceStatus,
    Finding,
    Intent,
    Invocation,
    Relevance,
    SourceKind,
)

Params: TypeAlias = Mapping[str, int | float | bool | str]
Findings: TypeAlias = Finding | tuple[Finding, ...]
Rule: TypeAlias = Callable[[Case, Claim, Params], Findings]

GK001: Final = "GK001_ANSWER_VERSION"
GK002: Final = "GK002_INVOCATION_EXISTS"
GK003: Final = "GK003_TOOL_MATCHES"
GK004: Final = "GK004_PATH_EXISTS"
GK005: Final = "GK005_EXCERPT_SUPPORTED"
GK006: Final = "GK006_NEGATIVE_EVIDENCE"
GK007: Final = "GK007_NUMBERS_SUPPORTED"
GK008: Final = "GK008_INVOCATION_SUCCEEDED"
GK009: Final = "GK009_CURRENT_STATE"

MIN_EXCERPT_CHARS = 8
# How far around an excerpt its evidence is read to see whether a number or name goes on beyond it.
_SURROUNDINGS = 64
_MAX_OCCURRENCES = 8
# How many of an invocation's refs are looked through to say where a failed citation may have been meant to point.
_MAX_HINTS_FROM = 100

# Passing is the usual case: one shared value for each rule instead of one for each claim.
PASSED: Final[Mapping[str, Finding]] = {
    code: Finding(code, True, "") for code in (GK002, GK003, GK004, GK006, GK007, GK008, GK009)
}
_NOT_APPLICABLE = {code: Finding(code, None, "") for code in (GK003, GK004, GK006, GK008, GK009)}


def answer_version(case: Case, _params: Params) -> Finding:
    """GK001: the draft says that it is structured as `executor_evidence_v2`."""
    stated = case.draft.answer_version
    compared = {"expected": ANSWER_VERSION, "stated": bounded(stated) if stated is not None else ""}
    if stated == ANSWER_VERSION:
        return Finding(GK001, True, "", compared)
    said = f"is {bounded(stated, 60)!r}" if stated else "is not stated"
    return Finding(GK001, False, f"answer_version {said}; it must be {ANSWER_VERSION!r}.", compared)


def repeated_claim_id(claim: Claim) -> Finding:
    """GK001, about structure: an earlier claim of the draft has this claim's id."""
    return Finding(GK001, False, f"claim_id {claim.claim_id!r} is used by an earlier claim; each needs its own.")


def invocation_exists(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK002: there is evidence, and every item names a tool call of this run."""
    if not claim.evidence:
        return Finding(GK002, False, "The claim cites no evidence; cite at least one ref of a tool call of this run.")
    failed = tuple(
        Finding(
            GK002,
            False,
            f"{bounded(citation.source_invocation_id, 60)!r} is not an invocation of this run"
            + (f"; known are {_listed(case.invocations)}." if case.invocations else "; no tool was called."),
            {"cited": bounded(citation.source_invocation_id), "known": _listed(case.invocations)},
            index,
        )
        for index, citation in enumerate(claim.evidence)
        if citation.source_invocation_id not in case.invocations
    )
    return failed or PASSED[GK002]


def tool_matches(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK003: the tool named is the one that was called."""
    failed = []
    for index, citation, invocation in _cited(case, claim):
        called = invocation.tool_name if invocation else None
        if citation.tool_name != called:
            reason = (
                f"{citation.source_invocation_id} is a call of {called}, not of {bounded(citation.tool_name, 60)!r}."
                if called
                else _unknown(citation)
            )
            compared = {"cited": bounded(citation.tool_name), "called": called or ""}
            failed.append(Finding(GK003, False, reason, compared, index))
    return _answer(GK003, claim, failed)


def path_exists(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK004: the path is one of the invocation's refs, and the model was shown it."""
    failed = []
    for index, citation, invocation in _cited(case, claim):
        ref = invocation.refs.get(citation.raw_path) if invocation else None
        if ref is not None and ref.shown:
            continue
        path = bounded(citation.raw_path, 100)
        compared = {"cited": bounded(citation.raw_path)}
        if invocation is None:
            reason = _unknown(citation)
        elif ref is not None:
            reason = f"{path} of {invocation.invocation_id} was not shown to you; cite only refs that were."
        else:
            nearest = _nearest_path(invocation, citation.raw_path)
            reason = f"{path!r} is not among the evidence_refs of {invocation.invocation_id}" + (
                f"; the nearest path is {nearest}." if nearest else "; it has none."
            )
            compared["nearest"] = nearest
        failed.append(Finding(GK004, False, reason, compared, index))
    return _answer(GK004, claim, failed)


def excerpt_supported(case: Case, claim: Claim, params: Params) -> Findings:
    """GK005: the excerpt is a verbatim span of the ref, after folding; long enough, or the whole of it."""
    least = int(params.get("min_chars", MIN_EXCERPT_CHARS))
    failed = []
    for index, citation, invocation in _cited(case, claim):
        ref = invocation.refs.get(citation.raw_path) if invocation else None
        excerpt = _folded(case, citation.evidence_excerpt)
        text = _folded(case, ref.text) if ref else None
        if text is not None and excerpt and excerpt in text and (solid_length(excerpt) >= least or excerpt == text):
            continue
        reason = _excerpt_fault(case, citation, invocation, excerpt, text, least)
        compared = {"path": bounded(citation.raw_path), "excerpt": bounded(excerpt), "text": bounded(text or "")}
        failed.append(Finding(GK005, False, reason, compared, index))
    if not claim.evidence:
        return Finding(GK005, False, "The claim has no excerpt.")
    if failed:
        return tuple(failed)
    first = claim.evidence[0]
    return Finding(GK005, True, "", {"path": first.raw_path, "excerpt": bounded(first.evidence_excerpt)})


def negative_evidence(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK006: a negative observation rests on `$.no_evidence` of calls that found nothing, and nothing else does."""
    negative = claim.kind is ClaimKind.NEGATIVE_OBSERVATION
    failed = []
    for index, citation, invocation in _cited(case, claim):
        on_nothing = citation.raw_path == NO_EVIDENCE_PATH
        if negative and not on_nothing:
            path = bounded(citation.raw_path, 100)
            reason = f"a negative_observation may cite only {NO_EVIDENCE_PATH}, not {path!r}."
        elif on_nothing and not negative:
            reason = f"{NO_EVIDENCE_PATH} supports only a negative_observation; it says that one query found nothing."
        elif on_nothing and not (invocation and _found_nothing(invocation)):
            ended = invocation.status.value if invocation else "unknown"
            reason = f"{bounded(citation.source_invocation_id, 60)} ended {ended}, not NO_EVIDENCE."
        else:
            continue
        status = invocation.status.value if invocation else ""
        compared = {"kind": claim.kind.value, "path": bounded(citation.raw_path), "status": status}
        failed.append(Finding(GK006, False, reason, compared, index))
    return _answer(GK006, claim, failed)


def numbers_supported(case: Case, claim: Claim, params: Params) -> Findings:
    """GK007: every number, code and identifier of the claim's text stands in a cited excerpt or in the input.

    So does every character that cannot be seen: in a text of the claim's own it has no use but to mislead.
    """
    if hidden := hidden_characters(
        claim.claim_text, (*(c.evidence_excerpt for c in claim.evidence), *case.input_texts)
    ):
        codes = ", ".join(f"U+{ord(char):04X}" for char in hidden[:10])
        compared = {"missing": codes, "claim_text": bounded(claim.claim_text)}
        return Finding(GK007, False, f"the claim's text holds characters that cannot be seen: {codes}.", compared)
    ignored = frozenset(str(params.get("ignored_names", "")).lower().split())
    missing = unsupported_terms(_folded(case, claim.claim_text), _sources(case, claim), ignored=ignored)
    if not missing:
        return PASSED[GK007]
    names = ", ".join(dict.fromkeys(bounded(term.text, 60) for term in missing[:10]))
    return Finding(
        GK007,
        False,
        f"not in any cited excerpt, nor in the alert or question: {names}.",
        {"missing": names, "claim_text": bounded(claim.claim_text)},
    )


def invocation_succeeded(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK008: the cited call did not fail, time out or get refused."""
    failed = []
    for index, citation, invocation in _cited(case, claim):
        if invocation is not None and not invocation.status.failed:
            continue
        if invocation is None:
            reason = _unknown(citation)
        else:
            reason = f"{invocation.invocation_id} ended {invocation.status.value}; a call that failed shows nothing."
        compared = {"status": invocation.status.value if invocation else ""}
        failed.append(Finding(GK008, False, reason, compared, index))
    return _answer(GK008, claim, failed)


def current_state(case: Case, claim: Claim, _params: Params) -> Findings:
    """GK009: in a diagnosis an observation rests on telemetry; guidance on more than REFERENCE-level knowledge."""
    known = [(citation, invocation) for _, citation, invocation in _cited(case, claim) if invocation]
    if case.intent is not Intent.DIAGNOSIS or claim.kind is ClaimKind.NEGATIVE_OBSERVATION or not known:
        return _NOT_APPLICABLE[GK009]
    sources = {invocation.source_kind for _, invocation in known}
    if claim.kind is ClaimKind.OBSERVATION:
        if SourceKind.TELEMETRY in sources:
            return PASSED[GK009]
        compared = {"sources": ", ".join(sorted(sources))}
        reason = (
            "an observation says how the system is now and needs telemetry (logs, metrics, alerts, SQL, MCP); "
            "what a runbook advises is guidance."
        )
        return Finding(GK009, False, reason, compared)
    if all(_weak_knowledge(citation, invocation) for citation, invocation in known):
        reason = "the guidance rests on REFERENCE-level knowledge alone; cite a document that fits the incident better."
        return Finding(GK009, False, reason, {"sources": ", ".join(sorted(sources)), "relevance": "REFERENCE"})
    return PASSED[GK009]


CLAIM_RULES: Final[Mapping[str, Rule]] = {
    GK002: invocation_exists,
    GK003: tool_matches,
    GK004: path_exists,
    GK005: excerpt_supported,
    GK006: negative_evidence,
    GK007: numbers_supported,
    GK008: invocation_succeeded,
    GK009: current_state,
}
CODES: Final = (GK001, *CLAIM_RULES)

# Whose failure, about the same evidence item, makes a rule's own failure say nothing new.
PREREQUISITES: Final[Mapping[str, tuple[str, ...]]] = {
    GK003: (GK002,),
    GK004: (GK002,),
    GK005: (GK002, GK004),
    GK006: (GK002,),
    GK008: (GK002,),
}


# ---- shared by the rules --------------------------------------------------------------------


def _cited(case: Case, claim: Claim) -> list[tuple[int, Citation, Invocation | None]]:
    known = case.invocations
    return [
        (index, citation, known.get(citation.source_invocation_id)) for index, citation in enumerate(claim.evidence)
    ]


def _answer(code: str, claim: Claim, failed: list[Finding]) -> Findings:
    """Without evidence there is no item that the rule could be about."""
    return tuple(failed) or (PASSED if claim.evidence else _NOT_APPLICABLE)[code]


def _unknown(citation: Citation) -> str:
    return f"{bounded(citation.source_invocation_id, 60)!r} is not an invocation of this run."


def _listed(invocations: Mapping[str, Invocation]) -> str:
    names = list(invocations)
    return ", ".join(names[:12]) + (" …" if len(names) > 12 else "")


def _folded(case: Case, text: str) -> str:
    folded: str | None = case.memo.get(text)
    if folded is None:
        folded = case.memo[text] = fold(text)
    return folded


def _found_nothing(invocation: Invocation) -> bool:
    """A repeated call is answered from the record: it found nothing if the call that it repeats did."""
    if invocation.status is EvidenceStatus.DEDUPLICATED:
        return NO_EVIDENCE_PATH in invocation.refs
    return invocation.status is EvidenceStatus.NO_EVIDENCE


def _weak_knowledge(citation: Citation, invocation: Invocation) -> bool:
    ref = invocation.refs.get(citation.raw_path)
    return invocation.source_kind is SourceKind.KNOWLEDGE and ref is not None and ref.relevance is Relevance.REFERENCE


def _sources(case: Case, claim: Claim) -> Iterator[Source]:
    """What may support a claim's terms: each cited excerpt where it stands in its ref, then the input."""
    for _, citation, invocation in _cited(case, claim):
        excerpt = _folded(case, citation.evidence_excerpt)
        ref = invocation.refs.get(citation.raw_path) if invocation else None
        text = _folded(case, ref.text) if ref else ""
        at = text.find(excerpt) if excerpt else -1
        if at < 0:
            # Whether it may be cited at all is another rule's question.
            yield Source(excerpt)
        for _ in range(_MAX_OCCURRENCES):
            if at < 0:
                break
            end = at + len(excerpt)
            before = max(0, at - _SURROUNDINGS)
            yield Source(text[before : end + _SURROUNDINGS], at - before, end - before)
            at = text.find(excerpt, at + 1)
    for number, text in enumerate(case.input_texts):
        key = ("input", number)
        if key not in case.memo:
            case.memo[key] = Source(_folded(case, text))
        yield case.memo[key]


def _excerpt_fault(
    case: Case, citation: Citation, invocation: Invocation | None, excerpt: str, text: str | None, least: int
) -> str:
    """Why an excerpt was refused, in words that help to cite it right."""
    path = bounded(citation.raw_path, 100)
    if invocation is None:
        return _unknown(citation)
    if text is None:
        return f"{path!r} has no text to compare the excerpt with."
    if not excerpt:
        return "the excerpt is empty; quote the text verbatim."
    if excerpt in text:
        return f"the excerpt is too short: quote at least {least} characters other than spaces, or the whole of {path}."
    elsewhere = _other_path_with(case, invocation, excerpt)
    if elsewhere:
        return f"excerpt not found in {path}; it stands in {elsewhere} of {invocation.invocation_id}."
    length = _matching_start(excerpt, text)
    if length < MIN_EXCERPT_CHARS:
        return f"excerpt not found in {path}."
    return (
        f"excerpt not found in {path}: its text has {bounded(excerpt[max(0, length - 60) : length], 80)!r}, "
        f"but then not {bounded(excerpt[length:], 40)!r}."
    )


def _other_path_with(case: Case, invocation: Invocation, excerpt: str) -> str:
    for ref in _shown(invocation):
        if excerpt in _folded(case, ref.text):
            return ref.raw_path
    return ""


def _matching_start(wanted: str, text: str, *, anchored: bool = False) -> int:
    """The length of the longest start of `wanted` that stands in `text` (at its start, if anchored)."""
    low, high = 0, len(wanted)
    while low < high:
        middle = (low + high + 1) // 2
        found = text.startswith(wanted[:middle]) if anchored else wanted[:middle] in text
        low, high = (middle, high) if found else (low, middle - 1)
    return low


def _nearest_path(invocation: Invocation, path: str) -> str:
    """The shown path with the longest common start."""
    paths = [ref.raw_path for ref in _shown(invocation)]
    return max(paths, key=lambda known: _matching_start(path, known, anchored=True), default="")


def _shown(invocation: Invocation) -> list[EvidenceRef]:
    refs = []
    for ref in invocation.refs.values():
        if ref.shown:
            refs.append(ref)
        if len(refs) == _MAX_HINTS_FROM:
            break
    return refs
