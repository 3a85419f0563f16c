"""Kineto files of every age and device, loaded; small hand-made ones checked row by row."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.cases import cases
from tests.marks import first_at_once, nightly
from traceweave.errors import InputError
from traceweave.ingestion import ingest
from traceweave.sources import kineto
from traceweave.sources.kineto.repair import repair_event
from traceweave.sources.model import Loaded, Trace

Rows = list[tuple[Any, ...]]


def nothing(_: int) -> None:
    """Report progress to nobody."""


@pytest.fixture
def load(
    empty_run: Connection, tmp_path: Path
) -> Callable[..., tuple[Loaded, Callable[[str], Rows]]]:
    """Write events as a trace file, load it as source 1, and return what became of it and a query
    function."""

    def write_and_load(
        events: list[dict[str, Any]] | bytes, **top: Any
    ) -> tuple[Loaded, Callable[[str], Rows]]:
        path = tmp_path / "trace.json"
        data = (
            events
            if isinstance(events, bytes)
            else json.dumps({"distributedInfo": {"rank": 0}, **top, "traceEvents": events}).encode()
        )
        path.write_bytes(data)
        return load_file(empty_run, path), lambda query: empty_run.execute(query).fetchall()

    return write_and_load


def load_file(con: Connection, path: Path, source_id: int = 1) -> Loaded:
    trace: Trace = kineto.probe(path)
    if trace.processes[0].rank is None:
        trace = trace.with_ranks({0: (0, "test")})
    return kineto.load(con, trace, source_id, nothing)


def span(name: str, ts: float, dur: float, **rest: Any) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": dur, **rest,
    }  # fmt: skip


def kernel(name: str, ts: float, dur: float, correlation: int, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def launch(
    ts: float, dur: float, correlation: int, name: str = "cudaLaunchKernel"
) -> dict[str, Any]:
    return span(name, ts, dur, cat="cuda_runtime", args={"correlation": correlation})


def test_times_are_exact_integers_on_top_of_the_base_time(load: Any) -> None:
    text = (
        b'{"baseTimeNanoseconds": 1759300074000000000, "distributedInfo": {"rank": 3},'
        b'"traceEvents": ['
        b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":6322354292846.145,"dur":0.003}]}'
    )
    _, query = load(text)
    assert query("SELECT rank, start_local_ns, duration_ns FROM host_ops") == [
        (3, 1759300074000000000 + 6322354292846145, 3)
    ]


def test_absolute_times_with_decimals_are_exact_where_a_double_is_not(load: Any) -> None:
    text = b'{"traceEvents": [' + b",".join(
        b'{"ph":"X","cat":"cpu_op","name":"n","pid":1,"tid":1,"ts":1712195495519689.%03d,"dur":1}'
        % i
        for i in range(0, 1000, 37)
    )
    _, query = load(text + b"]}")
    expected = [(1712195495519689000 + i,) for i in range(0, 1000, 37)]
    assert query("SELECT start_local_ns FROM host_ops ORDER BY op_id") == expected


def test_a_kernel_is_linked_to_its_launch_and_step(load: Any) -> None:
    loaded, query = load(
        [
            span("ProfilerStep#4", 0, 100, cat="user_annotation"),
            span("ProfilerStep#5", 100, 100, cat="user_annotation"),
            span("aten::mm", 10, 30),
            launch(20, 5, 77),
            kernel("sm80_gemm", 150, 20, 77),
            {"ph": "s", "id": 77, "pid": 9, "tid": 9, "ts": 20, "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": 77, "pid": 0, "tid": 7, "ts": 150, "cat": "ac2g", "name": "ac2g"},
            span("aten::item", 110, 5),
        ]
    )
    assert (loaded.events_read, loaded.events_stored, loaded.issues) == (8, 8, [])
    assert query("SELECT name, class, category, launch_op_id, step FROM gpu_ops") == [
        ("sm80_gemm", "gemm", "compute", 1_000_000_003, 4)
    ]
    assert query("SELECT kind, from_op_id, to_op_id FROM flows") == [
        ("launch", 1_000_000_003, 1_000_000_004)
    ]
    assert query("SELECT step, device_start_ns, device_end_ns FROM steps ORDER BY step") == [
        (4, 150_000, 170_000),
        (5, None, None),
    ]


def test_calls_with_equal_arguments_have_equal_hashes(load: Any) -> None:
    mm = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    calls = [
        {"External id": 1, "Sequence number": 5, **mm},
        {"Ev Idx": 8, **mm, "External id": 2},  # ids and the order of keys make no difference
        {**mm, "Input Dims": [[2, 3], [3, 5]]},
        {**mm, "Input type": ["double", "double"]},
        {**mm, "Concrete Inputs": ["", "1"]},
        {**mm, "kernel_flop": 48},
        {"External id": 3, "Sequence number": 6},
    ]
    _, query = load([span("aten::mm", 10 * i, 5, args=args) for i, args in enumerate(calls)])
    hashes = [hash_ for (hash_,) in query("SELECT arguments_hash FROM host_ops ORDER BY op_id")]
    assert hashes[0] == hashes[1]
    assert len({*hashes}) == 6
    assert hashes[6] is None
    assert query("SELECT sequence FROM host_ops WHERE sequence > 0 ORDER BY op_id") == [(5,), (6,)]


@first_at_once()
@cases
def test_a_kernel_is_of_the_class_that_its_name_says(load: Any, name: str, class_: str) -> None:
    _, query = load([launch(0, 5, 1), kernel(name, 10, 5, 1)])
    assert query("SELECT class FROM gpu_ops") == [(class_,)]


def test_ranges_nest_per_thread(load: Any) -> None:
    _, query = load(
        [
            span("outer", 0, 100), span("inner", 10, 20), span("innermost", 10, 5),
            span("nothing", 30, 0), span("sibling", 30, 20), span("other thread", 12, 3, tid=10),
            span("next", 100, 5),
        ]
    )  # fmt: skip
    assert query(
        "SELECT h.name, h.depth, p.name"
        " FROM host_ops AS h LEFT JOIN host_ops AS p ON p.op_id = h.parent_id ORDER BY h.op_id"
    ) == [
        ("outer", 0, None), ("inner", 1, "outer"), ("innermost", 2, "inner"),
        ("nothing", 2, "sibling"), ("sibling", 1, "outer"), ("other thread", 0, None),
        ("next", 0, None),
    ]  # fmt: skip


def test_every_lost_event_is_counted_by_kind(load: Any) -> None:
    loaded, query = load(
        [
            span("good", 0, 1),
            span("backwards", 0, -5),
            span("no time", 0, 1) | {"ts": "soon"},
            span("absurd", 9e18, 1),
            span("no duration", 0, 1) | {"dur": "long"},
            {"cat": "cpu_op", "name": "no phase", "ts": 1},
            {"ph": "B", "name": "opened", "pid": 9, "tid": 1, "ts": 5},
            {"ph": "E", "name": "closed", "pid": 9, "tid": 2, "ts": 5},
            {"ph": "s", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "pid": 9, "tid": 9, "ts": 0},
        ]
    )
    assert [(i.kind, i.count) for i in loaded.issues] == [
        ("negative duration", 1), ("no phase", 1), ("no usable duration", 1),
        ("no usable timestamp", 2), ("unpaired B/E", 2), ("unpaired arrow", 1),
    ]  # fmt: skip
    assert (loaded.events_read, loaded.events_stored, loaded.events_skipped) == (9, 1, 8)
    assert query("SELECT name FROM host_ops") == [("good",)]


def test_begin_and_end_events_pair_like_brackets(load: Any) -> None:
    def mark(phase: str, name: str, ts: int) -> dict[str, Any]:
        return {"ph": phase, "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": ts}

    loaded, query = load(
        [
            mark("B", "a", 1), mark("B", "b", 2), mark("E", "b", 5), mark("B", "c", 5),
            mark("E", "c", 6), mark("E", "a", 9),
        ]
    )  # fmt: skip
    assert loaded.events_stored == 6
    assert query("SELECT name, start_local_ns, duration_ns, depth FROM host_ops ORDER BY 2") == [
        ("a", 1000, 8000, 0),
        ("b", 2000, 3000, 1),
        ("c", 5000, 1000, 1),
    ]


def test_marks_counters_memory_and_metadata_are_kept(load: Any) -> None:
    memory = {
        "Bytes": -512, "Addr": 4096, "Total Allocated": 1024, "Total Reserved": 2048,
        "Device Type": 1, "Device Id": 2,
    }  # fmt: skip
    loaded, query = load(
        [
            {"ph": "M", "name": "process_name", "pid": 9, "ts": 0, "args": {"name": "python"}},
            {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 4, "s": "g"},
            {"ph": "C", "name": "queue", "pid": 9, "ts": 2, "args": {"stream 7": 3, 'a"b': 4.5}},
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 3, "args": memory},
            span("x", 1, 2, cat="gpu_user_annotation"),
        ]
    )  # fmt: skip
    assert (loaded.events_read, loaded.events_stored) == (5, 5)
    assert query("SELECT phase, name, start_local_ns FROM other_events ORDER BY op_id") == [
        ("M", "process_name", 0),
        ("i", "Record Window End", 4000),
        ("X", "x", 1000),
    ]
    assert query("SELECT name, at_ns, value FROM counters ORDER BY name") == [
        ('queue.a"b', 2000, 4.5),
        ("queue.stream 7", 2000, 3.0),
    ]
    assert query(
        "SELECT device, name, value, address, total_allocated_bytes, total_reserved_bytes"
        " FROM memory_events"
    ) == [("cuda:2", "free", -512, 4096, 1024, 2048)]


@first_at_once()
@pytest.mark.parametrize(
    ("models", "name"), [(("H100", "H100"), "H100"), (("H100", "T4"), None), ((), None)]
)
def test_a_device_that_is_not_listed_has_the_model_that_all_have(
    load: Any, models: tuple[str, ...], name: str | None
) -> None:
    listed = [{"id": n, "name": model} for n, model in enumerate(models)]
    work = [launch(0, 5, 1), kernel("gemm", 10, 5, 1, device=6)]
    _, query = load(work, deviceProperties=listed)
    assert query("SELECT device, gpu_name FROM ranks") == [(6, name)]


@first_at_once()
@pytest.mark.parametrize(("kind", "device"), [(0, "cpu"), (6, "hip:2"), (20, "20:2")])
def test_memory_is_of_the_device_that_the_event_names(load: Any, kind: int, device: str) -> None:
    memory = {"Bytes": 8, "Total Allocated": 8, "Device Type": kind, "Device Id": 2}
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 3, "args": memory}
    _, query = load([event])
    assert query("SELECT device FROM memory_events") == [(device,)]


NCCL_KEYS = {
    "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 400,
    "Group size": 4, "dtype": "BFloat16", "Process Group Name": "7",
    "Process Group Description": "mesh_tp", "Process Group Ranks": "[0, 1, ...]", "Seq": 12,
}  # fmt: skip
PG_CONFIG = [{"pg_name": "7", "pg_desc": "mesh_tp", "pg_size": 4, "ranks": [3, 1, 0, 2]}]
COLLECTIVE = """
    SELECT op, group_name, group_desc, group_ranks, group_size, seq, dtype, bytes, evidence
    FROM base.collective_calls
