"""The canonical JSON of a rule set, and its digest.

Canonical: UTF-8, keys sorted, no white space, rules in the order of their codes. The digest is the
SHA-256 of those bytes in lower-case hex; the set's number is not part of it, so equal rules have
equal digests.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from gatekeeper.types import RuleMode, RuleSet, RuleSetting, Severity

RULES_VERSION = 1


class MalformedRules(ValueError):
    """A stored rule set does not have the shape that this version of the program reads."""


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no white space; NaN and infinity are refused (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_of(value: Any) -> str:
    """The SHA-256 of the canonical JSON, in lower-case hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def rules_document(settings: Iterable[RuleSetting]) -> dict[str, Any]:
    """`{"version": 1, "rules": [{"code", "mode", "severity", "params"}]}`, in the order of the codes."""
    rules = [
        {"code": s.code, "mode": s.mode.value, "severity": s.severity.value, "params": dict(sorted(s.params.items()))}
        for s in sorted(settings, key=lambda setting: setting.code)
    ]
    return {"version": RULES_VERSION, "rules": rules}


def read_rules(document: Any) -> tuple[RuleSetting, ...]:
    """The settings in a rules document. Raises `MalformedRules`."""
    try:
        if document["version"] != RULES_VERSION:
            raise MalformedRules(f"Rules of version {document['version']!r} cannot be read here.")
        return tuple(
            RuleSetting(rule["code"], RuleMode(rule["mode"]), Severity(rule["severity"]), dict(rule["params"]))
            for rule in document["rules"]
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, MalformedRules):
            raise
        raise MalformedRules(f"The rules cannot be read: {error}.") from error


def numbered(number: int, settings: Iterable[RuleSetting]) -> RuleSet:
    """The settings as rule set `number`, in canonical order, with their digest."""
    ordered = tuple(sorted(settings, key=lambda setting: setting.code))
    return RuleSet(number, sha256_of(rules_document(ordered)), ordered)
