"""traceweave analyze: the catalog, choosing rows and columns, what is said below a table."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_commands import FIXTURES, call
from tests.conftest import Captured
from tests.marks import nightly
from traceweave import analyses
from traceweave.store.database import connect
from traceweave.store.empty import create_tables


@pytest.fixture
def database(database_of: Callable[..., Path]) -> Path:
    return database_of(FIXTURES / "ddp_gloo_4ranks")


def test_the_list_of_analyses_has_the_question_of_every_one(capsys: Captured) -> None:
    text = call(capsys, "analyze", "--list")[1]
    listed = json.loads(call(capsys, "analyze", "--list", "-f", "json")[1])
    assert max(map(len, text.splitlines())) <= 100
    assert [row["name"] for row in listed] == [analysis.name for analysis in analyses.catalog()]
    for analysis in analyses.catalog():
        assert f"{analysis.name}: {analysis.answers}" in " ".join(text.split())
    assert text.endswith("traceweave analyze NAME --list\n")
    assert " -p " not in text


def test_one_analysis_is_explained_with_its_columns(capsys: Captured) -> None:
    text = call(capsys, "analyze", "gaps", "--list")[1]
    analysis = analyses.find("gaps")

    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(f"gaps: {analysis.summary}\n{analysis.answers}\nRows: {analysis.grain}")
    for column in analysis.columns:
        assert f"    {column.name}  {column.type}: " in text
    for parameter in analysis.parameters:
        assert f"    -p {parameter.name}={parameter.default}  " in text
        for choice, _ in parameter.choices:
            assert f"        {choice}: " in text
    assert " ".join(analysis.caveats[0].split()) in " ".join(text.split())


@nightly
def test_the_largest_come_first_if_asked_for(capsys: Captured, database: Path) -> None:
    usual = json.loads(call(capsys, "analyze", "gaps", database, "-f", "json")[1])
    for name in ("duration_ns", "duration"):
        out = call(capsys, "analyze", "gaps", database, "--largest", name, "-f", "json")[1]
        assert json.loads(out) == sorted(usual, key=lambda gap: -gap["duration_ns"])
    code, _, err = call(capsys, "analyze", "gaps", database, "--largest", "length")
    assert (code, "gaps has no column 'length'; available: rank, device," in err) == (2, True)
    code, _, err = call(capsys, "analyze", "groups", database, "--largest", "ranks")
    assert (code, "rows cannot be ordered by ranks" in err) == (2, True)


@nightly
def test_columns_can_be_chosen(capsys: Captured, database: Path) -> None:
    usual = json.loads(call(capsys, "analyze", "gaps", database, "-f", "json")[1])

    out = call(capsys, "analyze", "gaps", database, "--columns", "cause,duration", "-f", "json")[1]
    both = call(
        capsys, "analyze", "gaps", database, "--largest", "duration_ns", "--columns", "duration",
        "-f", "csv",
    )  # fmt: skip
    code, _, err = call(capsys, "analyze", "gaps", database, "--columns", "rank,caus")

    assert json.loads(out) == [
        {"cause": gap["cause"], "duration_ns": gap["duration_ns"]} for gap in usual
    ]
    lengths = sorted((gap["duration_ns"] for gap in usual), reverse=True)
    assert both[1] == "".join(f"{line}\n" for line in ["duration_ns", *lengths])
    assert (code, "gaps has no column 'caus'; did you mean 'cause'?" in err) == (2, True)


def test_a_table_has_the_main_columns_and_all_else_has_all(
    capsys: Captured, database: Path, tmp_path: Path
) -> None:
    steps = analyses.find("steps")
    names = [column.name for column in steps.columns]
    csv = call(capsys, "analyze", "steps", database, "-f", "csv")[1]
    some = call(capsys, "analyze", "steps", database, "--largest", "duration_min_ns")[1]
    everything = call(capsys, "analyze", "steps", database, "--columns", "all")
    call(capsys, "analyze", "steps", database, "-o", tmp_path / "steps.txt")
    written = (tmp_path / "steps.txt").read_text().splitlines()

    assert 0 < len(steps.main) < len(names)
    assert csv.splitlines()[0].split(",") == names
    assert [text in some for text in ("slowest", "min", "last_end")] == [True, True, False]
    assert "last_end" in everything[1]
    assert "more column" not in everything[2]
    assert max(map(len, written)) > 100, "no file is cut to the width of a page"


@nightly
def test_tables_say_what_a_reader_has_to_know(capsys: Captured, database: Path) -> None:
    findings = call(capsys, "analyze", "findings", database)[2]
    steps = call(capsys, "analyze", "steps", database)[2]
    pipeline = call(capsys, "analyze", "pipeline", database)[2]

    assert (
        "costs do not add up: 'traceweave analyze fixes' replays the first n together.\n"
        in findings
    )
    assert steps.endswith(
        "8 more columns: --columns all; 'traceweave analyze steps --list' explains them\n"
    )
    assert pipeline == f"no rows\npipeline has {analyses.find('pipeline').grain}\n"
    assert call(capsys, "analyze", "findings", database, "-f", "csv")[2] == ""


def test_no_rows_say_what_would_have_to_be_recorded(tmp_path: Path, capsys: Captured) -> None:
    empty = tmp_path / "empty.duckdb"
    with connect(empty, read_only=False) as con:
        create_tables(con)
    code, _, err = call(capsys, "analyze", "memory", empty)
    grain = analyses.find("memory").grain
    assert code == 0
    assert err.startswith(
        f"no rows\nmemory has {grain}; it needs memory events: profile_memory=True"
    )
