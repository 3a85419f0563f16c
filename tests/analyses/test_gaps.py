from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from tests.marks import first_at_once, nightly

US = 1_000


DEVICE = ("dependency", "kernel_delay", "device_delay")
"""Causes of what is left of a gap once the launch has returned."""


def _gaps(build: Builder, **params: object) -> list[dict[str, Any]]:
    """Return the rows of `gaps` in the order of time, by rank, device and stream."""
    got = rows(build.con, "gaps", **params)
    return sorted(got, key=lambda g: (g["rank"], g["device"] or 0, g["stream"] or 0, g["start_ns"]))


def _one(build: Builder, **params: object) -> dict[str, Any]:
    [row] = _gaps(build, **params)
    return row


def _host_part(build: Builder) -> dict[str, Any]:
    [row] = [row for row in _gaps(build) if row["cause"] not in DEVICE]
    return row


def _told(build: Builder, *columns: str, **params: object) -> list[tuple[Any, ...]]:
    """Return these columns of the host's parts of all gaps, in the order of the ranks."""
    got = [row for row in _gaps(build, **params) if row["cause"] not in DEVICE]
    return [tuple(row[name] for name in columns) for row in got]


def _two_kernels(
    build: Builder, first_end: int, second_start: int, launch: tuple[int, int], rank: int = 0
) -> None:
    """Two kernels of one stream in one step; the second is launched by a call at `launch`."""
    end = second_start + 10 * US
    build.rank(rank)
    build.step(rank, 1, host=(0, end), device=(10 * US, end))
    call = build.launch(rank, (1 * US, 5 * US))
    build.gpu(rank, (10 * US, first_end), name="first", launch=call)
    call = build.launch(rank, launch)
    build.gpu(rank, (second_start, end), name="second", launch=call)


def test_a_gap_names_what_ran_before_and_after_and_what_the_host_did(build: Builder) -> None:
    # device   10..20 first            100..110 second
    # host           15.....forward.......90
    #                    30..linear..80
    #                             70-75 launch
    _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US))
    build.host(0, (15 * US, 90 * US), "forward", kind="annotation")
    build.host(0, (30 * US, 80 * US), "aten::linear", depth=1)
    build.host(0, (31 * US, 40 * US), "aten::t", depth=2)
    whole = {
        "rank": 0, "device": 0, "stream": None, "step": 1, "after_op": "first",
        "before_op": "second", "launch_start_ns": 70_000, "sync_op": None, "waited_for_op": None,
        "timeline": "gpu", "after_op_id": 2, "before_op_id": 4, "whole_ns": 80_000,
    }  # fmt: skip
    # until the launch has returned it is the host's, of which aten::linear covers 45 of 55 us
    host = {
        "start_ns": 20_000, "end_ns": 75_000, "duration_ns": 55_000, "cause": "launch_bound",
        "host_op": "aten::linear", "host_op_kind": "op", "host_op_ns": 45_000,
    }  # fmt: skip
    device = {
        "start_ns": 75_000, "end_ns": 100_000, "duration_ns": 25_000, "cause": "kernel_delay",
        "host_op": None, "host_op_kind": None, "host_op_ns": None,
    }  # fmt: skip
    assert _gaps(build) == [whole | host, whole | device]


def test_a_queued_kernel_that_starts_soon_is_kernel_delay(build: Builder) -> None:
    _two_kernels(build, 20 * US, 40 * US, launch=(12 * US, 18 * US))
    build.host(0, (15 * US, 90 * US), "forward", kind="annotation")
    row = _one(build)
    # the host has nothing to do with it
    assert (row["cause"], row["host_op"]) == ("kernel_delay", None)
    assert _one(build, kernel_delay_ns=20 * US)["cause"] == "kernel_delay"
    assert _one(build, kernel_delay_ns=20 * US - 1)["cause"] == "device_delay"


def test_a_launch_that_is_under_way_when_its_kernel_starts_leaves_nothing_to_the_device(
    build: Builder,
) -> None:
    # the call returns after the kernel has started, as launches often do
    _two_kernels(build, 20 * US, 40 * US, launch=(19 * US, 45 * US))
    assert _one(build)["cause"] == "launch_bound"


