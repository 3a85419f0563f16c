"""Recordings of an MPI job by nsys 2022.4 and 2023.4, against what `nsys stats` says of them.

Three ranks, four steps, rank 1 computes 5 ms longer; see fixtures/record/train_mpi.py."""

import csv
import gzip
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.marks import nightly
from tests.sources.nsys_loading import LoadedExport, load_export
from traceweave.ingestion import ingest
from traceweave.sources.nsys.clock import read_clock
from traceweave.sources.nsys.open_export import open_export

RECORDED = Path(__file__).parents[1] / "fixtures" / "mpi_nsys"
NVTX_NAME = "coalesce(({0}.args->>'domain') || ':', '') || {0}.name"
OPEN = {"never closed", "prefetch"}
"""Ranges of which some are open at the end: every tool cuts those where it likes."""


@pytest.fixture(scope="module", params=["2022.4", "2023.4"])
def recorded(request: pytest.FixtureRequest) -> Iterator[tuple[str, LoadedExport]]:
    loaded = load_export(RECORDED / f"all_ranks__{request.param}.sqlite.gz")
    yield request.param, loaded
    loaded.con.close()


@pytest.fixture(scope="module")
def newer() -> Iterator[LoadedExport]:
    loaded = load_export(RECORDED / "all_ranks__2023.4.sqlite.gz")
    yield loaded
    loaded.con.close()


def stats(version: str, report: str) -> list[dict[str, str]]:
    with (RECORDED / f"all_ranks__{version}.{report}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def session_start(loaded: LoadedExport) -> int:
    with open_export(loaded.trace.path) as export:
        return read_clock(export)[0]


def test_nvtx_sums_equal_nsys_stats(recorded: tuple[str, LoadedExport]) -> None:
    version, loaded = recorded
    rows = loaded.rows(
        f"SELECT {NVTX_NAME.format('h')}, depth IS NULL, count(*), sum(duration_ns)::BIGINT"
        " FROM base.host_ops AS h WHERE kind = 'nvtx' GROUP BY ALL"
    )
    expected = {
        (r["Range"], r["Style"] == "StartEnd", int(r["Instances"]), int(r["Total Time (ns)"]))
        for r in stats(version, "nvtx_sum")
    }
    assert {r for r in rows if r[0] not in OPEN} == {r for r in expected if r[0] not in OPEN}
    assert {r[:3] for r in rows} == {r[:3] for r in expected}


@nightly
def test_nesting_equals_nsys_stats(recorded: tuple[str, LoadedExport]) -> None:
    """Levels and parents of push/pop ranges; `read` of one domain crosses `data` of another."""
    version, loaded = recorded
    trace = {row["RangeId"]: row for row in stats(version, "nvtx_pushpop_trace")}
    start = session_start(loaded)
    expected = {
        (
            int(row["TID"]), row["Name"], int(row["Start (ns)"]) + start, int(row["Lvl"]),
            trace[row["ParentId"]]["Name"] if row["ParentId"] else None,
        )
        for row in trace.values()
    }  # fmt: skip
    rows = loaded.rows(
        f"SELECT h.tid, {NVTX_NAME.format('h')}, h.start_local_ns, h.depth,"
        f" {NVTX_NAME.format('p')} FROM base.host_ops AS h"
        " LEFT JOIN base.host_ops AS p ON h.parent_id = p.op_id"
        " WHERE h.kind = 'nvtx' AND h.depth IS NOT NULL"
    )
    assert set(rows) == expected
    assert len(rows) == len(trace)


def test_os_calls_equal_nsys_stats(recorded: tuple[str, LoadedExport]) -> None:
    """But for the marks of no length that nsys sets where its tracing begins and ends."""
    version, loaded = recorded
    expected = {
        (r["Name"], int(r["Num Calls"]), int(r["Total Time (ns)"]))
        for r in stats(version, "osrt_sum")
    }
    rows = loaded.rows(
        "SELECT name, count(*), sum(duration_ns)::BIGINT FROM base.host_ops WHERE kind = 'os'"
        " AND NOT starts_with(name, 'OS runtime libraries profiling') GROUP BY ALL"
    )
    assert set(rows) == expected


def test_mpi_calls_equal_nsys_stats(newer: LoadedExport) -> None:
    start = session_start(newer)
    expected = Counter(
        (int(r["Start (ns)"]) + start, int(r["Duration (ns)"]), r["Event"], int(r["Tid"]))
        for r in stats("2023.4", "mpi_event_trace")
    )
    rows = newer.rows(
        "SELECT start_local_ns, duration_ns, name, tid FROM base.host_ops WHERE kind = 'mpi'"
    )
    assert Counter(rows) == expected


def test_ranges_of_the_domain_mpi_are_calls_of_unknown_communicators() -> None:
    """nsys 2022.4 has no tables of MPI: what it knows is which call ran, from when to when. What a
    call only starts has no end then, and `nsys stats` says how long the others took."""
    loaded = load_export(RECORDED / "all_ranks__2022.4.sqlite.gz")
    ops = {
        "MPI_Allgather": "all_gather", "MPI_Allreduce": "all_reduce", "MPI_Alltoall": "all_to_all",
        "MPI_Barrier": "barrier", "MPI_Bcast": "broadcast", "MPI_Gather": "gather",
        "MPI_Recv": "recv", "MPI_Reduce": "reduce", "MPI_Reduce_scatter_block": "reduce_scatter",
        "MPI_Scatter": "scatter", "MPI_Send": "send",
    }  # fmt: skip
    expected = {
        (ops[call], int(row["Instances"]), int(row["Total Time (ns)"]))
        for row in stats("2022.4", "nvtx_sum")
        if (call := row["Range"].removeprefix("MPI:")) in ops
    }
    assert len(expected) == len(ops)
    rows = "SELECT op, count(*), sum(duration_ns)::BIGINT FROM base.collective_calls GROUP BY 1"
    assert set(loaded.rows(rows)) == expected
    assert loaded.rows(
        "SELECT count(group_name), count(group_size), count(comm_peer), count(bytes)"
        " FROM base.collective_calls"
    ) == [(0, 0, 0, 0)]


def test_ranges_beside_tables_of_mpi_are_no_calls(tmp_path: Path) -> None:
    """No nsys is known to write both; a program's own domain may be called so."""
    export = tmp_path / "both.sqlite"
    export.write_bytes(gzip.decompress((RECORDED / "all_ranks__2023.4.sqlite.gz").read_bytes()))
    counted = "SELECT count(*) FROM base.collective_calls"
    calls = load_export(export).rows(counted)
    with closing(sqlite3.connect(export)) as db:
        copied = db.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId)"
            " SELECT c.start, c.end, 59, c.globalTid, c.textId, d.domainId"
            " FROM MPI_COLLECTIVES_EVENTS AS c JOIN NVTX_EVENTS AS d ON d.eventType = 75"
            " AND d.text = 'MPI' AND d.globalTid >> 24 = c.globalTid >> 24"
        ).rowcount
        db.commit()
    assert copied > 0
    assert load_export(export).rows(counted) == calls


