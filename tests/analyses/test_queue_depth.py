from tests.analyses.builders import Builder, rows, told


def _launch(build: Builder, call: tuple[int, int], start: int, stream: int = 7) -> None:
    build.gpu(0, (start, start + 5), stream=stream, launch=build.launch(0, call))


def test_depth_over_the_time_of_a_stream(build: Builder) -> None:
    # depth  0 .1. 10 ..2.. 30 .1. 40 .0. 60 .1. 80
    build.rank(0)
    _launch(build, (0, 5), 30)
    _launch(build, (10, 12), 40)
    _launch(build, (60, 62), 80)
    assert rows(build.con, "queue_depth", queue_limit=2) == [
        {
            "rank": 0, "device": 0, "stream": 7, "interval_start_ns": 0, "window_ns": 80,
            "launches": 3, "depth_max": 2, "depth_mean": (10 + 2 * 20 + 10 + 20) / 80,
            "depth_p50": 1, "empty_ns": 20, "empty_launches": 2, "full_ns": 20,
            "blocked_launches": 0, "blocked_ns": 0, "unlaunched": 0, "note": None,
        }
    ]  # fmt: skip
    [row] = rows(build.con, "queue_depth", queue_limit=1)
    assert (row["full_ns"], row["blocked_launches"], row["blocked_ns"]) == (60, 1, 2)


def test_intervals_add_up_to_the_whole(build: Builder) -> None:
    build.rank(0)
    _launch(build, (0, 5), 30)
    _launch(build, (10, 12), 40)
    _launch(build, (60, 62), 80)
    columns = "interval_start_ns window_ns launches depth_max depth_mean empty_ns"
    assert told(build.con, "queue_depth", columns, interval_ns=25) == [
        (0, 25, 2, 2, 40 / 25, 0),
        (25, 25, 0, 2, 20 / 25, 10),
        (50, 25, 1, 1, 15 / 25, 10),
        (75, 5, 0, 1, 1.0, 0),
    ]


def test_a_graph_counts_once_and_work_before_its_call_never_makes_it_negative(
    build: Builder,
) -> None:
    build.rank(0)
    graph = build.host(0, (0, 10), "cudaGraphLaunch", "runtime")
    build.gpu(0, (20, 25), launch=graph)
    build.gpu(0, (30, 35), launch=graph)
    _launch(build, (50, 60), 49)
    build.gpu(0, (90, 95))
    [row] = rows(build.con, "queue_depth")
    assert (row["launches"], row["depth_max"], row["window_ns"]) == (2, 1, 50)
    assert (row["unlaunched"], row["note"]) == (1, "no launch is in the trace of 1 op")


def test_streams_have_their_own_queues(build: Builder) -> None:
    build.rank(0)
    _launch(build, (0, 5), 30, stream=7)
    _launch(build, (10, 12), 20, stream=8)
    assert told(build.con, "queue_depth", "stream window_ns") == [(7, 30), (8, 10)]


def test_a_stream_without_numbers_is_none_of_number_0(build: Builder) -> None:
    """Nor has a stretch without launches a median of what waits when one is launched."""
    build.rank(0)
    _launch(build, (0, 5), 10, stream=0)
    _launch(build, (0, 5), 30, stream=8)
    _launch(build, (60, 62), 80, stream=8)
    build.con.execute("UPDATE base.gpu_ops SET device = NULL, stream = NULL WHERE stream = 8")
    columns = "device stream interval_start_ns launches depth_p50"
    assert told(build.con, "queue_depth", columns, interval_ns=25) == [
        (0, 0, 0, 1, 1),
        (None, None, 0, 1, 1),
        (None, None, 25, 0, None),
        (None, None, 50, 1, 1),
        (None, None, 75, 0, None),
    ]
