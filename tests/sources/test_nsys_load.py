"""What becomes of the rows of an export, on exports of a few rows each."""

import json
from pathlib import Path

from tests.marks import nightly
from tests.sources.nsys_export import EPOCH_NS, call, kernel, nvtx, process, thread, write_export
from tests.sources.nsys_loading import load_export, load_rows
from traceweave.sources import nsys


def test_correlation_ids_are_those_of_a_process(tmp_path: Path) -> None:
    """Both processes use correlation 1: each kernel belongs to the call of its own process."""
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(11, 100, 130, 1, "first"),
            kernel(22, 110, 150, 1, "second", deviceId=1),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(22, 60, 70, 1, "cudaLaunchKernel_v7000"),
            call(11, 50, 55, 1, "cuLaunchKernelEx", eventClass=1),
        ],
    )
    assert loaded.rows(
        "SELECT g.rank, g.name, g.device, g.start_local_ns, g.duration_ns, h.rank, h.kind, h.name,"
        " h.pid FROM base.gpu_ops AS g JOIN base.host_ops AS h ON g.launch_op_id = h.op_id"
        " ORDER BY 1"
    ) == [
        (0, "first(int)", 0, EPOCH_NS + 100, 30, 0, "driver", "cuLaunchKernelEx", 11),
        (1, "second(int)", 1, EPOCH_NS + 110, 40, 1, "runtime", "cudaLaunchKernel", 22),
    ]
    assert loaded.rows("SELECT count(*), count(DISTINCT op_id) FROM base.host_ops") == [(2, 2)]


def test_a_kernel_keeps_what_has_no_column(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(
                11, 100, 130, 1, "gemm", registersPerThread=64, gridX=8, gridY=4, gridZ=1,
                blockX=256, blockY=1, blockZ=1, graphNodeId=77,
            )
        ],
    )  # fmt: skip
    ((args, node, launch),) = loaded.rows("SELECT args, graph_node, launch_op_id FROM base.gpu_ops")
    assert json.loads(args) == {
        "short_name": "gemm", "grid": [8, 4, 1], "block": [256, 1, 1], "registers per thread": 64,
    }  # fmt: skip
    assert (node, launch) == (77, None)
    assert loaded.issue("launch not found") == 1


@nightly
def test_backtrace_rows_are_events_beside_the_calls(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 100, 130, 1, "k")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(11, 49, 56, 1, "cudaLaunchKernel", eventClass=67, callchainId=3),
            call(11, 50, 55, 1, "cudaLaunchKernel_ptsz_v7000"),
        ],
    )
    assert loaded.rows(
        "SELECT h.name, h.start_local_ns, h.args->>'full name' FROM base.host_ops AS h"
        " JOIN base.gpu_ops AS g ON g.launch_op_id = h.op_id"
    ) == [("cudaLaunchKernel", EPOCH_NS + 50, "cudaLaunchKernel_ptsz_v7000")]
    assert loaded.rows("SELECT category, name, duration_ns, args FROM base.other_events") == [
        ("cuda_backtrace", "cudaLaunchKernel", 7, '{"correlation":1,"callchain":3}')
    ]


def test_copies_and_sets(tmp_path: Path) -> None:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process(11)}
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            {"start": 10, "end": 20, "correlationId": 4, "bytes": 4096, "copyKind": 1,
             "srcKind": 1, "dstKind": 2, **place},
            {"start": 30, "end": 45, "correlationId": 0, "bytes": 64, "copyKind": 11, **place},
        ],
        CUPTI_ACTIVITY_KIND_MEMSET=[
            {"start": 50, "end": 51, "correlationId": 5, "bytes": 8, "value": 0, "memKind": 2,
             **place},
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 2, 4, "cudaMemcpyAsync_v3020")],
    )  # fmt: skip
    assert loaded.rows(
        "SELECT kind, category, name, copy_kind, bytes, duration_ns, launch_op_id IS NOT NULL, args"
        " FROM base.gpu_ops ORDER BY start_local_ns"
    ) == [
        ("memcpy", "memory", "Memcpy HtoD", "HtoD", 4096, 10, True,
         '{"source":"pinned","destination":"device"}'),
        ("memcpy", "memory", "Memcpy UVM HtoD", "UVM HtoD", 64, 15, False, None),
        ("memset", "memory", "Memset", None, 8, 1, False, '{"value":0,"memory kind":2}'),
    ]  # fmt: skip


