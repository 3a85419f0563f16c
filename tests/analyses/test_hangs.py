"""`hangs`: the ranks that keep a stuck job from going on, of real jobs with a fault injected.

Those of hangs.cases are made by hand: events are the dumps of ranks, None for none."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd

import traceweave
from tests.analyses.builders import TEXTS, only, rows
from tests.conftest import Recorded
from tests.flight_dumps import NOW, dump, entry, written
from tests.marks import nightly
from tests.told import Case, told
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
        " 13 ranks wait, directly or through others; its dump shows nothing under way"
    )
    waiting = rows.set_index("rank")["note"]
    assert waiting[8] == "Rank 8 waits for ranks 9 and 14"
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


def job(folder: Path, *dumps: dict[str, Any] | None) -> Path:
    """Write the dump of each rank, None for none."""
    folder.mkdir()
    for rank, content in enumerate(dumps):
        if content is not None:
            written(folder / f"rank_{rank}.json", content)
    return folder


def noted(seq: int, **changed: Any) -> dict[str, Any]:
    return entry(record_id=seq, collective_seq_id=seq, time_created_ns=NOW + seq, **changed)


def of(groups: dict[str, str], *entries: dict[str, Any]) -> dict[str, Any]:
    """A dump that lists groups by name, with their ranks."""
    config = {
        name: {"name": name, "desc": "mesh_tp" if name == "3" else name, "ranks": ranks}
        for name, ranks in groups.items()
    }
    return dump(*entries, pg_config=config, pg_status={})


def of_three(*entries: dict[str, Any]) -> dict[str, Any]:
    return of({"3": "[0, 1, 2]"}, *entries)


USUAL = of_three(noted(5), noted(6))
COMPLETED = {"state": "completed", "retired": True}
CIRCLES = {"a0": "[0, 1]", "a2": "[2, 3]", "b0": "[0, 1]", "b2": "[2, 3]"}
CHAIN = {"a": "[0, 1]", "b": "[1, 2]"}


# What follows was seen in jobs of 4 ranks with gloo (torch 2.13), whose dumps have this shape: the
# group of all ranks is listed without its name, and once a rank makes others, without its members.
ALL = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2, 3]"}}
LAST_MADE = {"": {"name": "", "desc": "", "ranks": "[]"}}
DONE: dict[str, Any] = {"retired": True}


def of_gloo(*entries: dict[str, Any], made: dict[str, Any] = ALL) -> dict[str, Any]:
    numbered = [one | {"record_id": n} for n, one in enumerate(entries)]
    return dump(*numbered, pg_config=made, pg_status={})


def world(seq: int, op: str = "all_reduce", **changed: Any) -> dict[str, Any]:
    group = {"process_group": ("0", "default_pg"), "profiling_name": f"gloo:{op}"}
    return noted(seq, **(group | changed))


def right(seq: int, **changed: Any) -> dict[str, Any]:
    return world(seq, process_group=("2", "right"), **changed)


@told
def test_hangs(tmp_path: Path, case: Case) -> None:
    known = globals() | TEXTS
    assert traceweave.ingest(job(tmp_path / "in", *case.given(known)), tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:

        def answer(query: str) -> list[tuple[Any, ...]]:
            """Columns of `hangs`, or of `hang`, the rule; its `findings` come before all others."""
            name, *columns = query.split()
            with only("hang") if name == "hang" else nullcontext():
                got = rows(run.con, name if name == "hangs" else "findings")
            if name != "hangs":
                assert got[0]["rule"] == "hang"
                got = [row for row in got if row["rule"] == "hang"]
                got.sort(key=lambda row: row["ranks"] or [])
            if len(columns) == 1:
                return [tuple(row[columns[0]] for row in got)]
            return [tuple(row[column] for column in columns) for row in got]

        case.holds(answer, known)


def test_a_rank_whose_dump_comes_later_is_of_the_group_of_all_ranks(tmp_path: Path) -> None:
    ahead, behind = (of_gloo(*e, made=LAST_MADE) for e in ([world(1), world(2)], [world(1)]))
    folder = job(tmp_path / "in", ahead, ahead, ahead, behind)
    traceweave.ingest([folder / f"rank_{rank}.json" for rank in range(3)], tmp_path / "run.tw")
    traceweave.ingest(folder, tmp_path / "run.tw", add=True)
    with traceweave.open(tmp_path / "run.tw", frames="arrow") as run:
        members = run.sql("SELECT DISTINCT group_ranks FROM flight_calls").to_pylist()
    assert members == [{"group_ranks": [0, 1, 2, 3]}]


@nightly
def test_every_other_analysis_is_quiet_about_dumps_alone(fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "flight_recorder" / "slow_rank_2x2_gloo"
    traceweave.ingest(folder, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        rows = {a.name: len(getattr(run, a.name)()) for a in catalog()}
    assert {name for name, count in rows.items() if count} == {"files"}