"""


def test_collective_keys_on_the_kernel(load: Any) -> None:
    _, query = load(
        [launch(1, 1, 5), kernel("ncclDevKernel_AllGather_RING_LL", 3, 9, 5, **NCCL_KEYS)],
        distributedInfo={"rank": 0, "world_size": 8, "pg_config": PG_CONFIG},
    )
    assert query(COLLECTIVE) == [
        ("all_gather", "7", "mesh_tp", [0, 1, 2, 3], 4, 12, "BFloat16", 800, "metadata")
    ]


def test_collective_keys_on_the_host_operation_around_the_launch(load: Any) -> None:
    _, query = load(
        [
            span("record_param_comms", 0, 10, args=NCCL_KEYS | {"Process Group Ranks": "[2, 0]"}),
            launch(4, 1, 5),
            kernel("ncclKernel_AllGather_RING_LL_Sum_int8_t", 30, 9, 5),
        ]
    )
    assert query(COLLECTIVE) == [
        ("all_gather", "7", "mesh_tp", [2, 0], 4, 12, "BFloat16", 800, "metadata")
    ]
    assert query("SELECT host_op_id FROM collectives") == [(1_000_000_000,)]


@first_at_once()
@pytest.mark.parametrize(("name", "place"), [("broadcast", 2), ("all_gather", None)])
def test_the_rank_of_a_collective_with_a_root_is_that_of_the_root(
    load: Any, name: str, place: int | None
) -> None:
    """Of others it is that of the process, which is no news."""
    keys = NCCL_KEYS | {"Collective name": name}
    _, query = load(
        [
            span("record_param_comms", 0, 10, args=keys | {"Rank": 2}),
            launch(4, 1, 5),
            kernel("ncclDevKernel_Broadcast_RING_LL", 30, 9, 5, **keys),
        ]
    )
    assert query("SELECT root_place FROM base.collective_calls") == [(place,)]


def test_collective_without_keys_is_read_from_names_and_shapes(load: Any) -> None:
    shape = {"Input Dims": [[4, 2048]], "Input type": ["c10::Half"]}
    _, query = load(
        [
            span("nccl:all_reduce", 0, 10, cat="user_annotation", args=shape),
            launch(4, 1, 5),
            kernel("ncclKernel_AllReduce_RING_LL_Sum_half", 30, 9, 5),
            launch(40, 1, 6),
            kernel("ncclDevKernel_SendRecv(ncclDevComm*)", 50, 9, 6),
        ]
    )
    assert query(COLLECTIVE) == [
        ("all_reduce", None, None, None, None, None, "c10::Half", 16384, "host op"),
        ("unknown", None, None, None, None, None, None, None, "name"),
    ]


def test_damaged_events_are_repaired_or_counted(load: Any) -> None:
    good = b'{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":1,"dur":1}'
    windows = rb'{"ph":"X","cat":"cpu_op","name":"C:\path\new","pid":1,"tid":1,"ts":2,"dur":1}'
    infinite = (
        b'{"ph":"X","cat":"cpu_op","name":"inf","pid":1,"ts":3,"dur":1,"args":{"bw":Infinity}}'
    )
    quotes = b'{"ph":"X","cat":"cpu_op","name":"say "hi"","pid":1,"tid":1,"ts":4,"dur":1}'
    hopeless = b'{"ph":"X","cat":"cpu_op","name":,"pid":1,"tid":1,"ts":5,"dur":1}'
    loaded, query = load(
        b'{"traceEvents":[' + b",".join([good, windows, infinite, quotes, hopeless, good]) + b"]}"
    )
    assert (loaded.events_read, loaded.events_stored) == (6, 5)
    assert [(i.kind, i.count) for i in loaded.issues] == [("damaged event", 1)]
    assert loaded.damaged == "1 event is not valid JSON"
    assert query("SELECT name FROM host_ops ORDER BY start_ns, op_id") == [
        ("good",), ("good",), ("C:\\path\new",), ("inf",), ('say "hi"',),
    ]  # fmt: skip


def test_repair_leaves_valid_events_alone() -> None:
    event = b'{"name": "C:\\\\path \\u00e9 NaN", "args": {"x": [1, null]}}'
    assert repair_event(event) == event


def test_a_truncated_file_keeps_what_is_before_the_cut(load: Any) -> None:
    data = json.dumps(
        {"distributedInfo": {"rank": 5}, "traceEvents": [span(f"op{i}", i, 1) for i in range(50)]},
        indent=2,
    )
    loaded, query = load(data[: data.index('"op40"')].encode())
    assert loaded.damaged == "the file ends inside its traceEvents array"
    assert (loaded.events_read, loaded.events_stored) == (41, 40)
    assert query("SELECT count(*), any_value(rank) FROM host_ops") == [(40, 5)]


def test_a_file_without_events_array_leaves_nothing_behind(load: Any) -> None:
    with pytest.raises(InputError, match="no traceEvents array"):
        load(b'{"distributedInfo": {"rank": 0}}')


@nightly
def test_an_operator_may_be_a_collective_itself(tmp_path: Path) -> None:
    """Two ranks of an engine on CPUs, which reduce in shared memory: rank 1 computes 2 ms longer in
    its first half, and nothing is a gradient."""
    for rank, late in ((0, 0), (1, 2000)):
        shared = {"Input type": ["Scalar", "c10::BFloat16"], "Input Dims": [[], [4096, 2560]]}
        events = [
            span("execute_context_4(4096)_generation_0(0)", 0, 15_000, cat="user_annotation"),
            span("block", 5, 14_990),
            span("aten::mm", 10, 4000 + late),
            span("_C::shm_allreduce", 4010 + late, 3000 - late, args=shared),
            span("aten::mm", 7010, 4000),
            span("_C::shm_allreduce", 11_010, 1000, args=shared),
            span("aten::mm", 12_010, 900),
        ]
        about = {"backend": "gloo", "rank": rank, "world_size": 2}
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps({"distributedInfo": about, "traceEvents": events}))
    ingest(tmp_path, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        calls = run.con.execute(
            "SELECT rank, op, bytes, duration_ns // 1000, collective_id FROM collectives"
            " ORDER BY start_ns, rank"
        ).fetchall()
        times = run.stream_analysis("breakdown").read_all().to_pylist()
        said = {row["rule"] for row in run.stream_analysis("findings").read_all().to_pylist()}
    size = 4096 * 2560 * 2
    assert sorted(calls) == [
        (0, "all_reduce", size, 1000, 1), (0, "all_reduce", size, 3000, 0),
        (1, "all_reduce", size, 1000, 0), (1, "all_reduce", size, 1000, 1),
    ]  # fmt: skip
    assert [(row["compute_ns"], row["comm_ns"], row["exposed_wait_ns"]) for row in times] == [
        (10_990_000, 4_000_000, 2_000_000),
        (12_990_000, 2_000_000, 0),
    ]
    # compute has to wait for activations
    assert said & {"communication_bound", "poor_overlap"} == {"communication_bound"}


def test_gloo_operations_are_collectives_of_the_host(empty_run: Connection, fixtures: Path) -> None:
    loaded = load_file(empty_run, fixtures / "ddp_gloo_straggler" / "rank2.json.gz")
    assert (loaded.damaged, loaded.events_skipped) == (None, 0)
    assert empty_run.execute(
        "SELECT op, dtype, bytes, count(*), count(step), min(group_size)"
        " FROM base.collective_calls GROUP BY ALL ORDER BY ALL"
    ).fetchall() == [
        ("all_gather", "long int", 32, 2, 2, 4),
        ("all_reduce", "float", 4, 4, 4, 4),
        ("all_reduce", "float", 295296, 8, 8, 4),
        ("all_reduce", "float", 344064, 4, 4, 4),
        ("all_reduce", "float", 344832, 4, 4, 4),
    ]
    issued_before = empty_run.execute(
        "SELECT bool_and(h.start_local_ns <= k.start_local_ns AND h.name LIKE 'c10d::%')"
        " FROM base.collective_calls AS k JOIN base.host_ops AS h ON h.op_id = k.host_op_id"
    ).fetchall()
    assert issued_before == [(True,)]
