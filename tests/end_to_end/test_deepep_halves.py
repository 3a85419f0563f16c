"""Two recordings of one decoding job with DeepEP: operations whole, and as two halves each.

Expected values are a reading of the JSON with numpy: kernels of `internode_ll` in their order,
2k and 2k + 1 of the second recording as one operation, all else that is a kernel as compute."""

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.conftest import Recorded
from tests.marks import nightly
from traceweave import Run
from traceweave.explorer.asking import text
from traceweave.report.sections.budget import load_budget
from traceweave.report.sections.collectives import load_collectives
from traceweave.report.sections.gaps import load_gaps
from traceweave.report.sections.timeline import load_timeline

RANKS = 8


@pytest.fixture(scope="module")
def halved(corpus: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(corpus / "kineto" / "deepep_overlap8")


def rows(run: Run, query: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in run.sql(query).to_dict("records")]


def test_either_half_shows_its_operation_and_no_send_waits(halved: Path) -> None:
    with traceweave.open(halved) as run:
        (call,) = rows(
            run, "SELECT rank, gpu_op_id, receive_op_id, collective_id FROM collectives LIMIT 1"
        )
        for half in call[1:3]:
            found = run.con.execute(text("op_calls"), {"rank": call[0], "id": half}).fetchall()
            assert [row[0] for row in found] == [call[3]]
        waits = text("waits")
        asked = waits[waits.index("SELECT") :]
        assert run.con.execute(asked).fetchall() == []


@nightly
def test_the_timeline_knows_of_all_halves_what_is_waiting(recorded: Recorded) -> None:
    con = recorded("kineto/deepep_overlap8").con
    budget = load_budget(con)
    gaps = load_gaps(con, budget)
    ops = load_timeline(con, budget, load_collectives(con), gaps.relation).ops.to_pandas()
    halves = ops[ops["category"] == "communication"]
    assert len(halves) == RANKS * 464
    assert halves["wait_ns"].notna().all()
    assert budget.total["exposed_unsplit_ns"] == 0
