"""The command line as a user types it: exit codes, what goes to stdout, what to stderr."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow.parquet as pq
import pytest

from tests.cases import cases
from tests.conftest import Captured
from tests.marks import nightly
from traceweave._version import __version__
from traceweave.cli.info import MOST_ROWS, matched, some_rows
from traceweave.cli.main import cli, main
from traceweave.overview import Overview, RankOverview
from traceweave.store.schema import public_relations
from traceweave.words import size
from traceweave_simulator import Config

DATABASE = "DATABASE"
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def database(database_of: Callable[..., Path]) -> Path:
    return database_of(FIXTURES / "ddp_gloo_4ranks")


def call(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ---------------------------------------------------------------------------- help


def commands() -> dict[str, click.Command]:
    return dict(cli.commands)


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_has_help_that_ends_with_an_example(capsys: Captured, name: str) -> None:
    code, out, err = call(capsys, name, "--help")
    assert (code, err) == (0, "")
    assert "\n  Example:\n" in out
    assert f"    traceweave {name}" in out.split("Example:")[1]
    assert commands()[name].short_help


def test_the_commands_come_in_the_order_of_work(capsys: Captured) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    listed = [line.split()[0] for line in out.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
    assert listed == [
        "record", "ingest", "info", "analyze", "query", "what-if", "report", "serve", "compare",
        "check", "export", "schema", "sql", "align", "mcp", "demo", "version",
    ]  # fmt: skip


def test_a_shell_completes_commands_and_analyses(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_TRACEWEAVE_COMPLETE", "bash_complete")
    for line, completed in (
        ("traceweave wh", ["plain,what-if"]),
        ("traceweave analyze idle_", ["plain,idle_causes", "plain,idle_streams"]),
        ("traceweave analyze gaps --larg", ["plain,--largest"]),
    ):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
        assert main([]) == 0
        assert capsys.readouterr().out.splitlines() == completed


def test_no_command_prints_the_help(capsys: Captured) -> None:
    code, out, err = call(capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: traceweave")


def test_help_loads_nothing_heavy() -> None:
    heavy = ("duckdb", "pandas", "numpy", "pyarrow", "scipy", "jinja2", "rich", "orjson")
    script = (
        "import sys; from traceweave.cli import main; main(['--help']); main(['query', '--help']);"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr.strip() == "[]"


@nightly
def test_nothing_is_left_over_at_the_end(database: Path) -> None:
    # an object of DuckDB's that outlives it is complained of in fifty lines
    ran = subprocess.run(
        [sys.executable, "-m", "traceweave", "analyze", "health", database],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "leaked" not in ran.stderr
    assert "step time" in ran.stdout


# ---------------------------------------------------------------------------- errors


@cases
def test_errors_are_one_line_with_the_right_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    got, out, err = call(capsys, *arguments)
    assert (got, out) == (code, "")
    assert err.startswith("traceweave: error: ")
    assert message in err
    assert err.count("\n") == 1


# ---------------------------------------------------------------------------- ingest


def test_ingest_says_what_it_did_on_stderr_only(tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "run.duckdb"

    code, out, err = call(
        capsys, "ingest", "--no-verdict", FIXTURES / "ddp_gloo_4ranks", "-o", target
    )

    assert (code, out) == (0, "")
    traces = sum(path.stat().st_size for path in (FIXTURES / "ddp_gloo_4ranks").glob("*.json.gz"))
    line = err.splitlines()[-1]
    assert re.fullmatch(
        rf"{re.escape(str(target))}: ranks 0-3 from 4 files of {size(traces)}, [\d,]+ events,"
        rf" {size(target.stat().st_size)} in [\d.]+ m?s",
        line,
    )


def test_ingest_with_a_broken_file_ends_with_3_and_loads_the_rest(
    tmp_path: Path, capsys: Captured
) -> None:
    folder, target = tmp_path / "traces", tmp_path / "run.duckdb"
    folder.mkdir()
    for rank in range(2):
        name = f"rank{rank}.json.gz"
        (folder / name).write_bytes((FIXTURES / "ddp_gloo_4ranks" / name).read_bytes())
    (folder / "rank2.json").write_text("Killed")

    code, out, err = call(capsys, "ingest", "--no-verdict", folder, "-o", target, "--quiet")

    assert (code, out) == (3, "")
    reason = "not JSON, as profilers write it; copy it again, or record again"
    assert err == f"failed: {folder / 'rank2.json'}: {reason}\n"
    assert call(capsys, "query", target, "SELECT rank FROM ranks ORDER BY 1", "-f", "csv")[1] == (
        "rank\n0\n1\n"
    )


@nightly
def test_ranks_can_be_said_on_the_command_line(tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "run.duckdb"
    report = FIXTURES / "ddp_gloo_4ranks" / "rank1.json.gz"
    code, _, _ = call(
        capsys, "ingest", "--no-verdict", report, "-o", target, "--rank", "rank1.json.gz=3"
    )
    assert code == 0
    assert call(capsys, "query", target, "SELECT rank, rank_source FROM ranks", "-f", "json")[
        1
    ] == ('[\n{"rank":3,"rank_source":"--rank"}\n]\n')


@nightly
def test_many_files_passed_over_for_one_reason_take_one_line(
    tmp_path: Path, capsys: Captured
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.log").write_text("step")
    name = "rank0.json.gz"
    (folder / name).write_bytes((FIXTURES / "ddp_gloo_4ranks" / name).read_bytes())
    short = call(capsys, "ingest", "--no-verdict", folder, "-o", tmp_path / "run.duckdb")[2]
    long = call(capsys, "ingest", "--no-verdict", folder, "-o", tmp_path / "run.duckdb", "-v")[2]
    assert f"passed over: 5 files like {folder / '0.log'}: not a trace; -v lists them\n" in short
    assert long.count("passed over: ") == 5


@nightly
def test_ingest_says_what_it_replaced(tmp_path: Path, capsys: Captured) -> None:
    target = tmp_path / "run.duckdb"
    trace, other = tmp_path / "rank1.json", tmp_path / "rank2.json"
    for rank, path in ((1, trace), (2, other)):
        op = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
        path.write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": [op]}))

    first = call(capsys, "ingest", "--no-verdict", trace, "-o", target)[2]
    second = call(capsys, "ingest", "--no-verdict", trace, other, "-o", target)[2]
    third = call(capsys, "ingest", "--no-verdict", trace, "-o", target)[2]
    quiet = call(capsys, "ingest", "--no-verdict", trace, "-o", target, "--quiet")

    day = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    assert "replaced" not in first
    assert re.search(rf"^replaced the database of {day}, 1 source$", second, re.M)
    assert re.search(rf"^replaced the database of {day}, 2 sources$", third, re.M)
    assert quiet == (0, "", "")


def test_ingest_replaces_another_run_only_where_that_is_meant(
    tmp_path: Path, capsys: Captured
) -> None:
    target, before, after = _two_runs(tmp_path)
    assert call(capsys, "ingest", "--no-verdict", before, "-o", target, "-q") == (0, "", "")
    was = target.read_bytes()

    code, _, err = call(capsys, "ingest", "--no-verdict", after, "-o", target, "-q")

    assert code == 2
    assert err == (
        f"traceweave: error: {target} holds another run: {_there(err)}, such as"
        f" {before / 'rank0.json'}; name another file with -o, or give --replace\n"
    )
    assert target.read_bytes() == was
    assert call(capsys, "ingest", "--no-verdict", after, "-o", target, "-q", "--replace")[0] == 0


@nightly
def test_what_counts_as_the_same_run(tmp_path: Path, capsys: Captured) -> None:
    target, before, after = _two_runs(tmp_path)
    for same in (before, before / "rank0.json", f"{tmp_path}/bef*/*.json", before / "rank*"):
        assert call(capsys, "ingest", "--no-verdict", same, "-o", target, "-q") == (0, "", "")
    assert call(capsys, "ingest", "--no-verdict", after, "-o", target, "-q", "--replace") == (
        0, "", "",
    )  # fmt: skip
    assert call(capsys, "ingest", "--no-verdict", after, "-o", target, "-q") == (0, "", "")
    # a folder whose name the other's begins with is another one
    beside = (tmp_path / "after[1]").rename(tmp_path / "before2")
    assert call(capsys, "ingest", "--no-verdict", beside, "-o", target, "-q", "--replace") == (
        0, "", "",
    )  # fmt: skip
    assert call(capsys, "ingest", "--no-verdict", before, "-o", target, "-q")[0] == 2


def _two_runs(folder: Path) -> tuple[Path, Path, Path]:
    """Return where a database is to be, and the folders of two runs."""
    for name in ("before", "after[1]"):
        op = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 1}
        (folder / name).mkdir()
        (folder / name / "rank0.json").write_text(
            json.dumps({"distributedInfo": {"rank": 0}, "traceEvents": [op]})
        )
    return folder / "run.duckdb", folder / "before", folder / "after[1]"


def _there(text: str) -> str:
    found = re.search(r"the database of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, 1 source", text)
    assert found
    return found[0]


# ---------------------------------------------------------------------------- rows

ROWS = (
    "SELECT * FROM (VALUES (0, 1500, 1706850122815782001, 2500000, 'a|b', 0.25),"
    " (1, NULL, NULL, NULL, NULL, NULL))"
    " AS t(rank, wait_ns, start_ns, bytes, name, hidden_fraction)"
)


def test_tables_have_human_units(capsys: Captured, database: Path) -> None:
    code, out, err = call(capsys, "query", database, ROWS)
    assert (code, err) == (0, "")
    assert out == (
        "                                                   hidden\n"
        "rank      wait            start      size  name  fraction\n"
        "────  ────────  ───────────────  ────────  ────  ────────\n"
        "   0  1.500 us  05:02:02.815782  2.500 MB  a|b      25.0%\n"
        "   1         -                -         -  -            -\n"
    )


def test_csv_and_json_have_raw_values(capsys: Captured, database: Path) -> None:
    assert call(capsys, "query", database, ROWS, "-f", "csv")[1] == (
        "rank,wait_ns,start_ns,bytes,name,hidden_fraction\n"
        "0,1500,1706850122815782001,2500000,a|b,0.25\n"
        "1,,,,,\n"
    )
    assert json.loads(call(capsys, "query", database, ROWS, "-f", "json")[1]) == [
        {
            "rank": 0, "wait_ns": 1500, "start_ns": 1706850122815782001, "bytes": 2500000,
            "name": "a|b", "hidden_fraction": 0.25,
        },
        dict.fromkeys(["rank", "wait_ns", "start_ns", "bytes", "name", "hidden_fraction"])
        | {"rank": 1},
    ]  # fmt: skip


def test_markdown_escapes_what_a_trace_says(capsys: Captured, database: Path) -> None:
    sql = "SELECT 1 AS rank, 'a|<b>*' AS name"
    assert call(capsys, "query", database, sql, "-f", "markdown")[1] == (
        "| rank | name |\n|---:|---|\n| 1 | a\\|\\<b\\>\\* |\n"
    )


@pytest.mark.parametrize("ending", ["csv", "CSV", "json", "md", "parquet"])
def test_the_name_of_the_file_decides_its_format(
    tmp_path: Path, capsys: Captured, database: Path, ending: str
) -> None:
    by_name, by_option = tmp_path / f"rows.{ending}", tmp_path / "rows.txt"
    format_ = {"md": "markdown"}.get(ending, ending.lower())
    said = call(capsys, "query", database, ROWS, "-o", by_name)
    assert said == (0, "", f"wrote {by_name}\n")
    assert call(capsys, "query", database, ROWS, "-o", by_option, "-f", format_)[0] == 0
    assert by_name.read_bytes() == by_option.read_bytes()


@cases
def test_a_name_that_contradicts_the_format_is_wrong_use(
    capsys: Captured, database: Path, arguments: list[str], message: str
) -> None:
    given = [database if argument == DATABASE else argument for argument in arguments]
    code, out, err = call(capsys, *given)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("where", [[], ["-o", "-"]])
def test_parquet_goes_to_stdout_unless_that_is_a_terminal(
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    database: Path,
    where: list[str],
) -> None:
    arguments = ["query", str(database), ROWS, "-f", "parquet", *where]

    code = main(arguments)
    out, err = capsysbinary.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    refused = main(arguments)

    assert (code, err) == (0, b"")
    assert pq.read_table(io.BytesIO(out)).column("rank").to_pylist() == [0, 1]
    assert refused == 2
    assert capsysbinary.readouterr() == (
        b"",
        b"traceweave: error: parquet is not for a terminal; name a file with -o FILE\n",
    )


def test_no_rows_have_their_columns_in_every_format(capsys: Captured, database: Path) -> None:
    sql = "SELECT rank, host FROM ranks WHERE false"
    assert call(capsys, "query", database, sql)[1:] == ("rank  host\n────  ────\n", "no rows\n")
    assert call(capsys, "query", database, sql, "-f", "csv")[1] == "rank,host\n"
    assert call(capsys, "query", database, sql, "-f", "json")[1] == "[]\n"
    assert call(capsys, "query", database, sql, "-f", "markdown")[1] == (
        "| rank | host |\n|---:|---|\n"
    )


def test_two_runs_in_one_folder_are_listed_one_to_a_line(capsys: Captured, tmp_path: Path) -> None:
    four, two = FIXTURES / "ddp_gloo_4ranks", FIXTURES / "fsdp2_gloo"
    target = tmp_path / "run.duckdb"
    code, _, err = call(capsys, "ingest", "--no-verdict", four, two, "-o", target)
    first, *runs = err.splitlines()
    assert (code, target.exists()) == (3, False)
    assert first.startswith("traceweave: error: 2 runs lie here (")
    assert [line[:8] for line in runs] == ["  run 1:", "  run 2:"]


@cases
def test_what_would_be_ignored_is_refused(
    capsys: Captured, database: Path, arguments: list[str], message: str
) -> None:
    code, out, err = call(capsys, "query", database, "FROM ranks", *arguments)
    assert (code, out, err) == (2, "", f"traceweave: error: {message}\n")
    assert not Path("b.xlsx").exists()


def test_a_file_of_any_name_takes_the_format_that_is_said(
    capsys: Captured, database: Path, tmp_path: Path
) -> None:
    for name, format_ in (("b.dat", ["-f", "csv"]), ("b.txt", []), ("b", [])):
        assert (
            call(capsys, "query", database, "FROM ranks", "-o", tmp_path / name, *format_)[0] == 0
        )
    assert (tmp_path / "b.dat").read_text().startswith("rank,source_id")
    assert (tmp_path / "b.txt").read_text() == (tmp_path / "b").read_text()


def test_the_schema_takes_a_database_as_other_commands_do(capsys: Captured, database: Path) -> None:
    assert call(capsys, "schema", database) == call(capsys, "schema")
    assert call(capsys, "schema", database, "ranks") == call(capsys, "schema", "ranks")
    trace = FIXTURES / "ddp_gloo_4ranks" / "rank0.json.gz"
    assert "no such table" in call(capsys, "schema", trace)[2]


def test_a_trace_in_place_of_a_database_is_told_what_to_do(capsys: Captured) -> None:
    traces = FIXTURES / "ddp_gloo_4ranks"
    code, _, err = call(capsys, "analyze", "health", traces / "rank0.json.gz")
    assert code != 0
    assert "not a database; if it is a trace, make one with 'traceweave ingest" in err
    assert f"traceweave ingest {traces} -o run.duckdb" in call(capsys, "report", traces)[2]


def test_wide_tables_go_on_below_and_fit_the_page(capsys: Captured, database: Path) -> None:
    code, out, _ = call(capsys, "analyze", "breakdown", database, "--columns", "all")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 100
    assert out.count("rank  step") == 2


def test_long_tables_are_cut_with_a_note(capsys: Captured, database: Path) -> None:
    sql = "SELECT a FROM range(1000) AS t(a)"
    _, out, err = call(capsys, "query", database, sql)
    _, everything, silence = call(capsys, "query", database, sql, "--rows", "0")
    assert (len(out.splitlines()), err) == (202, "800 more rows; --rows 0 shows all\n")
    assert (len(everything.splitlines()), silence) == (1002, "")


def test_sql_comes_from_stdin(
    capsys: Captured, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 41 + 1 AS answer"))
    assert call(capsys, "query", database, "-", "-f", "csv")[1] == "answer\n42\n"


def test_a_reader_that_stops_early_does_no_harm(database: Path) -> None:
    script = "import sys; from traceweave.cli import main; sys.exit(main())"
    sql = "SELECT a FROM range(1000000) AS t(a)"
    with subprocess.Popen(
        [sys.executable, "-c", script, "query", str(database), sql, "-f", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"a\n"

        child.stdout.close()

        assert child.stderr.read() == b""
        assert child.wait() == 0


@nightly
def test_a_full_disk_behind_stdout_is_said_in_one_line(database: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    script = "import sys; from traceweave.cli import main; sys.exit(main())"
    with full.open("w") as stdout:
        ran = subprocess.run(
            [sys.executable, "-c", script, "query", str(database), "SELECT 1", "-f", "csv"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert ran.stderr == b"traceweave: error: the output: No space left on device\n"
    assert ran.returncode == 3


# ---------------------------------------------------------------------------- the other commands


@cases
def test_the_overview_says_on_how_many_ranks_collectives_were_found(
    instances: int, complete: int, unsized: int, calls: int, text: str
) -> None:
    rank = RankOverview(0, None, None, None, "kineto", "test", None, None, 0, 0, 0, calls, 0)
    overview = Overview(
        "", None, None, None, None, instances, complete, unsized, (rank,), (), (), ()
    )
    assert matched(overview) == text


def test_info_shows_the_run_to_people_and_programs(capsys: Captured, database: Path) -> None:
    text = call(capsys, "info", database)[1]
    facts = json.loads(call(capsys, "info", database, "--format", "json")[1])
    assert "ranks:       4 of 4 (0-3)\n" in text
    assert [title for title in ("Ranks", "Clocks", "Sources") if f"\n{title}\n" in text] == [
        "Ranks", "Clocks", "Sources",
    ]  # fmt: skip
    assert max(map(len, text.splitlines()[1:])) <= 100
    assert [rank["rank"] for rank in facts["ranks"]] == [0, 1, 2, 3]


def test_info_of_many_ranks_lists_some_and_those_that_differ() -> None:
    rows = [{"rank": rank, "steps": 3 if rank == 40 else 4} for rank in range(64)]
    assert [row["rank"] for row in some_rows(rows, "steps")] == [*range(MOST_ROWS - 1), 40]
    assert some_rows(rows[:MOST_ROWS], "steps") == rows[:MOST_ROWS]


@nightly
def test_info_says_how_many_ranks_it_does_not_list(
    capsys: Captured, simulated_database: Callable[..., Path]
) -> None:
    database = simulated_database(Config(ranks=18, steps=1, layers=1))
    text = call(capsys, "info", database)[1]
    for analysis in ("ranks", "clock_quality", "files"):
        line = f"  16 of 18 are shown; all: traceweave analyze {analysis} {database}\n"
        assert text.count(line) == 1


def test_the_schema_explains_every_column(capsys: Captured) -> None:
    text = call(capsys, "schema")[1]
    some = call(capsys, "schema", "groups", "clocks", "-f", "csv")[1].splitlines()
    assert max(map(len, text.splitlines())) <= 100
    for relation in public_relations():
        assert f"\n{relation.name}: " in "\n" + text
    assert some[0] == "table,column,type,meaning"
    assert {line.split(",")[0] for line in some[1:]} == {"groups", "clocks"}


@nightly
def test_align_prints_the_new_clocks(tmp_path: Path, capsys: Captured, database: Path) -> None:
    copy = tmp_path / "copy.duckdb"
    copy.write_bytes(database.read_bytes())
    code, out, _ = call(capsys, "align", copy, "--reference-rank", "1", "-f", "json")
    assert code == 0
    assert {row["reference_rank"] for row in json.loads(out)} == {1}


@nightly
def test_report_writes_the_page(tmp_path: Path, capsys: Captured, database: Path) -> None:
    page = tmp_path / "run.html"
    assert call(capsys, "report", database, "-o", page) == (0, "", f"wrote {page}\n")
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


@nightly
def test_the_demo_leads_from_the_traces_in_the_package_to_a_page(
    tmp_path: Path, capsys: Captured
) -> None:
    code, out, err = call(capsys, "demo", "--folder", tmp_path / "demo")
    assert code == 0
    assert "ranks:       4 of 4 (0-3)\n" in out
    assert "Rank 2 keeps 3 ranks waiting" in (tmp_path / "demo" / "demo.html").read_text("utf-8")
    assert "open it in a browser" in err


def test_version_names_itself(capsys: Captured) -> None:
    code, out, err = call(capsys, "version")
    assert (code, err) == (0, "")
    assert out.startswith(f"traceweave {__version__}\n")
    assert call(capsys, "--version") == (0, f"traceweave {__version__}\n", "")


@cases
def test_who_wants_some_rows_only_is_told_how(
    database: Path, capsys: Captured, arguments: list[str], says: str
) -> None:
    name, *rest = arguments
    code, _, err = call(capsys, "analyze", name, database, *rest)
    assert code == 2
    assert says in err