def test_a_gap_is_cut_where_its_launch_returned(build: Builder) -> None:
    # megatron_tp2 of the corpus, in small: launched at once, started 2 ms later
    _two_kernels(build, 20 * US, 2040 * US, launch=(19 * US, 30 * US))
    got = [(r["cause"], r["duration_ns"], r["whole_ns"]) for r in _gaps(build)]
    assert got == [("launch_bound", 10_000, 2_020_000), ("device_delay", 2_010_000, 2_020_000)]
    # the delay counts from the return of the call, not from the beginning of the gap
    causes = [r["cause"] for r in _gaps(build, kernel_delay_ns=2010 * US)]
    assert causes == ["launch_bound", "kernel_delay"]


@nightly
def test_memory_allocated_and_freed_is_a_cause_of_its_own(build: Builder) -> None:
    # three calls with 35 of the host's 55 us, each of them less than half
    cases = [("cudaMalloc", "allocator"), ("cudaFree", "allocator"), ("hipMalloc", "allocator"),
             ("cuMemCreate", "allocator"), ("cuModuleLoadData", "module_loading"),
             ("cuLibraryLoadData", "module_loading"), ("cudaMemcpyAsync", "launch_bound"),
             ("cudaLaunchKernel", "launch_bound")]  # fmt: skip
    for rank, (name, _) in enumerate(cases):
        _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US), rank=rank)
        for at in ((21, 31), (35, 45), (50, 65)):
            build.host(rank, (at[0] * US, at[1] * US), name, kind="runtime", depth=1)
    assert [cause for (cause,) in _told(build, "cause")] == [cause for _, cause in cases]


@nightly
def test_a_library_begins_with_a_free_of_nothing(build: Builder) -> None:
    """cuBLAS's took 484 ms, cuDNN's 788, 265 and 157 in real runs; the third waits for an op."""
    for rank, (length, ends) in enumerate([(100_000, 20), (99_999, 20), (100_000, 31)]):
        launch = ((31 + length) * US, (40 + length) * US)
        _two_kernels(build, ends * US, (50 + length) * US, launch, rank)
        build.host(rank, (30 * US, (30 + length) * US), "cudaFree", "runtime", 1)
    assert _told(build, "cause") == [("module_loading",), ("allocator",), ("allocator",)]


@nightly
@pytest.mark.parametrize(("follows", "cause"), [
    (["cudaFree", "cudaDeviceGetAttribute", "cudaMalloc"], "module_loading"),
    (["cudaMalloc", "cudaDeviceGetAttribute"], "allocator"), ([], "allocator"),
])  # fmt: skip
def test_a_library_that_begins_asks_for_the_device(
    build: Builder, follows: list[str], cause: str
) -> None:
    """cuBLAS frees nothing in 2.7 and 13.1 ms of a real run, and asks what the device can do."""
    _two_kernels(build, 20 * US, 20_000 * US, (17_000 * US, 17_010 * US))
    build.host(0, (30 * US, 14_000 * US), "cudaFree", "runtime", 1)
    for n, name in enumerate(follows):
        build.host(0, ((14_100 + n) * US, (14_101 + n) * US), name, "runtime", 1)
    assert _told(build, "cause") == [(cause,)]


def test_what_is_freed_in_a_loop_is_no_library_that_begins(build: Builder) -> None:
    """Each rank of megatron_tp8 asks 320 times in one step, never as a library begins."""
    build.rank(0)
    for at in (0, 5_000 * US, 10_000 * US):
        call = build.launch(0, (at + 4_000 * US, at + 4_010 * US))
        build.gpu(0, (at + 4_020 * US, at + 4_990 * US), launch=call)
        build.host(0, (at + 5_000 * US, at + 8_000 * US), "cudaFree", "runtime", 1)
        build.host(0, (at + 8_001 * US, at + 8_002 * US), "cudaDeviceGetAttribute", "runtime", 1)
    assert _told(build, "cause") == [("module_loading",), ("allocator",)]


@nightly
def test_the_first_call_that_asks_about_a_kernel_loads_it(build: Builder) -> None:
    """cudaOccupancy took 4.3 ms in a real run. On rank 1 it did not at first; rank 2 copies; on
    rank 3 another op runs meanwhile, as 17 did when cudaFuncSetAttribute took 22 ms in
    megatron_tp8."""
    name = "cudaOccupancyMaxActiveBlocksPerMultiprocessor"
    for rank, called in enumerate([name, name, "cudaMemcpyAsync", name]):
        _two_kernels(build, 20 * US, 6_000 * US, (5_000 * US, 5_010 * US), rank)
        build.host(rank, (30 * US, 4_330 * US), called, "runtime", 1)
    build.host(1, (5 * US, 6 * US), name, "runtime", 1)
    build.gpu(3, (4_320 * US, 4_340 * US), launch=build.launch(3, (6 * US, 7 * US)))
    causes = [cause for (cause,) in _told(build, "cause")]
    assert causes[:3] == ["module_loading", "launch_bound", "launch_bound"]
    assert set(causes[3:]) == {"launch_bound"}


