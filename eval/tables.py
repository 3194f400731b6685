"""What `make eval` prints: rich tables out of scores and figures."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from eval.baseline import Baseline, ratio, total
from eval.run import Result
from eval.verifier import QUESTIONS, SUPPORTED_CATEGORIES, Category, Figures, Judged, Share

FALSE_SUPPORT_AIM = 0.02


def incidents_table(results: Sequence[Result], baseline: Baseline, worse: Mapping[str, Sequence[str]]) -> Table:
    table = _table("incident", title="Incidents")
    for column in ("findings", "outcome", "verdict", "ground", "tokens", "calls", "seconds", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        kept = baseline.incidents.get(result.slug)
        table.add_row(result.slug, *_cells(result, kept), _state(result, kept, worse[result.slug]))
    if len(results) > 1:
        table.add_section()
        table.add_row("all", *_totals(results, baseline))
    return table


def notes(results: Sequence[Result]) -> list[str]:
    """What an incident's run did not find, or not with the citation it needs, and outcomes that were not expected."""
    return [
        f"{result.slug}: {note}"
        for result in results
        for note in (
            *(f"missing {each}" for each in result.score.missing),
            *(f"{each} is said, but not from the tool that shows it" for each in result.score.uncited),
            *([] if result.score.outcome_expected else [f"{result.ended.outcome} is not the expected outcome"]),
        )
    ]


def _table(*columns: str, title: str) -> Table:
    return Table(*columns, title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)


def _cells(result: Result, kept: Mapping[str, Any] | None) -> list[str]:
    ended, score = result.ended, result.score
    known = kept or {}
    return [
        f"{len(score.found)}/{score.expected}" if score.expected else "–",
        ended.outcome + ("" if score.outcome_expected else " (!)"),
        ended.verdict or "–",
        f"{ended.groundedness:.2f}" if ended.groundedness is not None else "–",
        f"{ended.tokens:,}" + _times(ratio(ended.tokens, known.get("tokens"))),
        str(ended.model_calls),
        f"{ended.seconds:.1f}" + _times(ratio(ended.seconds, known.get("seconds"))),
    ]


def _totals(results: Sequence[Result], baseline: Baseline) -> list[str]:
    kept = [baseline.incidents.get(result.slug, {}) for result in results]
    grounded = [result.ended.groundedness for result in results if result.ended.groundedness is not None]
    tokens = sum(result.ended.tokens for result in results)
    calls = sum(result.ended.model_calls for result in results)
    seconds = sum(result.ended.seconds for result in results)
    return [
        f"{sum(len(each.score.found) for each in results)}/{sum(each.score.expected for each in results)}",
        f"{sum(each.score.outcome_expected for each in results)}/{len(results)} right",
        f"{sum(each.ended.verdict == 'PASS' for each in results)} PASS",
        f"{sum(grounded) / len(grounded):.2f}" if grounded else "–",
        f"{tokens:,}" + _times(ratio(tokens, total(each.get("tokens") for each in kept))),
        str(calls),
        f"{seconds:.1f}" + _times(ratio(seconds, total(each.get("seconds") for each in kept))),
    ]


def _times(value: float | None) -> str:
    return "" if value is None else f" ×{value:.2f}"


def _state(result: Result, kept: Mapping[str, Any] | None, worse: Sequence[str]) -> Text:
    if worse:
        return Text("WORSE", style="red")
    if kept is None:
        return Text("new", style="yellow")
    better = len(result.score.found) > len(kept["found"])
    return Text("better" if better else "as before", style="green")


def verifier_table(splits: Mapping[str, Figures]) -> Table:
    table = _table("pairs", title="Verifier")
    for column in ("false support", f"≤ {FALSE_SUPPORT_AIM:.0%}", "recall", "not judged"):
        table.add_column(column, justify="right")
    for key, each in splits.items():
        if key == "all":
            table.add_section()
        met = each.false_support.rate <= FALSE_SUPPORT_AIM
        table.add_row(
            key, str(each.false_support), "yes" if met else "NO", str(each.recall), str(each.not_judged or "–")
        )
    return table


def categories_table(figures: Mapping[str, Figures], baseline: Baseline) -> Table:
    """Supported categories show recall, the others false support; red where it is more than the baseline's."""
    table = _table("category", title="Verifier by category: recall for the first two, false support")
    for language in QUESTIONS:
        table.add_column(language, justify="right", no_wrap=True)
        table.add_column("baseline", justify="right", no_wrap=True)
    for category in get_args(Category):
        counted = "recall" if category in SUPPORTED_CATEGORIES else "false support"
        cells: list[str | Text] = []
        for language in QUESTIONS:
            key = f"{category} {language}"
            cells += _category_cells(figures[key], counted, baseline.verifier.get(key))
        table.add_row(category, *cells)
    return table


def _category_cells(each: Figures, counted: str, kept: Mapping[str, float] | None) -> list[str | Text]:
    share: Share = each.recall if counted == "recall" else each.false_support
    before = None if kept is None else kept[counted.replace(" ", "_")]
    rose = counted != "recall" and before is not None and round(share.rate, 6) > before
    return [Text(str(share), style="red" if rose else ""), "" if before is None else f"{before:.1%}"]


def wrong_pairs_table(judged: Sequence[Judged]) -> Table:
    """The pairs that were judged wrongly, save those held out: who improves the verifier must not see them."""
    table = _table("id", "category", "claim", "excerpt", "said", title="Judged wrongly")
    for row in judged:
        if row.wrong and not row.pair.held_out:
            said = "false support" if row.false_support else row.reason
            table.add_row(*map(Text, (row.pair.id, row.pair.category, row.pair.claim, row.pair.excerpt, said)))
    return table
