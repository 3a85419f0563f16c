"""The windows of time that a run is measured in: what was not recorded is in none."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import first_at_once, nightly
from traceweave.errors import InputError
from traceweave.replay.model import Model

KERNEL_US = 100
Events = list[dict[str, Any]]


def _launches(at_us: list[int], *, lost: frozenset[int] = frozenset()) -> Events:
    """Return calls of 10 us and kernels of 100 us, each beginning when its call returns; `lost` are
    the numbers of launches without a record of the kernel."""
    calls = [
        {
            "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
            "ts": at, "dur": 10, "args": {"correlation": number},
        }
        for at, number in zip(at_us, count(1), strict=False)
    ]  # fmt: skip
    kernels = [
        {
            "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": call["ts"] + 10,
            "dur": KERNEL_US, "args": {"correlation": number, "device": 0, "stream": 7},
        }
        for call, number in zip(calls, count(1), strict=False)
        if number not in lost
    ]  # fmt: skip
    return calls + kernels


def _step(number: int, start_us: int, length_us: int) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 9, "tid": 9,
        "ts": start_us, "dur": length_us,
    }  # fmt: skip


def _write(path: Path, events: Events, rank: int = 0) -> None:
    path.parent.mkdir(exist_ok=True)
    info = {"rank": rank, "world_size": 2}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


def _open(folder: Path, output: Path) -> traceweave.Run:
    traceweave.ingest([folder], output)
    return traceweave.open(output)


@pytest.fixture
def unmarked(tmp_path: Path) -> traceweave.Run:
    """Two files, 10 ms apart, of ten and twenty kernels: each 100 us after 100 us of nothing."""
    for file, (start, kernels) in enumerate([(1_000_000, 10), (1_020_000, 20)]):
        at = [start + 200 * i for i in range(kernels)]
        _write(tmp_path / "traces" / f"worker_{file}.pt.trace.json", _launches(at))
    return _open(tmp_path / "traces", tmp_path / "run.duckdb")


@nightly
def test_the_time_between_two_recordings_of_a_rank_is_not_idle(unmarked: traceweave.Run) -> None:
    """Windows of 1.9 and 3.9 ms: nine and nineteen gaps of 100 us."""
    with unmarked as run:
        columns = ["step", "window_ns", "compute_ns", "idle_ns"]
        windows = run.breakdown().sort_values("step")[columns]
        [kinds] = run.sql("SELECT DISTINCT source FROM steps").to_numpy().tolist()
        health = run.analyze("health").set_index("answer")
    assert windows.to_numpy().tolist() == [
        [0, 1_900_000, 1_000_000, 900_000],
        [1, 3_900_000, 2_000_000, 1_900_000],
    ]
    assert kinds == ["recording"]
    assert health.loc["step time", "value"] == pytest.approx(2.9)
    assert "inferred from recordings" in health.loc["step time", "verdict"]


@nightly
def test_a_step_before_a_pause_of_the_profiler_ends_with_its_last_op(tmp_path: Path) -> None:
    """Steps 1 and 2 in one file, 5 and 6 in the other: as measured they take 2, 1.9, 2 and 1.9 ms,
    not the 20 ms until the next one that was recorded."""
    for start, number in ((1_000_000, 1), (1_024_000, 5)):
        events = _launches([start + 200 * i for i in range(20)])
        events += [_step(number, start, 2000), _step(number + 1, start + 2000, 2000)]
        _write(tmp_path / "traces" / f"worker_{number}.pt.trace.json", events)
    with _open(tmp_path / "traces", tmp_path / "run.duckdb") as run:
        replay = Model(run.con)
        lengths = replay.windows.spans.lengths(replay.graph.nodes).tolist()
    assert lengths == [2_000_000, 1_900_000, 2_000_000, 1_900_000]


@first_at_once()
@pytest.mark.parametrize(("lost", "verdict"), [({1, 2, 3, 4}, "fit to judge"), ({5}, "unknown")])
def test_launches_before_the_device_is_recorded_are_no_loss(
    tmp_path: Path, lost: set[int], verdict: str
) -> None:
    """Four launches of twenty have no record: the first four, or 5 and three more later."""
    missing = frozenset(lost | ({9, 10, 11} if 5 in lost else set()))
    launches = _launches([1_000_000 + 200 * i for i in range(20)], lost=missing)
    _write(tmp_path / "traces" / "rank0.pt.trace.json", launches)
    with _open(tmp_path / "traces", tmp_path / "run.duckdb") as run:
        kinds = run.analyze("recording")
    assert kinds["verdict"].iloc[0] == verdict


@nightly
def test_a_step_of_a_rank_is_in_one_file(tmp_path: Path) -> None:
    """Two jobs of one container after each other have the same process ids, ranks and steps."""
    for name, start in [("one", 1_000_000), ("two", 31_000_000)]:
        events = [*_launches([start + 100]), _step(4, start, 1000)]
        _write(tmp_path / "traces" / f"{name}.pt.trace.json", events)
    expected = r"one\.pt\S* and \S*two\.pt\S* both have step 4 of rank 0: they are of two runs"
    with pytest.raises(InputError, match=expected):
        _open(tmp_path / "traces", tmp_path / "run.duckdb")
    assert not (tmp_path / "run.duckdb").exists()
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb", one_run=True)
    with traceweave.open(tmp_path / "run.duckdb") as run:
        assert run.sql("SELECT step FROM steps ORDER BY start_ns").step.tolist() == [4, 9]
        assert run.sql("SELECT step FROM gpu_ops ORDER BY start_ns").step.tolist() == [4, 9]


@first_at_once()
@pytest.mark.parametrize("database", ["run.duckdb", "run.tw"])
def test_batches_that_each_file_counts_from_0_are_counted_on(tmp_path: Path, database: str) -> None:
    """Two windows of one engine: its batches have no numbers of their own."""
    for name, start in [("one", 1_000_000), ("two", 31_000_000)]:
        batches = [
            {
                **_step(0, start + 1000 * n, 900),
                "name": f"execute_context_0(0)_generation_{n + 1}({n})",
            }
            for n in range(2)
        ]
        events = [*_launches([start + 100, start + 1100]), *batches]
        _write(tmp_path / "traces" / f"{name}.pt.trace.json", events)
    with _open(tmp_path / "traces", tmp_path / database) as run:
        assert run.sql("SELECT step FROM steps ORDER BY start_ns").step.tolist() == [0, 1, 2, 3]
        assert run.sql("SELECT step FROM gpu_ops ORDER BY start_ns").step.tolist() == [0, 1, 2, 3]
    if database == "run.tw":  # another rank like it
        for path in (tmp_path / "traces").iterdir():
            document = json.loads(path.read_text())
            _write(tmp_path / "more" / path.name, document["traceEvents"], rank=1)
        with pytest.raises(InputError, match="both have step 0 of rank 1; ingest all traces again"):
            traceweave.ingest([tmp_path / "more"], tmp_path / database, add=True)


@nightly
@pytest.mark.parametrize(
    ("length_us", "windows"), [(22, [3_900_000]), (150, [3_900_000]), (3900, [3_700_000])]
)
def test_a_range_beside_the_work_is_no_step(
    tmp_path: Path, length_us: int, windows: list[int]
) -> None:
    """20 kernels in 3.9 ms, their calls not recorded: a range of 22 us is no step of theirs, nor is
    one of 150 in which one begins; one as long as they take is the step of the 19 that do."""
    kernels = [e for e in _launches([1_000_000 + 200 * i for i in range(20)]) if e["pid"] == 0]
    _write(tmp_path / "traces" / "rank0.pt.trace.json", [*kernels, _step(0, 1_000_100, length_us)])
    with _open(tmp_path / "traces", tmp_path / "run.duckdb") as run:
        steps = run.steps()["length_ns"].tolist()
        measured = run.breakdown()["window_ns"].tolist()
        base_ns = run.fixes()["step_ns"].tolist()[:1]
    assert measured == windows
    assert steps == ([] if length_us < 3900 else windows)
    assert base_ns in ([], windows)