def test_processes_steps_and_marks(recorded: tuple[str, LoadedExport]) -> None:
    """nsys 2022.4 has no table of MPI ranks, only threads so named; marks tell the truth."""
    version, loaded = recorded
    source, size = {"2022.4": ("thread name 'MPI Rank'", None), "2023.4": ("MPI_RANKS", 3)}[version]
    assert [(p.rank, p.rank_source, p.world_size, p.backend) for p in loaded.trace.processes] == [
        (rank, source, size, "mpi") for rank in range(3)
    ]
    assert loaded.rows(
        "SELECT rank, name, args->>'value', count(*) FROM base.other_events"
        " WHERE category = 'nvtx_mark' GROUP BY ALL ORDER BY ALL"
    ) == [(rank, f"rank {rank} of 3", "0.5", 4) for rank in range(3)]
    assert loaded.rows("SELECT rank, step, source FROM base.steps ORDER BY ALL") == [
        (rank, step, "nvtx") for rank in range(3) for step in range(4)
    ]


def test_domains_categories_payloads_and_threads_that_end_ranges(newer: LoadedExport) -> None:
    rows = newer.rows(
        "SELECT name, args->>'domain', args->>'category', args->>'value',"
        " args->>'color', (args->>'end tid') IS NOT NULL FROM base.host_ops"
        " WHERE kind = 'nvtx' AND rank = 2 AND step = 1 ORDER BY name"
    )
    assert rows == [
        ("compute", None, "work", None, "#000000ff", False),
        ("data", None, None, None, "#000000ff", False),
        ("decode", "loader", None, None, "#000000ff", False),
        ("prefetch", None, None, None, "#00008000", True),
        ("read 1", "loader", "io", "1", "#000000ff", False),
        ("step 1", None, None, "1", "#000000ff", False),
    ]


@nightly
def test_sizes_of_mpi_collectives_are_those_of_the_whole_buffer(newer: LoadedExport) -> None:
    """Doubles: 4096 reduced and broadcast, 512 per rank gathered, 256 per pair exchanged ..."""
    world, pair, alone = (
        (name, size)
        for name, size in (
            ("MPI_COMM_WORLD", 3), ("MPI communicator 0.0", 2), ("MPI communicator 2.0", 1),
        )
    )  # fmt: skip
    assert newer.rows(
        "SELECT op, group_name, group_size, bytes, count(*) FROM base.collective_calls"
        " WHERE op NOT IN ('send', 'recv') GROUP BY ALL ORDER BY ALL"
    ) == [
        ("all_gather", *world, 3 * 512 * 8, 12),
        ("all_reduce", *pair, 1024 * 8, 8),
        ("all_reduce", *alone, 1024 * 8, 4),
        ("all_reduce", *world, 2048 * 8, 12),
        ("all_reduce", *world, 4096 * 8, 12),
        ("all_to_all", *world, 3 * 256 * 8, 12),
        ("barrier", *world, None, 15),
        ("broadcast", *world, 4096 * 8, 12),
        ("gather", *world, 3 * 512 * 8, 12),
        ("reduce", *world, 4096 * 8, 12),
        ("reduce_scatter", *world, 3 * 128 * 8, 12),
        ("scatter", *world, 3 * 512 * 8, 12),
    ]


