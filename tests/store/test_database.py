"""Opening databases: ours, of this version, and cut off from everything else when read-only."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import traceweave
from tests.marks import first_at_once, nightly
from traceweave.errors import DatabaseError, QueryError
from traceweave.interrupts import go_on
from traceweave.store.database import cursor_of, open_database, time_limit
from traceweave.store.draft import drafting
from traceweave.store.schema import SCHEMA_VERSION

READ_BY_1_4 = 67
"""The last version of the format that DuckDB 1.4 reads."""


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drafted") / "run.duckdb"
    with drafting(path):
        pass
    return path


@pytest.fixture
def database(drafted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(drafted, tmp_path))


OTHER_FORMATS = {
    "notes.txt": b"hello " * 1000, "rank0.sqlite": b"SQLite format 3\0" + bytes(4096),
    "rank0.parquet": b"PAR1" + bytes(4096) + b"PAR1", "empty.duckdb": b"",
}  # fmt: skip
"""DuckDB would look in the network for an extension that reads SQLite, and reads Parquet itself."""


def test_what_is_no_database_is_refused_with_a_way_out(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.duckdb"
    duckdb.connect(foreign).close()

    with pytest.raises(DatabaseError, match="does not exist; make a database with"):
        open_database(tmp_path / "none.duckdb")
    with pytest.raises(DatabaseError, match="is a folder"):
        open_database(tmp_path)
    for name, data in OTHER_FORMATS.items():
        other = tmp_path / name
        other.write_bytes(data)
        with pytest.raises(DatabaseError, match="not a database; if it is a trace, make one with"):
            open_database(other)
    with pytest.raises(DatabaseError, match="but not one of traceweave"):
        open_database(foreign)


def test_a_database_of_another_schema_version_is_refused(database: Path) -> None:
    with duckdb.connect(database) as con:
        con.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    said = rf"a newer traceweave \(schema version 99, this one reads {SCHEMA_VERSION}\); ingest the"
    with pytest.raises(DatabaseError, match=said):
        open_database(database)


def test_a_database_that_another_program_writes_is_refused(database: Path) -> None:
    holds = (
        "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"

        with pytest.raises(DatabaseError, match="another program has it open for writing"):
            open_database(database)

        other.communicate()


REFUSED = [
    "CREATE TABLE mine (a INTEGER)", "CREATE MACRO mine(a) AS a",
    "INSERT INTO meta VALUES ('a', 'b')", "UPDATE sources SET path = ''", "DELETE FROM clocks",
    "DROP VIEW ranks", "COMMENT ON TABLE sources IS 'mine'", "ATTACH '{other}' AS other",
    "COPY (SELECT 1) TO '{other}'", "COPY meta FROM '{text}'", "EXPORT DATABASE '{other}'",
    "SELECT * FROM read_csv('{text}')", "SELECT * FROM read_text('{text}')",
    "SELECT * FROM '{text}'", "SELECT * FROM glob('/*')", "INSTALL httpfs", "LOAD httpfs",
    "SET enable_external_access = true", "SET lock_configuration = false", "RESET memory_limit",
    "PRAGMA threads = 1",
]  # fmt: skip


@first_at_once(8)
@pytest.mark.parametrize("sql", REFUSED)
def test_a_read_only_connection_reaches_nothing_else(
    database: Path, tmp_path: Path, sql: str
) -> None:
    text, other = tmp_path / "some.csv", tmp_path / "other"
    text.write_text("name,value\na,b\n")
    before = database.read_bytes()
    with open_database(database) as con, pytest.raises(duckdb.Error):
        con.execute(sql.format(text=text, other=other))
    assert database.read_bytes() == before
    assert not other.exists()


def test_temporary_macros_and_tables_work_read_only(database: Path) -> None:
    with open_database(database) as con:
        con.execute("CREATE TEMP MACRO doubled(a) AS a * 2")
        con.execute("CREATE TEMP TABLE mine AS SELECT doubled(21) AS a")
        assert con.execute("SELECT a FROM mine").fetchall() == [(42,)]


def test_a_database_can_be_open_twice_and_beside_a_plain_connection(database: Path) -> None:
    with (
        open_database(database) as one,
        open_database(database) as two,
        duckdb.connect(database, read_only=True) as plain,
    ):
        plain.execute("SET threads = 1")  # not locked
        assert one.execute("FROM ranks").fetchall() == two.execute("FROM ranks").fetchall()


def test_a_new_database_is_seen_while_the_old_one_is_still_open(database: Path) -> None:
    with open_database(database) as old:
        with drafting(database) as draft:
            draft.con.execute("INSERT INTO meta VALUES ('which', 'new')")
        with open_database(database) as new:
            query = "SELECT value FROM meta WHERE name = 'which'"
            assert old.execute(query).fetchall() == []
            assert new.execute(query).fetchall() == [("new",)]


def test_big_sorts_of_a_read_only_connection_may_use_the_disk(database: Path) -> None:
    with open_database(database) as con:
        folder = con.execute("SELECT current_setting('temp_directory')").fetchone()
    assert folder == (f"{database}.tmp",)


def test_drafts_of_other_targets_and_of_living_processes_are_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "run.duckdb"
    with drafting(database) as draft:
        own = draft.scratch.name
        bystander = tmp_path / own.replace(".run.duckdb.", ".other.duckdb.")
        bystander.mkdir()
        with drafting(database):
            pass
        assert draft.scratch.is_dir()
    assert bystander.is_dir()
    assert not (tmp_path / own).exists()
    assert os.listdir(tmp_path).count("run.duckdb") == 1


def storage_version(database: Path) -> str:
    """The oldest DuckDB that reads a file, as DuckDB says."""
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{database}' AS asked (READ_ONLY)")
        rows = con.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'asked'"
        ).fetchall()
    return str(rows[0][0])


def header_version(database: Path) -> int:
    """The version of the format in a file's header, behind its checksum and 'DUCK'."""
    return int.from_bytes(database.read_bytes()[12:20], "little")


