"""`hangs`: the ranks that keep a stuck job from going on, of real jobs with a fault injected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import traceweave
from tests.conftest import Recorded
from tests.flight_dumps import NOW, dump, entry, written
from tests.marks import first_at_once, nightly
from traceweave.analyses.catalog import catalog


def hangs_of(folder: Path, database: Path) -> pd.DataFrame:
    result = traceweave.ingest(folder, database)
    assert result.ok
    with traceweave.open(database) as run:
        return run.hangs()


def of_role(rows: pd.DataFrame, role: str) -> list[int]:
    return rows.loc[rows["role"] == role, "rank"].tolist()


def test_ranks_whose_gil_is_locked_are_missing(corpus: Path, tmp_path: Path) -> None:
    """9 and 14 have no entries at all: what they lack stands in the dumps of the others."""
    folder = corpus / "flight_recorder" / "megatron_lock_gil_1st"
    rows = hangs_of(folder, tmp_path / "run.duckdb")
    assert of_role(rows, "missing") == [9, 14]
    assert rows["rank"].tolist()[:2] == [9, 14]
    assert sorted(rows["rank"]) == list(range(16))
    assert set(rows["role"]) == {"missing", "waiting"}
    assert rows["group_id"].notna().all()
    first = rows.iloc[0]
    assert (first["op"], first["seq"]) == ("all_to_all", 45265)
    assert pd.isna(first["last_op"])
    assert first["note"] == (
        "Rank 9 did not come to all_to_all 45265 of EXPERT_MODEL_PARALLEL_GROUP, for which"
        " 13 ranks wait, directly or through others; none of its own operations is under way"
    )
    waiting = rows.set_index("rank")["note"]
    assert waiting[8] == "Rank 8 waits for ranks 9, 14"
    assert waiting[1] == "Rank 1 waits for rank 9"  # it sends to 9, and so does not wait for 14


def test_ranks_whose_gpu_failed_come_first(corpus: Path, tmp_path: Path) -> None:
    folder = corpus / "flight_recorder" / "megatron_gpu_error_1st"
    rows = hangs_of(folder, tmp_path / "run.duckdb")
    assert rows["rank"].tolist()[:2] == [12, 14]
    assert rows["role"].tolist()[:2] == ["missing", "stuck"]
    assert of_role(rows, "waiting") == [r for r in rows["rank"] if r not in (12, 14)]
    assert len(rows) == 16
    notes = rows.set_index("rank")["note"]
    assert "which rank 13 has finished: its GPU or its process stands still" in notes[12]
    assert notes[10] == "Rank 10 waits for rank 14"


def test_a_job_that_is_not_stuck_has_no_rows(fixtures: Path, tmp_path: Path) -> None:
    assert hangs_of(fixtures / "flight_recorder/tp2_dp2_gloo", tmp_path / "run.duckdb").empty


@nightly
def test_traces_without_dumps_have_no_rows(recorded: Recorded) -> None:
    assert recorded("slow_rank_2x2_gloo").hangs().empty


GROUP = {"3": {"name": "3", "desc": "mesh_tp", "ranks": "[0, 1, 2]"}}


def job(folder: Path, *dumps: dict[str, Any] | None) -> Path:
    """Write the dump of each rank, None for none."""
    folder.mkdir()
    for rank, content in enumerate(dumps):
        if content is not None:
            written(folder / f"rank_{rank}.json", content)
    return folder


def noted(seq: int, **changed: Any) -> dict[str, Any]:
    return entry(record_id=seq, collective_seq_id=seq, time_created_ns=NOW + seq, **changed)


def of_three(*entries: dict[str, Any]) -> dict[str, Any]:
    return dump(*entries, pg_config=GROUP, pg_status={})


@first_at_once()
@pytest.mark.parametrize(
    ("odd", "what"),
    [
        ({"profiling_name": "nccl:broadcast"}, "broadcast of Float 8 elements"),
        ({"input_sizes": [[4, 3]]}, "all_reduce of Float 12 elements"),
        ({"input_dtypes": ["Half"]}, "all_reduce of Half 8 elements"),
    ],
)
def test_who_came_with_something_else_is_named(
    odd: dict[str, Any], what: str, tmp_path: Path
) -> None:
    usual = of_three(noted(5), noted(6))
    folder = job(tmp_path / "in", usual, of_three(noted(5, **odd), noted(6, **odd)), usual)
    rows = hangs_of(folder, tmp_path / "run.duckdb")
    first = rows.iloc[0]
    assert (first["rank"], first["role"], first["seq"]) == (1, "mismatched", 5)
    assert first["note"] == (
        f"Rank 1 issued {what} as number 5 of mesh_tp, where 2 ranks issued all_reduce of Float 8"
        " elements"
    )
    assert of_role(rows, "waiting") == [0, 2]


@nightly
def test_shapes_that_may_differ_are_no_mismatch(tmp_path: Path) -> None:
    one = {"profiling_name": "nccl:all_to_all", "input_sizes": [[4]]}
    same_elements = of_three(noted(5, **one), noted(6, input_sizes=[[2, 4]]))
    other = of_three(noted(5, **one | {"input_sizes": [[9]]}), noted(6, input_sizes=[[8]]))
    rows = hangs_of(job(tmp_path / "in", same_elements, other, other), tmp_path / "run.duckdb")
    assert set(rows["role"]) == {"waiting"}
    assert rows["note"].str.endswith("the operation itself does not finish").all()


def test_operations_of_one_coalesced_call_are_no_mismatch(tmp_path: Path) -> None:
    both = of_three(noted(5), noted(5) | {"record_id": 6, "input_sizes": [[3]]})
    rows = hangs_of(job(tmp_path / "in", both, both, both), tmp_path / "run.duckdb")
    assert rows["role"].tolist() == ["waiting"] * 3


@nightly
def test_a_group_of_unknown_members_is_not_judged(tmp_path: Path) -> None:
    unlisted = {"": {"name": "", "desc": "", "ranks": "[]"}}
    one = dump(noted(5), pg_config=unlisted, pg_status={})
    rows = hangs_of(job(tmp_path / "in", one, None, one), tmp_path / "run.duckdb")
    assert rows["note"].tolist() == [
        f"Rank {rank} is in all_reduce 5 of mesh_tp, whose members no dump lists" for rank in (0, 2)
    ]


def test_a_rank_that_came_only_to_what_is_before_is_missing(tmp_path: Path) -> None:
    done = {"state": "completed", "retired": True}
    ahead, behind = of_three(noted(4, **done), noted(5)), of_three(noted(4, **done))
    rows = hangs_of(job(tmp_path / "in", ahead, ahead, behind), tmp_path / "run.duckdb")
    assert rows["rank"].tolist() == [2, 0, 1]
    first = rows.iloc[0]
    assert (first["role"], first["seq"]) == ("missing", 5)
    assert first["last_op"] == "all_reduce 4 of mesh_tp"


def test_a_rank_without_a_dump_is_named_as_such(tmp_path: Path) -> None:
    rows = hangs_of(
        job(tmp_path / "in", of_three(noted(5)), of_three(noted(5)), None), tmp_path / "run.duckdb"
    )
    assert rows["rank"].tolist() == [2, 0, 1]
    assert rows.iloc[0]["note"].startswith("Rank 2 left no dump and is not known to have come to")


def test_a_circle_has_no_culprit(tmp_path: Path) -> None:
    """Rank 0 first calls in one group, rank 1 in the other."""
    config = {n: {"name": n, "desc": d, "ranks": "[0, 1]"} for n, d in (("3", "a"), ("4", "b"))}
    a, b = {"process_group": ("3", "a")}, {"process_group": ("4", "b")}
    dumps = (dump(noted(5, **first), pg_config=config, pg_status={}) for first in (a, b))
    rows = hangs_of(job(tmp_path / "in", *dumps), tmp_path / "run.duckdb")
    assert rows["role"].tolist() == ["waiting", "waiting"]
    assert rows["note"].tolist() == [
        "Rank 0 waits for rank 1, which waits for it in turn",
        "Rank 1 waits for rank 0, which waits for it in turn",
    ]


@nightly
def test_every_other_analysis_is_quiet_about_dumps_alone(fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "flight_recorder" / "slow_rank_2x2_gloo"
    traceweave.ingest(folder, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        rows = {a.name: len(getattr(run, a.name)()) for a in catalog()}
    assert {name for name, count in rows.items() if count} == {"files"}
