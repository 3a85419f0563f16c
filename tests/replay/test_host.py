"""What the host does before the GPU has anything to do, worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import duckdb
import pytest

from tests.analyses.builders import Builder
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from tests.replay.by_hand import US
from traceweave.analyses import Parameter, find
from traceweave.replay.full_queues import DEPTH
from traceweave.replay.model import Model

MS = 1000 * US
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@first_at_once()
@pytest.mark.parametrize("synced", [True, False])
@first_at_once(2)
@pytest.mark.parametrize("device", [(0, 100), (60, 100), (60, 80)])
def test_the_only_step_is_as_long_as_steps_says(
    empty_run: duckdb.DuckDBPyConnection, device: tuple[int, int], synced: bool
) -> None:
    """A range of 100 ms on the host, which launches at 60; the op runs from 61 to 80."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 100 * MS), (device[0] * MS, device[1] * MS))
    if synced:  # as the profiler does at first
        run.host(0, (0, 1 * US), "cudaDeviceSynchronize", "runtime", step=1)
    call = run.launch(0, (60 * MS, 60 * MS + 5 * US), step=1)
    run.gpu(0, (61 * MS, 80 * MS), launch=call, step=1)
    run.write()
    model = Model(empty_run)
    begins = 0 if device[0] == 0 else 61
    ends = 100 if device[1] == 100 else 80
    assert model.measured == pytest.approx((ends - begins) * MS)
    # without what the host does before it launches, all comes 60 ms earlier
    gain = (60 if begins == 0 else 0) * MS
    (answer,) = model.answers(["kind=launch while=idle times=0"])
    assert answer.gain_ns == pytest.approx(gain, abs=1 * MS + 5 * US)


@first_at_once()
@pytest.mark.parametrize(
    ("start", "gain"),
    # code that is loaded in the call holds up what is launched at its end, or began before that;
    # a call returns a few us after it has launched, or as much as 740 of a real run
    [(7, 5), (5.99, 5), (4, 3)],
)
def test_a_long_launch_launches_at_its_end(
    empty_run: duckdb.DuckDBPyConnection, start: float, gain: int
) -> None:
    """The first launch of a kernel takes from 1 to 6 ms, and loads its code; others take 5 us."""
    run = Builder(empty_run)
    run.rank(0)
    begins = round(start * MS)
    run.step(0, 1, (0, 20 * MS), (0, begins + 13 * MS))
    for n in range(3):
        call = run.launch(0, (n * 100 * US, n * 100 * US + 5 * US), step=1)
        run.gpu(0, (n * 100 * US + 10 * US, n * 100 * US + 50 * US), launch=call, step=1)
    call = run.launch(0, (1 * MS, 6 * MS), step=1)
    run.gpu(0, (begins, begins + 13 * MS), "compute", "new", launch=call, step=1)
    run.write()
    (answer,) = Model(empty_run).answers(["kind=module_loading times=0"])
    assert answer.gain_ns == pytest.approx(gain * MS, abs=20 * US)


# what was wrong: the wait for the first batch of a real run, before its first kernels, compiled
@first_at_once()
@pytest.mark.parametrize(("name", "kind"), [("next", "compilation"), (LOADER, "data_loading")])
def test_a_pause_before_code_is_loaded_is_for_data_where_the_host_gets_some(
    empty_run: duckdb.DuckDBPyConnection, name: str, kind: str
) -> None:
    """An op runs until 1 ms; the host makes no call from then until it loads code at 9."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 12 * MS), (0, 12 * MS))
    run.gpu(0, (0, 1 * MS), launch=run.launch(0, (0, 5 * US), step=1), step=1)
    run.host(0, (1 * MS, 9 * MS), name, "annotation", step=1)
    run.host(0, (9 * MS, 10 * MS), "cuModuleLoadData", "runtime", step=1)
    call = run.launch(0, (10 * MS, 10 * MS + 5 * US), step=1)
    run.gpu(0, (10 * MS + 10 * US, 12 * MS), launch=call, step=1)
    run.write()
    (answer,) = Model(empty_run).answers([f"kind={kind} times=0"])
    assert answer.gain_ns == pytest.approx(9 * MS, abs=20 * US)


# what was wrong: a program that fills its arrays before its only kernel compiled for 315 ms
@first_at_once()
@pytest.mark.parametrize(("recorder", "kind"), [("kineto", "compilation"), ("nsys", "launch")])
def test_a_launch_that_loads_what_is_there_ends_no_compilation_where_loads_are_recorded(
    empty_run: duckdb.DuckDBPyConnection, recorder: str, kind: str
) -> None:
    """An op runs until 1 ms; the next call launches another kernel, from 9 to 11 ms."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 12 * MS), (0, 12 * MS))
    run.gpu(0, (0, 1 * MS), launch=run.launch(0, (0, 5 * US), step=1), step=1)
    call = run.launch(0, (9 * MS, 11 * MS), step=1)
    run.gpu(0, (11 * MS + 10 * US, 12 * MS), name="new", launch=call, step=1)
    run.con.execute("UPDATE base.rank_sources SET format = ?", [recorder])
    (answer,) = Model(empty_run).answers([f"kind={kind} while=idle times=0"])
    assert answer.gain_ns == pytest.approx(8 * MS, abs=20 * US)