@nightly
def test_a_program_of_one_kernel_is_no_doubtful_record(tmp_path: Path) -> None:
    """Its data is copied in 60 pieces; of 60 kernels one that is as long would be doubtful, and
    so would a copy, unless it moves most of the bytes."""
    for kernels, copied, doubts in (
        (1, None, []),
        (60, None, [("one op",)]),
        (60, 64, [("one op",)]),
        (60, 9_999, []),
    ):
        place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process(11)}
        copies = [
            {"start": 10 * n, "end": 10 * n + 4, "correlationId": n, "bytes": 64, "copyKind": 1,
             "srcKind": 0, "dstKind": 2, **place}
            for n in range(1, 61)
        ]  # fmt: skip
        ops = [kernel(11, 1000 * n, 1000 * n + 10, 100 + n, "sum") for n in range(1, kernels)]
        ops.append(kernel(11, 100_000, 100_010 if copied else 190_000, 99, "sum"))
        if copied:
            copies[-1] |= {"start": 200_000, "end": 290_000, "bytes": copied}
        loaded = load_export(
            write_export(
                tmp_path / f"{kernels}_{copied}.sqlite",
                CUPTI_ACTIVITY_KIND_KERNEL=ops,
                CUPTI_ACTIVITY_KIND_MEMCPY=copies,
                CUPTI_ACTIVITY_KIND_RUNTIME=[
                    *(
                        call(11, 10 * n - 8, 10 * n - 3, n, "cudaMemcpy_v3020")
                        for n in range(1, 61)
                    ),
                    *(
                        call(11, 1000 * n - 8, 1000 * n - 3, 100 + n, "cudaLaunchKernel_v7000")
                        for n in range(1, kernels)
                    ),
                    call(11, 90_000, 90_005, 99, "cudaLaunchKernel_v7000"),
                ],
            )
        )
        assert loaded.rows("SELECT kind FROM base.doubts") == doubts


@nightly
def test_pages_that_the_driver_moves_cast_no_doubt_on_the_launches(tmp_path: Path) -> None:
    """A program of one long kernel, while which pages of its managed memory come to the GPU."""
    place = {"deviceId": 0, "contextId": 1, "streamId": 0, "globalPid": process(11)}
    pages = [
        {"start": at, "end": at + 2, "correlationId": 0, "bytes": 64, "copyKind": 11, **place}
        for at in range(120, 520, 4)
    ]
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(11, 110, 90_110, 1, "sum")],
        CUPTI_ACTIVITY_KIND_MEMCPY=pages,
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 100, 105, 1, "cudaLaunchKernel_v7000")],
    )
    assert loaded.rows("SELECT count(*) FROM base.gpu_ops") == [(101,)]
    assert loaded.rows("SELECT kind FROM base.doubts") == []


def test_a_graph_recorded_as_a_whole_is_one_op(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[
            {"start": 100, "end": 900, "deviceId": 0, "contextId": 1, "streamId": 7,
             "correlationId": 9, "globalPid": process(11), "graphId": 2, "graphExecId": 3},
            {"start": 100, "end": 90, "deviceId": 0, "contextId": 1, "streamId": 7,
             "correlationId": 10, "globalPid": process(11), "graphId": 2, "graphExecId": 3},
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 2, 9, "cudaGraphLaunch_v10000")],
    )  # fmt: skip
    assert loaded.rows("SELECT kind, name, duration_ns, args FROM base.gpu_ops") == [
        ("kernel", "CUDA graph", 800, '{"graph id":2,"graph exec id":3}')
    ]
    assert loaded.issue("CUDA graphs as a whole") == 2
    assert loaded.issue("skipped: CUPTI_ACTIVITY_KIND_GRAPH_TRACE") == 1
    assert loaded.loaded.events_skipped == 1


