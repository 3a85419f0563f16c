"""What becomes of the events of a Kineto file: a few events each, in kineto_rows.cases, and what
has to be written by hand."""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.marks import nightly
from tests.sources import kineto_events
from tests.sources.kineto_events import Event, kernel, launch, load_events, load_file, span
from tests.told import Case, told
from traceweave.ingestion import ingest
from traceweave.sources import classify as classify_module
from traceweave.sources.classify import classify
from traceweave.sources.kineto.repair import repair_event

NCCL = {
    "Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 400,
    "Group size": 4, "dtype": "BFloat16", "Process Group Name": "7",
    "Process Group Description": "mesh_tp", "Process Group Ranks": "[0, 1, ...]", "Seq": 12,
}  # fmt: skip
PRODUCT = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4_warpsize4x2x1_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda()>(int)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def top(**keys: Any) -> dict[str, Any]:
    """Keys beside the events."""
    return {"top": keys}


def memory(**args: Any) -> Event:
    about = {"Bytes": 8, "Total Allocated": 8, "Device Id": 2, **args}
    return kineto_events.mark("i", "[memory]", 3, cat="cpu_instant_event", args=about)


def message(
    ts: float, op: str, peer: int | None, *, dur: float = 1, size: int = 4, desc: str = "mesh_pp"
) -> Event:
    """A send or receive of 8 values of two bytes in the group of ranks 0 to 3."""
    args = {
        "Collective name": op, "In msg nelems": 8, "Out msg nelems": 8, "Group size": size,
        "dtype": "BFloat16", "Process Group Name": "7", "Process Group Description": desc,
        "Process Group Ranks": str(list(range(size))),
    }  # fmt: skip
    if peer is not None:
        args["Dst Rank" if op == "send" else "Src Rank"] = peer
    return span("record_param_comms", ts, dur, args=args)


def batch(ts: float, number: int, to: int = 1, of: int = 3, desc: str = "mesh_pp") -> list[Event]:
    """A send and a receive that end before the launch, and the kernel that does both."""
    return [
        message(ts, "send", to, desc=desc), message(ts + 2, "recv", of, desc=desc),
        launch(ts + 4, 1, number, "cudaLaunchKernelExC"), kernel(SEND_RECV, ts + 20, 9, number),
    ]  # fmt: skip


NAMES: dict[str, Any] = {**vars(kineto_events), **globals()}


@told
def test_events_of_a_file(case: Case, empty_run: Connection, tmp_path: Path) -> None:
    """Beside the tables of a database there are `issues` and `loaded`."""
    events: list[Event] = []
    keys: dict[str, Any] = {}
    for given in case.given(NAMES):
        if isinstance(given, dict) and "top" in given:
            keys |= given["top"]
        else:
            events += given if isinstance(given, list) else [given]
    loaded = load_events(empty_run, tmp_path, events, **keys)
    empty_run.execute("CREATE TEMP TABLE issues (kind VARCHAR, count BIGINT)")
    for issue in loaded.issues:
        empty_run.execute("INSERT INTO issues VALUES (?, ?)", [issue.kind, issue.count])
    empty_run.execute(
        "CREATE TEMP TABLE loaded AS SELECT $1::BIGINT AS read, $2::BIGINT AS stored",
        [loaded.events_read, loaded.events_stored],
    )
    case.holds(lambda query: empty_run.execute(query).fetchall(), NAMES)


@pytest.mark.parametrize(
    ("times", "base_ns"),
    [
        (["6322354292846.145"], 1759300074000000000),
        # absolute times, where a double is not exact
        ([f"1712195495519689.{i:03d}" for i in range(0, 1000, 37)], 0),
    ],
)
def test_times_are_exact_integers_on_top_of_the_base_time(
    empty_run: Connection, tmp_path: Path, times: list[str], base_ns: int
) -> None:
    event = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s,"dur":0.003}'
    events = ",".join(event % time for time in times)
    path = tmp_path / "trace.json"
    path.write_text(f'{{"baseTimeNanoseconds": {base_ns}, "traceEvents": [{events}]}}')
    load_file(empty_run, path)
    query = "SELECT start_local_ns, duration_ns FROM base.host_ops ORDER BY op_id"
    expected = [(base_ns + int(time.replace(".", "")), 3) for time in times]
    assert empty_run.execute(query).fetchall() == expected


def test_damaged_events_are_repaired_or_counted(empty_run: Connection, tmp_path: Path) -> None:
    events = [
        b'{"ph":"X","cat":"cpu_op","name":"good","pid":1,"tid":1,"ts":1,"dur":1}',
        rb'{"ph":"X","cat":"cpu_op","name":"C:\path\new","pid":1,"tid":1,"ts":2,"dur":1}',
        b'{"ph":"X","cat":"cpu_op","name":"inf","pid":1,"ts":3,"dur":1,"args":{"bw":Infinity}}',
        b'{"ph":"X","cat":"cpu_op","name":"say "hi"","pid":1,"tid":1,"ts":4,"dur":1}',
        b'{"ph":"X","cat":"cpu_op","name":,"pid":1,"tid":1,"ts":5,"dur":1}',
        b'{"ph":"X","cat":"cpu_op","name":"last","pid":1,"tid":1,"ts":6,"dur":1}',
    ]
    (tmp_path / "trace.json").write_bytes(b'{"traceEvents":[' + b",".join(events) + b"]}")
    loaded = load_file(empty_run, tmp_path / "trace.json")
    assert (loaded.events_read, loaded.events_stored) == (6, 5)
    assert [(i.kind, i.count) for i in loaded.issues] == [("damaged event", 1)]
    assert loaded.damaged == "1 event is not valid JSON"
    names = empty_run.execute("SELECT list(name ORDER BY start_ns) FROM host_ops").fetchall()
    assert names == [(["good", "C:\\path\new", "inf", 'say "hi"', "last"],)]


def test_repair_leaves_valid_events_alone() -> None:
    event = b'{"name": "C:\\\\path \\u00e9 NaN", "args": {"x": [1, null]}}'
    assert repair_event(event) == event


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


def test_names_that_another_thread_forgets_meanwhile_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Forgotten(dict[str, tuple[str, str]]):
        """As if another thread cleared it after each look."""

        def get(self, name: str, default: Any = None) -> Any:
            found = super().get(name, default)
            self.clear()
            return found

    reduce, compute = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "void elementwise_kernel<4>()"
    told_before = {reduce: ("communication", "all_reduce")}
    monkeypatch.setattr(classify_module, "_told", Forgotten(told_before))
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE new_gpu_ops AS SELECT 'kernel' AS kind, unnest($1) AS name",
            [[reduce, compute]],
        )
        classify(con)
        found = con.execute("SELECT name, category FROM classified ORDER BY name").fetchall()
    assert found == [(reduce, "communication"), (compute, "compute")]
