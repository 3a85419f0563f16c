"""The written Kineto files tell the true timeline as each rank's clock saw it."""

import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traceweave_simulator import Clock, Config, Run, Truth, simulate, write_kineto
from traceweave_simulator.errors import SimulationError

SKEWED = {0: Clock(), 1: Clock(-3_000_017, 25.0), 2: Clock(12_345_678_901, -8.0)}


def events(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = json.loads(raw, parse_float=Decimal)
    return trace, trace.pop("traceEvents")


def spans(
    trace: dict[str, Any], found: list[dict[str, Any]], category: str
) -> list[tuple[str, int, int]]:
    base = trace.get("baseTimeNanoseconds", 0)
    return sorted(
        (e["name"], int(e["ts"] * 1000) + base, int(e["dur"] * 1000))
        for e in found
        if e.get("cat") == category
    )


def expected(run: Run, rank: int, kind: str) -> list[tuple[str, int, int]]:
    if kind in ("kernel", "memcpy"):
        table = run.gpu
        names = [k.kernel.name if k.kind == kind else "" for k in table.kinds]
    elif kind == "cuda_runtime":
        table = run.calls  # type: ignore[assignment]
        names = [k.name for k in table.kinds]  # type: ignore[attr-defined]
    else:
        table = run.ranges  # type: ignore[assignment]
        names = [k.name if k.kind == kind else "" for k in table.kinds]  # type: ignore[attr-defined]
    rows = run.recorded(table.start, rank)
    start, end = (run.local(rank, t[rows, rank]) for t in (table.start, table.end))
    rank_rows = zip(
        [names[k] for k in table.kind[rows]], start.tolist(), (end - start).tolist(), strict=True
    )
    return sorted(r for r in rank_rows if r[0])


@pytest.mark.parametrize("parallelism", ["ddp", "fsdp", "tp", "pp"])
@pytest.mark.parametrize("layout", ["torch-2.12", "torch-2.0"])
def test_times_are_the_true_ones_seen_by_the_ranks_clock(
    tmp_path: Path, parallelism: Any, layout: Any
) -> None:
    run = simulate(
        Config(
            ranks=4, steps=2, layers=2, parallelism=parallelism, group_size=2, clocks=SKEWED,
            window_cut={3: 2},
        )
    )  # fmt: skip
    paths = write_kineto(run, tmp_path, layout=layout, integer_us=False)
    assert [p.name for p in paths] == [f"rank{r}.json.gz" for r in range(4)]
    for rank, path in enumerate(paths):
        trace, found = events(path)
        for category, kind in (
            ("kernel", "kernel"),
            ("gpu_memcpy", "memcpy"),
            ("cuda_runtime", "cuda_runtime"),
            ("cpu_op", "cpu_op"),
        ):
            assert spans(trace, found, category) == expected(run, rank, kind)


def test_steps_are_profiler_steps_on_the_main_thread(tmp_path: Path) -> None:
    run = simulate(Config(ranks=2, steps=3, layers=2, first_step=4))
    trace, found = events(write_kineto(run, tmp_path)[1])
    steps = [s for s in spans(trace, found, "user_annotation") if s[0].startswith("ProfilerStep#")]
    mine = Truth(run).steps.query("rank == 1")
    assert steps == [
        (f"ProfilerStep#{n}", s, d)
        for n, s, d in zip(mine["step"], mine["start_ns"], mine["duration_ns"], strict=True)
    ]
    assert {
        e["tid"] == e["pid"]
        for e in found
        if str(e.get("name")).startswith("ProfilerStep") and e["cat"] == "user_annotation"
    } == {True}


def test_whole_microseconds_are_rounded_down_at_both_ends(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=1, layers=2))
    trace, found = events(write_kineto(run, tmp_path, layout="torch-2.0")[0])
    assert "baseTimeNanoseconds" not in trace
    exact = run.gpu_ops.sort_values("start_ns")
    kernels = sorted((e["ts"], e["dur"]) for e in found if e.get("cat") in ("kernel", "gpu_memcpy"))
    start, end = exact["start_ns"] // 1000, exact["end_ns"] // 1000
    assert kernels == sorted(zip(start, end - start, strict=True))
    assert all(isinstance(value, int) for pair in kernels for value in pair)