@nightly
def test_duckdb_1_4_reads_what_is_written(fixtures: Path, tmp_path: Path) -> None:
    run, folder = tmp_path / "run.duckdb", tmp_path / "run.tw"
    for target in (run, folder):
        assert traceweave.ingest([fixtures / "ddp_gloo_4ranks"], target).ok
        database = next(target.glob("*.duckdb")) if target == folder else target

        assert storage_version(database).startswith("v1.4.0")
        assert header_version(database) == READ_BY_1_4

        traceweave.align(target)
        traceweave.install_analyses(target)

        # in a folder what is changed is a new file
        database = next(target.glob("*.duckdb")) if target == folder else target
        assert storage_version(database).startswith("v1.4.0")
        assert header_version(database) == READ_BY_1_4


@nightly
def test_a_time_limit_reaches_the_cursors_that_do_a_part(database: Path) -> None:
    """An analysis of some ranks runs on a cursor of its own."""
    with (
        open_database(database) as con,
        pytest.raises(QueryError, match=r"given up after 0\.5 s"),
        time_limit(con, 0.5),
        cursor_of(con) as part,
    ):
        part.execute("SELECT count(*) FROM range(1000000000000) AS a(i) WHERE i % 7 = 3")


def test_a_time_limit_is_not_lost_between_statements(database: Path) -> None:
    began = time.monotonic()

    def ask(con: duckdb.DuckDBPyConnection) -> None:
        with time_limit(con, 0.2):
            while time.monotonic() < began + 20:
                with suppress(QueryError):  # as where it becomes a note
                    con.execute("SELECT 1").fetchall()
                    go_on()

    with open_database(database) as con, pytest.raises(QueryError, match=r"given up after 0\.2 s"):
        ask(con)

    assert time.monotonic() < began + 10
    go_on()  # nothing is over outside of it


class Asked:
    """Rows that the user breaks off when they are asked for."""

    def __arrow_c_stream__(self, _: object = None) -> object:
        raise KeyboardInterrupt


def broken_off() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"a": [1]})
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "rows",
    [Asked(), pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), broken_off())],
    ids=["schema", "stream"],
)
def test_ctrl_c_while_duckdb_asks_python_for_rows_is_what_it_is(
    rows: object, tmp_path: Path
) -> None:
    def ask() -> None:
        with drafting(tmp_path / "run.duckdb") as draft:
            draft.con.register("rows", rows)
            draft.con.execute("SELECT * FROM rows").fetchall()

    with pytest.raises(KeyboardInterrupt):
        ask()

    assert list(tmp_path.iterdir()) == []
