"""`hangs`: the ranks that keep a stuck job from going on, of real jobs with a fault injected."""

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
        " 13 ranks wait, directly or through others; its dump shows nothing under way"
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


def test_ranks_of_a_circle_are_named_together(tmp_path: Path) -> None:
    """Rank 0 first calls in one group, rank 1 in the other."""
    config = {n: {"name": n, "desc": d, "ranks": "[0, 1]"} for n, d in (("3", "a"), ("4", "b"))}
    a, b = {"process_group": ("3", "a")}, {"process_group": ("4", "b")}
    dumps = (dump(noted(5, **first), pg_config=config, pg_status={}) for first in (a, b))
    rows = hangs_of(job(tmp_path / "in", *dumps), tmp_path / "run.duckdb")
    assert rows["role"].tolist() == ["deadlocked", "deadlocked"]
    assert rows["note"].tolist() == [
        "Rank 0 waits for rank 1, which waits for it in turn",
        "Rank 1 waits for rank 0, which waits for it in turn",
    ]
    found = finding(tmp_path / "run.duckdb")
    assert (found["title"], found["ranks"]) == ("Ranks 0 and 1 wait for each other", [0, 1])
    assert found["advice"].startswith("Make these ranks call in one order")


def test_two_circles_are_two_findings(tmp_path: Path) -> None:
    groups = ((f"{name}{first}", [first, first + 1]) for name in "ab" for first in (0, 2))
    config = {n: {"name": n, "desc": n, "ranks": str(ranks)} for n, ranks in groups}
    begun = ("a0", "b0", "a2", "b2")
    dumps = (
        dump(noted(5, process_group=(name, name)), pg_config=config, pg_status={}) for name in begun
    )
    rows = hangs_of(job(tmp_path / "in", *dumps), tmp_path / "run.duckdb")
    assert rows["waits_for"].map(list).tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.sql("SELECT ranks FROM findings() WHERE rule = 'hang' ORDER BY ranks")
    assert found["ranks"].map(list).tolist() == [[0, 1], [2, 3]]


def test_what_all_came_to_is_not_what_waits_for_it(tmp_path: Path) -> None:
    """Rank 1 is with rank 2 in what does not end; rank 0 waits for it in the other group."""
    groups = (("3", "a", "[0, 1]"), ("4", "b", "[1, 2]"))
    config = {n: {"name": n, "desc": d, "ranks": ranks} for n, d, ranks in groups}
    a, b = {"process_group": ("3", "a")}, {"process_group": ("4", "b")}
    later, stuck = noted(5, **a), noted(9, profiling_name="nccl:broadcast", **b)
    entries = ([later], [stuck, later | {"record_id": 10}], [stuck])
    dumps = (dump(*mine, pg_config=config, pg_status={}) for mine in entries)
    rows = hangs_of(job(tmp_path / "in", *dumps), tmp_path / "run.duckdb")
    assert rows["note"].tolist()[:2] == [
        "Rank 1 is in broadcast 9 of b, to which all came, as far as dumps tell: the operation"
        " itself does not finish",
        "Rank 0 waits for rank 1",
    ]
    found = finding(tmp_path / "run.duckdb")
    assert found["title"] == "All ranks came to broadcast, which does not end"


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


def finding(database: Path) -> dict[str, Any]:
    with traceweave.open(database, frames="arrow") as run:
        (found,) = run.findings().to_pylist()[:1]
    return dict(found)


def test_who_calls_something_else_in_the_group_of_all_ranks_is_named(tmp_path: Path) -> None:
    """Rank 2 skipped the all_reduce and went on with what follows."""
    usual = of_gloo(world(1, **DONE), world(2))
    odd = of_gloo(world(1, **DONE), world(2, "broadcast"))
    rows = hangs_of(job(tmp_path / "in", usual, usual, odd, usual), tmp_path / "run.duckdb")
    assert rows["role"].tolist() == ["mismatched", "waiting", "waiting", "waiting"]
    assert rows["rank"].tolist() == [2, 0, 1, 3]
    assert rows.iloc[1]["note"] == (
        "Rank 0 is in all_reduce 2 of default_pg, to which others came with something else"
    )
    assert finding(tmp_path / "run.duckdb")["title"] == (
        "Rank 2 comes with another operation than the rest"
    )


