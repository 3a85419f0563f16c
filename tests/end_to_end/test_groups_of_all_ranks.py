"""Collectives that no label names, in files whose process groups all have the same members."""

import json
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly

RANKS = 4


def _write(path: Path, rank: int, groups: list[list[int]]) -> None:
    """Thirty layers of 100 to 196 us: compute, then an all-reduce of 8 us on the same stream, in
    which ranks 1 to 3 begin up to 2 us late: too little to prove by themselves who is with whom."""
    events: list[dict[str, Any]] = []
    begin = 1_000_000
    for layer in range(30):
        late, long = (rank * layer) % 3, 90 + 7 * layer * layer % 97
        ends = begin + long
        for name, at, end in (("gemm", begin, ends), ("", ends + 1 + late, ends + 9)):
            number = len(events) + 1
            events.append({
                "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
                "ts": 999_000 + 2 * number, "dur": 1, "args": {"correlation": number},
            })  # fmt: skip
            events.append({
                "ph": "X", "cat": "kernel", "name": name or "sglang::cross_device_reduce_2stage",
                "pid": 0, "tid": 7, "ts": at, "dur": end - at,
                "args": {"device": rank, "stream": 7, "correlation": number},
            })  # fmt: skip
        begin += long + 10
    listed = [
        {"pg_name": str(n), "pg_desc": "undefined", "pg_size": len(group), "ranks": group}
        for n, group in enumerate(groups)
    ]
    info = {"rank": rank, "world_size": RANKS, "pg_config": listed}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


@nightly
@pytest.mark.parametrize(
    ("groups", "matched"),
    [([[0, 1, 2, 3], [0, 1, 2, 3]], 30), ([[0, 1, 2, 3], [0, 1], [2, 3]], 0)],
    ids=["the same", "parts too"],
)
def test_groups_with_the_same_members_say_who_is_with_whom(
    tmp_path: Path, groups: list[list[int]], matched: int
) -> None:
    """And the group of one rank alone says nothing."""
    for rank in range(RANKS):
        own = [group for group in groups if rank in group]
        _write(tmp_path / "traces" / f"rank{rank}.pt.trace.json", rank, [*own, [rank]])
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        [[instances]] = run.sql(
            f"SELECT count(*) FROM collective_instances WHERE ranks_seen = {RANKS}"
        ).to_numpy()
    assert instances == matched


@nightly
def test_an_engines_own_reductions_are_of_tensor_parallelism(tmp_path: Path) -> None:
    """Compute needs them at once: no stream of their own would hide any of the 8 us of each."""
    for rank in range(RANKS):
        _write(tmp_path / "traces" / f"rank{rank}.pt.trace.json", rank, [[0, 1, 2, 3]] * 2)
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        [group] = run.analyze("groups").to_dict("records")
        findings = run.findings().set_index("rule")
    assert (group["used_for"], group["used_source"]) == (
        "tp",
        "operations: reductions of an inference engine",
    )
    found = findings.loc["communication_bound"]
    assert "tensor-parallel" in found["title"]
    assert "compute waits for its result" in found["evidence"]
    assert found["advice"].startswith("Tensor parallelism: ")