def test_a_launch_that_finds_its_queue_full_takes_no_time_of_its_own(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """1,100 ops of 100 us each; the queue holds 1,000 launches of 5 us, and each later call returns
    5 us after an op is done. The host is no bottleneck, however long its calls are."""
    run = Builder(empty_run)
    run.rank(0)
    room, length, ops = 1000, 100 * US, 1100
    run.step(0, 1, (0, ops * length), (10 * US, ops * length + 10 * US))
    returned = 0
    for n in range(ops):
        done = (n - room + 1) * length + 15 * US if n >= room else 0
        called, returned = returned, max(returned + 5 * US, done)
        call = run.launch(0, (called, returned), step=1)
        begins = n * length + 10 * US
        run.gpu(0, (begins, begins + length), "compute", "gemm", launch=call, step=1)
    run.write()
    half, none, launching, _ = Model(empty_run).answers(
        ["kind=compute times=0.5", "kind=compute times=0", "kind=launch times=0"]
    )
    assert half.gain_ns == pytest.approx(55 * MS, abs=0.1 * MS)
    # the host launches each in 5 us
    assert none.gain_ns == pytest.approx(104.5 * MS, abs=0.1 * MS)
    assert launching.gain_ns == pytest.approx(0, abs=15 * US)


def test_a_queue_is_as_deep_for_replay_as_for_the_analysis() -> None:
    assert find("queue_depth").parameters[0] == Parameter(
        "queue_limit", "BIGINT", DEPTH, "a queue that holds this many launches is full"
    )


@nightly
def test_where_queues_are_full_the_gpu_is_the_bottleneck(recorded: Recorded) -> None:
    """Compute runs for 97.5% of steps of 96.0 ms; the host, whose calls find 1,021 launches,
    is held up for 252.6 ms of the five of them."""
    run = recorded("kineto/ns_resolution")
    (half,) = Model(run.con).answers(["kind=compute times=0.5"])
    (row,) = run.stream_analysis("queue_depth").read_all().to_pylist()
    assert half.gain_ns == pytest.approx(0.975 * 96.0 * MS / 2, rel=0.01)
    assert row["blocked_ns"] == pytest.approx(252.6 * MS, rel=1e-3)


# what was wrong: what a call waited for was its own work, so that faster kernels gained nothing
@first_at_once()
@pytest.mark.parametrize(
    ("copied", "runs", "returns", "half", "launching"),
    [
        ("DtoH", 10, 10.02, 6, 0),
        ("HtoD", 10, 10.02, 6, 0),
        ("HtoD", 1, 10.02, 1, 9),  # it was staged until then
        ("DtoH", 10, 0.04, 6, 0),  # nothing waits for it
    ],
)
def test_a_copy_that_holds_up_its_call_waits_for_its_stream(
    empty_run: duckdb.DuckDBPyConnection,
    copied: str,
    runs: int,
    returns: float,
    half: int,
    launching: int,
) -> None:
    """A kernel runs until `runs` ms, a copy from 10.005 to 10.015, another kernel then for 2 ms."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 13 * MS), (10 * US, 10 * MS + 2040 * US))
    run.gpu(0, (10 * US, runs * MS), launch=run.launch(0, (0, 5 * US), step=1), step=1)
    returned = round(returns * MS)
    call = run.host(0, (20 * US, returned), "cudaMemcpyAsync", "runtime", step=1)
    at, name = (10 * MS + 5 * US, 10 * MS + 15 * US), f"Memcpy {copied} (Pageable)"
    run.gpu(0, at, "memory", name, launch=call, step=1, copy_kind=copied)
    call = run.launch(0, (returned + 10 * US, returned + 15 * US), step=1)
    run.gpu(0, (10 * MS + 40 * US, 12 * MS + 40 * US), launch=call, step=1)
    run.write()
    answers = Model(empty_run).answers(["kind=compute times=0.5", "kind=launch times=0"])
    gains = [answer.gain_ns / MS for answer in answers[:2]]
    assert gains == pytest.approx([half, launching], abs=0.05)


@first_at_once()
@pytest.mark.parametrize(("returns", "half"), [(10.05, 6), (10.4, 1)], ids=["locked", "its own"])
def test_a_launch_waits_for_the_copy_that_another_thread_waits_for(
    empty_run: duckdb.DuckDBPyConnection, returns: float, half: int
) -> None:
    """A kernel runs until 10 ms, and holds up a copy, and with it the driver, until 10.02; another
    thread's launch begins at 1, and what it launches runs for 2 ms."""
    run = Builder(empty_run)
    run.rank(0)
    returned = round(returns * MS)
    run.step(0, 1, (0, 13 * MS), (10 * US, returned + 2010 * US))
    run.gpu(0, (10 * US, 10 * MS), launch=run.launch(0, (0, 5 * US), step=1), step=1)
    call = run.host(0, (20 * US, 10 * MS + 20 * US), "cudaMemcpyAsync", "runtime", step=1)
    at, name = (10 * MS + 5 * US, 10 * MS + 15 * US), "Memcpy DtoH (Device -> Pageable)"
    run.gpu(0, at, "memory", name, launch=call, step=1, copy_kind="DtoH")
    call = run.launch(0, (1 * MS, returned), 2, step=1)
    run.gpu(0, (returned + 10 * US, returned + 2010 * US), stream=8, launch=call, step=1)
    run.write()
    (answer,) = Model(empty_run).answers(["kind=compute times=0.5"])
    assert answer.gain_ns / MS == pytest.approx(half, abs=0.05)


# what was wrong: 3 us, 0.3 ms and nothing
@nightly
@pytest.mark.parametrize(
    ("run", "times", "gain"),
    [
        # 1,000 kernels of 2,066.6 us, each copied from; all launching calls take 4.8 ms
        ("jacobi__2023.4.sqlite", 0.5, 1_033),
        # kernels of 26.2 ms per step of 41.2
        ("power_iteration__2025.3.sqlite", 0.5, 13.1),
        # kernels of 28.15 ms per step of 30.7; the loader, which is not much faster, has a thread
        # of its own, 33 of whose copies return right after one of the 118 that hold up the other
        ("ddp_4gpu_baseline__nersc.sqlite.gz", 0.9, 2.6),
    ],
)
def test_what_waits_for_copies_gains_by_faster_kernels(
    recorded: Recorded, run: str, times: float, gain: float
) -> None:
    (answer,) = Model(recorded(f"nsys/{run}").con).answers([f"kind=compute times={times}"])
    assert answer.gain_ns / MS == pytest.approx(gain, rel=0.08)


# what was wrong: windows met on the rank's own clock, and not on the common one
@nightly
def test_windows_tile_though_the_clock_steps(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Three windows of 50 us, in each of which 20 are an op; the clock steps by 3 us at 60."""
    run = Builder(empty_run)
    run.rank(0)
    for n in range(3):
        begin = 50 * n * US
        run.step(0, n, (begin, begin + 50 * US), (begin, begin + 50 * US))
        call = run.launch(0, (begin, begin + 1), step=n)
        run.gpu(0, (begin, begin + 20 * US), launch=call, step=n)
    run.con.execute(
        "INSERT INTO clocks SELECT * REPLACE (60_000 AS from_local_ns, 3_000 AS offset_ns)"
        " FROM clocks"
    )
    model = Model(empty_run)
    assert model.windows.device is not None
    lengths = model.windows.device.lengths(model.graph.nodes) / US
    # the last one ends with its op
    assert lengths.tolist() == [50, 53, 20]


# what was wrong: a step on the host ended where its pause had, also without the pause
def test_a_pause_that_ends_a_step_ends_it_sooner(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Each of four steps of 10 ms launches an op, which begins 1 or 4 ms later and takes 1, waits
    for it, and pauses. Without the pauses steps take 2 and 5 ms; of the first and the last one
    nothing is known before or after, so that they gain as the others, 5 and 8 ms."""
    run = Builder(empty_run)
    run.rank(0)
    for n, (starts, following) in enumerate(pairwise(at * MS for at in (1, 14, 21, 34, 35))):
        begin = 10 * n * MS + 1 * US
        run.step(0, n, (10 * n * MS, 10 * (n + 1) * MS), (starts, following))
        call = run.launch(0, (begin, begin + 1 * US), step=n)
        run.gpu(0, (starts, starts + 1 * MS), launch=call, step=n)
        waits = (begin + 2 * US, starts + 1 * MS)
        run.host(0, waits, "cudaStreamSynchronize", "runtime", step=n)
    run.write()
    model = Model(empty_run)
    assert (model.windows.basis, model.measured) == ("host", 10 * MS)
    (answer,) = model.answers(["kind=launch times=0"])
    assert answer.gain_ns == pytest.approx(6.5 * MS, abs=20 * US)


# what was wrong: a pause before a copy that held up its call had nothing to be like
@nightly
@pytest.mark.parametrize("paused", [[12], [7, 12]], ids=["held up", "more calls"])
def test_a_pause_of_one_rank_is_priced_whatever_it_does_then(
    empty_run: duckdb.DuckDBPyConnection, paused: list[int]
) -> None:
    """Rank 1 pauses for 10 ms before a copy, whose call returns after it; or copies once more, and
    pauses for 5 ms each time."""
    run = Builder(empty_run)
    for rank, calls in enumerate(([2], paused)):
        run.rank(rank)
        run.step(rank, 1, (0, 20 * MS), (0, calls[-1] * MS + 100 * US))
        run.gpu(rank, (0, 1 * MS), launch=run.launch(rank, (0, 5 * US), step=1), step=1)
        for at in (call * MS for call in calls):
            until = at + (105 if calls == [12] else 5) * US
            call = run.host(rank, (at, until), "cudaMemcpyAsync", "runtime", step=1)
            copied, name = (at + 2 * US, at + 100 * US), "Memcpy HtoD (Pageable -> Device)"
            run.gpu(rank, copied, "memory", name, launch=call, step=1, copy_kind="HtoD")
    run.write()
    (answer,) = Model(empty_run).answers(["rank=1 kind=launch like=median"])
    # of two ranks one gains it
    assert answer.gain_ns == pytest.approx(5 * MS, abs=0.1 * MS)


# what was wrong: without its synchronizations a program freed memory beside its kernels
@nightly
@pytest.mark.parametrize(
    ("name", "sync", "allocator"),
    [("cudaFree_v3020", 0, 1), ("cudaFreeAsync_v11020", 1, 1)],
)
def test_memory_is_not_freed_before_the_device_is_done(
    empty_run: duckdb.DuckDBPyConnection, name: str, sync: int, allocator: int
) -> None:
    """Two ops of 2 ms, between them a wait for the first, then 1 ms in a call that frees memory."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 5 * MS), (0, 5 * MS))
    run.gpu(0, (0, 2 * MS), launch=run.launch(0, (0, 5 * US), step=1), step=1)
    run.host(0, (5 * US, 2 * MS), "cudaDeviceSynchronize", "runtime", step=1)
    run.host(0, (2 * MS, 3 * MS), name, "runtime", step=1)
    run.gpu(0, (3 * MS, 5 * MS), launch=run.launch(0, (3 * MS, 3 * MS), step=1), step=1)
    run.write()
    answers = Model(empty_run).answers(["kind=sync times=0", "kind=allocator times=0"])
    gains = [answer.gain_ns for answer in answers]
    assert gains == pytest.approx([sync * MS, allocator * MS, 1 * MS], abs=20 * US)


@nightly
def test_waits_are_removed_where_an_operator_is_named(empty_run: duckdb.DuckDBPyConnection) -> None:
    """Three ops of 2 ms, a wait for the first and another for the second, 1 ms of the host each."""
    run = Builder(empty_run)
    run.rank(0)
    run.step(0, 1, (0, 8 * MS), (0, 8 * MS))
    for begin, operator in ((0, "aten::item"), (3 * MS, "aten::copy_"), (6 * MS, None)):
        launch = run.launch(0, (begin, begin + 5 * US), step=1)
        run.gpu(0, (begin + 5 * US, begin + 2 * MS), launch=launch, step=1)
        if operator:
            waits = (begin + 10 * US, begin + 2 * MS)
            run.host(0, waits, operator, step=1)
            run.host(0, waits, "cudaStreamSynchronize", "runtime", 1, step=1)
    run.write()
    of = ["kind=sync op=aten::item times=0", "kind=sync op=aten::c* times=0", "kind=sync times=0"]
    gains = [answer.gain_ns for answer in Model(empty_run).answers(of)]
    assert gains == pytest.approx([1 * MS, 1 * MS, 2 * MS, 2 * MS], abs=20 * US)
