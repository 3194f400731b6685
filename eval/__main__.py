"""`make eval`: the recorded incidents and the verifier's pairs, compared with the committed baseline.

    python -m eval [SLUG …] [--save] [--model SPEC] [--details] [--baseline FILE]

With names only those parts run: the slugs of incidents, `verifier` for the pairs. Exit code: 0 nothing is worse than
the baseline, 1 something is, 2 the evaluation could not be made.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console

from eval import baseline, tables
from eval.baseline import BASELINE, BadBaseline, Baseline
from eval.run import EvaluationError, Result, diagnose, incident_slugs, own_instance, use_model
from eval.verifier import BadPairs, Judged, category_figures, judge, read_pairs, split_figures
from runs.errors import ConfigurationError as WrongModel
from runs.errors import ModelError
from runs.harness.ports import ChatModel, Role
from runs.llm.select import build_models, close_models
from superbiz.env import ConfigurationError, load_env

if TYPE_CHECKING:
    from superbiz.env import Env

VERIFIER = "verifier"
WIDTH_OF_A_LOG = 110
REGRESSION, NO_EVALUATION, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_LOG)
    try:
        return _evaluate(options, console)
    except (ConfigurationError, EvaluationError, BadPairs, BadBaseline) as error:
        problem = str(error)
    except (WrongModel, ModelError) as error:
        problem = error.safe_message
    except KeyboardInterrupt:
        return INTERRUPTED
    print(f"eval: {problem}", file=sys.stderr)
    return NO_EVALUATION


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m eval", description="Evaluates SuperBiz with one model.")
    known = incident_slugs()
    parser.add_argument("parts", nargs="*", metavar="SLUG", help=f"which parts: {', '.join([*known, VERIFIER])} (all)")
    parser.add_argument("--save", action="store_true", help="write what was measured into the baseline")
    parser.add_argument("--model", metavar="SPEC", help="the model of every role, as SUPERBIZ_LLM names it")
    parser.add_argument("--details", action="store_true", help="also list the pairs that were judged wrongly")
    parser.add_argument(
        "--baseline", metavar="FILE", type=Path, default=BASELINE, help="compare with this file (eval/baseline.json)"
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.parts) - {*known, VERIFIER})
    if unknown:
        parser.error(f"there is no incident {', '.join(unknown)}; there are {', '.join(known)}, and {VERIFIER}")
    chosen = list(dict.fromkeys(options.parts)) or [*known, VERIFIER]
    options.slugs = [part for part in chosen if part != VERIFIER]
    options.verifier = VERIFIER in chosen
    return options


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Leave through the `finally` blocks, so that the servers started here are stopped."""
    raise SystemExit(128 + number)


def _evaluate(options: argparse.Namespace, console: Console) -> int:
    use_model(options.model)
    env = load_env()
    model = name_of(env)
    kept = baseline.read(model, options.baseline)
    if not (kept.incidents or kept.verifier):
        console.print(f"There is no baseline of {model} yet; --save makes one.", style="yellow")
    judged = _judge(env, console) if options.verifier else []
    results = _diagnose(options.slugs, console) if options.slugs else []
    worse = _print(console, kept, results, judged, details=options.details)
    if options.save:
        baseline.save(
            model,
            {result.slug: baseline.incident_entry(result.ended, result.score) for result in results},
            baseline.verifier_entry(category_figures(judged)) if judged else {},
            options.baseline,
        )
        console.print(f"Saved as the baseline of {model}.")
    for reason in worse:
        console.print(f"WORSE  {reason}", style="red", markup=False, highlight=False, soft_wrap=True)
    return REGRESSION if worse else 0


def name_of(env: "Env") -> str:
    """The baseline's key: the model, and which roles have another."""
    from superbiz.env import LLM_ROLES

    others = [f"{role}={env.llm_for(role)}" for role in LLM_ROLES if env.llm_for(role) != env.llm]
    return " ".join([env.llm, *others])


def _judge(env: "Env", console: Console) -> list[Judged]:
    pairs = read_pairs()

    async def judged() -> list[Judged]:
        models = build_models(
            env.llm_for("verifier"),
            {},
            env.llm_base_url,
            env.llm_api_key.get_secret_value() if env.llm_api_key else None,
            env.llm_output,
            env.model_timeout_s,
        )
        model: ChatModel = models[Role.CHAT_VERIFIER]
        try:
            return await judge(model, pairs)
        finally:
            await close_models(models.values())

    with console.status(f"{len(pairs)} pairs"):
        return asyncio.run(judged())


def _diagnose(slugs: Sequence[str], console: Console) -> list[Result]:
    results = []
    with console.status("starting PostgreSQL and Valkey") as status, own_instance():
        for slug in slugs:
            status.update(slug)
            results.append(diagnose(slug))
    return results


def _print(
    console: Console, kept: Baseline, results: Sequence[Result], judged: Sequence[Judged], *, details: bool
) -> list[str]:
    """Prints the tables; what is worse, one line each."""
    worse: list[str] = []
    if results:
        by_slug = {
            result.slug: baseline.worse_incident(result.ended, result.score, kept.incidents.get(result.slug))
            for result in results
        }
        console.print(tables.incidents_table(results, kept, by_slug))
        for note in tables.notes(results):
            console.print(note, style="yellow", markup=False, highlight=False, soft_wrap=True)
        worse += [f"{slug}: {reason}" for slug, reasons in by_slug.items() for reason in reasons]
    if judged:
        categories = category_figures(judged)
        console.print(tables.verifier_table(split_figures(judged)))
        console.print(tables.categories_table(categories, kept))
        worse += [f"verifier: {reason}" for reason in baseline.worse_verifier(categories, kept.verifier)]
        if details:
            console.print(tables.wrong_pairs_table(judged))
    return worse


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
