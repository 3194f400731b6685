"""A forger and a printer at work on quotations of the bundled incidents.

A forger makes a claim that the evidence does not carry; a printer changes only how a true one looks. Whether a forged
text stands in the evidence after all is told by plain containment, not by the gate's own code: such a one is no
forgery and is not made (None).
"""

import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from gatekeeper.rules import GK002, GK003, GK004, GK005, GK007, GK008
from gatekeeper.types import Claim
from tests.gatekeeper.incident_quotations import SLUGS, IncidentRun, Quotation, incident_run

Forger: TypeAlias = Callable[[Quotation, random.Random], Claim | None]
Printer: TypeAlias = Callable[[str, random.Random], str]

CLOCK = re.compile(r"\d{2}:(\d{2})")
MEASURE = re.compile(r"(?<![\w.])(\d[\d,.]*) ?(ms|s|%|MB|MiB|GB|GiB|KiB|KB|bytes|秒|毫秒)(?![\w-])")
FIGURE = re.compile(r"(?<![\w.:,/-])\d{2,}(?![\w.:,%/-])")
HOST = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
OTHER_UNITS = ("hours", "TiB", "rps", "µs")
OTHER_HOSTS = ("ledger-mirror-7", "edge-cache-qq8zz", "batch-runner-0c")


def _plain(text: str) -> str:
    return " ".join(text.split())


def _cited(quotation: Quotation, excerpt: str) -> Claim | None:
    """The claim with another excerpt, if that is none of the text."""
    forged = _plain(excerpt)
    stands = not forged or forged in _plain(unicodedata.normalize("NFC", quotation.text))
    return None if stands else quotation.citing(evidence_excerpt=excerpt)


