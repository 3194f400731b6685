"""How far the verifier can be trusted: claims that follow from their excerpt, and claims that do not.

The pairs are hand-made (`verifier_pairs.LANG.jsonl`, one JSON object a line). Every pair is put to the configured
model in the verifier's role, with the shipped prompt and the wire that a run uses. False support is the error that
must not happen: a claim that its excerpt does not carry, called supported.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from gatekeeper.types import NO_EVIDENCE_PATH, ClaimKind
from prompts.catalogue import CATALOGUE
from runs.errors import ModelContractViolated, ModelUnavailable
from runs.harness.inputs import to_message
from runs.harness.ports import ChatModel, ModelReply, ModelRequest, Role
from runs.harness.structured import parse_reply
from runs.harness.wire import OUTPUTS, SCHEMA_NAMES, VerifierEvaluation

FOLDER = Path(__file__).parent
SUPPORTED_CATEGORIES = frozenset({"quote", "paraphrase"})
Category = Literal[
    "quote",
    "paraphrase",
    "wrong_number",
    "wrong_subject",
    "dropped_negation",
    "added_negation",
    "wrong_direction",
    "wrong_time",
    "generalisation",
    "cause_added",
    "attempt_as_success",
    "unit_changed",
    "other_host",
]
BATCH = 8
ATTEMPTS = 3
QUESTIONS = {"en": "What is wrong?", "zh": "出了什么问题？"}
PLACES = {
    ClaimKind.OBSERVATION: ("query_logs", "$.lines[0].text"),
    ClaimKind.GUIDANCE: ("lookup_knowledge", "$.hits[0].text"),
    ClaimKind.NEGATIVE_OBSERVATION: ("query_logs", NO_EVIDENCE_PATH),
}
Text = Annotated[str, StringConstraints(min_length=1)]


class BadPairs(Exception):
    """A file of pairs that cannot be used; the text is one sentence."""


class Pair(BaseModel):
    """`context` is the whole line that the excerpt was cut from. `held_out`: not looked at while the verifier is
    being improved; its figures stand apart, and its texts are never printed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Text
    lang: Literal["en", "zh"]
    kind: ClaimKind
    category: Category
    supported: bool
    claim: Text
    excerpt: Text
    context: Text | None = None
    held_out: bool = False

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "Pair":
        if self.supported != (self.category in SUPPORTED_CATEGORIES):
            raise ValueError(f"a pair of the category {self.category} cannot be supported={self.supported}")
        if self.context is not None and self.excerpt not in self.context:
            raise ValueError("the context does not hold the excerpt")
        return self


