import re

from runs import ids
from runs.ids import RandomIds, SeededIds


def test_run_ids_sort_by_time_and_never_repeat() -> None:
    moments = [1_763_000_000_000 + step for step in (0, 1, 31, 32, 33, 1000, 10**9)]
    made = [ids.run_id(moment) for moment in moments]
    assert made == sorted(made)
    assert all(re.fullmatch(r"run_[0-9a-z]{16}", run_id) for run_id in made)
    assert len({ids.run_id(0) for _ in range(1000)}) == 1000


def test_invocation_ids_are_short_and_random() -> None:
    source = RandomIds()
    made = {source.invocation_id() for _ in range(1000)}
    assert all(re.fullmatch(r"inv_[a-z2-7]{6}", invocation_id) for invocation_id in made)
    assert len(made) > 990
    assert source.step_id() != source.step_id()
    assert source.call_id() != source.call_id()


def test_seeded_ids_come_again() -> None:
    def drawn(seed: int) -> list[object]:
        source = SeededIds(seed)
        return [source.step_id(), source.invocation_id(), source.call_id(), source.jitter()]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert all(0 <= SeededIds(seed).jitter() < 1 for seed in range(50))
