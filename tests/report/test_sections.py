"""The rows behind each section, on a run worked out by hand (see handmade.py)."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import unchanging
from tests.conftest import Recorded
from tests.marks import nightly
from tests.report.conftest import MakeRun
from tests.report.handmade import MS
from tests.traffic import woven
from traceweave.report.sections import budget_layout
from traceweave.report.sections.budget import budget_in_words, load_budget
from traceweave.report.sections.budget_layout import budget_section
from traceweave.report.sections.clocks import clocks_in_words, clocks_section, load_clocks
from traceweave.report.sections.collectives import (
    collectives_section,
    load_collectives,
    waits_in_words,
)
from traceweave.report.sections.gaps import gaps_in_words, gaps_section, load_gaps
from traceweave.report.sections.inputs import load_inputs, losses
from traceweave.report.sections.overlap import load_overlap, overlap_section
from traceweave_simulator.traffic_jobs import Job

SUMS = ("window_ns", "compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "overlap_ns")


def test_budget_sums_the_steps_of_each_rank(shared_run: MakeRun) -> None:
    budget = load_budget(shared_run(ranks=4, steps=3))
    assert budget.steps == [0, 1, 2]
    assert [tuple(row[key] // MS for key in SUMS) for row in budget.per_rank] == [
        (284, 180, 60, 12, 32, 30),
        (284, 180, 60, 12, 32, 30),
        (284, 180, 60, 12, 32, 30),
        (284, 210, 30, 12, 32, 30),
    ]
    assert [row["hidden"] for row in budget.per_rank] == [1 / 3, 1 / 3, 1 / 3, 0.5]
    assert [row["efficiency"] for row in budget.per_rank] == [1 / 3, 1 / 3, 1 / 3, 0.5]


def test_the_budget_in_words_names_what_there_is(shared_run: MakeRun) -> None:
    budget = load_budget(shared_run(ranks=2, steps=1))
    # the last step ends with its last op, so that nothing is idle
    assert budget_in_words(budget, cpu=False) == (
        "A step takes 84.0 ms (2 ranks, 1 step). For 71.4% of the time the rank computes, for 23.8%"
        " it only transfers data and for 4.8% it only copies memory. 33.3% of the communication"
        " time hides behind compute."
    )


def test_overlap_says_what_is_exposed_and_why(shared_run: MakeRun) -> None:
    con = shared_run(ranks=4, steps=3)
    budget, overlap = load_budget(con), load_overlap(con, 1)
    section = overlap_section(budget, overlap)
    # clocks are 0 to 300 ns apart; three ranks expose 20 ms, and the one that comes last 10
    assert section.notes[0] == (
        "Each step hides 10.0 ms. Of the rest, 150 ns is waiting for other ranks, and a schedule"
        " could hide 17.5 ms at most."
    )
    calls = section.tables[2]
    assert calls.caption == "Collectives of step 1 that are exposed longest, and why"
    assert calls.rows[0] == (
        *(0, "all_reduce", 64_000_000, 20 * MS),
        *("launched_late", "the compute that follows", pytest.approx(1, abs=1e-4)),
    )


def test_waiting_that_is_not_known_is_not_said_to_be_none(recorded: Recorded) -> None:
    con = recorded("pipeline_1f1b").con
    section = overlap_section(load_budget(con), load_overlap(con, 4))
    # by SQL: exposed_unsplit_ns of breakdown is 3.76 s in 12 windows, exposed_wait_ns nothing
    assert section.notes[0] == (
        "Each step hides 70.0 ms. How much of the rest is waiting for other ranks is not known; a"
        " schedule could hide 296 ms at most."
    )
    assert "Without a value: Lost, Waiting." in section.tables[1].note


@nightly
def test_kinds_of_collectives_without_partners_are_drawn_by_their_time_too(
    recorded: Recorded,
) -> None:
    section = collectives_section(load_collectives(recorded("kineto/sampled_2of128").con), 2)
    (figure,) = section.figures
    # none is matched; by SQL four all_to_all take 62.8 ms at the median, four all_gather 42.7 ms
    assert figure.chart["categories"][:2] == [
        "all_to_all · group 0 · 268 MB to 537 MB",
        "all_gather · group 0 · 2.15 GB to 4.29 GB",
    ]
    rows = section.tables[-1].rows
    assert {(row[0], row[3], row[4]) for row in rows} >= {("all_gather", 4, 0)}


def test_budget_without_steps_takes_the_whole_recording(shared_run: MakeRun) -> None:
    budget = load_budget(shared_run(ranks=1, steps=0))
    assert not budget.has_steps
    assert [tuple(row[key] // MS for key in SUMS) for row in budget.rows] == [
        (84, 60, 20, 4, 0, 10)
    ]


def test_of_too_many_steps_those_are_kept_that_the_analysis_steps_calls_longest(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = make_run(ranks=2, steps=3)
    # on the GPU the last step is the shortest, but host ranges, being steady, are its length
    con.execute("UPDATE base.steps SET duration_ns = duration_ns + ? WHERE step = 2", [MS])
    monkeypatch.setattr(budget_layout, "MAX_CELLS", 4)
    section = budget_section(load_budget(con), cpu=False)
    heat = next(figure for figure in section.figures if figure.name == "budget-heat")
    assert heat.chart["columns"] == ["0", "2"]
    # these are windows on the GPU, other than the step time, which is by host ranges
    assert heat.chart["variants"][1]["label"] == "Length"
    assert section.notes[0].endswith("The step time above is that of host ranges.")
    assert section.notes[-1] == "Of 3 steps, the 2 longest are shown one by one."


def test_a_rank_without_steps_is_not_compared_with_steps(make_run: MakeRun) -> None:
    con = make_run(ranks=3, steps=2)
    con.execute("DELETE FROM base.steps WHERE rank = 1")
    budget = load_budget(con)
    assert budget.ranks == [0, 2]
    assert budget.left_out == (1,)
    assert "mark no steps: rank 1." in budget_section(budget, cpu=False).notes[-1]


def test_idle_time_is_summed_by_cause_and_the_longest_gap_named(shared_run: MakeRun) -> None:
    con = shared_run(ranks=2, steps=3)
    gaps = load_gaps(con, load_budget(con))
    assert gaps.idle_ns == 2 * 2 * 16 * MS
    assert [(cause["cause"], cause["gaps"]) for cause in gaps.causes] == [("launch_bound", 4)]
    assert gaps_in_words(gaps) == (
        "Idle time adds up to 64.0 ms over all ranks and steps; all of it is launch_bound: the host"
        " launches too late. The longest gap lasts 16.0 ms, on rank 0 in step 0."
    )
    keys = ("rank", "step", "duration_ns", "after_op", "before_op")
    assert [tuple(gap[key] for key in keys) for gap in gaps.worst] == [
        (0, 0, 16 * MS, "Memcpy DtoH", "gemm_kernel"),
        (0, 1, 16 * MS, "Memcpy DtoH", "gemm_kernel"),
        (1, 0, 16 * MS, "Memcpy DtoH", "gemm_kernel"),
        (1, 1, 16 * MS, "Memcpy DtoH", "gemm_kernel"),
    ]


def test_what_is_unknown_on_a_cpu_is_no_missing_launch(recorded: Recorded) -> None:
    con = recorded("ddp_gloo_straggler").con
    section = gaps_section(load_gaps(con, load_budget(con)))
    assert section.terms["unknown"] == "no operator, no communication runs"  # as health says


@nightly
def test_of_very_many_gaps_only_the_long_ones_are_listed(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = make_run(ranks=2, steps=3)
    monkeypatch.setattr("traceweave.report.sections.gaps.MANY", 3)
    monkeypatch.setattr("traceweave.report.sections.gaps.LISTED_NS", 16 * MS)
    gaps = load_gaps(con, load_budget(con))
    assert gaps.idle_ns == 2 * 2 * 16 * MS
    assert [gap["duration_ns"] for gap in gaps.worst] == [16 * MS] * 4
    monkeypatch.setattr("traceweave.report.sections.gaps.LISTED_NS", 16 * MS + 1)
    gaps = load_gaps(con, load_budget(con))
    assert gaps.idle_ns == 2 * 2 * 16 * MS
    assert gaps.worst == []
    assert gaps_section(gaps).notes[1] == (
        "Gaps shorter than 16.0 ms are summed by cause, not listed or drawn."
    )


def test_waiting_is_charged_to_the_rank_that_came_last(shared_run: MakeRun) -> None:
    collectives = load_collectives(shared_run(ranks=4, steps=3))
    keys = ("rank", "instances", "known_instances", "known_last", "origin_wait_ns",
            "waited_free_ns")  # fmt: skip
    assert [tuple(row[key] for key in keys) for row in collectives.waits] == [
        (0, 3, 3, 0, 0, 30 * MS),
        # clocks of neighbours differ by 100 ns: 0 waits 100 ns for 1, 2 and 3, a third each,
        # 0 and 1 then 100 ns for 2 and 3, half each, and all 10 ms and 100 ns for 3 alone
        (1, 3, 3, 0, 100, 30 * MS),
        (2, 3, 3, 0, 100 + 300, 30 * MS),
        (3, 3, 3, 3, 100 + 300 + 3 * (30 * MS + 300), 0),
    ]
    assert waits_in_words(collectives, 4) == (
        "The ranks wait most for rank 3: 90.0 ms, summed over the waiting ranks, >99.9% of all"
        " waiting. It came last in 3 of 3 collectives where the clocks resolve that. On its way it"
        " computes longer (gemm)."
    )


def test_waiting_in_unknown_steps_is_charged_to_nobody(recorded: Recorded) -> None:
    collectives = load_collectives(recorded("uneven_start_gloo").con)
    assert (collectives.matching.known_instances, collectives.waited_ns) == (2, 0)
    assert waits_in_words(collectives, 2) == (
        "Where the clocks can tell which rank came last, the step is left out as unknown: no rank"
        " is shown to hold up the others."
    )


@nightly
def test_arrivals_below_the_resolution_of_the_clocks_accuse_nobody(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=3)
    con.execute("UPDATE clocks SET residual_p95_ns = 20 * ?", [MS])
    collectives = load_collectives(con)
    got = [(w["known_last"], w["resolved_wait_ns"]) for w in collectives.waits]
    assert got == [(0, 0)] * 4
    assert waits_in_words(collectives, 4) == (
        "In none of 3 matched collectives can the clocks tell which rank came last: no rank is"
        " shown to hold up the others."
    )


@nightly
def test_two_that_come_last_together_are_both_not_last(make_run: MakeRun) -> None:
    # rank 2 is as late as rank 3 in the first of three steps: 0 and 1 wait 10 ms for both
    con = make_run(ranks=4, steps=3)
    con.execute(
        "UPDATE base.collective_calls SET start_local_ns = start_local_ns + 10 * ?,"
        " duration_ns = duration_ns - 10 * ? WHERE rank = 2 AND step = 0",
        [MS, MS],
    )
    collectives = load_collectives(con)
    keys = ("rank", "known_instances", "known_last", "resolved_wait_ns", "waited_ns")
    assert [tuple(row[key] for key in keys) for row in collectives.waits] == [
        # clocks differ by 100 ns per rank, far below their residuals of 5 us
        (0, 2, 0, 0, 3 * (10 * MS + 300)),
        (1, 2, 0, 0, 3 * (10 * MS + 200)),
        (2, 2, 0, 0, 2 * (10 * MS + 100) + 100),
        (3, 2, 2, 2 * (30 * MS + 300), 0),
    ]
    assert (collectives.matching.shared, collectives.matching.known_instances) == (3, 2)
    # of 80 ms, 60 for rank 3 alone, and in the first step half of 20 for each of 2 and 3
    assert waits_in_words(collectives, 4) == (
        "The ranks wait most for rank 3: 70.0 ms, summed over the waiting ranks, 87.5% of all"
        " waiting. It came last in 2 of 2 collectives where the clocks resolve that; rank 2 comes"
        " next with 12.5% of the waiting. On its way it computes longer (gemm)."
    )
    assert collectives_section(collectives, 4).notes[1] == (
        "12 calls on all ranks make up 3 collectives, all complete. In 1 the clocks do not"
        " resolve which rank came last."
    )


def test_collectives_that_lack_ranks_are_counted(make_run: MakeRun) -> None:
    con = make_run(ranks=2, steps=3)
    told = "4 calls on all ranks make up 3 collectives"
    con.execute("DELETE FROM base.collective_calls WHERE rank = 1 AND step < 2")
    assert _counted(con).startswith(
        f"{told}; 2 lack a rank, so that transfer may be waiting for it."
    )
    con.execute("UPDATE groups SET size = NULL")
    assert _counted(con).startswith(f"{told}; of 3 it is not known whether all ranks are here.")


def _counted(con: duckdb.DuckDBPyConnection) -> str:
    with unchanging(con):
        return collectives_section(load_collectives(con), 2).notes[1]


def test_one_rank_says_nothing_of_waiting(shared_run: MakeRun) -> None:
    collectives = load_collectives(shared_run(ranks=1, steps=2, collectives=False))
    assert collectives.waits == []
    assert waits_in_words(collectives, 1) == (
        "With a single rank nothing can be said about waiting between ranks."
    )


def test_a_collective_that_ends_before_it_begins_is_reported(make_run: MakeRun) -> None:
    con = make_run(ranks=2, steps=3)
    con.execute("UPDATE clocks SET offset_ns = 40 * ? WHERE rank = 1", [MS])
    clocks = load_clocks(con)
    # rank 0 ends at 80 ms, rank 1 now starts at 50 + 40
    matching = clocks.matching
    assert (matching.synchronizing, matching.violations, matching.violation_max_ns) == (
        3, 3, 10 * MS,
    )  # fmt: skip
    assert clocks_in_words(clocks) == (
        "After alignment the ranks' clocks agree to 5.00 us (largest 95th percentile of the"
        " residuals); smaller differences between ranks are treated as noise; 3 of 3 collectives"
        " break causality by up to 10.0 ms, so the fit is not good enough there."
    )
    assert "cannot be: by up to 10.0 ms" in clocks_section(clocks).notes[-1]


def test_of_a_clock_that_changes_the_charts_say_that_they_show_the_first_row() -> None:
    with woven(Job(hosts=2, per_host=1, steps=60, jump_us=500)) as (con, _):
        section = clocks_section(load_clocks(con))
    offsets = section.figures[1].chart["variants"][0]["values"][0]
    assert len(offsets) == 2 < len(section.tables[0].rows)
    assert section.notes[-1] == (
        "Clocks that change: charts show the first row of rank 1, the table all."
    )


def test_clocks_that_rest_on_nothing_are_named(make_run: MakeRun) -> None:
    con = make_run(ranks=3, steps=1)
    con.execute("UPDATE clocks SET status = 'wall clock', residual_p95_ns = NULL")
    assert clocks_in_words(load_clocks(con)) == (
        "The clocks of ranks 0-2 could not be checked against the other ranks."
    )


def test_losses_at_ingest_are_counted(make_run: MakeRun) -> None:
    con = make_run(ranks=2, steps=1)
    assert losses(load_inputs(con)) == "All 1,000 events of 2 files were stored."
    con.execute(
        "UPDATE sources SET events_stored = 250, events_skipped = 250, status = 'failed'"
        " WHERE source_id = 1"
    )
    con.execute("UPDATE base.rank_sources SET world_size = 8")
    inputs = load_inputs(con)
    assert losses(inputs) == (
        "Incomplete input: 250 of 1,000 events (25.0%) from 2 files were not stored; 1 file"
        " could not be read at all; 6 ranks of the job are not in these traces."
    )


def test_kinds_of_events_that_are_not_read_make_no_input_incomplete(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    """Switches of threads, of which nsys records most; nothing is damaged."""
    trace = corpus / "nsys" / "sgemm__2023.2.sqlite"
    with traceweave.open(database_of(trace)) as run:
        assert losses(load_inputs(run.con)) == (
            "4,464 of 6,909 events (64.6%) of 1 file are of kinds that are not read."
        )


@nightly
def test_damaged_events_of_a_whole_file_are_missing(corpus: Path, tmp_path: Path) -> None:
    """What was wrong: the page took all that is not stored of such a file for kinds not read."""
    trace = shutil.copy(corpus / "nsys" / "sgemm__2023.2.sqlite", tmp_path / "damaged.sqlite")
    with closing(sqlite3.connect(trace)) as export, export:
        export.execute(
            'UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET "end" = start - 1 WHERE rowid % 100 = 1'
        )
    assert traceweave.ingest([trace], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        assert losses(load_inputs(run.con)) == (
            "Incomplete input: 24 of 6,909 events (0.3%) from 1 file were not stored."
            " 4,464 of 6,909 events (64.6%) of 1 file are of kinds that are not read."
        )


def test_an_empty_database_has_no_rows_anywhere(empty_run: duckdb.DuckDBPyConnection) -> None:
    assert load_budget(empty_run).rows == []
    assert load_gaps(empty_run, load_budget(empty_run)).causes == []
    assert load_collectives(empty_run).waits == []
    assert load_clocks(empty_run).rows == []
    assert load_inputs(empty_run).ranks == []