@pytest.mark.parametrize("lost", [1, 3])
def test_a_rank_that_left_no_dump_is_missing_from_the_group_of_all(
    lost: int, tmp_path: Path
) -> None:
    dumps: list[dict[str, Any] | None] = [of_gloo(world(1, **DONE), world(2)) for _ in range(4)]
    dumps[lost] = None
    rows = hangs_of(job(tmp_path / "in", *dumps), tmp_path / "run.duckdb")
    assert rows["rank"].tolist()[0] == lost
    assert rows["role"].tolist() == ["missing", "waiting", "waiting", "waiting"]


def test_a_member_that_never_came_is_not_lost_from_its_group(tmp_path: Path) -> None:
    """Rank 3 does not come to the first operation of its group, and names it nowhere."""
    ahead = of_gloo(world(1, **DONE), world(2))
    in_right = of_gloo(world(1, **DONE), right(1), made=LAST_MADE)
    asleep = of_gloo(world(1, **DONE), made=LAST_MADE)
    folder = job(tmp_path / "in", ahead, ahead, in_right, asleep)
    notes = hangs_of(folder, tmp_path / "run.duckdb").set_index("rank")["note"]
    assert notes[2].endswith("; is in all_reduce 1 of right, whose members no dump lists")
    assert notes[3].endswith("; its dump shows nothing under way")


def test_a_rank_whose_dump_comes_later_is_of_the_group_of_all_ranks(tmp_path: Path) -> None:
    ahead, behind = (of_gloo(*e, made=LAST_MADE) for e in ([world(1), world(2)], [world(1)]))
    folder = job(tmp_path / "in", ahead, ahead, ahead, behind)
    traceweave.ingest([folder / f"rank_{rank}.json" for rank in range(3)], tmp_path / "run.tw")
    traceweave.ingest(folder, tmp_path / "run.tw", add=True)
    with traceweave.open(tmp_path / "run.tw", frames="arrow") as run:
        members = run.sql("SELECT DISTINCT group_ranks FROM flight_calls").to_pylist()
    assert members == [{"group_ranks": [0, 1, 2, 3]}]


def test_members_that_once_finished_together_are_known(tmp_path: Path) -> None:
    ahead = of_gloo(world(1, **DONE), world(2))
    in_right = of_gloo(world(1, **DONE), right(1, **DONE), right(2), made=LAST_MADE)
    asleep = of_gloo(world(1, **DONE), right(1, **DONE), made=LAST_MADE)
    folder = job(tmp_path / "in", ahead, ahead, in_right, asleep)
    rows = hangs_of(folder, tmp_path / "run.duckdb").set_index("rank")
    assert rows["role"].to_dict() == {3: "missing", 2: "waiting", 0: "waiting", 1: "waiting"}
    assert rows.loc[2, "note"] == "Rank 2 waits for rank 3"


def test_a_group_of_unknown_members_is_not_said_to_have_come(tmp_path: Path) -> None:
    one = of_gloo(right(1), made=LAST_MADE)
    hangs_of(job(tmp_path / "in", None, None, one, one), tmp_path / "run.duckdb")
    found = finding(tmp_path / "run.duckdb")
    assert found["title"] == "Ranks are in all_reduce of a group that no dump lists"
    assert found["advice"].startswith("Compare in hangs what each rank is in")


def test_a_member_held_up_in_what_all_came_to_is_not_idle(tmp_path: Path) -> None:
    """Ranks 0 and 1 are in a sum of theirs that does not end; rank 2 waits for both elsewhere."""
    config = GROUP | {"4": {"name": "4", "desc": "pair", "ranks": "[0, 1]"}}
    pair = dump(noted(1, process_group=("4", "pair")), pg_config=config, pg_status={})
    rows = hangs_of(job(tmp_path / "in", pair, pair, of_three(noted(5))), tmp_path / "run.duckdb")
    notes = rows.set_index("rank")["note"]
    assert notes[0].endswith("; is in all_reduce 1 of pair, to which all came")


@nightly
def test_every_other_analysis_is_quiet_about_dumps_alone(fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "flight_recorder" / "slow_rank_2x2_gloo"
    traceweave.ingest(folder, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        rows = {a.name: len(getattr(run, a.name)()) for a in catalog()}
    assert {name for name, count in rows.items() if count} == {"files"}
