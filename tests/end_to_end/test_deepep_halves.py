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


def test_464_kernels_are_232_operations_of_all_ranks(halved: Path) -> None:
    with traceweave.open(halved) as run:
        assert rows(run, "SELECT count(*), count(receive_op_id) FROM collectives") == [
            (RANKS * 232, RANKS * 232)
        ]
        # the n-th of every rank, and a kernel of either half knows its operation
        assert rows(
            run, "SELECT count(*), min(ranks_seen), bool_and(complete) FROM collective_instances"
        ) == [(232, RANKS, True)]
        assert rows(
            run,
            "SELECT count(*), count(collective_id), count(DISTINCT collective_id) FROM gpu_ops"
            " WHERE category = 'communication'",
        ) == [(RANKS * 464, RANKS * 464, 232)]
        assert rows(run, "SELECT * FROM issues()") == []


@nightly
def test_dispatch_and_combine_are_two_operations(halved: Path, recorded: Recorded) -> None:
    ops = "SELECT op, count(*) FROM collectives GROUP BY op ORDER BY op"
    with traceweave.open(halved) as run:
        assert rows(run, ops) == [("combine", RANKS * 116), ("dispatch", RANKS * 116)]
        whole = "SELECT op, count(*), min(ranks_seen) FROM collective_instances GROUP BY op"
        assert sorted(rows(run, whole)) == [("combine", 116, RANKS), ("dispatch", 116, RANKS)]
    run = recorded("kineto/deepep8")
    assert rows(run, ops) == [("combine", RANKS * 58), ("dispatch", RANKS * 58)]
    # INDEX of the corpus: until the last arrival 10.80 and 2.07 ms; 18 of 928 are not matched
    waits = "SELECT op, sum(wait_ns) / 8e6 FROM collective_waits GROUP BY op ORDER BY op"
    assert dict(rows(run, waits)) == {
        "combine": pytest.approx(10.80, rel=0.02),
        "dispatch": pytest.approx(2.07, rel=0.08),
    }


def test_nothing_ends_before_all_have_sent_and_clocks_stay(halved: Path) -> None:
    with traceweave.open(halved) as run:
        # one host: true offsets are 0. The JSON: every end is 78.7 us or more after the last start
        assert rows(run, "SELECT DISTINCT offset_ns, drift_ppm FROM clocks") == [(0, 0.0)]
        assert rows(
            run,
            "SELECT min(k.end_ns - i.last_start_ns) FROM collectives AS k"
            " JOIN collective_instances AS i USING (collective_id)",
        ) == [(78728,)]


@nightly
@pytest.mark.parametrize(
    ("rank", "window", "compute", "comm", "overlap"),
    [
        (0, 108_983_942, 76_877_461, 89_991_205, 70_731_017),
        (1, 108_985_159, 77_323_487, 95_843_024, 71_210_908),
    ],
)
def test_what_runs_between_the_halves_is_overlap(
    halved: Path, rank: int, window: int, compute: int, comm: int, overlap: int
) -> None:
    with traceweave.open(halved) as run:
        (row,) = rows(
            run,
            "SELECT window_ns, compute_ns, comm_ns, overlap_ns, exposed_comm_ns, exposed_wait_ns,"
            " exposed_transfer_ns, exposed_unsplit_ns"
            f" FROM breakdown() WHERE rank = {rank}",
        )
        assert row[:5] == (window, compute, comm, overlap, comm - overlap)
        assert sum(row[5:]) == comm - overlap
        # operations of a rank follow each other
        (by_call,) = rows(run, f"SELECT sum(exposed_ns) FROM exposed_comm() WHERE rank = {rank}")
        assert by_call == (comm - overlap,)
        assert rows(
            run,
            "SELECT sum(idle_ns) = (SELECT idle_ns FROM breakdown() WHERE rank = 0)"
            " FROM idle_causes() WHERE rank = 0",
        ) == [(True,)]


@nightly
def test_the_run_is_replayed(halved: Path) -> None:
    with traceweave.open(halved) as run:
        assert rows(
            run, "SELECT DISTINCT collectives, incomplete, dropped FROM replay_quality()"
        ) == [(232, 0, 0)]


@nightly
def test_whole_operations_stay_as_they_are(recorded: Recorded) -> None:
    run = recorded("kineto/deepep8")
    assert rows(run, "SELECT count(*), count(receive_op_id) FROM collectives") == [(RANKS * 116, 0)]
    # no operation of it lasts longer than its kernel
    assert rows(
        run,
        "SELECT bool_and(k.duration_ns = g.duration_ns) FROM collectives AS k"
        " JOIN gpu_ops AS g ON g.op_id = k.gpu_op_id",
    ) == [(True,)]
    assert rows(run, "SELECT comm_ns, exposed_comm_ns FROM breakdown() WHERE rank = 0") == [
        (56_973_942, 56_973_942)
    ]


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
