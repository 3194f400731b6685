"""Chains of rows that each carry the hash of the one before: what does not hold in one. Pure.

Two kinds are kept: the frames of a run, and the readings of its restricted texts.

    a row is edited                     its hash is not the hash of its fields
    ... and hashed anew                 the next row, or the head, follows another row
    a row is removed                    its number is missing, or the head is ahead of the last row
    a row is inserted                   the row it displaced belongs in its place, or it is beyond the head
    rows change places                  each carries the hash of its fields under another number
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.chain import Row


class Fault(StrEnum):
    EDITED = "EDITED"
    REMOVED = "REMOVED"
    INSERTED = "INSERTED"
    REORDERED = "REORDERED"
    MISSING = "MISSING"


@dataclass(frozen=True, slots=True)
class Problem:
    """`where` names the frame by number or the ledger row by table and id."""

    fault: Fault
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.fault}: {self.message}"


@dataclass(frozen=True, slots=True)
class Chain:
    """`rows` by sequence number, with `sequence_no`, `previous_hash` and `hash`; `noun` names one of them.

    `hash_of(previous hash, row)` is what the row's hash should be.
    """

    noun: str
    genesis: str
    rows: Sequence[Row]
    hash_of: Callable[[str, Row], str]

    def name(self, row: Row) -> str:
        return f"{self.noun} {row['sequence_no']}"

    def sound(self, row: Row, number: int) -> bool:
        """Whether the row's hash is that of its fields, had it this number."""
        return self.hash_of(row["previous_hash"], {**row, "sequence_no": number}) == row["hash"]

    def linked_numbers(self) -> dict[str, int]:
        """The place of each row by its hash, following the links from the genesis as far as they go."""
        followers: dict[str, list[Row]] = {}
        for row in self.rows:
            followers.setdefault(row["previous_hash"], []).append(row)
        places: dict[str, int] = {}
        at, number = [self.genesis], 0
        while at:
            number += 1
            at = [row["hash"] for previous in at for row in followers.get(previous, ()) if row["hash"] not in places]
            places.update(dict.fromkeys(at, number))
        return places


def row_problems(chain: Chain) -> tuple[list[Problem], set[int]]:
    """What does not hold of the rows and their links, and the numbers of the rows found faulty in themselves."""
    places = chain.linked_numbers()
    unsound = [row for row in chain.rows if not chain.sound(row, row["sequence_no"])]
    moved = {
        row["sequence_no"]: place
        for row in unsound
        if (place := places.get(row["hash"])) is not None and chain.sound(row, place)
    }
    displaced = set(moved.values()) - moved.keys()
    edited = {row["sequence_no"] for row in unsound} - moved.keys()
    problems: list[Problem] = []
    for row in chain.rows:
        number = row["sequence_no"]
        if number in moved:
            told = f"it was recorded as {chain.noun} {moved[number]}"
            problems.append(Problem(Fault.REORDERED, chain.name(row), told))
        elif number in displaced:
            told = f"another {chain.noun} was recorded under its number"
            problems.append(Problem(Fault.INSERTED, chain.name(row), told))
        elif number in edited:
            problems.append(Problem(Fault.EDITED, chain.name(row), "its hash is not the hash of its fields"))
    faulty = moved.keys() | displaced | edited
    return [*problems, *_link_problems(chain, faulty)], faulty


def _link_problems(chain: Chain, faulty: set[int]) -> Iterator[Problem]:
    expected, previous_hash, previous_number = 1, chain.genesis, 0
    for row in chain.rows:
        number = row["sequence_no"]
        if number > expected:
            one = number == expected + 1
            gone = f"{chain.noun} {expected}" if one else f"{chain.noun}s {expected} to {number - 1}"
            yield Problem(Fault.REMOVED, gone, "the sequence has a gap")
        elif row["previous_hash"] != previous_hash and not faulty & {number, previous_number}:
            where = f"{chain.noun} {previous_number}" if previous_number else chain.name(row)
            told = f"{chain.name(row)} follows another {chain.noun} than the one that is there"
            yield Problem(Fault.EDITED, where, told)
        expected, previous_hash, previous_number = number + 1, row["hash"], number


def end_problems(
    chain: Chain, faulty: set[int], head_number: int, head_hash: str, witness: str | None
) -> list[Problem]:
    """What does not hold between the rows and the head. `witness`: the last hash as a third place kept it."""
    problems: list[Problem] = []
    last = chain.rows[-1]["sequence_no"] if chain.rows else 0
    beyond = [row for row in chain.rows if row["sequence_no"] > head_number]
    for row in (row for row in beyond if row["sequence_no"] not in faulty):
        problems.append(Problem(Fault.INSERTED, chain.name(row), f"the head stands at {chain.noun} {head_number}"))
    if last < head_number:
        one = head_number == last + 1
        gone = f"{chain.noun} {last + 1}" if one else f"{chain.noun}s {last + 1} to {head_number}"
        problems.append(Problem(Fault.REMOVED, gone, f"the head is ahead of the last {chain.noun}"))
    elif not beyond and chain.rows and chain.rows[-1]["hash"] != head_hash:
        where = "head" if chain.rows[-1]["hash"] == witness else chain.name(chain.rows[-1])
        told = f"the head and {chain.name(chain.rows[-1])} have different hashes"
        problems.append(Problem(Fault.EDITED, where, told))
    return problems
