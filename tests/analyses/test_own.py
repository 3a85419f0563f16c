"""An analysis of one's own: the one that the documentation shows, and what is wrong with others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceweave
from tests.conftest import ROOT
from traceweave import analyses
from traceweave.agents.runs import Runs
from traceweave.agents.tools import Tools
from traceweave.cli.main import main

PAGE = ROOT / "docs" / "getting-started.md"
REF = "{{ ref('gaps', min_gap_ns=param('least_ns')) }}"


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """The file of the documentation."""
    found = re.search(r"`late\.sql`:\n\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert found is not None
    path = tmp_path / "late.sql"
    path.write_text(found[1])
    return path


@pytest.fixture
def database(fixtures: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(fixtures / "ddp_gloo_straggler")


@pytest.fixture
def run(database: Path) -> Iterator[traceweave.Run]:
    with traceweave.open(database) as opened:
        yield opened


def test_the_documented_one_answers_as_a_query_does(
    late: Path, run: traceweave.Run, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 2 of this run sleeps in every step."""
    rows = run.analyze(late, least_ns=100_000)
    (expected,) = run.sql(
        "SELECT count(*) AS n, sum(arrival_skew_ns) AS ns FROM collective_instances"
        " WHERE last_is_known AND last_rank = 2 AND arrival_skew_ns >= 100_000"
    ).itertuples(index=False)
    assert rows.iloc[0].to_list() == [2, expected.n, expected.ns]
    assert main(["analyze", str(late), str(database), "-p", "least_ns=100000", "-f", "csv"]) == 0
    assert capsys.readouterr().out == rows.to_csv(index=False, lineterminator="\n")
    assert main(["analyze", str(late), "--list"]) == 0
    text = capsys.readouterr().out
    assert "-p least_ns=1000000  ranks that arrive closer together than this do not count" in text
    assert "skew_ns  BIGINT: from the first rank's arrival to its own" in text
    assert "Caveats" not in text


def test_its_parameters_are_checked(late: Path, run: traceweave.Run) -> None:
    with pytest.raises(traceweave.QueryError, match="late has no parameter 'least'; did you mean"):
        run.analyze(str(late), least=3)


def test_other_analyses_are_functions_in_it(tmp_path: Path, run: traceweave.Run) -> None:
    for call in ("gaps(min_gap_ns := {{ param('least_ns') }})", REF):
        own = written(tmp_path, "long", f"SELECT count(*) AS n FROM {call}")
        assert run.analyze(own)["n"].item() == len(run.gaps(min_gap_ns=1_000_000))


def test_a_copy_of_ours_is_a_beginning(tmp_path: Path, run: traceweave.Run) -> None:
    text = analyses.find("gaps").sql.replace("-- analysis: gaps |", "-- analysis: mine |")
    (tmp_path / "mine.sql").write_text(text)
    assert run.analyze(tmp_path / "mine.sql").equals(run.gaps())


def written(folder: Path, name: str, sql: str) -> Path:
    """Write an analysis with one parameter and one column."""
    path = folder / f"{name}.sql"
    path.write_text(
        f"-- analysis: {name} | one number\n-- answers: How many?\n-- topic: time\n"
        "-- grain: one row\n-- param: least_ns BIGINT = 1000000 | the least\n"
        f"-- order: n\n-- column: n BIGINT | how many\n{sql}\n"
    )
    return path


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COPY (SELECT 1 AS n) TO 'n.csv'", "queries only read this database"),
        ("SELECT 1 AS n FROM read_text('/etc/passwd')", "queries only read this database"),
        ("DETACH run", "queries only read this database"),
        ("SELECT 1 AS m", "own: its rows have the columns m, its header says n"),
        ("SELECT 1 AS n FROM nope", "Table with name nope does not exist; 'traceweave schema'"),
        ("SELECT 1 AS n FROM {{ ref('nope') }}", "no such analysis: 'nope'"),
    ],
)
def test_it_may_do_no_more_than_a_query(
    tmp_path: Path, run: traceweave.Run, sql: str, message: str
) -> None:
    with pytest.raises(traceweave.TraceweaveError) as error:
        run.analyze(written(tmp_path, "own", sql))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 1", "has no header ('-- analysis: own | what the rows are', then the like of"),
        ("-- analysis: own | x\nSELECT 1", "these belong in the header once: answers, topic"),
        ("-- analysis: other | x", "these belong in the header once"),
        ("-- colour: red\nSELECT 1", "no header field: '-- colour: red'"),
        ("", "has no header"),
    ],
)
def test_a_header_that_is_wrong_is_told_what_it_needs(
    tmp_path: Path, run: traceweave.Run, text: str, message: str
) -> None:
    path = tmp_path / "own.sql"
    path.write_text(text)
    with pytest.raises(traceweave.UsageError) as error:
        run.analyze(path)
    assert message in str(error.value)
    assert "docs/getting-started.md has a whole example" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("BIGINT = 1000000 | the least", "BIGINT", "'-- param: name TYPE = default | meaning'"),
        ("n BIGINT | how many", "n", "'-- column: name TYPE | meaning'"),
        ("own | one number", "own", "'-- analysis: own | what the rows are'"),
        ("analysis: own |", "analysis: other |", "the header says it is 'other'"),
    ],
)
def test_a_line_of_the_header_that_is_wrong_is_named(
    tmp_path: Path, run: traceweave.Run, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, "own", "SELECT 1 AS n")
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(traceweave.UsageError) as error:
        run.analyze(path)
    assert message in str(error.value)


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(tmp_path / "none.sql"), str(database)]) == 2
    assert "none.sql: cannot be read: No such file" in capsys.readouterr().err
    assert main(["analyze", str(database), "late.sql"]) == 2
    assert f"type: traceweave analyze late.sql {database}" in capsys.readouterr().err


def test_agents_and_checks_reach_no_file(late: Path, database: Path) -> None:
    with pytest.raises(traceweave.UsageError, match="no such analysis"):
        Tools(Runs(database.parent), 60).analyze(database.name, str(late))
