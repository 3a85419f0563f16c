from tests.analyses.builders import Builder, rows, told


def _launch(build: Builder, at: tuple[int, int]) -> int:
    return build.host(0, at, "cudaGraphLaunch", "runtime")


def test_every_column_of_a_graph_launched_twice(build: Builder) -> None:
    # each launch: 10 on stream 7, 20 on stream 8 from 5 on, 10 more after a gap of 5
    build.rank(0)
    for origin in (0, 1000):
        call = _launch(build, (origin, origin + 30))
        build.gpu(0, (origin + 100, origin + 110), name="a", launch=call)
        build.gpu(0, (origin + 105, origin + 125), name="b", stream=8, launch=call)
        build.gpu(0, (origin + 130, origin + 140), name="a", launch=call)
    assert rows(build.con, "graphs") == [
        {
            "rank": 0, "device": 0, "call": "cudaGraphLaunch", "graph": None, "ops_per_launch": 3,
            "launches": 2, "gpu_ops": 6, "kernel_names": 2, "streams": 2, "device_ns": 80,
            "span_total_ns": 80, "span_p50_ns": 40, "idle_in_span_ns": 10, "call_total_ns": 60,
            "call_p50_ns": 30, "call_per_op_ns": 10.0, "launches_saved": 4, "note": None,
        }
    ]  # fmt: skip


def test_graphs_are_told_apart_by_their_number_or_their_size(build: Builder) -> None:
    build.rank(0)
    for size, number in ((1, None), (2, None), (2, "7")):
        call = _launch(build, (0, 10))
        for index in range(size):
            args = None if number is None else f'{{"graph id": {number}}}'
            build.gpu(0, (100 + index, 101 + index), launch=call, args=args)
    got = sorted(
        (row["graph"] or "", row["ops_per_launch"], row["launches"])
        for row in rows(build.con, "graphs")
    )
    assert got == [("", 1, 1), ("", 2, 1), ("7", 2, 1)]


def test_what_the_trace_hides_is_said(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (100, 200), name="CUDA graph", launch=_launch(build, (0, 10)))
    build.gpu(0, (300, 310), name="node", graph_node=5)
    _launch(build, (400, 410))
    columns = "call ops_per_launch launches device_ns launches_saved note"
    assert told(build.con, "graphs", columns) == [
        (
            "cudaGraphLaunch",
            1,
            1,
            100,
            None,
            "recorded as one span: kernels and collectives inside are not in the trace",
        ),
        (None, None, None, 10, None, "the launching calls are not in the trace"),
        (
            "cudaGraphLaunch", 0, 1, None, None, "no GPU op of these launches is in the trace",
        ),
    ]  # fmt: skip


def test_a_run_without_graphs_has_no_rows(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10), launch=build.launch(0, (0, 1)))
    assert rows(build.con, "graphs") == []