def test_nvtx_ranges(tmp_path: Path) -> None:
    """Names from text or StringIds, the suffix of emit_nvtx as data, domain, color, value."""
    loaded = load_rows(
        tmp_path,
        NVTX_EVENTS=[
            {"start": -5, "eventType": 75, "text": "data", "domainId": 2,
             "globalTid": thread(11)},
            {"start": -4, "eventType": 33, "text": "io", "domainId": 2, "category": 3,
             "globalTid": thread(11)},
            nvtx(11, 10, 90, "aten::add, seq = 12, op_id = 34, sizes = [[2, 3], []]"),
            nvtx(11, 20, 30, "", textId="load", domainId=2, category=3, color=0xFFFF0000,
                 uint64Value=-1),
            nvtx(11, 25, 60, "prefetch", eventType=60, endGlobalTid=thread(11, 77),
                 doubleValue=0.5),
            {"start": 40, "eventType": 34, "text": "mark", "globalTid": thread(11)},
        ],
    )  # fmt: skip
    assert loaded.rows(
        "SELECT name, duration_ns, depth, sequence, args FROM base.host_ops ORDER BY start_local_ns"
    ) == [
        ("aten::add", 80, 0, 12, '{"op_id":34,"sizes":"[[2, 3], []]"}'),
        ("load", 10, 1, None,
         '{"domain":"data","category":"io","color":"#ffff0000","value":18446744073709551615}'),
        ("prefetch", 35, None, None, '{"value":0.5,"end tid":77}'),
    ]  # fmt: skip
    assert loaded.rows(
        "SELECT phase, category, name FROM base.other_events ORDER BY start_local_ns"
    ) == [
        ("M", "nvtx_domain_create", "data"),
        ("M", "nvtx_category", "io"),
        ("i", "nvtx_mark", "mark"),
    ]


def test_backward_operators_are_linked_to_forward_by_sequence(tmp_path: Path) -> None:
    """As emit_nvtx writes it: evaluate_function and what runs in a node have no number, of nested
    operators with one number the last made the node. A node that runs twice is linked once, one
    whose forward is not in the recording not at all."""
    autograd = {"globalTid": thread(11, 77)}
    loaded = load_rows(
        tmp_path,
        NVTX_EVENTS=[
            nvtx(11, 0, 5, "aten::relu, seq = 0, op_id = 1"),
            nvtx(11, 10, 50, "aten::linear, seq = 596, op_id = 2"),
            nvtx(11, 20, 40, "aten::addmm, seq = 596, op_id = 3"),
            nvtx(11, 60, 70, "aten::sum, seq = 597, op_id = 4"),
            nvtx(11, 100, 160, "autograd::engine::evaluate_function: SumBackward0, op_id = 5",
                 **autograd),
            nvtx(11, 110, 150, "SumBackward0, seq = 597, op_id = 6", **autograd),
            nvtx(11, 120, 130, "aten::expand, op_id = 7", **autograd),
            nvtx(11, 210, 250, "AddmmBackward0, seq = 596, op_id = 8", **autograd),
            nvtx(11, 260, 270, "AddmmBackward0, seq = 596, op_id = 9", **autograd),
            nvtx(11, 310, 350, "ReluBackward0, seq = 0, op_id = 10", **autograd),
            nvtx(11, 400, 410, "TBackward0, seq = 4711, op_id = 11", **autograd),
            nvtx(11, 500, 510, "aten::t, seq = 598, op_id = 12"),
            nvtx(11, 520, 530, "TBackward0, seq = 598, op_id = 13"),
        ],
    )  # fmt: skip
    assert loaded.rows(
        "SELECT f.rank, f.source_id, f.kind, a.name, a.args->>'op_id', b.name, b.args->>'op_id'"
        " FROM base.flows AS f JOIN base.host_ops AS a ON f.from_op_id = a.op_id"
        " JOIN base.host_ops AS b ON f.to_op_id = b.op_id ORDER BY b.start_local_ns"
    ) == [
        (0, 1, "fwdbwd", "aten::sum", "4", "SumBackward0", "6"),
        (0, 1, "fwdbwd", "aten::addmm", "3", "AddmmBackward0", "8"),
        (0, 1, "fwdbwd", "aten::relu", "1", "ReluBackward0", "10"),
        (0, 1, "fwdbwd", "aten::t", "12", "TBackward0", "13"),
    ]