def test_what_is_launched_into_a_graph_does_not_run(build: Builder) -> None:
    """Captured by the launching thread, by another one, not to its end, and at the end of all."""
    for rank, (tid, end) in enumerate([(1, "cudaStreamEndCapture"), (2, "cudaStreamEndCapture"),
                                       (1, "cudaStreamIsCapturing")]):  # fmt: skip
        _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US), rank=rank)
        build.host(rank, (25 * US, 26 * US), "cudaStreamBeginCapture_v10000", "runtime", 1, tid)
        build.host(rank, (63 * US, 64 * US), end, "runtime", 1, tid)
    assert _told(build, "cause") == [("graph_capture",), ("launch_bound",), ("launch_bound",)]


@nightly
def test_a_long_launch_of_a_graph_loads_no_code(build: Builder) -> None:
    """3 ms until the call returns, of a kernel's first launch and of a graph's."""
    for rank, name in enumerate(["cudaLaunchKernel", "cudaGraphLaunch"]):
        build.rank(rank)
        build.step(rank, 1, host=(0, 4000 * US), device=(10 * US, 4000 * US))
        first = build.launch(rank, (1 * US, 5 * US))
        build.gpu(rank, (10 * US, 20 * US), name="first", launch=first)
        call = build.host(rank, (20 * US, 3020 * US), name, "runtime", 1)
        build.gpu(rank, (3020 * US, 4000 * US), name="second", launch=call)
    assert _told(build, "cause") == [("module_loading",), ("launch_bound",)]


def test_what_the_profiler_recorded_of_its_overhead_counts_where_the_gpu_idled_for_it(
    build: Builder,
) -> None:
    # covers most of the host's part; the same, of code; nanogpt of the corpus: beside the gap
    cases = [("Command Buffer Full", (30, 60)), ("Lazy Function Loading", (30, 60)),
             ("Command Buffer Full", (0, 22))]  # fmt: skip
    for rank, (name, (start, end)) in enumerate(cases):
        _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US), rank=rank)
        build.con.execute(
            "INSERT INTO base.other_events BY NAME SELECT $rank AS rank, $rank + 1_000 AS op_id,"
            " 0 AS source_id, 'X' AS phase, 'overhead' AS category, $name AS name, '-1' AS pid,"
            " '0' AS tid, $start AS start_local_ns, $length AS duration_ns",
            {"rank": rank, "name": name, "start": start * US, "length": (end - start) * US},
        )
    assert _told(build, "cause") == [("profiler_overhead",), ("module_loading",), ("launch_bound",)]


def test_a_host_that_waited_for_the_device_could_not_launch_ahead(build: Builder) -> None:
    waits = [
        ("cudaStreamSynchronize", "runtime"), ("cudaDeviceSynchronize_v3020", "runtime"),
        ("cudaEventSynchronize", "runtime"), ("cudaMemcpy", "runtime"),
        ("cuCtxSynchronize", "driver"), ("hipDeviceSynchronize", "runtime"),
        ("hipMemcpyWithStream", "runtime"), ("aten::item", "op"),
        ("aten::_local_scalar_dense", "op"),
    ]  # fmt: skip
    for rank, (name, kind) in enumerate(waits):
        _two_kernels(build, 20 * US, 100 * US, launch=(40 * US, 45 * US), rank=rank)
        build.host(rank, (11 * US, 25 * US), name, kind=kind, depth=1)
    assert _told(build, "cause", "sync_op", "host_op") == [
        ("sync", name, None) for name, _ in waits
    ]


