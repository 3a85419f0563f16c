"""The page: self-contained, reproducible, safe, and readable for every kind of run."""

import base64
import hashlib
import json
import re
import shlex
from html import unescape
from importlib import resources
from pathlib import Path

import pytest

from tests.marks import at_once, nightly
from tests.report.conftest import MakePage, MakeReport, MakeRun, write
from tests.report.handmade import RUNS
from traceweave._version import __version__
from traceweave.cli.main import cli
from traceweave.errors import DatabaseError
from traceweave.report import write_report
from traceweave.report.page import Section, Table
from traceweave.report.query import query_text
from traceweave.report.render import DEFAULT_TITLE, build_report, render_report
from traceweave.store.database import open_database

HOSTILE = "</script><img src=x onerror=alert(1)><!--{{7*7}}{% raw %}\u2028"


def _script_free(html: str) -> str:
    return re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)


@pytest.mark.parametrize("name", at_once(RUNS, "eight ranks", "nothing"))
def test_the_page_renders_whatever_was_recorded(page_of: MakePage, name: str) -> None:
    options = RUNS[name]
    text = _script_free(page_of(**options).read_text(encoding="utf-8"))
    assert f"<h1>{'traces' if options['ranks'] else DEFAULT_TITLE}</h1>" in text
    assert not re.search(r"\b(None|nan|NaN|Undefined)\b", text)
    assert f"Written by traceweave {__version__}." in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    targets = set(re.findall(r'href="#([^"]+)"', text))
    labels = set(re.findall(r'aria-labelledby="([^"]+)"', text))
    assert (targets | labels) - set(ids) == set()


def test_an_empty_database_gives_a_page_that_says_so(page_of: MakePage) -> None:
    html = _script_free(page_of(**RUNS["nothing"]).read_text(encoding="utf-8"))
    assert "This database holds no recorded ranks" in html
    assert "The database holds no input files." in html
    assert "<table" not in html


@nightly
def test_a_cpu_run_says_that_its_times_are_of_cpu_operators(page_of: MakePage) -> None:
    html = _script_free(page_of(**RUNS["only CPU"]).read_text(encoding="utf-8"))
    assert "No GPU work was recorded, so times are those of CPU operators" in html
    assert "A step is the range that the profiler marked on the host." in html


@nightly
def test_the_same_database_gives_the_same_bytes(
    page_of: MakePage, shared_run: MakeRun, make_run: MakeRun, tmp_path: Path
) -> None:
    options = RUNS["eight ranks"]
    page = page_of(**options)
    # the same connection once more, and a database in memory where nothing is computed once for all
    write_report(shared_run(**options), tmp_path / "b.html")
    write_report(make_run(**options), tmp_path / "c.html")
    pages = {path.read_bytes() for path in (page, tmp_path / "b.html", tmp_path / "c.html")}
    assert len(pages) == 1


def test_who_waits_is_told_what_is_being_done(shared_run: MakeRun, tmp_path: Path) -> None:
    said: list[str] = []
    write_report(shared_run(**RUNS["eight ranks"]), tmp_path / "run.html", say=said.append)
    assert (said[1], said[-1]) == ("finding why GPUs were idle", "writing the page")
    assert len(set(said)) == len(said) == 7


def test_commands_on_the_page_name_the_run(shared_run: MakeRun, tmp_path: Path) -> None:
    write_report(shared_run(**RUNS["eight ranks"]), tmp_path / "page.html", run="my job.duckdb")
    html = unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "traceweave analyze findings 'my job.duckdb'" in html
    assert "run.duckdb" not in html


def test_the_page_loads_nothing(page_of: MakePage) -> None:
    html = page_of(**RUNS["eight ranks"]).read_text(encoding="utf-8")
    text = _script_free(html)
    assert re.findall(r"""\b(?:src|srcset|data|action|poster)\s*=\s*["']?[^"'\s>]+""", text) == []
    assert [h for h in re.findall(r'\bhref="([^"]*)"', text) if not h.startswith("#")] == ["data:,"]
    styles = "".join(re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL))
    assert "url(" not in styles
    assert "@import" not in styles
    assert not re.search(r"https?:", text)