def test_open_ranges_end_with_the_recording(tmp_path: Path) -> None:
    """The last event of the recording ends at 500."""
    loaded = load_rows(
        tmp_path,
        NVTX_EVENTS=[nvtx(11, 100, None, "training"), nvtx(11, 150, 200, "step")],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 490, 500, 1, "cudaFree_v3020")],
    )
    assert loaded.rows(
        "SELECT name, duration_ns, args->>'open' FROM base.host_ops WHERE kind = 'nvtx' ORDER BY 1"
    ) == [("step", 50, None), ("training", 400, "true")]
    assert loaded.issue("open NVTX range") == 1


@nightly
def test_mpi_and_os_calls(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        MPI_RANKS=[{"globalTid": thread(11), "rank": 6}],
        MPI_COLLECTIVES_EVENTS=[
            {"start": 10, "end": 30, "globalTid": thread(11), "textId": "MPI_Allreduce",
             "commHandle": 5, "size": 800, "recvSize": 800},
        ],
        MPI_P2P_EVENTS=[
            {"start": 40, "end": 41, "globalTid": thread(11), "textId": "MPI_Send", "tag": 1,
             "remoteRank": 7, "size": 64},
        ],
        OSRT_API=[
            {"start": 2, "end": 4, "eventClass": 27, "globalTid": thread(33), "nameId": "poll",
             "returnValue": 1, "nestingLevel": 0, "callchainId": 0},
        ],
    )  # fmt: skip
    assert [(p.rank, p.rank_source, p.backend) for p in loaded.trace.processes] == [
        (6, "MPI_RANKS", "mpi")
    ]
    assert loaded.rows(
        "SELECT rank, kind, name, pid, duration_ns, args FROM base.host_ops ORDER BY start_local_ns"
    ) == [
        # a process that is no rank keeps its rows, without a rank
        (None, "os", "poll", 33, 2, '{"return value":1,"nesting level":0}'),
        (6, "mpi", "MPI_Allreduce", 11, 20, '{"size":800,"receive size":800,"communicator":5}'),
        (6, "mpi", "MPI_Send", 11, 1, '{"size":64,"remote rank":7,"tag":1}'),
    ]


def test_what_is_not_stored_is_counted(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        CUPTI_ACTIVITY_KIND_RUNTIME=[
            call(11, 1, 9, 1, "cudaFree_v3020"),
            call(11, 9, 1, 2, "cudaFree_v3020"),
            call(11, 2**63 - 1, 2**63 - 1, 3, "cudaFree_v3020"),
            {**call(11, 0, 9, 4, "cudaFree_v3020"), "start": "yesterday"},
        ],
        SCHED_EVENTS=[{"start": 1, "cpu": 0, "isSchedIn": 1}] * 3,
        COMPOSITE_EVENTS=[{"id": 1, "start": 1, "cpuCycles": 1}],
        FUTURE_EVENTS=[{"start": 1, "end": 2, "note": "?"}] * 2,
    )
    assert (loaded.loaded.events_read, loaded.loaded.events_stored) == (10, 1)
    assert [(i.kind, i.count, i.message) for i in loaded.loaded.issues] == [
        ("skipped: COMPOSITE_EVENTS", 1, "not loaded: CPU samples (COMPOSITE_EVENTS)"),
        ("skipped: FUTURE_EVENTS", 2, "not loaded: events of an unknown table (FUTURE_EVENTS)"),
        ("skipped: SCHED_EVENTS", 3, "not loaded: thread scheduling events (SCHED_EVENTS)"),
        ("skipped: CUPTI_ACTIVITY_KIND_RUNTIME", 2,
         "events without a usable time (CUPTI_ACTIVITY_KIND_RUNTIME)"),
        ("skipped: CUPTI_ACTIVITY_KIND_RUNTIME", 1,
         "events that end before they start (CUPTI_ACTIVITY_KIND_RUNTIME)"),
    ]  # fmt: skip


