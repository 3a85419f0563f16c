"""SQL of somebody who wants more than the rows of the run: every statement has its one outcome.

`=` is an answer that holds nothing of another file; all else is what the refusal says. The rest of
the folder of the database, and the database itself, stay as they are."""

import csv
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.marks import nightly
from traceweave.errors import TraceweaveError
from traceweave.run import Run
from traceweave.store.database import open_database, time_limit
from traceweave.store.draft import drafting

SECRET = "sesame-4711"
MOST_MIB = 256

LATE_S = 10
"""After so long an answer is late, even on a busy machine."""


def limit_s(kind: str) -> float:
    """Return the time limit for statements of a kind: short for what would take hours."""
    return 0.5 if kind in ("time", "memory") else 2 * LATE_S


with Path(__file__).with_name("statements.tsv").open(newline="") as file:
    STATEMENTS = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]

Ask = Callable[[str], object]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("statements")
    for name in ("run.duckdb", "other.duckdb"):
        with drafting(folder / name):
            pass
    (folder / "some.csv").write_text(f"name,value\na,{SECRET}\n")
    return folder / "run.duckdb"


def filled(database: Path, sql: str) -> str:
    folder = database.parent
    return sql.format(
        out=folder / "out", csv=folder / "some.csv", other=folder / "other.duckdb", db=database
    )


def assert_outcome(ask: Ask, database: Path, sql: str, words: str) -> None:
    folder = database.parent
    files = contents(folder)
    began = time.monotonic()
    try:
        said = f"= {ask(filled(database, sql))}"
    except Refused as refused:
        said = str(refused)
    assert time.monotonic() - began < LATE_S
    assert re.search(f"^{words}" if words == "=" else words, said), (sql, said[:500])
    assert SECRET not in said
    assert len(said) < 3_000
    assert contents(folder) == files


def contents(folder: Path) -> dict[str, bytes]:
    """Return what files there are; the folder that DuckDB spills to while it is open is none."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


class Refused(Exception):
    """What is said of a statement that is not answered."""


def in_python(database: Path, kind: str, sql: str) -> object:
    """Ask as `run.sql` does, within limits of time and memory."""
    with Run[Any](database, open_database(database, most_mib=MOST_MIB), "arrow") as run:
        try:
            with time_limit(run.con, limit_s(kind)):
                return run.sql(sql).to_pylist()
        except TraceweaveError as error:
            raise Refused(str(error)) from error


@pytest.mark.parametrize(
    ("kind", "sql", "words"),
    [
        pytest.param(kind, sql, words, marks=() if when == "now" else nightly)
        for when, kind, sql, words in STATEMENTS
    ],
)
def test_a_statement_gets_no_more_than_the_rows_of_the_run(
    database: Path, monkeypatch: pytest.MonkeyPatch, kind: str, sql: str, words: str
) -> None:
    monkeypatch.setenv("HOME", SECRET)
    assert_outcome(partial(in_python, database, kind), database, sql, words)


@nightly
def test_an_agent_gets_no_more(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError

    from traceweave.agents.server import build_server

    monkeypatch.setenv("HOME", SECRET)
    monkeypatch.setattr("traceweave.agents.tools.shared_mib", lambda: MOST_MIB)

    def ask(kind: str, sql: str) -> object:
        server = build_server(database.parent, limit_s(kind))
        arguments = {"run": "run.duckdb", "sql": sql}
        try:
            return anyio.run(server.call_tool, "query", arguments, None).structured_content
        except ToolError as error:
            raise Refused(str(error)) from error

    for _, kind, sql, words in STATEMENTS:
        assert_outcome(partial(ask, kind), database, sql, words)


@nightly
def test_the_console_gives_no_more(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette", reason="the extra 'serve' is not installed")
    from traceweave.explorer import console

    monkeypatch.setenv("HOME", SECRET)
    monkeypatch.setattr(console, "shared_mib", lambda: MOST_MIB)
    consoles = console.Consoles(database)

    def ask(kind: str, sql: str) -> object:
        monkeypatch.setattr(console, "TIME_LIMIT_S", limit_s(kind))
        try:
            return console.Question(consoles, sql, sql).answer()["rows"]  # a page of its own
        except (TraceweaveError, duckdb.Error) as error:
            raise Refused(str(error)) from error

    for _, kind, sql, words in STATEMENTS:
        assert_outcome(partial(ask, kind), database, sql, words)
    consoles.close()
