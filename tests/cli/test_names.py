"""Mistyped commands: one line that says what to type instead, at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import cases
from tests.cli.test_commands import call
from tests.marks import first_at_once
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


FIRST = "the analysis comes first, then the database; "


@first_at_once(4)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["health"], "which database? type: traceweave analyze health DATABASE"),
        (["run.duckdb"], "'run.duckdb' is not a command; type what to do with it, such as:"
            " traceweave analyze health run.duckdb"),
        (["my traces"], "'my traces' is not a command; type what to do with it, such as:"
            " traceweave ingest 'my traces' -o run.duckdb"),
        (["rank0.json", "-o", "x"], "'rank0.json' is not a command; type what to do with it, such"
            " as: traceweave ingest rank0.json -o run.duckdb"),
        (["reprot", "run.duckdb"], "no such command: 'reprot'; did you mean 'report'?"),
        (["helth", "run.duckdb"], "no such command: 'helth'; did you mean 'analyze health'?"),
        (["clocks", "run.duckdb"], "'clocks' is a table, not a command;"
            " type: traceweave query run.duckdb 'FROM clocks'"),
        (["x" * 5000], f"no such command: '{'x' * MOST_SAID}…'; available: record, ingest, info,"
            " analyze, query, what-if, report, serve, compare, check, export, schema, sql, align,"
            " mcp, demo, version"),
        (["analyze", "run.duckdb", "health"],
            FIRST + "type: traceweave analyze health run.duckdb"),
        (["analyze", "missing.duckdb", "health"],
            FIRST + "type: traceweave analyze health missing.duckdb"),
        (["analyze", "run.duckdb", "helth"],
            FIRST + "no such analysis: 'helth'; did you mean 'health'?"),
        (["analyze", "straglers", "run.duckdb"],
            "no such analysis: 'straglers'; did you mean 'stragglers'?"),
        (["analyze", "quartz", "run.duckdb"],
            "no such analysis: 'quartz'; 'traceweave analyze --list' has all"),
        (["analyze", "clocks", "run.duckdb"], "'clocks' is a table, not an analysis;"
            " type: traceweave query run.duckdb 'FROM clocks'"),
        (["analyze", "run.duckdb"], "which analysis of it? type, for instance:"
            " traceweave analyze health run.duckdb"),
        (["analyze", "gaps"], "which database? type: traceweave analyze gaps DATABASE"),
        (["analyze", "gap"],
            "no such analysis: 'gap'; did you mean 'gaps'?; after it comes the database"),
        (["analyze", "gaps", "missing.duckdb", "-p", "windw=span"],
            "gaps has no parameter 'windw'; did you mean 'window'?; its parameters: per,"
            " min_gap_ns, kernel_delay_ns, window"),
        (["analyze", "gaps", "missing.duckdb", "-p", "window=spam"],
            "parameter window cannot be 'spam'; did you mean 'span'?; it is one of: device, host,"
            " span"),
        (["query", "FROM ranks", "run.duckdb"], "the database comes first, then the query;"
            " type: traceweave query run.duckdb 'FROM ranks'"),
        (["query", "run.duckdb", "SELECT * FROM gaps"], "'gaps' is an analysis;"
            " in SQL it is a function: FROM gaps()"),
        (["query", "run.duckdb", "FROM analysis_gaps()"], "'gaps' is an analysis;"
            " in SQL it is a function: FROM gaps()"),
        (["query", "run.duckdb", "FROM gpu_op"],
            "Table with name gpu_op does not exist; did you mean gpu_ops?;"
            " 'traceweave schema' or run.schema() in Python lists the tables, run.register() makes"
            " one of a frame"),
        (["schema", "gaps"], "'gaps' is an analysis, not a table;"
            " type: traceweave analyze gaps --list"),
        (["schema", "colectives"], "no such table: 'colectives'; did you mean 'collectives'?"),
        (["ingest", "my traces"], "name the database to write with -o;"
            " type: traceweave ingest 'my traces' -o run.duckdb"),
        (["ingest", "a.json", "b.json", "ab.duckdb"], "name the database to write with -o;"
            " type: traceweave ingest a.json b.json -o ab.duckdb"),
        (["export", "run.duckdb", "--to", "perffeto"], "Invalid value for '--to': 'perffeto' is"
            " not one of 'perfetto', 'perfetto-manifest', 'parquet'; did you mean 'perfetto'?;"
            " see 'traceweave export --help'"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("folder")
def test_a_mistyped_command_is_told_what_to_type(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert call(capsys, *arguments) == (2, "", f"traceweave: error: {message}\n")


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
