"""The page of a comparison in a real Chromium."""

import re
from pathlib import Path

import duckdb
import pytest

from tests.chromium import Chromium
from tests.comparison.runs import run_of
from traceweave.comparison import compare_runs

pytestmark = pytest.mark.browser

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}"

LOOK = Path(__file__).with_name("look_at_comparison.js").read_text(encoding="utf-8")


def test_the_page_draws_its_charts_sorts_and_takes_names_as_text(
    base_run: duckdb.DuckDBPyConnection, tmp_path: Path, chromium: Chromium
) -> None:
    page = tmp_path / "compare.html"
    with run_of(gemm=450, extra=HOSTILE) as new:
        compare_runs(base_run, new, names=("base", HOSTILE)).report(page)
    with chromium.open(page) as visit:
        seen, dom = visit.ask(LOOK), visit.dom
        assert (visit.console, visit.requested) == ([], [])
    assert re.findall(r'data-chart="([^"]+)"', dom) == ["steps", "budget", "classes", "kernels"]
    drawn = re.findall(r'data-chart="([^"]+)"[^>]*>.*?<svg.*?(<path|<rect)', dom, re.DOTALL)
    assert [name for name, _ in drawn] == ["steps", "budget", "classes", "kernels"]
    body = re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL)
    assert "<img" not in body
    # gemm takes 50 ns more, the kernel that is new 50 ns, communication nothing
    assert seen == [[50, 50, 0], 0]