def test_a_copy_that_holds_up_its_call_is_a_synchronization(build: Builder) -> None:
    # waits for the copy; pinned memory; returned before
    cases = [("Pageable", 21), ("Pinned", 21), ("Pageable", 19)]
    for rank, (memory, call_end) in enumerate(cases):
        build.rank(rank)
        build.step(rank, 1, host=(0, 110 * US), device=(10 * US, 110 * US))
        call = build.host(rank, (5 * US, call_end * US), "cudaMemcpyAsync", "runtime", 1)
        name = f"Memcpy DtoH (Device -> {memory})"
        build.gpu(rank, (10 * US, 20 * US), "memory", name, launch=call, copy_kind="DtoH")
        build.gpu(rank, (100 * US, 110 * US), launch=build.launch(rank, (40 * US, 45 * US)))
    assert _told(build, "cause", "sync_op") == [
        ("sync", "cudaMemcpyAsync"),
        ("launch_bound", None),
        ("launch_bound", None),
    ]


@nightly
def test_a_second_synchronization_does_not_hide_the_first(build: Builder) -> None:
    _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US))
    build.host(0, (11 * US, 60 * US), "cudaDeviceSynchronize", kind="runtime")
    build.host(0, (60 * US, 65 * US), "cudaStreamSynchronize", kind="runtime")
    row = _host_part(build)
    assert (row["cause"], row["sync_op"]) == ("sync", "cudaDeviceSynchronize")


@first_at_once()
@pytest.mark.parametrize(("second_launch", "cause"), [(68, "sync"), (72, "launch_bound")])
def test_a_wait_makes_the_host_late_by_no_more_than_it_lasted(
    build: Builder, second_launch: int, cause: str
) -> None:
    """The host waits for 30 us of which a gap of 20 takes most, then for 2 us: of the lead that it
    lost, 10 us are left, which is most of 18, and not of 22. Elsewhere it waits 14 of 55 us."""
    build.rank(0)
    build.step(0, 1, host=(0, 110 * US), device=(0, 110 * US))
    build.gpu(0, (5 * US, 30 * US), launch=build.launch(0, (0, 1 * US)))
    build.host(0, (1 * US, 31 * US), "cudaStreamSynchronize", kind="runtime")
    build.gpu(0, (49 * US, 50 * US), launch=build.launch(0, (48 * US, 50 * US)))
    build.host(0, (50 * US - 1, 52 * US - 1), "cudaStreamSynchronize", kind="runtime")
    call = build.launch(0, (second_launch * US - 1 * US, second_launch * US))
    build.gpu(0, (second_launch * US, 110 * US), launch=call)
    _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US), rank=1)
    build.host(1, (11 * US, 25 * US), "cudaStreamSynchronize", kind="runtime", depth=1)
    told = [row for row in _told(build, "rank", "cause", "sync_op") if row[2]]
    assert [row[:2] for row in told] == [(0, "sync"), (0, cause), (1, "launch_bound")]


def test_what_is_no_synchronization(build: Builder) -> None:
    # asynchronous; on another thread; over before; short and later; after the launch
    calls = [
        ("cudaMemcpyAsync", (11, 25), 1),
        ("cudaStreamSynchronize", (11, 25), 2),
        ("cudaStreamSynchronize", (11, 20), 1),
        ("cudaStreamSynchronize", (30, 31), 1),
        ("cudaStreamSynchronize", (76, 99), 1),
    ]
    for rank, (name, at, tid) in enumerate(calls):
        _two_kernels(build, 20 * US, 100 * US, launch=(70 * US, 75 * US), rank=rank)
        build.host(rank, (at[0] * US, at[1] * US), name, kind="runtime", depth=1, tid=tid)
    assert _told(build, "cause", "sync_op") == [("launch_bound", None)] * len(calls)


def test_waiting_for_the_next_batch_is_data_loading_even_after_a_synchronization(
    build: Builder,
) -> None:
    _two_kernels(build, 20 * US, 100 * US, launch=(90 * US, 95 * US))
    build.host(0, (11 * US, 25 * US), "cudaStreamSynchronize", kind="runtime")
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    build.host(0, (26 * US, 86 * US), name, kind="annotation")
    build.host(0, (30 * US, 85 * US), "aten::stack", depth=1)
    row = _host_part(build)
    assert (row["cause"], row["host_op"]) == ("data_loading", "aten::stack")
    assert row["sync_op"] == "cudaStreamSynchronize"


def test_a_launch_that_is_not_in_the_trace_leaves_the_cause_unknown(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 50 * US), device=(0, 50 * US))
    build.gpu(0, (0, 10 * US))
    build.gpu(0, (40 * US, 50 * US))
    row = _one(build)
    assert (row["cause"], row["launch_start_ns"], row["host_op"]) == ("unknown", None, None)


