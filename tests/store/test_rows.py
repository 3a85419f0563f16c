import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from traceweave.store.rows import column, insert_rows, registered

SOURCES = [
    path
    for folder in ("sources", "matching", "clocks", "ingestion", "store")
    for path in sorted((Path(traceweave.__file__).parent / folder).rglob("*"))
    if path.suffix in {".sql", ".py"}
]


def test_rows_go_where_their_names_say(empty_run: duckdb.DuckDBPyConnection) -> None:
    insert_rows(empty_run, "meta", [{"value": "v", "name": "n"}, {"name": "bare", "value": None}])
    found = empty_run.execute("SELECT * FROM meta WHERE name IN ('n', 'bare') ORDER BY 1 DESC")
    assert found.fetchall() == [("n", "v"), ("bare", None)]
    with pytest.raises(KeyError, match="nowhere"):
        insert_rows(empty_run, "meta", [{"nowhere": 1}])


def test_columns_are_read_with_what_they_lack() -> None:
    with duckdb.connect() as con:
        columns = {
            "place": np.arange(9_001),
            # not among the values that DuckDB would have to sample to tell the type
            "late": column([None] * 4_500 + ["text"] + [None] * 4_500),
            "number": column([None, 0, 7] + [None] * 8_998),
            "share": column([0.5] + [None] * 9_000),
            "nothing": column([None] * 9_001),
        }
        with registered(con, columns) as rows:
            con.execute(f"CREATE TABLE kept AS FROM {rows}")
            counted = con.execute(f"SELECT count(COLUMNS(*)) FROM {rows}").fetchall()
        assert counted == [(9_001, 1, 2, 1, 0)]
        found = con.execute("FROM kept WHERE place IN (0, 1, 2, 4500) ORDER BY place").fetchall()
        assert found == [
            (0, None, None, 0.5, None),
            (1, None, 0, None, None),
            (2, None, 7, None, None),
            (4500, "text", None, None, None),
        ]
        with pytest.raises(duckdb.CatalogException):
            con.execute(f"FROM {rows}")
        with registered(con, {"number": column([]), "text": column([])}) as rows:
            assert con.execute(f"FROM {rows}").fetchall() == []


def test_nothing_is_inserted_by_the_place_of_a_column() -> None:
    """A new column of a table would shift all that follow it."""
    inserts = [
        (path.name, found[0])
        for path in SOURCES
        for found in re.finditer(r"INSERT INTO \S+[^\n]{0,9}", path.read_text("utf-8"))
    ]
    assert len(inserts) > 30
    by_place = [i for i in inserts if not re.search(r"INSERT INTO \S+ (BY NAME|\()", i[1])]
    assert by_place == []