def test_nccl_kernels_carry_their_metadata_in_the_new_layout_only(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, parallelism="tp", group_size=2))
    new = events(write_kineto(run, tmp_path / "new")[3])[1]
    old = events(write_kineto(run, tmp_path / "old", layout="torch-2.0")[3])[1]
    kernels = sorted(
        (e for e in new if "nccl" in e["name"] and e.get("cat") == "kernel"), key=lambda e: e["ts"]
    )
    truth = Truth(run).collectives.query("rank == 3").sort_values("start_ns")
    keys = ("Process Group Name", "Seq", "In msg nelems", "Group size")
    got = [tuple(k["args"][name] for name in keys) for k in kernels]
    size = {"Float": 4, "BFloat16": 2}
    assert [(g, s) for g, s, _, _ in got] == list(zip(truth["group"], truth["seq"], strict=True))
    assert [k["args"]["In msg nelems"] * size[k["args"]["dtype"]] for k in kernels] == truth[
        "bytes"
    ].tolist()
    calls = [e["args"] for e in new if e["name"] == "record_param_comms"]
    assert sorted((c["Process Group Name"], c["Seq"]) for c in calls) == sorted(
        (g, s) for g, s, _, _ in got
    )
    assert not any("Collective name" in e.get("args", {}) for e in old)
    assert sum(e["name"] == "record_param_comms" for e in old) == len(kernels)


def test_gathers_and_scatters_count_elements_as_c10d_does(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, parallelism="fsdp", layer_bytes=8_000))
    found = events(write_kineto(run, tmp_path)[0])[1]
    counts = {
        e["args"]["Collective name"]: (e["args"]["In msg nelems"], e["args"]["Out msg nelems"])
        for e in found
        if e.get("cat") == "kernel" and "Collective name" in e["args"]
    }
    assert counts == {
        "_allgather_base": (1000, 4000), "_reduce_scatter_base": (4000, 1000), "allreduce": (1, 1),
    }  # fmt: skip


def test_sends_and_recvs_name_their_peer(tmp_path: Path) -> None:
    run = simulate(
        Config(ranks=4, steps=1, layers=2, parallelism="pp", group_size=2, microbatches=1)
    )
    found = events(write_kineto(run, tmp_path)[1])[1]
    args = [e["args"] for e in found if e.get("cat") == "kernel" and "SendRecv" in e["name"]]
    assert [(a["Collective name"], a.get("Dst Rank"), a.get("Src Rank")) for a in args] == [
        ("send", 3, None),
        ("recv", None, 3),
    ]


def test_launches_are_linked_by_correlation_external_id_and_flows(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=1, layers=2))
    found = events(write_kineto(run, tmp_path)[0])[1]
    calls = {e["args"]["correlation"]: e for e in found if e.get("cat") == "cuda_runtime"}
    operators = {e["args"]["External id"]: e for e in found if e.get("cat") == "cpu_op"}
    flows = {
        ph: {e["id"]: e for e in found if e.get("cat") == "ac2g" and e["ph"] == ph} for ph in "sf"
    }
    device = [e for e in found if e.get("cat") in ("kernel", "gpu_memcpy")]
    assert len(device) == len(run.gpu) == len(flows["s"]) == len(flows["f"])
    for op in device:
        call = calls[op["args"]["correlation"]]
        scope = operators[op["args"]["External id"]]
        assert scope["ts"] < call["ts"] < op["ts"]
        assert scope["tid"] == call["tid"]
        assert flows["s"][op["args"]["correlation"]]["ts"] == call["ts"]
        assert flows["f"][op["args"]["correlation"]]["ts"] == op["ts"]