def _replaced(text: str, pattern: re.Pattern[str], group: int, other: Callable[[str], str], dice: random.Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    chosen = dice.choice(found)
    return text[: chosen.start(group)] + other(chosen.group(group)) + text[chosen.end(group) :]


def _another_digit(text: str, dice: random.Random) -> str:
    return _replaced(text, re.compile(r"\d"), 0, lambda digit: dice.choice("0123456789".replace(digit, "")), dice)


def _another_minute(text: str, dice: random.Random) -> str:
    return _replaced(text, CLOCK, 1, lambda minute: f"{(int(minute) + dice.randint(1, 58)) % 60:02d}", dice)


def _another_unit(text: str, dice: random.Random) -> str:
    return _replaced(text, MEASURE, 2, lambda _unit: dice.choice(OTHER_UNITS), dice)


def _another_host(text: str, dice: random.Random) -> str:
    return _replaced(text, HOST, 0, lambda _host: dice.choice(OTHER_HOSTS), dice)


# ---- forged excerpts ----------------------------------------------------------------------------------------------


def changed_digit(quotation: Quotation, dice: random.Random) -> Claim | None:
    return _cited(quotation, _another_digit(quotation.excerpt, dice))


def changed_time(quotation: Quotation, dice: random.Random) -> Claim | None:
    return _cited(quotation, _another_minute(quotation.excerpt, dice))


def changed_unit(quotation: Quotation, dice: random.Random) -> Claim | None:
    return _cited(quotation, _another_unit(quotation.excerpt, dice))


def changed_host(quotation: Quotation, dice: random.Random) -> Claim | None:
    return _cited(quotation, _another_host(quotation.excerpt, dice))


def added_not(quotation: Quotation, dice: random.Random) -> Claim | None:
    excerpt = quotation.excerpt
    if " " in excerpt:
        words = excerpt.split(" ")
        at = dice.randint(1, len(words) - 1)
        return _cited(quotation, " ".join([*words[:at], dice.choice(["not", "never", "no", "未", "不"]), *words[at:]]))
    at = dice.randint(1, len(excerpt) - 1)
    return _cited(quotation, excerpt[:at] + dice.choice("未不没") + excerpt[at:])


def dropped_word(quotation: Quotation, dice: random.Random) -> Claim | None:
    words = quotation.excerpt.split(" ")
    if len(words) < 3:
        return None
    at = dice.randint(1, len(words) - 2)
    return _cited(quotation, " ".join(words[:at] + words[at + 1 :]))


def dropped_character(quotation: Quotation, dice: random.Random) -> Claim | None:
    at = dice.randint(1, len(quotation.excerpt) - 2)
    return _cited(quotation, quotation.excerpt[:at] + quotation.excerpt[at + 1 :])


def spliced_spans(quotation: Quotation, dice: random.Random) -> Claim | None:
    """Two spans of one text, in its order or not, with what lies between them left out."""
    text = quotation.text
    if len(text) < 24:
        return None
    left = dice.randint(0, len(text) - 12)
    right = dice.randint(0, len(text) - 12)
    joint = dice.choice([" ", "", " … ", "...", " [...] ", "\n"])
    return _cited(quotation, text[left : left + 12] + joint + text[right : right + 12])


def swapped_words(quotation: Quotation, dice: random.Random) -> Claim | None:
    words = quotation.excerpt.split(" ")
    if len(words) < 2:
        return None
    at = dice.randint(0, len(words) - 2)
    words[at], words[at + 1] = words[at + 1], words[at]
    return _cited(quotation, " ".join(words))


def changed_case(quotation: Quotation, _dice: random.Random) -> Claim | None:
    return _cited(quotation, quotation.excerpt.swapcase())


def text_of_another_call(quotation: Quotation, dice: random.Random) -> Claim | None:
    others = _texts(quotation.run, without=quotation.citation.source_invocation_id)
    return _cited(quotation, dice.choice(others)[:200]) if others else None


def text_of_another_incident(quotation: Quotation, dice: random.Random) -> Claim | None:
    return _cited(quotation, dice.choice(_texts(_another_run(quotation, dice)))[:200])


# ---- forged citations ---------------------------------------------------------------------------------------------


def swapped_invocation(quotation: Quotation, dice: random.Random) -> Claim | None:
    """Another call of the run, under whose same path the excerpt does not stand."""
    known = quotation.citation.source_invocation_id
    other = dice.choice([each for each in quotation.run.invocations if each != known])
    text = quotation.run.text_of(replace(quotation.citation, source_invocation_id=other))
    same_tool = quotation.run.invocations[other].tool_name == quotation.citation.tool_name
    if same_tool and text is not None and _plain(quotation.excerpt) in _plain(text):
        return None
    return quotation.citing(source_invocation_id=other)


def invocation_of_another_incident(quotation: Quotation, dice: random.Random) -> Claim | None:
    return quotation.citing(source_invocation_id=dice.choice(list(_another_run(quotation, dice).invocations)))


def invented_invocation(quotation: Quotation, dice: random.Random) -> Claim | None:
    known = quotation.citation.source_invocation_id
    return quotation.citing(
        source_invocation_id=dice.choice([known.upper(), known + " ", known[:-1], known[:-1] + "Z", "inv_000001", ""])
    )


def other_tool(quotation: Quotation, dice: random.Random) -> Claim | None:
    tools = {"query_logs", "query_metrics", "query_alerts", "lookup_knowledge", "Query_Logs", ""}
    return quotation.citing(tool_name=dice.choice(sorted(tools - {quotation.citation.tool_name})))


def other_path(quotation: Quotation, dice: random.Random) -> Claim | None:
    refs = quotation.run.invocations[quotation.citation.source_invocation_id].refs
    path = dice.choice([*refs, "$", "$.no_evidence", quotation.citation.raw_path + ".text", "$.lines[99999].text"])
    if path in refs and _plain(quotation.excerpt) in _plain(refs[path].text):
        return None
    return quotation.citing(raw_path=path)


# ---- a true excerpt under a forged claim --------------------------------------------------------------------------


def _said(quotation: Quotation, text: str, forged: str) -> Claim | None:
    """The claim saying `text`, if nothing that may support it holds what was put in."""
    unchanged = text == quotation.claim.claim_text
    stands = any(forged.lower() in each.lower() for each in _supports(quotation))
    return None if unchanged or stands else quotation.saying(text)


def _supports(quotation: Quotation) -> list[str]:
    return [quotation.run.text_of(each) or "" for each in quotation.claim.evidence] + list(quotation.run.inputs)


def claimed_number(quotation: Quotation, dice: random.Random) -> Claim | None:
    number = str(dice.randint(100_000, 999_999))
    text = re.sub(r"(?<![\w.:-])\d+(?![\w.:%-])", number, quotation.claim.claim_text, count=1)
    return _said(quotation, text, number)


def claimed_digit(quotation: Quotation, dice: random.Random) -> Claim | None:
    """One digit of a figure of the claim is another."""
    return _claimed_figure(quotation, dice, lambda figure: _another_digit(figure, dice))


def claimed_part_of_a_figure(quotation: Quotation, dice: random.Random) -> Claim | None:
    """A figure of the claim loses its last digits: `15` of `1500`."""
    return _claimed_figure(quotation, dice, lambda figure: figure[: dice.randint(1, len(figure) - 1)])


def _claimed_figure(quotation: Quotation, dice: random.Random, forge: Callable[[str], str]) -> Claim | None:
    found = list(FIGURE.finditer(quotation.claim.claim_text))
    if not found:
        return None
    chosen = dice.choice(found)
    forged = forge(chosen.group())
    text = quotation.claim.claim_text
    # What stands in a support as digits of its own, whatever is around them, is no forgery here.
    alone = re.compile(rf"(?<!\d)0*{forged}(?!\d)")
    if any(alone.search(each) for each in _supports(quotation)):
        return None
    return quotation.saying(text[: chosen.start()] + forged + text[chosen.end() :])


def claimed_unit(quotation: Quotation, dice: random.Random) -> Claim | None:
    unit = dice.choice(OTHER_UNITS)
    text = MEASURE.sub(lambda found: f"{found.group(1)} {unit}", quotation.claim.claim_text, count=1)
    return _said(quotation, text, unit)


def claimed_host(quotation: Quotation, dice: random.Random) -> Claim | None:
    host = dice.choice(OTHER_HOSTS)
    text = HOST.sub(host, quotation.claim.claim_text, count=1)
    return _said(quotation, text, host)


def claimed_time(quotation: Quotation, dice: random.Random) -> Claim | None:
    found = CLOCK.search(quotation.claim.claim_text)
    if found is None:
        return None
    time = f"{dice.randint(0, 23):02d}:{dice.randint(0, 59):02d}"
    text = quotation.claim.claim_text.replace(found.group(0), time, 1)
    return _said(quotation, text, time)


REFUSED_BY: dict[Forger, frozenset[str]] = {
    **dict.fromkeys(
        [changed_digit, changed_time, changed_unit, changed_host, added_not, dropped_word, dropped_character,
         spliced_spans, swapped_words, changed_case, text_of_another_call, text_of_another_incident],
        frozenset({GK005}),
    ),
    **dict.fromkeys([invocation_of_another_incident, invented_invocation], frozenset({GK002})),
    swapped_invocation: frozenset({GK003, GK004, GK005, GK008}),
    other_tool: frozenset({GK003}),
    other_path: frozenset({GK004, GK005}),
    **dict.fromkeys(
        [claimed_number, claimed_digit, claimed_part_of_a_figure, claimed_unit, claimed_host, claimed_time],
        frozenset({GK007}),
    ),
}  # fmt: skip
"""Each forger, and the rules of which one has to see through it."""
FORGERS = {forger.__name__: forger for forger in REFUSED_BY}


def _another_run(quotation: Quotation, dice: random.Random) -> IncidentRun:
    return incident_run(dice.choice([slug for slug in SLUGS if slug != quotation.run.slug]))


def _texts(run: IncidentRun, without: str = "") -> list[str]:
    return [
        ref.text
        for call in run.invocations.values()
        if call.invocation_id != without
        for ref in call.refs.values()
        if len(ref.text) >= 20
    ]


# ---- harmless variants --------------------------------------------------------------------------------------------


def coloured(text: str, dice: random.Random) -> str:
    """Words printed in colour, as terminals and log viewers do it."""
    start, end = sorted((_letter_start(text, dice), _letter_start(text, dice)))
    colour = dice.choice(["31", "1;31", "38;5;208", "38;2;255;0;0"])
    return f"\x1b[{colour}m{text[:start]}\x1b[0m{text[start:end]}\x1b[K{text[end:]}"


def _letter_start(text: str, dice: random.Random) -> int:
    at = dice.randint(0, len(text))
    while at < len(text) and unicodedata.combining(text[at]):
        at += 1
    return at


def indented(text: str, dice: random.Random) -> str:
    space = "".join(dice.choices(" \t\u00a0\u3000\u2003", k=dice.randint(1, 4)))
    return space + re.sub(r"\s+", lambda _found: dice.choice([" ", "  ", "\t", space]), text) + space


def wrapped(text: str, dice: random.Random) -> str:
    return re.sub(r"\s", lambda found: dice.choice(["\r\n", "\n    ", found.group(0)]), text) + "\r\n"


def widened(text: str, dice: random.Random) -> str:
    """Some or all printable ASCII characters in their full-width forms."""
    share = dice.choice([0.1, 0.5, 1.0])
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" and dice.random() < share else char for char in text)


def decomposed(text: str, _dice: random.Random) -> str:
    return unicodedata.normalize("NFD", text)


def composed(text: str, _dice: random.Random) -> str:
    return unicodedata.normalize("NFC", text)


PRINTERS: dict[str, Printer] = {
    printer.__name__: printer for printer in (coloured, indented, wrapped, widened, decomposed, composed)
}
