"""What two runs are told apart by, line by line: each line a label, what either run has, and whether that differs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit.pages.runlist import sentences
from audit.templatetags.pages import cost, grouped, score, took
from prompts.models import label_of
from runs.access import Caller
from runs.models import DiagnosisRun
from runs.pages.hostile import one_line, seen
from runs.pages.words import TRIGGER_WORDS, VERDICT_WORDS, Tone, Words, badge, tone_of_code
from runs.pins import pinned_numbers

NOTHING = "–"
CONFIDENCE_WORDS: dict[str, Words] = {"NORMAL": gettext_lazy("normal"), "LOW": gettext_lazy("low")}


@dataclass(frozen=True, slots=True)
class Cell:
    """`tone` and `href` where there is one; `at`: a time in place of the text; `note`: how far from the other run."""

    text: Words = NOTHING
    tone: Tone | None = None
    href: str = ""
    at: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """`differs` None: it nearly always does, and is not worth a mark."""

    label: Words
    a: Cell
    b: Cell
    differs: bool | None = None


def facts_of(a: DiagnosisRun, b: DiagnosisRun, caller: Caller) -> tuple[Fact, ...]:
    """How they ended first, then what they ran with, then what they spent."""
    return (
        _fact(gettext_lazy("Outcome"), a, b, _outcome),
        _fact(gettext_lazy("Verdict"), a, b, _verdict),
        _fact(gettext_lazy("Confidence"), a, b, _confidence),
        _fact(gettext_lazy("Conclusion"), a, b, _conclusion),
        _fact(gettext_lazy("Model"), a, b, lambda run: Cell(one_line(run.model, 80) or NOTHING)),
        _rule_sets(a, b, caller),
        *_prompts(a, b, caller),
        _loose(gettext_lazy("Asked for"), Cell(at=a.queued_at), Cell(at=b.queued_at)),
        _loose(gettext_lazy("Trigger"), _trigger(a), _trigger(b)),
        _loose(gettext_lazy("Groundedness"), Cell(score(a.groundedness)), Cell(score(b.groundedness))),
        _durations(a, b),
        _numbers(gettext_lazy("Tokens"), a.input_tokens + a.output_tokens, b.input_tokens + b.output_tokens),
        _loose(gettext_lazy("Cost"), Cell(cost(a.cost_usd)), Cell(cost(b.cost_usd))),
        _numbers(gettext_lazy("Model calls"), a.model_calls, b.model_calls),
        _numbers(gettext_lazy("Tool calls"), a.tool_calls, b.tool_calls),
    )


def _fact(label: Words, a: DiagnosisRun, b: DiagnosisRun, cell: Callable[[DiagnosisRun], Cell]) -> Fact:
    of_a, of_b = cell(a), cell(b)
    return Fact(label, of_a, of_b, differs=str(of_a.text) != str(of_b.text))


def _loose(label: Words, a: Cell, b: Cell) -> Fact:
    return Fact(label, a, b)


def _outcome(run: DiagnosisRun) -> Cell:
    words, tone = badge(run)
    return Cell(words, tone)


def _trigger(run: DiagnosisRun) -> Cell:
    return Cell(TRIGGER_WORDS.get(run.trigger, run.trigger))


def _verdict(run: DiagnosisRun) -> Cell:
    if not run.verdict:
        return Cell()
    return Cell(VERDICT_WORDS.get(run.verdict, run.verdict), tone_of_code(run.verdict))


def _confidence(run: DiagnosisRun) -> Cell:
    confidence = (run.published_result or {}).get("confidence", "")
    return Cell(CONFIDENCE_WORDS.get(confidence, NOTHING), Tone.WARN if confidence == "LOW" else None)


def _conclusion(run: DiagnosisRun) -> Cell:
    """Or why there is none."""
    if run.published_result:
        return Cell(seen(run.published_result.get("conclusion", "")))
    safe = run.safe_content or {}
    return Cell(seen(sentences(safe.get("headline"), safe.get("reason"))) or NOTHING)


# ---- what they ran with ---------------------------------------------------------------------------------------


def _in_admin(caller: Caller, package: str) -> bool:
    """Whether the pages of rules or prompts in the admin are open to the reader."""
    return caller.user is not None and caller.user.is_staff and caller.user.has_module_perms(package)


def _rule_sets(a: DiagnosisRun, b: DiagnosisRun, caller: Caller) -> Fact:
    links = _in_admin(caller, "gatekeeper")

    def cell(run: DiagnosisRun) -> Cell:
        if not run.rule_set_version:
            return Cell()
        href = reverse("admin:gatekeeper_ruleset_page", args=[run.rule_set_version]) if links else ""
        return Cell(str(run.rule_set_version), href=href)

    return _fact(gettext_lazy("Rule set"), a, b, cell)


def _prompts(a: DiagnosisRun, b: DiagnosisRun, caller: Caller) -> tuple[Fact, ...]:
    """A line for each prompt that either was given."""
    links = _in_admin(caller, "prompts")
    of_a, of_b = pinned_numbers(a.pinned_prompts), pinned_numbers(b.pinned_prompts)

    def cell(name: str, number: int | None) -> Cell:
        if number is None:
            return Cell()
        return Cell(label_of(name, number), href=reverse("admin:prompts_version", args=[name, number]) if links else "")

    return tuple(
        Fact(
            _("Prompt %(name)s") % {"name": name},
            cell(name, of_a.get(name)),
            cell(name, of_b.get(name)),
            differs=of_a.get(name) != of_b.get(name),
        )
        for name in sorted(of_a.keys() | of_b.keys())
    )


# ---- what they spent ------------------------------------------------------------------------------------------


def _numbers(label: Words, a: int, b: int) -> Fact:
    return Fact(label, Cell(grouped(a)), Cell(grouped(b), note=_signed(b - a, grouped)))


def _durations(a: DiagnosisRun, b: DiagnosisRun) -> Fact:
    of_a, of_b = took_ms(a), took_ms(b)
    note = "" if of_a is None or of_b is None else _signed(of_b - of_a, took)
    return Fact(gettext_lazy("Duration"), Cell(took(of_a)), Cell(took(of_b), note=note))


def took_ms(run: DiagnosisRun) -> int | None:
    """Up to now while it goes; None before its start."""
    if run.started_at is None:
        return None
    return round(((run.finished_at or datetime.now(UTC)) - run.started_at) / timedelta(milliseconds=1))


def _signed(difference: int, words: Callable[[int], str]) -> str:
    if not difference:
        return "±0"
    return f"{'+' if difference > 0 else '−'}{words(abs(difference))}"