def test_forward_and_backward_are_tied_by_sequence_number_and_flow(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=2, layers=2))
    found = events(write_kineto(run, tmp_path)[0])[1]
    flows = [e for e in found if e.get("cat") == "fwdbwd"]
    starts = {e["id"]: e for e in flows if e["ph"] == "s"}
    ends = {e["id"]: e for e in flows if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 2 * (2 * 10 + 2)
    assert all(
        starts[i]["ts"] < ends[i]["ts"] and starts[i]["tid"] != ends[i]["tid"] for i in starts
    )
    sequences = {
        e["args"]["Sequence number"] for e in found if "Sequence number" in e.get("args", {})
    }
    assert len(sequences) == len(starts)


def test_a_file_names_its_rank_groups_and_versions(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, parallelism="tp", group_size=2))
    trace, found = events(
        write_kineto(run, tmp_path, gzip=False, rank_names="{host}_{pid}.worker")[2]
    )
    info = trace["distributedInfo"]
    assert (info["backend"], info["rank"], info["world_size"]) == ("nccl", 2, 4)
    groups = [(g["pg_name"], g["pg_desc"], g["pg_size"], g["ranks"]) for g in info["pg_config"]]
    assert groups == [
        ("0", "default_pg", 4, [0, 1, 2, 3]),
        ("2", "mesh_tp", 2, [2, 3]),
        ("3", "mesh_dp", 2, [0, 2]),
    ]
    assert info["pg_count"] == 3
    assert trace["baseTimeNanoseconds"] % 7_889_238_000_000_000 == 0
    assert {e["args"]["name"] for e in found if e["name"] == "thread_name"} >= {
        "stream 7 ",
        "stream 20 ",
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        f"node0_4100{r}.worker.json" for r in range(4)
    ]


def shape(text: str) -> list[str]:
    """The lines of an event with numbers and strings taken out."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"(?=[,\n }\]])', '"s"', text)
    return re.sub(r"-?\d+(\.\d+)?", "0", text).splitlines()


def first_shape(text: str, phase: str, category: str) -> list[str]:
    """The lines of the first event of a phase and category that has all its arguments."""
    found = (
        e for e in text.split("\n  {\n") if f'"ph": "{phase}"' in e and f'"cat": "{category}"' in e
    )
    return next(shape(e) for e in found if phase != "X" or '"External id"' in e)


@pytest.mark.parametrize(
    ("layout", "real"),
    [("torch-2.12", "ep_moe_b200_seq/*.gz"), ("torch-2.0", "megatron_tp8/rank1*")],
)
def test_events_are_laid_out_like_those_of_a_real_file(
    tmp_path: Path, corpus: Path, layout: Any, real: str
) -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2))
    ours = gzip.decompress(write_kineto(run, tmp_path, layout=layout)[0].read_bytes()).decode()
    theirs = gzip.decompress(next((corpus / "kineto").glob(real)).read_bytes()).decode()
    for phase, category in (
        ("X", "cuda_runtime"), ("X", "gpu_memcpy"), ("X", "kernel"), ("s", "ac2g"), ("f", "ac2g"),
    ):  # fmt: skip
        mine, other = (first_shape(text, phase, category) for text in (ours, theirs))
        assert mine == other


def test_unknown_layouts_are_refused(tmp_path: Path) -> None:
    run = simulate(Config(ranks=1, steps=1, layers=2))
    with pytest.raises(
        SimulationError, match=r"layout 'torch-9' is unknown; one of torch-2.12, torch-2.0\."
    ):
        write_kineto(run, tmp_path, layout="torch-9")  # type: ignore[arg-type]


def test_only_the_ranks_asked_for_are_written(tmp_path: Path) -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, extra_host_ops=2))
    paths = write_kineto(run, tmp_path, ranks=[3], rank_names=lambda r: f"r{r}")
    assert [p.name for p in paths] == ["r3.json.gz"]
    found = events(paths[0])[1]
    operators = [e for e in found if e.get("cat") == "cpu_op"]
    kernels = sum(k.kind == "kernel" and k.comm < 0 for k in run.gpu.kinds)
    assert sum(e["name"] in ("aten::empty", "aten::view") for e in operators) == 2 * kernels
    assert np.unique([e["args"]["External id"] for e in operators]).size == len(operators)
