"""Every rule of `findings` on a real trace where it is true, and on one where it must be silent.

A rule that no real trace at hand shows is tried on events of a real file that were changed by hand.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, found_by
from tests.cases import cases, tables
from tests.conftest import MakeOnce
from tests.marks import at_once, nightly
from tests.rewritten import unlisted
from traceweave.analyses import rules

Database = Callable[..., Path]


BEFORE_LAUNCHES = (
    "INSERT INTO base.other_events BY NAME SELECT rank, op_id + 500_000_000 AS op_id, source_id,"
    " 'X' AS phase, 'overhead' AS category, '{}' AS name, '-1' AS pid, '0' AS tid,"
    " start_local_ns - 5_000_000 AS start_local_ns, 5_000_000 AS duration_ns"
    " FROM base.host_ops WHERE name = 'cudaLaunchKernel'"
)

CHANGED: dict[str, tuple[str, str, str, str]] = {
    # events of a real file changed by hand: trace, SQL, evidence, advice
    "slow_kernels": (
        "kineto/nanogpt_8xh100",
        "UPDATE base.gpu_ops SET duration_ns = duration_ns * 11 // 10"
        " WHERE rank = 1 AND category = 'compute'",
        "The same kernels take 9.9% longer on rank 1",
        "Compare clock rates",
    ),
    "module_loading": (
        # what hta_pair's host does before each launch is loading code instead
        "kineto/hta_pair_nccl2",
        BEFORE_LAUNCHES.format("Lazy Function Loading"),
        "The GPU idles .* per step while code is loaded onto it",
        "Find what loads new code",
    ),
    "compilation": (
        # and what it does for 5 ms before them is compiling
        "kineto/hta_pair_nccl2",
        "INSERT INTO base.host_ops BY NAME"
        " SELECT * REPLACE (op_id + 500_000_000 AS op_id, 'op' AS kind,"
        " 'compile_fx_inner (dynamo_timed)' AS name, NULL AS correlation,"
        " start_local_ns - 5_000_000 AS start_local_ns, 5_000_000 AS duration_ns)"
        " FROM base.host_ops WHERE name = 'cudaLaunchKernel'",
        "Code is compiled for .* per step. The GPU idles meanwhile for ",
        "Inputs change in every step",
    ),
    "profiler_overhead": (
        "kineto/hta_pair_nccl2",
        BEFORE_LAUNCHES.format("Buffer Flush"),
        "The GPU idles .* per step while the profiler writes out",
        "It only occurs with the profiler",
    ),
    "unified_memory": (
        "nsys/perf_sandbox__2025.5.sqlite",
        "UPDATE base.gpu_ops SET copy_kind = 'UVM ' || copy_kind, args = NULL"
        " WHERE kind = 'memcpy'",
        "Pages of managed memory migrate for 3.04 ms per recording: 12.6 MB in 3 migrations",
        "Prefetch data before its use",
    ),
    "unexplained_idle": (
        "nsys/perf_sandbox__2025.5.sqlite",
        "UPDATE base.gpu_ops SET copy_kind = 'UVM ' || copy_kind, launch_op_id = NULL,"
        " launch_start_local_ns = NULL, launch_duration_ns = NULL WHERE kind = 'memcpy'",
        ".* no recorded launch explains it.*Pages of managed memory move as they are touched",
        "Between its pages the host works",
    ),
    "lost_events": (
        "kineto/megatron_tp2",
        "UPDATE sources SET status = 'partial', events_skipped = 7 WHERE source_id = 0",
        "1 of 2 files read in part or not at all; 7 events are not here",
        "See traceweave info",
    ),
}


def _path(corpus: Path, fixtures: Path, trace: str) -> Path:
    return corpus / trace if "/" in trace else fixtures / trace


Found = Callable[[str], list[dict[str, Any]]]


def _findings(path: Path) -> list[dict[str, Any]]:
    with traceweave.open(path) as run:
        # what they find does not depend on what it is worth
        rows: list[dict[str, Any]] = (
            run.stream_analysis("findings", replay_ops=0).read_all().to_pylist()
        )
    return rows


@pytest.fixture(scope="session")
def found_in(corpus: Path, fixtures: Path, database_of: Database, once: MakeOnce) -> Found:
    """Return a function from a trace to its findings, asked once for all processes."""

    @cache
    def found(trace: str) -> list[dict[str, Any]]:
        name = trace.removeprefix("unlisted/")
        path = _path(corpus, fixtures, name)
        if name != trace:
            path = once(f"unlisted {path}", ".traces", partial(unlisted, path))
        database = database_of(path)
        rows = once(
            f"findings of {database}",
            ".json",
            lambda path: path.write_text(json.dumps(_findings(database))),
        )
        return list(json.loads(rows.read_text()))

    return found


@cases
def test_a_rule_speaks_where_it_is_true(
    found_in: Found, name: str, trace: str, ranks: list[int] | None, evidence: str, advice: str
) -> None:
    """What it says there begins with these regular expressions."""
    found = found_in(trace)
    row = next(row for row in found if (row["rule"], row["ranks"]) == (name, ranks))
    assert re.match(evidence, row["evidence"]), row["evidence"]
    assert re.match(advice, row["advice"]), row["advice"]


@cases
def test_a_rule_is_silent_where_it_is_not_true(found_in: Found, name: str, traces: str) -> None:
    for trace in traces.split():
        assert name not in {row["rule"] for row in found_in(trace)}, trace


@nightly
def test_a_rank_that_nobody_waits_for_is_not_held_up(
    fixtures: Path, database_of: Database, tmp_path: Path
) -> None:
    # as if rank 0 had begun to record a step later; rank 2 is never last
    folder = tmp_path / "traces"
    shutil.copytree(fixtures / "range_named_gloo", folder)
    trace = json.loads(gzip.decompress((folder / "rank0.json.gz").read_bytes()))
    [begin] = [e["ts"] for e in trace["traceEvents"] if e["name"] == "ProfilerStep#4"]
    trace["traceEvents"] = [
        event for event in trace["traceEvents"] if event["ph"] == "M" or event["ts"] >= begin
    ]
    (folder / "rank0.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    with traceweave.open(database_of(folder)) as run:
        late = run.stragglers().set_index("rank")
        said = {row["rule"]: row["evidence"] for row in _findings(run.path)}
    assert late.loc[2, "times_last"] == 0
    assert late.loc[2, "origin_rank"] == 1
    assert said["straggler"].endswith(
        ". Rank 1 idles longer. Rank 1 idles 35.2 ms in every step, most in 'augment';"
        " the others 4.07 ms at the median"
    )


@nightly
def test_waiting_for_a_rank_that_is_not_seen_is_no_tail(
    fixtures: Path, database_of: Database
) -> None:
    # rank 2, whose file is left out, comes late to every second sum, to two of them by far
    files = [fixtures / "slow_and_uneven_gloo" / f"rank{rank}.json.gz" for rank in (0, 1)]
    with traceweave.open(database_of(*files)) as run:
        lengths = "FROM collective_instances SELECT transfer_min_ns / 1e6, complete ORDER BY ALL"
        found = run.con.execute(lengths).fetchall()
        assert [round(ms) for ms, _ in found] == [3, 4, 11, 15, 29, 29, 31, 34]
        assert not any(complete for _, complete in found)
        said = run.stream_analysis("findings", replay_ops=0).read_all()["rule"].to_pylist()
    assert "missing_ranks" in said
    assert "long_tail" not in said


@pytest.mark.parametrize("name", at_once(CHANGED))
def test_a_rule_speaks_of_what_was_put_into_a_real_trace(
    corpus: Path,
    fixtures: Path,
    database_of: Database,
    found_in: Found,
    tmp_path: Path,
    name: str,
) -> None:
    trace, change, evidence, advice = CHANGED[name]
    assert name not in [row["rule"] for row in found_in(trace)]
    path = tmp_path / "changed.duckdb"
    shutil.copy(database_of(_path(corpus, fixtures, trace)), path)
    with duckdb.connect(path) as con:
        con.execute(change)
    found = {row["rule"]: row for row in _findings(path)}
    assert re.match(evidence, found[name]["evidence"]), found[name]["evidence"]
    assert re.match(advice, found[name]["advice"]), found[name]["advice"]
    # a GPU that is slower has no more work
    assert "uneven_work" not in (found if name == "slow_kernels" else {})
    # a stream of its own is no advice for pages, which move as they are touched
    assert "exposed_copies" not in (found if "UVM" in change else {})


@nightly
def test_what_is_pageable_in_nsys_is_replayed(corpus: Path, database_of: Database) -> None:
    """Its names of copies do not say so; here all copies of both names are."""
    trace = corpus / "nsys" / "perlmutter_cloverleaf_mpi__2024.5.sqlite"
    with traceweave.open(database_of(trace)) as run:
        rows = run.stream_analysis("findings", min_share=0).read_all().to_pylist()
    [row] = [row for row in rows if row["rule"] == "pageable_copies"]
    assert row["scenario"] == (
        "kind=copy name=Memcpy*DtoH times=0; kind=copy name=Memcpy*HtoD times=0"
    )
    assert row["cost_is"] == "replayed"
    assert 0 < row["cost_ns"] < row["bound_ns"]


BY_HAND = {"slow_link", "long_tail", "fragmentation", "unequal_stages"}
"""Rules that test_findings.py and test_unequal_stages.py try on arithmetic by hand."""


def test_every_rule_is_tried() -> None:
    real = tables(Path(__file__).with_suffix(".tsv")).values()
    tried = {row[row[0] == "nightly"] for _, *rows in real for row in rows}
    assert {rule.name for rule in rules()} == {*tried, *CHANGED, *BY_HAND}


@nightly
def test_arguments_of_copies_are_not_read_where_names_say_which_memory(
    empty_run: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are long: of a million copies, reading them took 0.3 s, and their names 0.03 s."""
    # as in a run that is too large to be held in memory
    monkeypatch.setattr("traceweave.analyses.common.MOST_EVENTS", -1)
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.gpu(0, (0, 40_000), "memory", "Memcpy HtoD (Pageable -> Device)", copy_kind="HtoD")
    build.gpu(0, (50_000, 100_000))
    (view,) = empty_run.execute(
        "SELECT sql FROM duckdb_views() WHERE view_name = 'gpu_ops' AND NOT internal"
    ).fetchone() or ("",)
    build.con.execute(view.replace("VIEW gpu_ops", "VIEW whole_gpu_ops"))
    build.con.execute(
        "CREATE OR REPLACE VIEW gpu_ops AS SELECT * REPLACE (CASE WHEN kind = 'memcpy'"
        " THEN error('arguments were read')::JSON ELSE args END AS args) FROM whole_gpu_ops"
    )
    row = found_by(build.con, "pageable_copies")["pageable_copies"]
    assert row["bound_ns"] == 40_000
