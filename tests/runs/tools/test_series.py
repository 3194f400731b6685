import math
from datetime import UTC, datetime, timedelta

import pytest

from runs.tools.series import (
    MAX_POINTS,
    Sample,
    Series,
    format_number,
    interest,
    json_number,
    levels_before,
    points,
    ranked,
    summarise,
)
from runs.tools.timewindow import Window

START = datetime(2026, 11, 12, 9, 50, 0, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(minutes=15))


def series(inside: list[float], before: list[float] = [], *, name: str = "pool_active", **labels: str) -> Series:  # noqa: B006
    begin = START.timestamp()
    step = 60.0
    return Series(
        metric={"__name__": name, **labels},
        window=WINDOW,
        step_s=step,
        before=tuple((begin - step * (len(before) - i), value) for i, value in enumerate(before)),
        inside=tuple((begin + step * i, value) for i, value in enumerate(inside)),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (10.0, "10"),
        (1e9, "1000000000"),
        (2.5e15, "2500000000000000"),
        (12.345678, "12.3457"),
        (1234.5, "1234.5"),
        (0.05, "0.05"),
        (0.000123456, "0.0001235"),
        (-0.5, "-0.5"),
        (99999.99999, "100000"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_written_plainly(value: float, text: str) -> None:
    assert format_number(value) == text


def test_json_has_no_nan_and_no_infinity() -> None:
    assert [json_number(value) for value in (math.nan, math.inf, 3.0, 0.5)] == [None, "+Inf", 3, 0.5]


FIFTEEN = [4.0, 4, 4, 5, 6, 7, 8, 10, 10, 10, 10, 10, 10, 10, 10, 10]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            series(FIFTEEN, [3.0, 5.0], service="checkout-api"),
            'pool_active{service="checkout-api"}: 10 at 10:05:00Z (last), rose from 5 at 09:53:00Z; min 4 at '
            "09:50:00Z, max 10 at 09:57:00Z since 09:50:00Z; before that min 3, max 5 between 09:48:00Z and 09:49:00Z",
        ),
        (series([50.0] * 16), "pool_active: 50 at 10:05:00Z (last), unchanged since 09:50:00Z"),
        (
            series([2.0] * 15 + [1.5]),
            "pool_active: 1.5 at 10:05:00Z (last), fell from 2 at 10:04:00Z; min 1.5 at 10:05:00Z, max 2 at 09:50:00Z "
            "since 09:50:00Z",
        ),
        (
            series([1.0, 9.0] + [1.0] * 14),
            "pool_active: 1 at 10:05:00Z (last), the same as 1 at 09:50:00Z; min 1 at 09:50:00Z, max 9 at 09:51:00Z "
            "since 09:50:00Z",
        ),
        (
            series([5.0] * 10 + [0.0, *[2.0] * 5], [3.0, 5.0], name="errors_total"),
            "errors_total: 2 at 10:05:00Z (last), fell from 5 at 09:59:00Z; min 0 at 10:00:00Z, max 5 at 09:50:00Z "
            "since 09:50:00Z; grew by 2 since 09:50:00Z; before that it grew by 2 between 09:48:00Z and 09:49:00Z",
        ),
        (
            series([math.nan, *[7.0] * 15]),
            "pool_active: 7 at 10:05:00Z (last), unchanged since 09:51:00Z; 1 of 16 samples are NaN",
        ),
        (series([math.nan] * 16), "pool_active: no number in the window, 16 of 16 samples are NaN"),
        (
            series([7.0] * 10),
            "pool_active: 7 at 09:59:00Z (last), unchanged since 09:50:00Z; no samples after 09:59:00Z",
        ),
    ],
)
def test_a_series_is_told_in_one_sentence(given: Series, sentence: str) -> None:
    assert summarise(given) == sentence


def test_a_series_born_in_the_window_is_told_beside_its_siblings() -> None:
    late: tuple[Sample, ...] = tuple((START.timestamp() + 60 * i, 10.0) for i in range(5, 16))
    born = Series({"__name__": "pool_max", "pod": "b"}, WINDOW, 60, (), late)
    old = series([50.0] * 16, [50.0] * 5, name="pool_max", pod="a")
    assert summarise(born, levels_before([born, old])["pool_max"]) == (
        'pool_max{pod="b"}: 10 at 10:05:00Z (last), unchanged since 09:55:00Z; no samples before 09:55:00Z '
        "(other series of this name before the window: 50)"
    )
    assert ranked([old, born])[0] is born


def test_times_carry_their_date_when_the_window_crosses_midnight() -> None:
    night = datetime(2026, 11, 12, 23, 50, tzinfo=UTC)
    given = Series(
        {"__name__": "x"},
        Window(night, night + timedelta(minutes=20)),
        600,
        (),
        ((night.timestamp(), 1.0), (night.timestamp() + 1200, 2.0)),
    )
    assert summarise(given).startswith("x: 2 at 2026-11-13T00:10:00Z (last), rose from 1 at 2026-11-12T23:50:00Z")


def test_what_changed_comes_before_what_is_merely_large_or_noisy() -> None:
    jump = series([1.0] * 5 + [40.0] * 11, [1.0, 1.1, 0.9, 1.0], pod="jump")
    noise = series([4e9, 6e9] * 8, [5e9, 6e9, 4e9, 5e9], pod="noise", name="bytes")
    flat = series([7.0] * 16, [7.0] * 4, pod="flat", name="threads")
    counting = series([float(100 + i) for i in range(16)], [96.0, 97, 98, 99], name="requests_total")
    bucket = series([1.0, 1e6] * 8, [1.0, 1.0], name="latency_bucket")
    assert [one.name for one in ranked([bucket, counting, flat, noise, jump])][:2] == [jump.name, noise.name]
    assert interest(bucket) == 0
    assert interest(counting) < 0.1


def test_one_metric_name_does_not_crowd_out_the_others() -> None:
    many = [series([1.0, 90.0 + i], [1.0, 1.0], pod=str(i)) for i in range(10)]
    other = series([1.0, 3.0], [1.0, 1.0], name="other")
    assert other in ranked([*many, other])[:3]


def test_points_are_bounded_and_end_with_the_last() -> None:
    samples = [(float(i), float(i)) for i in range(1000)]
    taken = points(samples)
    assert len(taken) <= MAX_POINTS
    assert taken[-1] == [999, 999]
    assert points([]) == []
