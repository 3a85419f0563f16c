"""The comparison as users see it: the page, the command, the API."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.comparison.runs import run_of
from tests.conftest import Captured
from tests.marks import nightly
from traceweave.cli import compare as command
from traceweave.cli.main import main
from traceweave.comparison import TABLES, compare_runs
from traceweave.comparison.figures import step_figure, waterfall_figure

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def databases(fixtures: Path, database_of: Callable[..., Path]) -> tuple[Path, Path]:
    return database_of(fixtures / "ddp_gloo_4ranks"), database_of(fixtures / "ddp_gloo_straggler")


def call(capsys: Captured, *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@nightly
def test_the_page_is_the_same_bytes_and_names_are_text(
    base_run: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    with run_of(extra=HOSTILE) as new:
        found = compare_runs(base_run, new, names=("a", HOSTILE))
        first = found.report(tmp_path / "a.html").read_bytes()
    with run_of() as base, run_of(extra=HOSTILE) as new:
        second = compare_runs(base, new, names=("a", HOSTILE)).report(tmp_path / "b.html")

    assert first == second.read_bytes()
    text = first.decode()
    assert HOSTILE not in text
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</td>" in text
    assert re.findall(r'<section id="(\w+)"', text) == ["verdict", *TABLES, "glossary"]
    assert "Step time: no difference: each of 3 steps takes exactly as long in both" in text


def test_the_waterfall_leads_from_base_to_new() -> None:
    # a step of 100 ns: 30 longer by compute, 5 shorter by idling, so 125 now
    names = ("part", "difference_ns", "base_ns", "new_ns")
    rows = [("compute", 30, 60, 90), ("copies", 0, 7, 7), ("idle", -5, 33, 28),
            ("step", 25, 100, 125)]  # fmt: skip
    figure = waterfall_figure([dict(zip(names, row, strict=True)) for row in rows])
    assert figure.chart["categories"] == ["Base", "compute", "idle", "New"]
    assert figure.chart["variants"][0]["values"] == [[0, 100, 130, 0], [100, 130, 125, 125]]
    assert figure.chart["roles"] == ["total", "caused", "hidden", "total"]
    assert figure.unit == "per step and rank; parts add up to +25 ns"


@nightly
def test_the_waterfall_of_real_runs_ends_at_the_new_step(databases: tuple[Path, Path]) -> None:
    found = traceweave.compare(*databases)
    figure = waterfall_figure(found.table("budget").to_pylist())
    starts, ends = figure.chart["variants"][0]["values"]
    assert (starts[0], ends[0], ends[-1]) == (0, found.time.base_ns, found.time.new_ns)
    assert starts[1:-1] == ends[:-2]
    assert ends[-2] == found.time.new_ns
    every = step_figure(found.base, found.new).chart["variants"][0]["values"]
    assert [round(sum(steps) / len(steps)) for steps in every] == [
        pytest.approx(found.time.base_ns, abs=1),
        pytest.approx(found.time.new_ns, abs=1),
    ]


@nightly
def test_equal_runs_are_a_page_and_tables_all_the_same(
    databases: tuple[Path, Path], tmp_path: Path, capsys: Captured
) -> None:
    code, out, _ = call(capsys, "compare", databases[0], databases[0], "--table", "budget")
    assert (code, len(re.findall(r"^(?:compute|step) .* 0 ns ", out, re.MULTILINE))) == (0, 2)
    found = traceweave.compare(databases[0], databases[0])
    figure = waterfall_figure(found.table("budget").to_pylist())
    assert figure.chart["categories"] == ["Base", "New"]
    assert found.report(tmp_path / "same.html").exists()


@nightly
def test_the_sleeping_rank_is_what_the_straggler_run_is_slower_by(
    databases: tuple[Path, Path], capsys: Captured
) -> None:
    code, out, err = call(capsys, "compare", *databases)

    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("Comparable with care: memory events recorded in base only")
    assert re.match(r"Step time: \+\d+\.\d%, significantly slower", lines[1])
    assert any(line.startswith("budget: where the difference went") for line in lines)
    assert "rows; --table ops prints them" in err
    assert max(map(len, lines[8:])) <= 100
    found = traceweave.compare(*databases)
    worst = found.table("stragglers").to_pylist()[0]
    assert (worst["rank"], worst["new_cause"]) == (2, "data_loading")
    # three ranks wait for its 40 ms in every step, and the caption says that they are added up
    assert 3 * 40_000_000 < worst["new_origin_wait_ns"] < 150_000_000
    assert found.meaning("stragglers").endswith("summed over the waiting ranks")


@nightly
def test_one_table_comes_in_every_format(databases: tuple[Path, Path], capsys: Captured) -> None:
    code, out, err = call(capsys, "compare", *databases, "--table", "budget", "-f", "csv")
    assert (code, err) == (0, "")
    rows = list(csv.DictReader(io.StringIO(out)))
    difference = [int(row["difference_ns"]) for row in rows]
    assert rows[-1]["part"] == "step"
    assert sum(difference[:-1]) == difference[-1]


@nightly
def test_the_page_is_written_by_the_suffix(
    databases: tuple[Path, Path], tmp_path: Path, capsys: Captured
) -> None:
    page = tmp_path / "compare.html"
    assert call(capsys, "compare", *databases, "-o", page) == (0, "", f"wrote {page}\n")
    assert page.read_text().startswith("\n<!DOCTYPE html>") or "<!DOCTYPE html>" in page.read_text()


@nightly
def test_the_page_is_headed_by_the_runs_or_by_its_title(
    databases: tuple[Path, Path], tmp_path: Path, capsys: Captured
) -> None:
    page = tmp_path / "compare.html"
    base, new = (path.name for path in databases)

    assert call(capsys, "compare", *databases, "-o", page)[0] == 0
    assert f"<title>{new} beside {base}" in page.read_text()
    assert call(capsys, "compare", *databases, "-o", page, "--title", "before <b>")[0] == 0
    assert "<title>before &lt;b&gt;" in page.read_text()
    code, _, err = call(capsys, "compare", *databases, "--title", "x")
    assert (code, err) == (
        2,
        "traceweave: error: --title is for the page: name it with -o FILE.html\n",
    )


def test_json_has_everything(
    databases: tuple[Path, Path], tmp_path: Path, capsys: Captured
) -> None:
    code, out, _ = call(capsys, "compare", *databases, "-f", "json")
    assert code == 0
    found = json.loads(out)
    assert found["comparability"]["verdict"] == "with care"
    facts = {row["fact"]: row for row in found["comparability"]["facts"]}
    assert facts["recorded besides"]["difference"] == "memory events recorded in base only"
    assert (found["verdict"], found["smallest_change"]) == ("slower", 0.01)
    assert list(found["tables"]) == [name for name in TABLES if name != "comparability"]
    shares = [row["base_share"] for row in found["tables"]["budget"][:-1]]
    assert sum(shares) == pytest.approx(1)


@nightly
def test_overlap_is_written_as_shares(databases: tuple[Path, Path], capsys: Captured) -> None:
    _, out, _ = call(capsys, "compare", *databases, "--table", "overlap")
    [hidden] = [line for line in out.splitlines() if line.startswith("communication hidden")]
    assert len(re.findall(r"\d%", hidden)) == 3


@pytest.mark.parametrize("more", [["-f", "csv"], ["-o", "x.csv"]])
def test_one_file_holds_one_table(
    databases: tuple[Path, Path], capsys: Captured, more: list[str]
) -> None:
    code, out, err = call(capsys, "compare", *databases, *more)
    assert (code, out) == (2, "")
    assert "one file holds one table: name it with --table" in err


def test_the_command_knows_all_tables() -> None:
    assert tuple(TABLES) == command.TABLES
