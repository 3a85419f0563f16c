"""Mistyped commands: one line that says what to type instead, at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases
from tests.cli.test_commands import call
from tests.marks import first_at_once, nightly
from traceweave import analyses
from traceweave.cli.names import analysis_names
from traceweave.errors import MOST_SAID, nearest, suggest
from traceweave.store.database import connect
from traceweave.store.empty import create_tables


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names")
    with connect(folder / "run.duckdb", read_only=False) as con:
        create_tables(con)
    (folder / "rank0.json").write_text("{}")
    (folder / "my traces").mkdir()
    return folder


@pytest.fixture
def folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a database, a file that is none, and a folder of traces."""
    monkeypatch.chdir(made)
    return made


@first_at_once(4)
@cases
@pytest.mark.usefixtures("folder")
def test_a_mistyped_command_is_told_what_to_type(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert call(capsys, *arguments) == (2, "", f"traceweave: error: {message}\n")


@nightly
@pytest.mark.usefixtures("folder")
def test_of_a_long_word_no_more_is_said_than_tells_it(capsys: pytest.CaptureFixture[str]) -> None:
    message = call(capsys, "x" * 5000)[2]
    assert message == (
        f"traceweave: error: no such command: '{'x' * MOST_SAID}…'; available: record, ingest,"
        " info, analyze, query, what-if, report, serve, compare, check, export, schema, sql, align,"
        " mcp, demo, version\n"
    )


@pytest.mark.usefixtures("folder")
@cases
def test_the_name_of_an_analysis_is_short_for_analyze_with_it(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    short = call(capsys, *arguments)
    assert short == call(capsys, "analyze", *arguments)
    assert short[1] or "missing.duckdb: does not exist" in short[2]


@pytest.mark.usefixtures("folder")
@first_at_once()
@cases
def test_a_mistyped_command_is_answered_before_anything_slow_is_loaded(
    arguments: list[str],
) -> None:
    slow = ("pandas", "scipy", "torch", "rich", "traceweave.api", "traceweave.report")
    script = (
        f"import sys; from traceweave.cli import main; code = main({arguments!r});"
        f"print(code, [m for m in {slow!r} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code = 3 if "missing.duckdb" in arguments else 2
    assert ran.stdout == f"{code} []\n"
    assert ran.stderr.startswith("traceweave: error: ")


def test_the_names_of_analyses_are_those_of_the_catalog() -> None:
    assert set(analysis_names()) == {analysis.name for analysis in analyses.catalog()}


def test_the_nearest_name_is_guessed_and_a_far_one_is_not() -> None:
    known = ["ingest", "report", "exposed_comm"]
    assert suggest("reprot", known) == "; did you mean 'report'?"
    assert suggest("comm", known) == "; did you mean 'exposed_comm'?"
    assert suggest("list", known) == ""
    assert nearest("", known) is None
