"""`manage.py regate RUN…`: judge stored runs again under another rule set."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.regate import ClaimChange, NotRegatable, Regated, regate
from gatekeeper import rulesets
from gatekeeper.canonical import MalformedRules
from gatekeeper.gate import UnknownRule
from gatekeeper.rulesets import RuleSetError
from gatekeeper.types import RuleSet
from runs.models import DiagnosisRun


class Command(BaseCommand):
    help = (
        "Judges stored runs again from their ledger and prints, for each claim, the verdict it had and the one it "
        "gets. Writes nothing. Exit code 0 also where verdicts differ; 2 on a run or rule set that cannot be used."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="+", metavar="RUN", help="id of a run")
        parser.add_argument("--rule-set", type=int, metavar="N", help="number of the rule set; default: the newest")

    def handle(self, *_args: Any, **options: Any) -> None:
        rule_set = _rule_set(options["rule_set"])
        changed = 0
        for run_id in options["runs"]:
            run = DiagnosisRun.objects.filter(id=run_id).first()
            if run is None:
                raise CommandError(f"There is no run {run_id}.", returncode=2)
            try:
                regated = regate(run, rule_set)
            except (NotRegatable, UnknownRule) as error:
                raise CommandError(str(error), returncode=2) from error
            changed += regated.changed
            self._print(regated)
        self.stdout.write(f"{changed} of {len(options['runs'])} runs would be judged otherwise.")

    def _print(self, regated: Regated) -> None:
        before = regated.before.value if regated.before else "not judged"
        under = "" if regated.rule_set_before is None else f" (rule set {regated.rule_set_before})"
        after = f"{regated.after.verdict.value} (rule set {regated.after.rule_set_number})"
        self.stdout.write(f"{regated.run_id}: {before}{under} → {after}")
        for claim in regated.claims:
            self.stdout.write(f"  {_line(claim)}")


def _rule_set(number: int | None) -> RuleSet:
    try:
        return rulesets.current() if number is None else rulesets.load(number)
    except (RuleSetError, MalformedRules) as error:
        raise CommandError(str(error), returncode=2) from error


def _said(accepted: bool | None, failed: tuple[str, ...]) -> str:
    word = {None: "not judged", True: "accepted", False: "removed"}[accepted]
    return f"{word} ({', '.join(failed)})" if failed else word


def _line(claim: ClaimChange) -> str:
    before, after = _said(claim.before, claim.failed_before), _said(claim.after, claim.failed_after)
    return f"{claim.claim_id}: {before} → {after}" + ("  *" if claim.changed else "")
