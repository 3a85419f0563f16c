"""What a query may not do: write, attach, install, load, change settings, read another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceweave import api
from traceweave.errors import QueryError
from traceweave.store.draft import drafting

SECRET = "sesame-4711"

ATTACKS = """
COPY (SELECT 1) TO '{out}'
COPY (SELECT 1) TO '{db}.wal'
COPY (SELECT 1) TO '/dev/stdout'
COPY meta TO '{out}' (FORMAT parquet)
COPY meta FROM '{csv}'
EXPORT DATABASE '{out}'
IMPORT DATABASE '{out}'
INSTALL httpfs
FORCE INSTALL httpfs
LOAD httpfs
LOAD '{csv}'
UPDATE EXTENSIONS
PRAGMA threads=1
PRAGMA memory_limit='1GB'
PRAGMA enable_profiling='json'
PRAGMA profiling_output='{out}'
PRAGMA log_query_path='{out}'
PRAGMA import_database('{out}')
SET profiling_output='{out}'
SET log_query_path='{out}'
SET temp_directory='{out}'
SET secret_directory='{out}'
SET extension_directory='{out}'
SET home_directory='/tmp'
SET GLOBAL enable_external_access=true
SET autoinstall_known_extensions=true
SET autoload_known_extensions=true
SET custom_extension_repository='http://127.0.0.1:9'
SET allow_unsigned_extensions=true
SET allowed_directories=['/']
SET allowed_paths=['{csv}']
SET lock_configuration=false
RESET enable_external_access
RESET ALL
CALL enable_logging(storage='file', storage_path='{out}')
CALL enable_logging()
SELECT * FROM read_csv('{csv}')
SELECT * FROM read_csv('/dev/stdin')
SELECT * FROM sniff_csv('{csv}')
SELECT * FROM read_text('{csv}')
SELECT * FROM read_text('/proc/self/environ')
SELECT * FROM read_blob('{csv}')
SELECT * FROM read_json('{csv}')
SELECT * FROM read_json_objects('{csv}')
SELECT * FROM read_parquet('{csv}')
SELECT * FROM parquet_metadata('{csv}')
SELECT * FROM read_duckdb('{other}')
SELECT * FROM sqlite_scan('{csv}', 'x')
SELECT * FROM postgres_scan('x', 'y', 'z')
SELECT * FROM read_xlsx('{csv}')
SELECT * FROM iceberg_scan('{csv}')
SELECT * FROM glob('/etc/*')
SELECT * FROM '{csv}'
SELECT * FROM "{csv}"
FROM '{csv}'
TABLE '{csv}'
DESCRIBE FROM '{csv}'
SUMMARIZE '{csv}'
SELECT * FROM 'http://127.0.0.1:9/x.csv'
SELECT * FROM 's3://bucket/x.parquet'
SELECT * FROM query_table('{csv}')
SELECT * FROM query('FROM ''{csv}''')
SELECT * FROM query('COPY (SELECT 1) TO ''{out}''')
SELECT * FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''{csv}'')'))
SELECT getenv('HOME')
SELECT load_aws_credentials()
EXPLAIN SELECT * FROM '{csv}'
EXPLAIN ANALYZE SELECT * FROM '{csv}'
EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'
EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{out}'
EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{out}'
EXPLAIN /* c */ ANALYZE COPY (SELECT 1) TO '{out}'
/* c */ EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}'
EXPLAIN ANALYZE ATTACH '{out}'
WITH x AS (FROM read_text('{csv}')) FROM x
WITH x AS MATERIALIZED (FROM '{csv}') FROM x
SELECT (SELECT max(content) FROM read_text('{csv}'))
CREATE TEMP MACRO m(f) AS TABLE FROM read_text(f); FROM m('{csv}')
CREATE TEMP TABLE t AS FROM '{csv}'
CREATE TEMP VIEW v AS FROM read_text('{csv}'); FROM v
CREATE TEMP VIEW v AS FROM '{csv}'
PREPARE p AS COPY (SELECT 1) TO '{out}'
PREPARE p AS FROM read_text($1); EXECUTE p('{csv}')
EXECUTE p('{csv}')
SELECT 1; COPY (SELECT 1) TO '{out}'
SELECT 1; SELECT * FROM read_text('{csv}')
CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')
CREATE TEMPORARY SECRET s (TYPE http)
CREATE PERSISTENT SECRET s (TYPE http)
ATTACH '{out}' AS o
ATTACH '{other}' AS o (READ_ONLY)
ATTACH ':memory:' AS o
ATTACH '{db}' AS again
DETACH run
CREATE TABLE mine (a INT)
CREATE SCHEMA s
CREATE SEQUENCE q
CREATE INDEX i ON meta (name)
CREATE OR REPLACE VIEW ranks AS SELECT 1
INSERT INTO meta VALUES ('a', 'b')
INSERT INTO run.main.meta VALUES ('a', 'b')
UPDATE meta SET value = 'x'
DELETE FROM meta
TRUNCATE meta
DROP VIEW ranks
ALTER TABLE meta RENAME TO other
COMMENT ON TABLE meta IS 'x'
MERGE INTO meta USING (SELECT 'a' AS name) AS s ON meta.name = s.name WHEN MATCHED THEN DELETE
VACUUM FULL meta
SELECT * FROM os
SELECT * FROM SECRET
SELECT * FROM pandas_scan(1)
SELECT * FROM arrow_scan(1, 2, 3)
""".strip().splitlines()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lock") / "run.duckdb"
    with drafting(path):
        pass
    other = path.with_name("other.duckdb")
    with drafting(other):
        pass
    path.with_name("some.csv").write_text(f"name,value\na,{SECRET}\n")
    return path


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_query_reaches_nothing_but_its_database(
    database: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", SECRET)
    folder = database.parent
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    places = {"out": "out", "csv": "some.csv", "other": "other.duckdb", "db": database.name}
    sql = attack.format(**{name: folder / file for name, file in places.items()})

    with api.open(database) as run, pytest.raises(QueryError) as refused:
        run.stream(sql).read_all()

    assert SECRET not in str(refused.value)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


ALLOWED = [
    "FROM meta", "TABLE meta", "VALUES (1)", "SHOW TABLES", "DESCRIBE ranks",
    "SUMMARIZE meta", "WITH x AS (SELECT 1) FROM x", "PIVOT meta ON name USING first(value)",
    "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "PRAGMA show_tables",
    "CREATE TEMP TABLE t AS SELECT 1; FROM t", "CREATE TEMP MACRO m(a) AS a + 1; SELECT m(1)",
    "SELECT * FROM json_each('{\"a\": 1}')", "SELECT strftime(now(), '%Y')", "SELECT 1 -- ; COPY",
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED)
def test_the_lock_is_not_in_the_way(database: Path, sql: str) -> None:
    with api.open(database) as run:
        assert run.stream(sql).read_all().num_columns > 0
