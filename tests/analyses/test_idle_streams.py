from tests.analyses.builders import Builder, rows, told

US = 1_000


def test_each_class_of_idle_time(build: Builder) -> None:
    # stream 7: 0..10, 15..20 (queued, 5 us), 60..70 (launched at 30), 120..130 (queued, 50 us)
    build.rank(0)
    build.gpu(0, (0, 10 * US), launch=build.launch(0, (-5 * US, -4 * US)))
    build.gpu(0, (15 * US, 20 * US), launch=build.launch(0, (9 * US, 12 * US)))
    build.gpu(0, (60 * US, 70 * US), launch=build.launch(0, (30 * US, 32 * US)))
    build.gpu(0, (120 * US, 130 * US), launch=build.launch(0, (33 * US, 34 * US)))
    assert rows(build.con, "idle_streams") == [
        {
            "rank": 0, "device": 0, "stream": 7, "ops": 4, "span_ns": 130_000, "busy_ns": 35_000,
            "idle_ns": 95_000, "host_wait_ns": 40_000, "kernel_wait_ns": 5_000, "other_ns": 50_000,
            "host_waits": 1, "kernel_waits": 1, "others": 1, "idle_share": 95 / 130,
            "unlaunched": 0, "note": None,
        }
    ]  # fmt: skip


def test_the_threshold_is_exclusive_and_a_launch_at_the_end_is_queued(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10), launch=build.launch(0, (-2, -1)))
    build.gpu(0, (40, 50), launch=build.launch(0, (10, 11)))
    [row] = rows(build.con, "idle_streams", kernel_delay_ns=30)
    assert (row["host_wait_ns"], row["kernel_wait_ns"], row["other_ns"]) == (0, 0, 30)
    [row] = rows(build.con, "idle_streams", kernel_delay_ns=31)
    assert (row["host_wait_ns"], row["kernel_wait_ns"], row["other_ns"]) == (0, 30, 0)


def test_ops_that_overlap_leave_no_negative_gap(build: Builder) -> None:
    build.rank(0)
    for at in ((0, 100), (10, 20), (30, 40), (110, 120)):
        build.gpu(0, at)
    [row] = rows(build.con, "idle_streams")
    assert (row["busy_ns"], row["idle_ns"], row["unlaunched"]) == (110, 10, 4)
    assert row["note"] == "no launch is in the trace: host_wait cannot be distinguished"


def test_streams_and_devices_are_apart(build: Builder) -> None:
    build.rank(0)
    for device, stream in ((0, 7), (0, 8), (1, 7)):
        build.gpu(0, (0, 10), device=device, stream=stream)
        build.gpu(0, (15, 20), device=device, stream=stream)
    assert told(build.con, "idle_streams", "device stream idle_ns") == [
        (0, 7, 5),
        (0, 8, 5),
        (1, 7, 5),
    ]