def test_messages_of_mpi_know_their_peers(newer: LoadedExport) -> None:
    """A ring of 64 doubles, and 32 from rank 0 to rank 1."""
    ring = [(r, "recv", (r - 1) % 3, 512, 4) for r in range(3)]
    ring += [(r, "send", (r + 1) % 3, 512, 4) for r in range(3)]
    assert newer.rows(
        "SELECT rank, op, comm_peer, bytes, count(*) FROM base.collective_calls"
        " WHERE op IN ('send', 'recv') GROUP BY ALL ORDER BY ALL"
    ) == sorted([*ring, (0, "send", 1, 256, 4), (1, "recv", 0, 256, 4)])


def test_what_a_call_only_starts_lasts_until_it_was_waited_for(newer: LoadedExport) -> None:
    """The job computes 0.3 ms between Iallreduce, which returns at once, and Wait."""
    ((calls, shortest, issued),) = newer.rows(
        "SELECT count(*), min(c.duration_ns), max(h.duration_ns) FROM base.collective_calls AS c"
        " JOIN base.host_ops AS h ON c.host_op_id = h.op_id WHERE h.name = 'MPI_Iallreduce'"
    )
    assert calls == 12
    assert shortest > 300_000 > issued


@nightly
@pytest.mark.parametrize("suffix", ["pqtdir", "arwdir"])
def test_folders_of_tables_make_the_same_database(suffix: str, tmp_path: Path) -> None:
    """Every row of every table, whichever way the report was exported."""
    ingest(RECORDED / "all_ranks__2023.4.sqlite.gz", tmp_path / "sqlite.duckdb")
    ingest(RECORDED / f"all_ranks__2023.4_{suffix}", tmp_path / "folder.duckdb")
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path}/sqlite.duckdb' AS sqlite (READ_ONLY)")
        con.execute(f"ATTACH '{tmp_path}/folder.duckdb' AS folder (READ_ONLY)")
        tables = con.execute(
            "SELECT format('{}.{}', schema_name, table_name) FROM duckdb_tables()"
            " WHERE database_name = 'sqlite' AND table_name <> 'meta'"
        ).fetchall()
        assert len(tables) > 12
        for (table,) in tables:
            of_file = " EXCLUDE (path, size_bytes)" if table == "main.sources" else ""
            rows = f"SELECT *{of_file} FROM {{}}.{table}"
            differences = " UNION ALL ".join(
                f"({rows.format(one)} EXCEPT ALL {rows.format(other)})"
                for one, other in (("sqlite", "folder"), ("folder", "sqlite"))
            )
            assert con.execute(differences).fetchall() == [], table


def query(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(database), read_only=True) as con:
        return con.execute(sql).fetchall()


@nightly
def test_two_sessions_on_one_host_are_one_run(tmp_path: Path) -> None:
    """One report per rank, each with a session of its own: on UTC every operation is matched."""
    database = tmp_path / "run.duckdb"
    result = ingest(str(RECORDED / "per_rank__*.sqlite.gz"), database)
    assert result.ok
    assert (result.weave.calls, result.weave.unmatched) == (114, {})
    ranks = "SELECT rank, rank_source, world_size FROM base.rank_sources ORDER BY 1"
    assert query(database, ranks) == [(0, "MPI_RANKS", 2), (1, "MPI_RANKS", 2)]
    assert query(database, "SELECT count(*), bool_and(complete) FROM collective_instances") == [
        (57, True)
    ]


@nightly
def test_a_folder_of_tables_is_found_as_one_trace(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "report_pqtdir").symlink_to(RECORDED / "all_ranks__2023.4_pqtdir")
    database = tmp_path / "run.duckdb"
    result = ingest(tmp_path / "job", database)
    assert [(s.path.name, s.status, s.ranks) for s in result.sources] == [
        ("report_pqtdir", "ok", (0, 1, 2))
    ]
    size = sum(f.stat().st_size for f in (RECORDED / "all_ranks__2023.4_pqtdir").iterdir())
    assert query(database, "SELECT format, size_bytes, events_stored FROM sources") == [
        ("nsys", size, 516)
    ]


@nightly
def test_a_report_beside_its_folder_of_tables_is_not_exported_again(tmp_path: Path) -> None:
    (tmp_path / "r_arwdir").symlink_to(RECORDED / "all_ranks__2023.4_arwdir")
    (tmp_path / "r.nsys-rep").write_bytes(b"not read")
    result = ingest(tmp_path, tmp_path / "run.duckdb")
    assert [(p.path.name, p.reason) for p in result.passed_over if p.path.suffix] == [
        ("r.nsys-rep", "its export r_arwdir is read instead")
    ]
