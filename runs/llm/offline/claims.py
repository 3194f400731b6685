"""From selected evidence to claims: one micro-fact each, worded with the evidence's own words. Pure.

A claim is only proposed when it would be supported: its terms stand in the excerpt, and the offline verifier, which is
stricter than a reader, can follow it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatekeeper.terms import Source, unsupported_terms
from gatekeeper.text import fold, solid_length
from gatekeeper.types import ClaimKind
from runs.harness.wire import ExecutorCitation, ExecutorClaim
from runs.llm.offline.evidence import LogFact, MetricFact, Passage, Ref
from runs.llm.offline.loglines import cut_at_mark
from runs.llm.offline.tokens import words
from runs.llm.offline.verifier import judge_text

EXCERPT_CHARS = 700
CLAIM_CHARS = 420
CONTEXT_CHARS = 800
"""Up to this length the verifier is shown the whole line or paragraph around an excerpt."""
SENTENCE_CHARS = 280
HIDDEN_LABELS = frozenset(
    "__name__ job namespace instance node cluster container endpoint prometheus env environment region team".split()
)
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_SELECTOR = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)?\{(?P<labels>[^{}]*)\}(?P<rest>.*)$", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)]|>|#{1,6})\s+")
_ELSEWHERE = re.compile(r"\(?see (?:also )?\*|参见", re.IGNORECASE)
_ADVISES = re.compile(
    r"(?:^|: |; )(?:check|look|run|use|roll(?: it)? back|rollback|revert|restart|raise|lower|increase|reduce|set|find"
    r"|compare|confirm|kill|stop|scale|fix|add|remove|verify|see|do not|don't|never|avoid|first|if|when|ask|cancel"
    r"|terminate|drain|disable|enable|escalate"
    r"|检查|查看|确认|回滚|重启|增大|减小|调整|使用|不要|先)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A claim before it has a number. `texts` are wordings, the fullest first; the first one that holds is taken."""

    kind: ClaimKind
    texts: tuple[str, ...]
    ref: Ref
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Frames:
    """The few words that are not the evidence's own."""

    log: str
    metric: str
    expression: str
    alert: str
    runbook: str


ENGLISH = Frames("Log: ", "Metric: ", "The alert's expression: ", "Alert: ", "The runbook advises: ")
CHINESE = Frames("日志：", "指标：", "告警表达式：", "告警：", "运行手册建议：")


def frames(chinese: bool) -> Frames:
    return CHINESE if chinese else ENGLISH


# ---- wording ---------------------------------------------------------------------------------


def of_log(fact: LogFact, said: Frames, *, critical: bool = False) -> Proposal:
    line = fact.line
    message = " ".join(line.message.splitlines())
    when = line.prefix if fact.count > 1 or not line.stamp else line.stamp
    level = f"{line.level}: " if line.level else ""
    texts = [f"{said.log}{when}: {level}{message}"] if when else []
    if when:
        texts.append(f"{said.log}{when}: {message}")
    texts += [f"{said.log}{level}{message}", f"{said.log}{message}"]
    return Proposal(ClaimKind.OBSERVATION, tuple(dict.fromkeys(texts)), fact.ref, critical)


def of_cause(fact: LogFact, said: Frames) -> Proposal | None:
    """The innermost "Caused by" of a stack trace, where it says something that the message does not."""
    new = words(fact.line.cause) - words(fact.line.message)
    if len(new) < 4:
        return None
    return Proposal(ClaimKind.OBSERVATION, (f"{said.log}{fact.line.cause}",), fact.ref)


def of_metric(fact: MetricFact, said: Frames, *, critical: bool = False) -> Proposal:
    frame = said.metric if fact.name else said.expression
    short = shorter_selector(fact.ref.text)
    texts = [frame + text for text in _shortened(short)] + [frame + text for text in _shortened(fact.ref.text)]
    return Proposal(ClaimKind.OBSERVATION, tuple(dict.fromkeys(texts)), fact.ref, critical)