@nightly
def test_what_was_launched_before_the_recording_waits_for_no_host_once_that_has_begun(
    build: Builder,
) -> None:
    # 0..10   12..20   .....|30: first recorded launch .....  65..70    75..80
    # early 3  early 4                                        early 5   launched 9
    build.rank(0)
    build.step(0, 1, host=(0, 80 * US), device=(0, 80 * US))
    for number, at in ((3, (0, 10)), (4, (12, 20)), (5, (65, 70))):
        build.gpu(0, (at[0] * US, at[1] * US), correlation=number)
    launch = build.launch(0, (30 * US, 33 * US), correlation=9)
    build.gpu(0, (75 * US, 80 * US), launch=launch, correlation=9)
    got = {r["start_ns"] // US: (r["cause"], r["duration_ns"] // US) for r in _gaps(build)}
    assert got == {
        10: ("unknown", 2), 20: ("unknown", 10), 30: ("began_before", 35), 70: ("kernel_delay", 5),
    }  # fmt: skip


@nightly
def test_a_launch_that_is_missing_between_others_leaves_the_cause_unknown(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 80 * US), device=(0, 80 * US))
    launch = build.launch(0, (0, 1 * US), correlation=3)
    build.gpu(0, (2 * US, 10 * US), launch=launch, correlation=3)
    build.gpu(0, (40 * US, 80 * US), correlation=4)
    assert _one(build, min_gap_ns=5 * US)["cause"] == "unknown"


@first_at_once()
@pytest.mark.parametrize("stream", [7, 9])
def test_a_small_number_of_another_process_or_counter_says_nothing(
    build: Builder, stream: int
) -> None:
    # 0..10   |20: launch     30..40     70..80: number 2, after what was launched, or elsewhere
    # early 3                 launched 9
    build.rank(0)
    build.step(0, 1, host=(0, 80 * US), device=(0, 80 * US))
    build.gpu(0, (0, 10 * US), correlation=3)
    launch = build.launch(0, (20 * US, 21 * US), correlation=9)
    build.gpu(0, (30 * US, 40 * US), launch=launch, correlation=9)
    build.gpu(0, (70 * US, 80 * US), correlation=2, stream=stream)
    got = {r["start_ns"] // US: r["cause"] for r in _gaps(build, min_gap_ns=5 * US)}
    assert got == {10: "launch_bound", 21: "kernel_delay", 40: "unknown"}


@nightly
def test_a_stream_waits_for_a_collective_of_another_stream(build: Builder) -> None:
    # stream 7   0..10 first                50..60 second (queued at 5)
    # stream 20       5......all_reduce....48
    build.rank(0)
    build.step(0, 1, host=(0, 60 * US), device=(0, 60 * US))
    build.gpu(0, (0, 10 * US), name="first", launch=build.launch(0, (-2 * US, -1 * US)))
    build.gpu(0, (5 * US, 48 * US), "communication", name="all_reduce", stream=20)
    build.gpu(0, (50 * US, 60 * US), name="second", launch=build.launch(0, (5 * US, 6 * US)))
    # the device is idle from 48 to 50
    assert _one(build, min_gap_ns=2 * US)["duration_ns"] == 2 * US
    compute, *others = _gaps(build, per="stream", min_gap_ns=5 * US)
    assert (compute["stream"], compute["start_ns"], compute["end_ns"]) == (7, 10_000, 50_000)
    assert (compute["cause"], compute["waited_for_op"]) == ("dependency", "all_reduce")
    assert [(g["stream"], g["start_ns"], g["end_ns"], g["cause"]) for g in others] == [
        (20, 0, 5_000, "unknown"),
        (20, 48_000, 60_000, "unknown"),
    ]


@nightly
def test_gaps_are_inside_the_window_and_cut_at_its_edges(build: Builder) -> None:
    # window 1: 0..30, window 2: 30..70; kernels at 10..20 and 50..60
    build.rank(0)
    build.step(0, 1, host=(0, 30 * US))
    build.step(0, 2, host=(30 * US, 70 * US))
    build.gpu(0, (10 * US, 20 * US), name="a")
    build.gpu(0, (50 * US, 60 * US), name="b")
    got = _gaps(build, window="host")
    assert [
        (g["step"], g["start_ns"], g["end_ns"], g["after_op"], g["before_op"]) for g in got
    ] == [
        (1, 0, 10_000, None, "a"),
        (1, 20_000, 30_000, "a", "b"),
        (2, 30_000, 50_000, "a", "b"),
        (2, 60_000, 70_000, "b", None),
    ]
    assert [(g["step"], g["start_ns"], g["end_ns"]) for g in _gaps(build, window="span")] == [
        (None, 20_000, 50_000)
    ]


@nightly
def test_time_between_windows_is_no_gap(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 10 * US), device=(0, 10 * US))
    build.step(0, 9, host=(900 * US, 910 * US), device=(900 * US, 910 * US))
    build.gpu(0, (0, 10 * US))
    build.gpu(0, (900 * US, 910 * US))
    assert _gaps(build) == []


