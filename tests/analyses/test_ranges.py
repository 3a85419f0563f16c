import pytest

from tests.analyses.builders import Builder, rows, told


def test_ranges_are_projected_on_the_work_launched_in_them(build: Builder) -> None:
    # host    0..........forward..........100     200..forward..250 (launches nothing)
    #           10...layer...40  50-55 launch
    #              20-25 launch
    # device        30..45 on 7, 28..80 on 8    70..90
    build.rank(0)
    build.host(0, (0, 100), "forward", kind="nvtx")
    build.host(0, (200, 250), "forward", kind="nvtx")
    build.host(0, (10, 40), "layer", kind="nvtx", depth=1, args='{"domain": "model"}')
    graph = build.launch(0, (20, 25))
    build.gpu(0, (30, 45), launch=graph)
    build.gpu(0, (28, 80), stream=8, launch=graph)
    build.gpu(0, (70, 90), launch=build.launch(0, (50, 55)))
    build.gpu(0, (500, 600), launch=build.launch(0, (60, 65), tid=2))
    assert rows(build.con, "ranges") == [
        {
            "rank": 0, "kind": "nvtx", "domain": None, "range": "forward", "count": 2,
            "host_total_ns": 150, "host_min_ns": 50, "host_p50_ns": 50, "host_max_ns": 100,
            "with_gpu": 1, "with_gpu_host_ns": 100, "gpu_span_total_ns": 62, "gpu_span_min_ns": 62,
            "gpu_span_p50_ns": 62, "gpu_span_max_ns": 62, "gpu_ops_ns": 87, "launches": 2,
            "gpu_ops": 3, "note": None,
        },
        {
            "rank": 0, "kind": "nvtx", "domain": "model", "range": "layer", "count": 1,
            "host_total_ns": 30, "host_min_ns": 30, "host_p50_ns": 30, "host_max_ns": 30,
            "with_gpu": 1, "with_gpu_host_ns": 30, "gpu_span_total_ns": 52, "gpu_span_min_ns": 52,
            "gpu_span_p50_ns": 52, "gpu_span_max_ns": 52, "gpu_ops_ns": 67, "launches": 1,
            "gpu_ops": 2, "note": None,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "want"),
    [("any", ["a", "n"]), ("annotation", ["a"]), ("nvtx", ["n"]), ("op", ["o"]), ("python", ["p"])],
)
def test_the_kind_of_range_is_chosen(build: Builder, kind: str, want: list[str]) -> None:
    build.rank(0)
    for name, of in (("a", "annotation"), ("n", "nvtx"), ("o", "op"), ("p", "python")):
        build.host(0, (0, 10), name, kind=of)
    assert [row["range"] for row in rows(build.con, "ranges", kind=kind)] == want


def test_a_range_that_launches_nothing_says_so(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 10), "idle", kind="nvtx", step=4)
    [row] = rows(build.con, "ranges", step=4)
    assert (row["gpu_span_total_ns"], row["gpu_ops_ns"], row["launches"]) == (None, None, 0)
    assert row["note"] == "no GPU work was launched in it"
    assert rows(build.con, "ranges", step=5) == []


def test_a_call_that_begins_with_the_range_or_with_its_end_is_in_it(build: Builder) -> None:
    build.rank(0)
    build.host(0, (10, 20), "range", kind="nvtx")
    for number, at in enumerate((9, 10, 20, 21)):
        build.gpu(0, (100 + number, 101 + number), launch=build.launch(0, (at, at)))
    assert told(build.con, "ranges", "launches gpu_span_total_ns") == [(2, 2)]


def test_ops_of_a_graph_are_in_the_ranges_of_its_capture(build: Builder) -> None:
    build.rank(0)
    annotated = {"graph_node": 3, "args": '{"name": "attention"}'}
    for at in (100, 200):
        call = build.launch(0, (at, at + 5), step=at // 100)
        build.gpu(0, (at + 10, at + 20), launch=call, **annotated)
        build.gpu(0, (at + 40, at + 45), launch=call, **annotated)
        build.gpu(0, (at + 60, at + 70), launch=call, graph_node=4, args='{"grid": [1, 1, 1]}')
        backward = '{"name": "attention", "autograd_phase": "backward"}'
        build.gpu(0, (at + 80, at + 88), launch=call, graph_node=5, args=backward)
    build.gpu(0, (300, 310), args='{"name": "no graph"}')
    asked = "range count gpu_span_total_ns gpu_ops_ns gpu_ops launches host_total_ns"
    assert told(build.con, "ranges", asked, kind="graph") == [
        ("attention", 2, 70, 30, 4, 2, None),
        ("attention (backward)", 2, 16, 16, 2, 2, None),
    ]
    assert told(build.con, "ranges", asked, kind="nvtx") == []


# what was wrong: one replay as long as the recording
def test_replays_are_told_apart_where_launches_are_not_recorded(build: Builder) -> None:
    build.rank(0)
    for at in (100, 200):
        build.gpu(0, (at, at + 10), graph_node=3, correlation=at, args='{"name": "attention"}')
    asked = "range count gpu_span_total_ns launches"
    assert told(build.con, "ranges", asked, kind="graph") == [("attention", 2, 20, 0)]
