"""Statements `within: rank` answer the same, asked of all ranks together or of some at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.conftest import Simulated
from tests.marks import nightly
from tests.sharded.equal import rows, same_rows
from tests.simulated_runs import SLOW_GPU
from traceweave import analyses
from traceweave.analyses import batches
from traceweave.analyses.catalog import Analysis, Shared, find, shared
from traceweave.analyses.statements import Statement, sql_files
from traceweave.store.database import open_database
from traceweave_simulator import Config

WITHIN: list[Statement] = [part for part in (*analyses.catalog(), *shared()) if part.within_rank]
_RANKS = "SELECT count(*) FROM ranks"

DatabaseOf = Callable[..., Path]


def differing(path: Path, statements: Sequence[Statement], at_a_time: Sequence[int]) -> list[str]:
    """Return what is not answered alike by all ranks together and by some at a time."""
    with traceweave.open(path) as run:
        whole = [_answer(run, statement) for statement in statements]
        ((ops, ranks),) = run.con.execute(f"SELECT ({batches._OPS}), (FROM ({_RANKS}))").fetchall()
    found = []
    for number in at_a_time:
        with pytest.MonkeyPatch.context() as patch, traceweave.open(path) as run:
            patch.setattr(batches, "MOST_BYTES", -(-ops * number // ranks))
            patch.setattr(Statement, "bytes_per_op", 1)
            assert all(batches.divide(run.con, statement) for statement in statements)
            for statement, rows_of_all in zip(statements, whole, strict=True):
                parts = _answer(run, statement)
                if not same_rows(rows_of_all, parts):
                    found.append(f"{statement.name}: {number} ranks at a time")
                elif isinstance(statement, Analysis) and not _in_order(rows_of_all, parts):
                    found.append(f"{statement.name}: order of {number} ranks at a time")
    return found


def _answer(run: traceweave.Run, statement: Statement) -> list[tuple[Any, ...]]:
    if isinstance(statement, Shared):
        return rows(analyses.shared_rows(run.con, statement.name).to_arrow_reader())
    return rows(run.stream_analysis(statement.name))


def _in_order(whole: list[tuple[Any, ...]], parts: list[tuple[Any, ...]]) -> bool:
    """Tell whether rows are in the same order, but for the last digits of floats."""
    return all(
        one == other or same_rows([one], [other]) for one, other in zip(whole, parts, strict=True)
    )


@nightly
def test_recorded_on_cpus(fixtures: Path, database_of: DatabaseOf) -> None:
    assert differing(database_of(fixtures / "ddp_gloo_4ranks"), WITHIN, [1]) == []


@nightly
def test_recorded_on_gpus(corpus: Path, database_of: DatabaseOf) -> None:
    eight = database_of(corpus / "kineto" / "nanogpt_8xh100")
    assert differing(eight, WITHIN, at_a_time=[3]) == []


@nightly
def test_exported_by_nsys(corpus: Path, database_of: DatabaseOf) -> None:
    two = database_of(corpus / "nsys" / "fsdp_2rank_after__2026.2.sqlite")
    assert differing(two, WITHIN, at_a_time=[1]) == []


@nightly
def test_a_header_that_is_wrong_is_noticed(
    fixtures: Path, database_of: DatabaseOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are slow beside those of other ranks."""
    statement = find("slow_steps")
    monkeypatch.setitem(statement.fields, "within", ("rank",))  # type: ignore[arg-type]
    assert differing(database_of(fixtures / "ddp_gloo_4ranks"), [statement], [1]) != []


@pytest.mark.parametrize("statement", WITHIN, ids=lambda statement: str(statement.name))
def test_what_it_reads_is_within_ranks_too(statement: Statement) -> None:
    assert "rank" in [column.name for column in statement.columns]
    assert not statement.through
    assert all(part.within_rank for part in statement.parts)


def test_gaps_are_within_ranks() -> None:
    """Those that take most memory, and what the budget of time is made of."""
    assert {"breakdown", "gaps", "idle_causes", "launches"} <= {part.name for part in WITHIN}
    assert len(WITHIN) < len(sql_files(""))


def test_small_runs_are_asked_as_a_whole(simulated: Simulated) -> None:
    assert batches.divide(simulated(SLOW_GPU).con, find("gaps")) == []


def test_batches_are_no_larger_than_ops_allow(
    simulated_database: Callable[[Config], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with traceweave.open(simulated_database(SLOW_GPU)) as run:
        ((ops,),) = run.con.execute(batches._OPS).fetchall()
        gaps = find("gaps")
        monkeypatch.setattr(batches, "MOST_BYTES", ops * 600)
        assert batches.divide(run.con, gaps) == []
        monkeypatch.setattr(batches, "MOST_BYTES", ops * 300 + 600)
        assert batches.divide(run.con, gaps) == [
            "true AND rank < 2",
            "(rank >= 2 AND true OR rank IS NULL)",
        ]
        assert batches.divide(run.con, find("breakdown")) == []
        monkeypatch.setattr(batches, "MOST_BYTES", 1)
        assert len(batches.divide(run.con, gaps)) == 4
        assert batches.divide(run.con, find("kernels")) == []


def test_batches_leave_room_for_the_rows_where_duckdb_may_not_take_more(
    simulated_database: Callable[[Config], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_database(simulated_database(SLOW_GPU), most_mib=1024) as con:
        ((ops,),) = con.execute(batches._OPS).fetchall()
        monkeypatch.setattr(Statement, "bytes_per_op", (900 << 20) // ops)
        assert len(batches.divide(con, find("gaps"))) == 2


def test_a_batch_has_the_events_of_its_ranks_and_what_all_have_in_common(
    simulated_database: Callable[[Config], Path],
) -> None:
    with (
        traceweave.open(simulated_database(SLOW_GPU)) as run,
        batches.batch(run.con, "rank < 2") as part,
    ):
        for relation in ("gpu_ops", "host_ops", "device_ops"):
            ranks = part.execute(f"SELECT DISTINCT rank FROM {relation} ORDER BY rank").fetchall()
            assert ranks == [(0,), (1,)]
        for relation in ("collectives", "steps", "ranks"):
            ((ranks,),) = part.execute(f"SELECT count(DISTINCT rank) FROM {relation}").fetchall()
            assert ranks == 4
        assert run.con.execute("SELECT count(DISTINCT rank) FROM gpu_ops").fetchall() == [(4,)]