def read_pairs(folder: Path = FOLDER) -> tuple[Pair, ...]:
    """All pairs of a folder. Raises `BadPairs` naming file and line."""
    pairs: dict[str, Pair] = {}
    for path in sorted(folder.glob("verifier_pairs.*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                pair = Pair.model_validate_json(line)
            except ValidationError as error:
                raise BadPairs(f"{path.name}:{number}: {error.errors()[0]['msg']}") from error
            if pair.id in pairs:
                raise BadPairs(f"{path.name}:{number}: the id {pair.id} is taken")
            pairs[pair.id] = pair
    if not pairs:
        raise BadPairs(f"{folder.name} holds no verifier_pairs.*.jsonl")
    return tuple(pairs.values())


# ---- asking ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judged:
    """`supported` None: the model did not check the pair properly; code would not call that supported."""

    pair: Pair
    supported: bool | None
    reason: str = ""

    @property
    def false_support(self) -> bool:
        return self.supported is True and not self.pair.supported

    @property
    def wrong(self) -> bool:
        return (self.supported is True) != self.pair.supported


async def judge(model: ChatModel, pairs: Sequence[Pair]) -> list[Judged]:
    """Puts the pairs to the model, some of one language in a request. Raises `ModelError`."""
    prompt = next(shipped for shipped in CATALOGUE if shipped.name == "chat_verifier").text()
    judged: list[Judged] = []
    for batch in batches(pairs):
        try:
            text = (await _ask(model, request_of(batch, prompt))).text
        except ModelContractViolated:
            text = None
        judged += read_reply(text, batch)
    return judged


def batches(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    for language in QUESTIONS:
        of_language = [pair for pair in pairs if pair.lang == language]
        for start in range(0, len(of_language), BATCH):
            yield of_language[start : start + BATCH]


def request_of(pairs: Sequence[Pair], prompt: str) -> ModelRequest:
    told = {
        "query": QUESTIONS[pairs[0].lang],
        "claims": [claim_json(pair) for pair in pairs],
        "tool_trace_summary": [],
    }
    role = Role.CHAT_VERIFIER
    return ModelRequest(role, SCHEMA_NAMES[role], OUTPUTS[role], prompt, (to_message(told),))


def claim_json(pair: Pair) -> dict[str, Any]:
    """The pair as the verifier gets a claim in a run."""
    tool, path = PLACES[pair.kind]
    cited = {
        "source_invocation_id": f"inv_{pair.id}",
        "tool_name": tool,
        "raw_path": path,
        "evidence_excerpt": pair.excerpt,
        "context": pair.context or pair.excerpt,
    }
    return {
        "claim_id": pair.id,
        "kind": pair.kind.value,
        "claim_text": pair.claim,
        "critical": True,
        "evidence": [cited],
    }


async def _ask(model: ChatModel, request: ModelRequest) -> ModelReply:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await model.complete(request)
        except ModelUnavailable as error:
            if not error.transient or attempt == ATTEMPTS:
                raise
            await asyncio.sleep(error.retry_after or 2.0**attempt)
    raise AssertionError("every attempt returns or raises")


def read_reply(text: str | None, pairs: Sequence[Pair]) -> list[Judged]:
    """The checks of an answer by pair. A pair that was not checked exactly once counts as not judged."""
    try:
        checks = parse_reply(text, VerifierEvaluation).claim_checks
    except ModelContractViolated as error:
        return [Judged(pair, None, error.safe_message) for pair in pairs]
    counts = Counter(check.claim_id for check in checks)
    by_id = {check.claim_id: check for check in checks if counts[check.claim_id] == 1}
    return [
        Judged(pair, check.supported, check.reason) if (check := by_id.get(pair.id)) else Judged(pair, None)
        for pair in pairs
    ]


# ---- figures ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`."""

    count: int
    of: int

    @property
    def rate(self) -> float:
        return self.count / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.count}/{self.of} {self.rate:.1%}" if self.of else "–"


@dataclass(frozen=True, slots=True)
class Figures:
    """`false_support` over pairs that are not supported, `recall` over those that are; `not_judged` over all."""

    false_support: Share
    recall: Share
    not_judged: int

    @classmethod
    def of(cls, judged: Iterable[Judged]) -> "Figures":
        rows = list(judged)
        wrong = [row for row in rows if not row.pair.supported]
        right = [row for row in rows if row.pair.supported]
        return cls(
            Share(sum(row.false_support for row in wrong), len(wrong)),
            Share(sum(row.supported is True for row in right), len(right)),
            sum(row.supported is None for row in rows),
        )


def split_figures(judged: Sequence[Judged]) -> dict[str, Figures]:
    """By language, seen and held out, and all together; keys such as `en`, `en held out`, `all`."""
    found = {}
    for language in QUESTIONS:
        for held_out in (False, True):
            rows = [row for row in judged if row.pair.lang == language and row.pair.held_out == held_out]
            found[f"{language} held out" if held_out else language] = Figures.of(rows)
    return found | {"all": Figures.of(judged)}


def category_figures(judged: Sequence[Judged]) -> dict[str, Figures]:
    """By category and language; keys such as `wrong_number en`."""
    return {
        f"{category} {language}": Figures.of(
            row for row in judged if row.pair.category == category and row.pair.lang == language
        )
        for category in get_args(Category)
        for language in QUESTIONS
    }
