import pytest

from tests.analyses.builders import Builder, rows, told


@pytest.fixture
def linear(build: Builder) -> Builder:
    """linear calls addmm, which launches twice; its backward runs on another thread."""
    #  thread 1   0......linear......100     thread 2  200...AddmmBackward0...300
    #               10...addmm...80                       210-220 launch
    #                  20-30 launch (runtime) with 22-28 (driver)   40-45 launch
    build.rank(0)
    top = build.host(0, (0, 100), "aten::linear")
    addmm = build.host(0, (10, 80), "aten::addmm", depth=1, parent_id=top)
    outer = build.host(0, (20, 30), "cudaLaunchKernel", "runtime", 2, parent_id=addmm)
    inner = build.host(0, (22, 28), "cuLaunchKernel", "driver", 3, parent_id=outer)
    build.gpu(0, (50, 90), launch=inner)
    build.gpu(0, (90, 96), launch=build.launch(0, (40, 45), parent_id=addmm))
    back = build.host(0, (200, 300), "AddmmBackward0", tid=2)
    build.gpu(0, (400, 500), launch=build.launch(0, (210, 220), tid=2, parent_id=back))
    build.con.execute("INSERT INTO base.flows VALUES (0, 0, 'fwdbwd', ?, ?)", [addmm, back])
    return build


def test_every_column(linear: Builder) -> None:
    names = (
        "op", "count", "host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns",
        "gpu_ops", "backward_ops", "device_backward_ns", "note",
    )  # fmt: skip
    no_arrows = "no arrows lead from it to a backward operator"
    got = rows(linear.con, "host_ops")
    assert [tuple(row[name] for name in names) for row in got] == [
        ("AddmmBackward0", 1, 100, 90, 100, 100, 1, 0, None, no_arrows),
        ("aten::linear", 1, 100, 30, 46, 0, 2, 1, 100, None),
        ("aten::addmm", 1, 70, 55, 46, 46, 2, 1, 100, None),
    ]
    assert (got[2]["host_mean_ns"], got[2]["host_p50_ns"], got[2]["host_max_ns"]) == (70.0, 70, 70)
    assert [row["ranks"] for row in got] == [1, 1, 1]


def test_one_rank_one_step_one_kind(linear: Builder) -> None:
    linear.rank(1)
    linear.host(1, (0, 10), "aten::add", step=2)
    linear.host(1, (0, 10), "module", kind="python")
    assert [row["op"] for row in rows(linear.con, "host_ops", rank=1)] == ["aten::add"]
    assert [row["op"] for row in rows(linear.con, "host_ops", step=2)] == ["aten::add"]
    assert [row["op"] for row in rows(linear.con, "host_ops", kind="python")] == ["module"]


def test_calls_of_several_ranks_add_up_under_one_name(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank)
        for start in (0, 100):
            op = build.host(rank, (start, start + 10 + rank), "aten::mm")
            call = build.launch(rank, (start + 1, start + 2), parent_id=op)
            build.gpu(rank, (start + 50, start + 60), launch=call)
    columns = "count ranks gpu_ops host_total_ns host_self_ns device_total_ns device_self_ns"
    columns += " host_mean_ns host_max_ns"
    assert told(build.con, "host_ops", columns) == [(4, 2, 4, 42, 38, 40, 40, 10.5, 11)]


def test_calls_at_the_edges_of_neighbours_are_not_shared(build: Builder) -> None:
    build.rank(0)
    first = build.host(0, (0, 10), "first")
    second = build.host(0, (11, 20), "second")
    build.gpu(0, (30, 33), launch=build.launch(0, (10, 10), parent_id=first))
    build.gpu(0, (40, 45), launch=build.launch(0, (11, 12), parent_id=second))
    got = {row["op"]: row["device_total_ns"] for row in rows(build.con, "host_ops")}
    assert got == {"first": 3, "second": 5}


@pytest.fixture
def modules(build: Builder) -> Builder:
    """A model of two layers under a Python stack; the second one is called in the first."""
    #  Model   0.................................100     thread 2: 200..AddmmBackward0..300
    #    forward 1..............................99                    210-220 launch, 100 ns
    #      Linear_0  10...............60
    #         launch 12-14, 40 ns
    #         Linear_1     20....40
    #           addmm       22..38  launch 24-26, 7 ns
    #      Tanh_0                      70..80  launch 72-74, 5 ns
    build.rank(0)

    def frame(at: tuple[int, int], name: str, depth: int, parent: int | None) -> int:
        return build.host(0, at, name, "python", depth, parent_id=parent)

    def launch(at: tuple[int, int], parent: int, gpu_ns: int, tid: int = 1) -> None:
        call = build.launch(0, at, tid, parent_id=parent)
        build.gpu(0, (500 + at[0], 500 + at[0] + gpu_ns), launch=call)

    model = frame((0, 100), "nn.Module: Model_0", 0, None)
    forward = frame((1, 99), "model.py(7): forward", 1, model)
    first = frame((10, 60), "nn.Module: Linear_0", 2, forward)
    launch((12, 14), first, 40)
    second = frame((20, 40), "nn.Module: Linear_1", 3, first)
    addmm = build.host(0, (22, 38), "aten::addmm", depth=4, parent_id=second)
    launch((24, 26), addmm, 7)
    launch((72, 74), frame((70, 80), "nn.Module: Tanh_0", 2, forward), 5)
    back = build.host(0, (200, 300), "AddmmBackward0", tid=2)
    launch((210, 220), back, 100, tid=2)
    build.con.execute("INSERT INTO base.flows VALUES (0, 0, 'fwdbwd', ?, ?)", [addmm, back])
    return build


def test_modules_have_their_device_time_and_that_of_their_backward_pass(modules: Builder) -> None:
    columns = "op host_total_ns host_self_ns device_total_ns device_self_ns device_backward_ns"
    assert told(modules.con, "host_ops", columns, kind="module") == [
        ("nn.Module: Model_0", 100, 40, 52, 0, 100),
        ("nn.Module: Linear_0", 50, 30, 47, 40, 100),
        ("nn.Module: Linear_1", 20, 20, 7, 7, 100),
        ("nn.Module: Tanh_0", 10, 10, 5, 5, None),
    ]


def test_annotations_have_the_backward_pass_of_what_ran_in_them(modules: Builder) -> None:
    modules.host(0, (5, 50), "block", "annotation", 2)
    [row] = rows(modules.con, "host_ops", kind="annotation")
    assert (row["device_total_ns"], row["backward_ops"], row["device_backward_ns"]) == (47, 1, 100)


def test_percentiles_of_the_durations_on_the_host(build: Builder) -> None:
    build.rank(0)
    for length in range(1, 101):
        build.host(0, (1000 * length, 1000 * length + length), "op")
    [row] = rows(build.con, "host_ops")
    assert [row[f"host_p{percent}_ns"] for percent in (50, 95, 99)] == [50, 95, 99]
