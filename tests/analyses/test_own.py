"""An analysis of one's own: the one that the documentation shows, and what is wrong with others."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceweave
from tests.cases import cases
from tests.conftest import ROOT
from tests.marks import nightly
from traceweave import analyses
from traceweave.agents.runs import Runs
from traceweave.agents.tools import Tools
from traceweave.cli.main import main
from traceweave.locations import OWN_ANALYSES

PAGE = ROOT / "docs" / "sql.md"
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


@nightly
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


@cases
def test_it_may_do_no_more_than_a_query(
    tmp_path: Path, run: traceweave.Run, sql: str, message: str
) -> None:
    with pytest.raises(traceweave.TraceweaveError) as error:
        run.analyze(written(tmp_path, "own", sql))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@cases
def test_a_header_that_is_wrong_is_told_what_it_needs(
    tmp_path: Path, run: traceweave.Run, text: str, message: str
) -> None:
    path = tmp_path / "own.sql"
    path.write_text(text)
    with pytest.raises(traceweave.UsageError) as error:
        run.analyze(path)
    assert message in str(error.value)
    assert "docs/sql.md has a whole example" in str(error.value)


@cases
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


@pytest.fixture
def folder(late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the documentation, with an analysis of which nothing but the name is said."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"`often_late\.sql`:\n\n```sql\n(.*?)```", text, re.S)
    assert found is not None
    (tmp_path / "often_late.sql").write_text(found[1])
    (tmp_path / "lengths.sql").write_text(
        "-- analysis: lengths\nSELECT rank, count(*) AS n FROM gaps(min_gap_ns := 0) GROUP BY rank"
    )
    monkeypatch.setenv(OWN_ANALYSES, str(tmp_path))
    return tmp_path


@nightly
@pytest.mark.usefixtures("folder")
def test_what_a_folder_has_is_asked_by_name_and_called_in_sql(
    run: traceweave.Run, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = run.analyze("late", least_ns=100_000)
    assert rows["rank"].to_list() == [2]
    assert run.sql("FROM late(least_ns := 100_000)").equals(rows)
    gaps = run.gaps(min_gap_ns=0).groupby("rank").size()
    for lengths in (run.analyze("lengths"), run.sql("FROM lengths()")):
        assert lengths.set_index("rank")["n"].to_dict() == gaps.to_dict()
    assert main(["late", str(database), "-p", "least_ns=100us", "-f", "csv"]) == 0
    assert capsys.readouterr().out == rows.to_csv(index=False, lineterminator="\n")
    assert main(["lengths", str(database)]) == 0
    assert main(["lengths", "--list"]) == 0
    assert main(["analyze", "--list"]) == 0
    assert "late: Which rank comes last, and how late?" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
def test_a_rule_is_a_finding(run: traceweave.Run) -> None:
    def ranks(share: float) -> list[list[int]]:
        found = run.findings(most_share=share, replay_ops=0).query("rule == 'often_late'")
        return [list(one) for one in found["ranks"]]

    (finding,) = run.findings().query("rule == 'often_late'").itertuples()
    last, every = map(int, re.findall(r"\d+", finding.evidence)[1:])
    assert (finding.cost_is, finding.proof) == ("at most", "findings")
    assert last >= 0.5 * every
    assert ranks(last / every) == [[2]]
    assert ranks((last + 0.5) / every) == []


@nightly
@pytest.mark.usefixtures("folder")
def test_a_rule_is_a_finding_on_the_page(run: traceweave.Run, tmp_path: Path) -> None:
    (finding,) = run.findings().query("rule == 'often_late'").itertuples()
    assert finding.evidence in run.report(tmp_path / "r.html").read_text()


def test_limits_may_be_on_an_analysis_of_a_folder(
    folder: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = folder / "limits.toml"
    limits.write_text('[[rule]]\nname = "in time"\nanalysis = "late"\ncolumn = "times"\nmax = 0\n')
    assert main(["check", str(database), "--rules", str(limits)]) == 1
    assert "in time: rank 2: " in capsys.readouterr().err


@nightly
@pytest.mark.usefixtures("folder")
def test_without_the_folder_all_is_as_before(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with traceweave.open(database) as run:
        assert "often_late" in set(run.findings()["rule"])
        monkeypatch.delenv(OWN_ANALYSES)
        assert "often_late" not in set(run.findings()["rule"])
        assert "late" not in {analysis.name for analysis in analyses.catalog()}
        with pytest.raises(traceweave.UsageError, match="no such analysis: 'late'"):
            run.analyze("late")


@cases
def test_a_file_of_the_folder_that_is_none_is_named(
    folder: Path, run: traceweave.Run, name: str, text: str, message: str
) -> None:
    (folder / f"{name}.sql").write_text(text)
    with pytest.raises(traceweave.UsageError, match=re.escape(message)):
        run.gaps()


def test_a_file_that_says_not_what_it_is_is_named_where_it_is_asked_for(
    folder: Path, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine.sql").write_text("FROM ranks")
    assert main(["analyze", "mine", str(database)]) == 2
    assert "mine.sql: its first line is none of '-- analysis: mine'" in capsys.readouterr().err


@cases
def test_a_rule_that_cannot_be_run_is_named(
    folder: Path, run: traceweave.Run, sql: str, message: str
) -> None:
    (folder / "often_late.sql").write_text(f"-- rule: often_late\n{sql}")
    with pytest.raises(traceweave.TraceweaveError, match=message):
        run.findings(replay_ops=0)
    assert not Path("x.csv").exists()
