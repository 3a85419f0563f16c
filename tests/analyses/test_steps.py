from tests.analyses.builders import Builder, rows, told


def test_a_step_over_three_ranks_and_one_without_a_gpu(build: Builder) -> None:
    build.ranks(3)
    build.step(0, 5, host=(0, 10), device=(2, 12))
    build.step(1, 5, host=(1, 31), device=(3, 23))
    build.step(2, 5, host=(2, 22))
    build.step(2, 6, host=(22, 30))
    names = [
        "step", "ranks", "first_start_ns", "last_end_ns",
        "duration_min_ns", "duration_p50_ns", "duration_max_ns", "slowest_rank",
        "device_ranks", "device_min_ns", "device_p50_ns", "device_max_ns", "device_slowest_rank",
        "source", "kind", "length_ns", "length_source", "longest_rank",
    ]  # fmt: skip
    assert rows(build.con, "steps") == [
        dict(
            zip(
                names,
                (
                    5, 3, 0, 31, 10, 20, 30, 1, 2, 10, 10, 20, 1, "ProfilerStep", None, 15,
                    "device", 1,
                ),
                strict=True,
            )
        ),
        dict(
            zip(
                names,
                (
                    6, 1, 22, 30, 8, 8, 8, 2, 0, None, None, None, None, "ProfilerStep", None, 8,
                    "host", 2,
                ),
                strict=True,
            )
        ),
    ]  # fmt: skip


def test_of_equally_slow_ranks_the_lowest_is_named(build: Builder) -> None:
    for rank in (4, 2, 3):
        build.rank(rank)
        build.step(rank, 1, host=(0, 10), device=(0, 10))
    assert told(build.con, "steps", "slowest_rank device_slowest_rank") == [(2, 2)]


def test_ranks_whose_steps_come_from_different_places(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank)
        build.step(rank, 1, host=(0, 10))
    build.con.execute("UPDATE base.steps SET source = 'inferred'")
    assert rows(build.con, "steps")[0]["source"] == "inferred"
    build.con.execute("UPDATE base.steps SET source = 'nvtx' WHERE rank = 1")
    assert rows(build.con, "steps")[0]["source"] == "several"


def test_host_ranges_are_the_length_where_the_lead_of_the_host_shrinks(build: Builder) -> None:
    build.rank(0)
    # the host takes 100 for each step; its lead of 60 over the GPU melts away, 20 a step
    for step, start in enumerate((60, 140, 220, 300)):
        build.step(0, step, host=(100 * step, 100 * step + 100), device=(start, start + 80))
    build.con.execute("UPDATE base.steps SET device_end_local_ns = 430 WHERE step = 3")
    got = [(row["length_ns"], row["length_source"]) for row in rows(build.con, "steps")]
    assert got == [(100, "host")] * 4


def test_host_ranges_of_two_recordings_of_a_rank_tile_each(build: Builder) -> None:
    build.rank(0)
    # as above, and again after a pause of 10,000 that nobody recorded
    for first in (0, 10_000):
        for step, start in enumerate((60, 140, 220, 300)):
            host = (first + 100 * step, first + 100 * step + 100)
            device = (first + start, first + start + (130 if step == 3 else 80))
            build.step(0, first // 100 + step, host=host, device=device)
    got = [(row["length_ns"], row["length_source"]) for row in rows(build.con, "steps")]
    assert got == [(100, "host")] * 8


def test_ranges_around_a_part_of_the_loop_are_no_lengths(build: Builder) -> None:
    """Of power_iteration, ranges of 565 us in iterations of 40.7 ms were taken for its steps."""
    build.rank(0)
    for step, end in enumerate((100, 200, 300, 320)):
        host = (100 * step, 100 * step + 2)
        build.step(0, step, host=host, device=(100 * step, end))
    got = [(row["length_ns"], row["length_source"]) for row in rows(build.con, "steps")]
    assert got == [*[(100, "device")] * 3, (20, "device")]


def test_device_windows_are_the_length_where_the_host_runs_ahead(build: Builder) -> None:
    build.rank(0)
    # ns_resolution of the corpus, in ms: the host is done early until its queue is full
    for step, (host, device) in enumerate(((35, 98), (72, 96), (96, 96), (96, 96), (96, 95))):
        build.step(0, step, host=(0, host), device=(0, device))
    got = [(row["length_ns"], row["length_source"]) for row in rows(build.con, "steps")]
    assert got == [(98, "device"), (96, "device"), (96, "device"), (96, "device"), (95, "device")]