def test_the_policy_allows_exactly_the_scripts_of_the_page(page_of: MakePage) -> None:
    html = page_of(**RUNS["eight ranks"]).read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    ]
    assert policy.group(1).replace("&#39;", "'") == (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert html.index("Content-Security-Policy") < html.index("<style>")


@nightly
def test_hostile_names_stay_text(tmp_path: Path) -> None:
    changes = """
        UPDATE sources SET path = getvariable('kernel'), message = getvariable('kernel');
        UPDATE groups SET description = getvariable('kernel');
        UPDATE base.rank_sources SET host = getvariable('kernel'), gpu_name = getvariable('kernel');
    """
    path = write(tmp_path / "run.duckdb", changes, ranks=2, steps=3, kernel=HOSTILE)
    with open_database(path) as con:
        html = render_report(build_report(con, title=HOSTILE))
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;!--{{7*7}}{% raw %}" in html
    assert "<img src=x" not in html
    assert "-->" not in html.replace("--&gt;", "")
    data = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html)
    assert data is not None
    assert not set("<>&\u2028\u2029") & set(data.group(1))
    assert HOSTILE in json.loads(data.group(1))["tails"]["categories"][0]


def test_every_section_shows_where_its_numbers_come_from(report_of: MakeReport) -> None:
    report = report_of(**RUNS["eight ranks"])
    assert [section.anchor for section in report.sections if not section.origins] == []
    assert [f.name for s in report.sections for f in s.figures if not f.unit] == []


def test_every_query_on_the_page_can_be_run(report_of: MakeReport, make_run: MakeRun) -> None:
    options = RUNS["eight ranks"]
    codes = [o.code for s in report_of(**options).sections for o in s.origins]
    con = make_run(**options)
    con.execute(
        "CREATE TEMP VIEW gaps AS SELECT 'sync' AS cause, NULL AS stream, 0 AS rank, 0 AS step,"
        " 0 AS start_ns, 1 AS duration_ns, '' AS host_op"
    )
    con.execute(
        "CREATE TEMP VIEW exposed AS SELECT 'exposed: copies' AS cause, 0 AS rank, 0 AS step,"
        " 0 AS start_ns, 1 AS duration_ns, '' AS what"
    )
    con.execute(
        "CREATE TEMP VIEW breakdown AS SELECT 0 AS rank, 0 AS step, 0 AS window_start_ns,"
        " 1 AS window_ns, 1 AS compute_ns, 0 AS exposed_wait_ns, 0 AS exposed_transfer_ns,"
        " 0 AS exposed_unsplit_ns, 0 AS exposed_memory_ns, 0 AS idle_ns"
    )
    con.execute("CREATE TEMP VIEW step_lengths AS SELECT 0 AS step, 1 AS length_ns")
    con.execute(
        "CREATE TEMP VIEW split_calls AS SELECT 0 AS call_id, 0 AS wait_ns, TRUE AS is_whole"
    )
    con.execute("CREATE TEMP TABLE waits AS SELECT 0 AS rank, 1 AS origin_wait_ns")
    con.execute(
        "CREATE TEMP VIEW path AS SELECT 0 AS rank, 'compute' AS kind, 0 AS start_ns, 1 AS end_ns"
    )
    for relation in ("timeline_steps", "timeline_ranks", "timeline_ops", "timeline_gaps"):
        name = relation.replace("timeline", "shown")
        con.execute(f"CREATE TEMP TABLE {name} AS {query_text(relation)}")
    queries = [code for code in codes if not code.startswith("traceweave ")]
    # those that draw the timeline: what answers a question is an analysis
    assert len(queries) == 6
    for query in queries:
        assert con.execute(query).description


def test_every_command_on_the_page_is_one_that_can_be_typed(report_of: MakeReport) -> None:
    sections = report_of(**RUNS["eight ranks"]).sections
    commands = [o.code for s in sections for o in s.origins if o.code.startswith("traceweave ")]
    assert len(commands) > 15
    for command in commands:
        _, *words = shlex.split(command)
        with pytest.raises(DatabaseError, match=r"run\.duckdb: does not exist"):
            cli.main(words, standalone_mode=False)


def _filled(section: Section) -> list[Table]:
    return [table for table in section.tables if table.rows]


def test_every_chart_and_table_links_to_its_origin(report_of: MakeReport) -> None:
    report = report_of(**RUNS["eight ranks"])
    shown = [s.origin_id(x.origin) for s in report.sections for x in (*s.figures, *_filled(s))]
    links = re.findall(r'class="origin-link" href="#([^"]+)"', render_report(report))
    assert links == shown
    assert {"gaps-sql-1", "gaps-sql-2", "timeline-sql-3", "collectives-sql-2"} <= set(links)


def test_the_vendored_chart_library_is_the_one_that_its_note_names() -> None:
    vendor = resources.files("traceweave.report").joinpath("assets", "vendor")
    digest = hashlib.sha256(vendor.joinpath("echarts.min.js").read_bytes()).hexdigest()
    assert digest in vendor.joinpath("VENDORED.md").read_text(encoding="utf-8")
    assert "Apache License" in vendor.joinpath("echarts.LICENSE").read_text(encoding="utf-8")
