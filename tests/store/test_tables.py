"""The tables of a database, and the copies of them that a run begins with."""

import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

import duckdb
import pytest

from tests.marks import first_at_once, nightly
from traceweave.store import empty, schema

EVERYTHING = (
    "SELECT schema_name, table_name, comment, sql FROM duckdb_tables() ORDER BY ALL",
    "SELECT schema_name, view_name, comment, sql FROM duckdb_views() WHERE NOT internal"
    " ORDER BY ALL",
    "SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns()"
    " WHERE NOT internal ORDER BY ALL",
    "SELECT schema_name, function_name, parameters, macro_definition FROM duckdb_functions()"
    " WHERE NOT internal ORDER BY ALL",
    "SELECT table_name, constraint_text FROM duckdb_constraints() ORDER BY ALL",
    "FROM meta",
)


def test_tests_begin_with_the_tables_that_an_ingest_creates() -> None:
    with duckdb.connect() as created, duckdb.connect() as copied:
        schema.create_tables(created)
        empty.create_tables(copied)
        for query in EVERYTHING:
            rows = created.execute(query).fetchall()
            assert rows
            assert rows == copied.execute(query).fetchall()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for bytecode that has none yet."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    folder = Path(cache_from_source(empty.__file__)).parent
    folder.mkdir(parents=True)
    return folder


def _columns() -> int:
    """Count the public columns of tables that are created."""
    with duckdb.connect() as con:
        empty.create_tables(con)
        return len(con.execute("FROM duckdb_columns() WHERE schema_name = 'main'").fetchall())


@nightly
def test_the_copy_is_kept_for_one_version_of_the_tables(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = _columns()
    (first,) = kept.iterdir()
    written = first.stat().st_mtime_ns
    assert _columns() == columns
    assert first.stat().st_mtime_ns == written
    monkeypatch.setattr(duckdb, "__version__", "of another day")
    assert _columns() == columns
    (second,) = kept.iterdir()
    assert second != first


@pytest.mark.parametrize("text", ["gathered.sql", "tables/calls.sql", "views/run.sql"])
def test_another_text_of_the_tables_is_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    folder = Path(empty.__file__).parent
    before = empty._digest()
    copy = tmp_path / "store"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(empty, "__file__", str(copy / "empty.py"))
    assert empty._digest() == before
    (copy / text).write_text((copy / text).read_text() + "-- more\n")
    assert empty._digest() != before


@nightly
@pytest.mark.parametrize("why", ["no bytecode", "no folder"])
def test_where_no_copy_can_be_kept_the_tables_are_created(
    kept: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    columns = _columns()
    (copy,) = kept.iterdir()
    copy.unlink()
    if why == "no bytecode":
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
    if why == "no folder":
        kept.rmdir()
    assert _columns() == columns
    assert [*kept.parent.glob("*/*")] == []


@first_at_once()
@pytest.mark.parametrize("damage", [slice(0, None), slice(9_000, None)])
def test_a_damaged_copy_is_thrown_away(kept: Path, damage: slice) -> None:
    columns = _columns()
    (copy,) = kept.iterdir()
    whole = bytearray(copy.read_bytes())
    whole[damage] = bytes(len(whole[damage]))
    copy.write_bytes(whole)
    assert _columns() == columns
    assert not copy.exists()
    assert _columns() == columns
    assert copy.exists()


@nightly
def test_a_copy_without_tables_is_thrown_away(kept: Path) -> None:
    columns = _columns()
    (copy,) = kept.iterdir()
    copy.unlink()
    duckdb.connect(copy).close()
    assert _columns() == columns
    assert not copy.exists()


def test_every_public_column_says_what_it_means(empty_run: duckdb.DuckDBPyConnection) -> None:
    commented = empty_run.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns()"
        " WHERE schema_name = 'main' AND NOT internal AND table_name <> 'meta'"
        " ORDER BY table_name, column_index"
    ).fetchall()
    documented = [
        (relation.name, column.name, column.meaning)
        for relation in sorted(schema.public_relations(), key=lambda relation: relation.name)
        for column in relation.columns
    ]
    assert commented == documented


def test_the_tables_of_a_source_are_those_whose_rows_name_it(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    assert {"base.gpu_ops", "base.rank_sources"} <= set(schema.source_tables(empty_run))
    empty_run.execute("CREATE TABLE base.one_more (source_id INTEGER, what VARCHAR)")
    empty_run.execute("CREATE TABLE base.of_the_run (what VARCHAR)")
    empty_run.execute("CREATE TEMP TABLE staged (source_id INTEGER)")
    found = set(schema.source_tables(empty_run))
    assert "base.one_more" in found
    assert not any(name in table for table in found for name in ("of_the_run", "staged", "matches"))
