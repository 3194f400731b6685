"""The rules' metadata as shipped in `gatekeeper-rules.json`: what `sync_rules` loads into the database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gatekeeper.canonical import numbered
from gatekeeper.rules import CODES
from gatekeeper.types import RuleMode, RuleSet, RuleSetting, Severity

RULES_FILE = Path(__file__).with_name("gatekeeper-rules.json")


class MalformedMetadata(ValueError):
    """The shipped file cannot be used; the text is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class ShippedRule:
    code: str
    title: str
    description: str
    mode: RuleMode
    severity: Severity
    params: Mapping[str, int | float | bool | str]

    @property
    def setting(self) -> RuleSetting:
        return RuleSetting(self.code, self.mode, self.severity, self.params)


def shipped_rules(path: Path | None = None) -> tuple[ShippedRule, ...]:
    """Every rule's metadata, in the order of the codes. Raises `MalformedMetadata`."""
    path = path or RULES_FILE
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rules"]
        rules = tuple(
            ShippedRule(
                code=row["code"],
                title=row["title"],
                description=row["description"],
                mode=RuleMode(row["mode"]),
                severity=Severity(row["severity"]),
                params=row["params"],
            )
            for row in rows
        )
    except OSError as error:
        raise MalformedMetadata(f"{path.name} cannot be read: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedMetadata(f"{path.name} is not rule metadata: {error}.") from error
    if tuple(rule.code for rule in rules) != CODES:
        raise MalformedMetadata(f"{path.name} must list each of {', '.join(CODES)} once, in this order.")
    return rules


def shipped_rule_set() -> RuleSet:
    """Rule set 1 of a fresh installation, without a database."""
    return numbered(1, (rule.setting for rule in shipped_rules()))
