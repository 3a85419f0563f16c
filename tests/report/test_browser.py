"""The page in a real Chromium: charts are drawn, hostile names are text, nothing is requested."""

import random
import re
import shutil
from pathlib import Path

import pytest

from tests.chromium import Chromium
from tests.marks import nightly
from tests.report.conftest import MakePage, MakeRun, write
from tests.report.handmade import RUNS
from traceweave import words
from traceweave.report import write_report
from traceweave.store.database import open_database

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}"


def _page_of_changed(folder: Path, changes: str, **options: object) -> Path:
    with open_database(write(folder / "run.duckdb", changes, **options)) as con:
        write_report(con, folder / "run.html")
    return folder / "run.html"


def test_charts_are_drawn_and_hostile_names_are_text(tmp_path: Path, chromium: Chromium) -> None:
    changes = "UPDATE groups SET description = getvariable('kernel')"
    page = _page_of_changed(tmp_path, changes, ranks=8, steps=3, kernel=HOSTILE)
    with chromium.open(page) as visit:
        assert (visit.console, visit.requested) == ([], [])
        dom = visit.dom
    charts = re.findall(r'data-chart="([^"]+)"', dom)
    drawn = re.findall(r'data-chart="([^"]+)"[^>]*>.*?<svg.*?(<path|<rect)', dom, re.DOTALL)
    assert [name for name, _ in drawn] == charts
    assert len(charts) == 12
    body = re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL)
    assert "<img" not in body
    text = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;{{7*7}}"
    assert f">{text}</td>" in body
    drawings = "".join(re.findall(r"<svg.*?</svg>", body, flags=re.DOTALL))
    assert "all_reduce · &lt;/script&gt;&lt;img" in drawings


@nightly
def test_pages_of_all_kinds_of_runs_open_without_errors(
    page_of: MakePage, tmp_path: Path, chromium: Chromium
) -> None:
    for number, options in enumerate(RUNS.values()):
        shutil.copy(page_of(**options), tmp_path / f"{number}.html")
    numbers = range(len(RUNS))
    frames = "".join(f"<iframe src='{n}.html' width=900 height=900></iframe>" for n in numbers)
    page = tmp_path / "all.html"
    page.write_text(frames, encoding="utf-8")
    with chromium.open(page) as visit:
        assert (visit.console, visit.requested) == ([], [])


CLICKS = Path(__file__).with_name("clicks.js").read_text(encoding="utf-8")


@nightly
def test_tables_sort_and_the_budget_chart_changes_step_and_unit(
    page_of: MakePage, chromium: Chromium
) -> None:
    with chromium.open(page_of(**RUNS["eight ranks"])) as visit:
        seen = visit.ask(CLICKS)
        assert visit.console == []
    assert seen == [
        ["3", "0"], "descending", "3", "ascending", 4, True, True, True, "false", "true",
    ]  # fmt: skip


TOOLS = Path(__file__).with_name("tools.js").read_text(encoding="utf-8")


@nightly
def test_tables_filter_and_export_whole_values(tmp_path: Path, chromium: Chromium) -> None:
    changes = """UPDATE groups SET description = '=1+"2"'"""
    page = _page_of_changed(tmp_path, changes, ranks=4, steps=3)
    with chromium.open(page) as visit:
        seen = visit.ask(TOOLS)
        assert visit.console == []
    names = ("p50", "p95", "p99", "max")
    heads = [f"{part} {q} (ns)" for part in ("Duration", "Wait", "Transfer") for q in names]
    last = ("Last most often Rank", "Last most often Share (fraction)")
    head = ",".join(("Operation", "Group", "Size", "Calls", "Matched", *heads, "Tail", *last))
    name, lines, hidden, told, nothing, shown, focusable = seen
    assert (name, lines[0], lines[2:], told) == ("tails.csv", head, [""], "0 of 1 rows")
    assert lines[1].startswith("""all_reduce,"'=1+""2\"\"",33.6 MB to 67.1 MB,12,3,30000000,""")
    assert lines[1].endswith(",1.0,3,1.0")
    assert (hidden, nothing, shown, focusable) == ([True], f"{head}\r\n", [False], [0, 0, 0])


WRITES = """
(asked) => asked.map(([value, measure]) => TraceweaveCharts.text(value, measure))
"""


@nightly
def test_what_the_reader_points_at_is_written_as_the_page_writes_it(
    page_of: MakePage, chromium: Chromium
) -> None:
    writers = {"duration": words.duration, "bytes": words.size, "fraction": words.percent}
    edges = [0, 1, 999, 999.4, 999.5, 999_499, 999_500, 12_350, 0.25, -12_345, 3_600_400_000_000]
    shares = [0, 1, 0.0001, -0.0001, 0.00049, 0.0005, 0.0725, 0.9995, -0.99999, 0.99949, 57.464]
    chance = random.Random(1)
    many = [chance.uniform(-1, 1) * 10 ** chance.randrange(14) for _ in range(200)]
    asked = [(value, kind) for value in (*edges, *many) for kind in ("duration", "bytes")]
    asked += [(value, "fraction") for value in (*shares, *(chance.random() for _ in range(200)))]
    ratios = [(value, "ratio") for value in (1, 1.0004, 9.996, 0.5, 120.4, 1.25, 1.255)]
    with chromium.open(page_of(**RUNS["eight ranks"])) as visit:
        seen = visit.page.evaluate(WRITES, [*asked, *ratios, (None, "bytes")])
        assert visit.console == []
    assert seen == [
        *(writers[kind](value) for value, kind in asked),
        *(words.ratio(value) for value, _ in ratios),
        words.MISSING,
    ]


PIXELS = Path(__file__).with_name("pixels.js").read_text(encoding="utf-8")


@nightly
def test_a_large_heat_map_is_pixels_and_the_page_of_many_ranks_is_small(
    shared_run: MakeRun, tmp_path: Path, chromium: Chromium
) -> None:
    page = tmp_path / "run.html"
    write_report(shared_run(ranks=80, steps=20), page)
    with chromium.open(page) as visit:
        coloured, nodes = visit.ask(PIXELS)
        assert (visit.console, visit.requested) == ([], [])
    assert coloured
    assert nodes < 25_000
    assert page.stat().st_size < 5_000_000


@nightly
def test_a_script_that_slipped_into_the_page_would_not_run(
    page_of: MakePage, tmp_path: Path, chromium: Chromium
) -> None:
    page = tmp_path / "run.html"
    intruder = "<script>document.title='taken'</script><img src='http://127.0.0.1:9/x.png'>"
    html = (
        page_of(**RUNS["eight ranks"])
        .read_text(encoding="utf-8")
        .replace("<header>", f"<header>{intruder}")
    )
    page.write_text(html, encoding="utf-8")
    with chromium.open(page) as visit:
        assert visit.page.title() == "traces"
        assert visit.requested == []
        assert any("Content Security Policy" in line for line in visit.console)