def test_codes_and_schemas_of_the_future_are_told_once(tmp_path: Path) -> None:
    loaded = load_rows(
        tmp_path,
        META_DATA_EXPORT=[{"name": "EXPORT_SCHEMA_VERSION", "value": "4.1.0"}],
        NVTX_EVENTS=[
            nvtx(11, 1, 2, "step"), nvtx(11, 3, 4, "a", eventType=412),
            nvtx(11, 5, 6, "b", eventType=412), nvtx(11, 7, 8, "c", eventType=413),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 1, 9, 1, "cuNew", eventClass=131)],
    )  # fmt: skip
    assert [(i.kind, i.count, i.example) for i in loaded.loaded.issues] == [
        ("unknown NVTX event type", 3, "412, 413"),
        ("unknown class of CUDA call", 1, "131"),
        ("unknown export schema", 1, "4.1"),
    ]
    assert (loaded.loaded.events_read, loaded.loaded.events_stored) == (5, 5)
    assert loaded.rows("SELECT category, name FROM base.other_events ORDER BY op_id") == [
        ("cuda_call_class_131", "cuNew"),
        ("nvtx_event_type_412", "a"),
        ("nvtx_event_type_412", "b"),
        ("nvtx_event_type_413", "c"),
    ]


def test_an_export_of_one_table_loads(tmp_path: Path) -> None:
    loaded = load_rows(tmp_path, epoch=None, NVTX_EVENTS=[nvtx(11, 5, 8, "step 1")])
    assert loaded.rows("SELECT rank, name, start_local_ns FROM base.host_ops") == [(0, "step 1", 5)]
    assert loaded.trace.notes == (
        "it has no session start time: its times are relative to the start of recording",
    )


def test_normalized_times_are_not_moved_again(tmp_path: Path) -> None:
    """`nsys export --ts-normalize=true` has added the session start already."""
    loaded = load_rows(
        tmp_path,
        META_DATA_EXPORT=[{"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"}],
        NVTX_EVENTS=[nvtx(11, EPOCH_NS + 5, EPOCH_NS + 8, "step")],
    )
    assert loaded.rows("SELECT start_local_ns FROM base.host_ops") == [(EPOCH_NS + 5,)]


def test_shifted_times_stay_shifted(tmp_path: Path) -> None:
    """As nsys 2023.4 exports with --ts-shift=1000 alone and with --ts-normalize=true: the session
    start is what it was, the times of events are moved."""
    shift = {"name": "EXPORT_PARAM_TIME_SHIFT", "value": "1000"}
    total = {"name": "EXPORT_CONFIG_TIME_SHIFT", "value": str(EPOCH_NS + 1000)}
    normalize = {"name": "EXPORT_PARAM_TIME_NORMALIZE", "value": "true"}
    alone = load_export(
        write_export(
            tmp_path / "shifted.sqlite",
            META_DATA_EXPORT=[shift],
            NVTX_EVENTS=[nvtx(11, 1005, 1008, "step")],
        )
    )
    both = load_export(
        write_export(
            tmp_path / "both.sqlite",
            META_DATA_EXPORT=[shift, total, normalize],
            NVTX_EVENTS=[nvtx(11, EPOCH_NS + 1005, EPOCH_NS + 1008, "step")],
        )
    )
    start = "SELECT start_local_ns FROM base.host_ops"
    assert alone.rows(start) == both.rows(start) == [(EPOCH_NS + 1005,)]
    note = "its times were shifted by 1000 ns (exported with --ts-shift)"
    assert alone.trace.notes == (note,)
    assert both.trace.notes == ("its times are UTC already (exported with --ts-normalize)", note)


@nightly
def test_progress_sums_to_the_size_of_the_file(tmp_path: Path) -> None:
    path = write_export(tmp_path / "p.sqlite", NVTX_EVENTS=[nvtx(11, 5, 8, "step")] * 100)
    loaded = load_export(path)
    told: list[int] = []
    loaded.con.execute("DELETE FROM base.host_ops")
    nsys.load(loaded.con, loaded.trace, 2, told.append)
    assert sum(told) == path.stat().st_size
    assert min(told) >= 0
