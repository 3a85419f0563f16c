"""idle_causes: the idle time of breakdown, by the causes of gaps."""

import pytest

from tests.analyses.builders import Builder, rows, told, unchanging


def _rank(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, (0, 100_000), (10_000, 100_000))
    build.gpu(0, (10_000, 20_000), launch=build.launch(0, (5_000, 6_000)))
    # launched 5 us after the device ran dry
    build.gpu(0, (30_000, 40_000), launch=build.launch(0, (25_000, 26_000)))
    # queued, 2 us to start
    build.gpu(0, (42_000, 50_000), launch=build.launch(0, (27_000, 28_000)))
    # half a microsecond: too short for a cause
    build.gpu(0, (50_500, 60_000), launch=build.launch(0, (29_000, 30_000)))
    build.host(0, (60_000, 99_000), "enumerate(DataLoader)#x", "annotation")
    build.gpu(0, (100_000, 100_000), launch=build.launch(0, (99_000, 99_500)))


def test_idle_time_is_divided_by_cause_to_the_nanosecond(build: Builder) -> None:
    _rank(build)
    with unchanging(build.con):
        found, (window,) = (rows(build.con, name) for name in ("idle_causes", "breakdown"))
    got = [
        (r["cause"], r["idle_ns"], r["gaps"], r["longest_ns"], r["host_op"], r["host_op_ns"])
        for r in found
    ]
    assert got == [
        # the launch returns 0.5 us before its kernel starts
        ("data_loading", 39_500, 1, 39_500, "enumerate(DataLoader)#x", 39_000),
        ("kernel_delay", 6_500, 3, 4_000, None, None),
        ("launch_bound", 6_000, 1, 6_000, None, None),
        ("short", 500, None, None, None, None),
    ]
    assert window["idle_ns"] == 52_500 == sum(idle for _, idle, *_ in got)
    shares = [r["window_share"] * 90_000 for r in found]
    assert shares == pytest.approx([39_500, 6_500, 6_000, 500])


def test_gaps_of_two_devices_are_scaled_to_the_time_both_idle(build: Builder) -> None:
    build.rank(0)
    for device, ends in (
        (0, ((0, 10_000), (60_000, 70_000))),
        (1, ((0, 30_000), (60_000, 70_000))),
    ):
        for end in ends:
            build.gpu(0, end, device=device, launch=build.launch(0, (end[0] - 500, end[0])))
    got = [(r["step"], r["cause"], r["idle_ns"]) for r in rows(build.con, "idle_causes")]
    # 50 and 30 us on the devices, 30 us on both
    assert got == [(None, "launch_bound", 30_000)]


def test_idle_time_before_what_was_queued_before_the_recording_is_told_apart(
    build: Builder,
) -> None:
    # 0..10    |20: first recorded launch     60..70    110..120
    # early 3                                 early 4   launched 9
    build.rank(0)
    build.gpu(0, (0, 10_000), correlation=3)
    build.gpu(0, (60_000, 70_000), correlation=4)
    launch = build.launch(0, (20_000, 21_000), correlation=9)
    build.gpu(0, (110_000, 120_000), launch=launch, correlation=9)
    assert told(build.con, "idle_causes", "cause idle_ns") == [
        # from the first launch to the early op
        ("began_before", 40_000),
        # between that and the launched one, which is the first that its stream was given while it
        # was recorded, but the recording had begun long before
        ("device_delay", 40_000),
        # whether the host was busy before the first recorded launch is not known
        ("unknown", 10_000),
    ]


def test_a_rank_that_never_idles_has_no_row(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10_000))
    assert rows(build.con, "idle_causes") == []