def _shortened(summary: str) -> list[str]:
    """The summary, and shorter ones that end where one of its parts ends."""
    parts = summary.split("; ")
    ends = ["; ".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return [text for text in ends if len(text) <= CLAIM_CHARS] or [cut_at_mark(summary, CLAIM_CHARS)]


def shorter_selector(summary: str) -> str:
    """`x{job="a",pod="b",service="c"}: …` without the labels that tell a reader nothing."""
    found = _SELECTOR.match(summary)
    if found is None:
        return summary
    pairs = _LABEL.findall(found["labels"])
    hidden = HIDDEN_LABELS - (
        set() if any(key in {"pod", "service"} for key, _ in pairs) else {"instance", "job", "node"}
    )
    kept = ",".join(f'{key}="{value}"' for key, value in pairs if key not in hidden)
    name = found["name"] or ""
    labels = f"{{{kept}}}" if kept else ""
    return f"{name}{labels}{found['rest']}" if name or labels else summary


def of_alert(ref: Ref, said: Frames) -> Proposal:
    return Proposal(ClaimKind.OBSERVATION, (f"{said.alert}{cut_at_mark(ref.text, CLAIM_CHARS)}",), ref)


def of_nothing(ref: Ref) -> Proposal:
    """Says what the tool said: this query, this window, nothing matched."""
    sentence = ref.text.split(". ", 1)[0]
    texts = (
        (ref.text, sentence, f"{sentence}.") if len(ref.text) <= CLAIM_CHARS else (sentence, cut_at_mark(ref.text, 900))
    )
    return Proposal(ClaimKind.NEGATIVE_OBSERVATION, texts, ref)


def of_passage(
    passage: Passage, wanted: frozenset[str], said: Frames, *, strict: bool = True
) -> list[tuple[float, Proposal]]:
    """Each sentence of a passage as a proposal, with how well it fits what is wanted."""
    sentences = [each for each in sentences_of(passage.ref.text) if 25 <= len(each) <= SENTENCE_CHARS]
    return [
        (fit(each, wanted, strict=strict), Proposal(ClaimKind.GUIDANCE, (f"{said.runbook}{each}",), passage.ref))
        for each in sentences
    ]


def fit(sentence: str, wanted: frozenset[str], *, strict: bool) -> float:
    """Shared words, and more for what tells someone to do something. `strict`: nothing without a shared word."""
    spoken = words(sentence)
    shared = min(len(spoken & wanted), 5)
    if (strict and shared == 0) or _ELSEWHERE.search(sentence) or sentence.endswith((":", "：")):
        return 0.0
    advises = 2.0 if _ADVISES.search(sentence) else 0.0
    return shared + advises - (1.5 if len(spoken) < 5 else 0.0)


def sentences_of(passage: str) -> list[str]:
    """Sentences, list items and table rows of Markdown text, code blocks left out, emphasis marks removed."""
    text = re.sub(r"```.*?(?:```|\Z)", "\n\n", passage, flags=re.DOTALL).replace("**", "")
    blocks: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            blocks += [_row(line), ""]
        elif not line.strip() or line.lstrip().startswith("#"):
            blocks.append("")
        elif _BULLET.match(line) or not blocks or not blocks[-1]:
            blocks.append(_BULLET.sub("", line).strip())
        else:
            blocks[-1] = f"{blocks[-1]} {line.strip()}"
    parts = [part for block in blocks for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`*\"(])|(?<=[。！？])", block)]
    return [part.strip() for part in parts if part.strip()]


def _row(line: str) -> str:
    """`| what you see | cause |` as `what you see: cause`; a rule of dashes as nothing."""
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return "" if all(re.fullmatch(r":?-*:?", cell) for cell in cells) else ": ".join(cell for cell in cells if cell)


# ---- holding ---------------------------------------------------------------------------------


def claims_of(proposals: Iterable[Proposal], given: Sequence[str], limit: int) -> list[ExecutorClaim]:
    """Numbered claims of the proposals that hold, in their order. `given`: texts of the alert or question."""
    claims: list[ExecutorClaim] = []
    said: set[str] = set()
    for proposal in proposals:
        if len(claims) == limit:
            break
        claim = claim_of(proposal, given, f"c{len(claims) + 1}")
        if claim is not None and fold(claim.claim_text) not in said:
            said.add(fold(claim.claim_text))
            claims.append(claim)
    return claims


def claim_of(proposal: Proposal, given: Sequence[str], claim_id: str) -> ExecutorClaim | None:
    """The fullest wording that its excerpt supports, or None."""
    for text in proposal.texts:
        for excerpt in excerpts(proposal.ref.text, text):
            if holds(text, excerpt, proposal.ref.text, given):
                return ExecutorClaim(
                    claim_id=claim_id,
                    kind=proposal.kind,
                    claim_text=text,
                    critical=proposal.critical,
                    evidence=[citation(proposal.ref, excerpt)],
                )
    return None


def citation(ref: Ref, excerpt: str) -> ExecutorCitation:
    return ExecutorCitation(
        source_invocation_id=ref.invocation_id, tool_name=ref.tool_name, raw_path=ref.raw_path, evidence_excerpt=excerpt
    )


def excerpts(ref_text: str, claim_text: str) -> list[str]:
    """Spans of the ref's text worth citing: the whole when it is short, else the part that the claim quotes."""
    if len(ref_text) <= EXCERPT_CHARS:
        return [ref_text]
    quoted = claim_text.split(": ", 1)[-1]
    at = ref_text.find(quoted)
    spans = [ref_text[: max(EXCERPT_CHARS, at + len(quoted))]] if 0 <= at <= EXCERPT_CHARS else []
    spans += [quoted] if at >= 0 else []
    return [*spans, ref_text[:EXCERPT_CHARS]]


def holds(text: str, excerpt: str, ref_text: str, given: Sequence[str]) -> bool:
    """Whether gate and verifier would let it pass: terms in the excerpt (or given), wording in the evidence."""
    if len(text) > 1000 or (solid_length(fold(excerpt)) < 8 and fold(excerpt) != fold(ref_text)):
        return False
    sources = [Source(fold(each)) for each in (excerpt, *given)]
    around = ref_text if len(ref_text) <= CONTEXT_CHARS else excerpt
    return not unsupported_terms(fold(text), sources) and judge_text(text, [around]).supported


def verbatim(claim: ExecutorClaim) -> ExecutorClaim | None:
    """The same claim in nothing but the words of its first excerpt, or None where it is that already."""
    text = claim.evidence[0].evidence_excerpt[:1000] if claim.evidence else ""
    return None if not text or text == claim.claim_text else claim.model_copy(update={"claim_text": text})
