"""Chrome traces that Kineto did not write: read if they are torch's, else said to tell nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly

Events = list[dict[str, Any]]

LEGACY: Events = [
    {"name": name, "ph": "X", "ts": at, "dur": 100.0, "tid": tid, "pid": pid, "args": {}}
    for name, at, tid, pid in (
        ("aten::mm", 0.0, 1, "CPU functions"),
        ("sgemm", 150.0, 0, "CUDA functions"),
        ("aten::relu", 300.0, 1, "CPU functions"),
        ("relu_kernel", 450.0, 0, "CUDA functions"),
    )
]
TENSORFLOW: Events = [
    {"name": "MatMul", "cat": "Op", "ph": "X", "ts": 10 * i, "dur": 5, "pid": 1, "tid": 0}
    for i in range(4)
]
ASYNC: Events = [
    {"name": "request", "cat": "serving", "ph": phase, "ts": at, "id": 1, "pid": 1, "tid": 1}
    for phase, at in (("b", 0), ("e", 900))
]


def _open(events: Events, folder: Path) -> tuple[traceweave.IngestResult, traceweave.Run]:
    (folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
    result = traceweave.ingest([folder / "trace.json"], folder / "run.duckdb")
    return result, traceweave.open(folder / "run.duckdb")


@nightly
def test_torchs_profiler_before_kineto_is_read(tmp_path: Path) -> None:
    """Two kernels of 100 us, the second 200 us after the first."""
    result, run = _open(LEGACY, tmp_path)
    with run:
        kinds = run.sql("SELECT kind, name FROM host_ops ORDER BY start_ns").to_numpy().tolist()
        [[window, compute, idle]] = (
            run.breakdown()[["window_ns", "compute_ns", "idle_ns"]].to_numpy().tolist()
        )
    assert result.recording == ()
    assert kinds == [["op", "aten::mm"], ["op", "aten::relu"]]
    assert [window, compute, idle] == [400_000, 200_000, 200_000]


def test_what_operators_took_by_events_of_the_device_counts_once(tmp_path: Path) -> None:
    """A range of 900 us holds two operators of 310 and 300 us; the first calls another."""
    spans = (("step", 0, 900), ("aten::conv2d", 100, 310), ("aten::cudnn_convolution", 110, 300),
             ("aten::relu", 500, 300))  # fmt: skip
    events = [
        {"name": name, "ph": "X", "ts": at + 1e3, "dur": dur, "tid": 0, "pid": f"{kind} functions"}
        for name, at, dur in spans
        for kind in ("CPU", "CUDA")
    ]
    _, run = _open(events, tmp_path)
    with run:
        ops = run.sql("SELECT name, duration_ns FROM gpu_ops ORDER BY start_ns").to_numpy().tolist()
    assert ops == [["aten::conv2d", 310_000], ["aten::relu", 300_000]]


@nightly
@pytest.mark.parametrize(
    ("events", "says"),
    [
        (TENSORFLOW, "No rank has GPU work or operators: 4 spans of other kinds (op) are not read"),
        (ASYNC, "No rank has GPU work or operators: 1 span of other kinds (serving) is not read"),
    ],
)
def test_what_holds_no_work_is_not_fit_to_judge(tmp_path: Path, events: Events, says: str) -> None:
    result, run = _open(events, tmp_path)
    with run:
        verdicts = run.analyze("recording")["verdict"].tolist()
        findings = run.findings()["evidence"].tolist()
        [health] = run.analyze("health").query("answer == 'recording'")["verdict"].tolist()
    assert [text.split(".")[0] for text in result.recording] == [
        "rank 0: the file holds no GPU work and no operators"
    ]
    assert verdicts == ["unknown"]
    assert "fit to judge" not in health
    assert says in findings