def test_what_lies_between_intervals(build: Builder) -> None:
    # touching; apart; twice; nested; without length; without length at an end
    cases: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]] = [
        ([(0, 10), (10, 20)], []),
        ([(0, 10), (11, 20)], [(10, 11)]),
        ([(0, 10), (0, 10), (12, 20)], [(10, 12)]),
        ([(0, 15), (3, 5), (16, 20)], [(15, 16)]),
        ([(0, 10), (14, 14), (18, 20)], [(10, 14), (14, 18)]),
        ([(0, 10), (10, 10), (18, 20)], [(10, 18)]),
    ]
    for rank, (ops, _) in enumerate(cases):
        build.rank(rank)
        for start, end in ops:
            build.gpu(rank, (start, end))
    assert _told(build, "rank", "start_ns", "end_ns", min_gap_ns=0) == [
        (rank, *gap) for rank, (_, want) in enumerate(cases) for gap in want
    ]


@nightly
def test_min_gap_ns_leaves_out_what_is_shorter(build: Builder) -> None:
    build.rank(0)
    for start in (0, 110, 221):
        build.gpu(0, (start, start + 10))
    assert len(_gaps(build, min_gap_ns=100)) == 2
    assert len(_gaps(build, min_gap_ns=101)) == 1
    assert _gaps(build) == []


def test_devices_of_one_rank_have_their_own_gaps(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 10), device=0)
    build.gpu(0, (0, 100), device=1)
    build.gpu(0, (50, 100), device=0)
    got = _gaps(build, min_gap_ns=1)
    assert [(g["device"], g["start_ns"], g["end_ns"]) for g in got] == [(0, 10, 50)]


def test_a_rank_without_a_gpu_has_gaps_between_its_operators(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 100 * US))
    build.host(0, (0, 10 * US), "aten::a")
    build.host(0, (12 * US, 58 * US), "enumerate(DataLoader)#x.__next__", kind="annotation")
    build.host(0, (60 * US, 70 * US), "aten::b")
    build.host(0, (80 * US, 100 * US), "aten::c")
    got = _gaps(build)
    names = ("device", "start_ns", "end_ns", "cause", "host_op", "timeline")
    loading = "enumerate(DataLoader)#x.__next__"
    assert [tuple(g[name] for name in names) for g in got] == [
        (None, 10_000, 60_000, "data_loading", loading, "cpu"),
        (None, 70_000, 80_000, "unknown", None, "cpu"),
    ]


@nightly
def test_device_gaps_add_up_to_the_idle_time_of_the_breakdown(build: Builder) -> None:
    build.rank(0)
    build.rank(1, offset_ns=17)
    for rank in (0, 1):
        for step in (0, 1, 2):
            build.step(rank, step, host=(100 * step, 100 * step + 90))
        for at in ((3, 40), (20, 57), (95, 120), (250, 251), (260, 295)):
            build.gpu(rank, at, "communication" if at[0] % 2 else "compute", stream=at[0] % 2)
    for window in ("host", "span"):
        idle = {
            (row["rank"], row["step"]): row["idle_ns"]
            for row in rows(build.con, "breakdown", window=window)
        }
        gaps: dict[tuple[int, int], int] = dict.fromkeys(idle, 0)
        for row in _gaps(build, window=window, min_gap_ns=0):
            gaps[row["rank"], row["step"]] += row["duration_ns"]
        assert gaps == idle
        assert sum(idle.values()) > 0


def test_the_longest_comes_first(build: Builder) -> None:
    build.rank(0)
    build.step(0, 1, host=(0, 100 * US), device=(0, 100 * US))
    for begin, end in ((0, 10), (12, 20), (50, 60), (70, 100)):
        build.gpu(0, (begin * US, end * US))
    lengths = [row["duration_ns"] for row in rows(build.con, "gaps")]
    assert lengths == [30 * US, 10 * US, 2 * US]
