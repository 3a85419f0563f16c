"""Pages of a real run and of 64 simulated ranks, opened from disk and used as a reader would."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chromium import Chromium
from tests.conftest import MakeOnce
from tests.report.real import report_on, simulated_page

pytestmark = pytest.mark.browser

LOOK = Path(__file__).with_name("look_at_page.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def simulated(once: MakeOnce, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 64 simulated ranks."""
    folder = tmp_path_factory.mktemp("simulated")
    return once("page of 64 ranks", ".html", lambda page: simulated_page(folder, page, 64))


def _look(page: Path, chromium: Chromium, width: int = 1440) -> Mapping[str, Any]:
    with chromium.open(page, width) as visit:
        seen = visit.ask(LOOK)
        assert (visit.console, visit.requested) == ([], [])
    return cast(Mapping[str, Any], seen)


def _expect(seen: Mapping[str, Any], charts: set[str]) -> None:
    assert set(seen["colours"]) == charts
    assert {name: count for name, count in seen["colours"].items() if count < 3} == {}
    assert (seen["zoomed"], seen["told"]) == (True, True)
    assert all(seen["sorted"])
    assert (seen["wide"], seen["overflow"]) == ([], 0)


DRAWN = {
    *("budget", "timeline", "gaps", "waits", "tails", "bandwidth"),
    *("kernel-classes", "kernels", "kernel-ranks", "clock-quality", "clock-offsets"),
}


def test_a_page_of_64_ranks_shows_every_chart_and_stays_small(
    simulated: Path, chromium: Chromium
) -> None:
    seen = _look(simulated, chromium)
    _expect(seen, DRAWN | {"budget-spread", "budget-heat", "overlap"})
    assert seen["nodes"] < 15_000
    assert simulated.stat().st_size < 2_500_000
    text = simulated.read_text(encoding="utf-8")
    assert "Of 64 ranks, 20 are shown" in text


def test_nothing_sticks_out_of_a_narrow_screen(simulated: Path, chromium: Chromium) -> None:
    seen = _look(simulated, chromium, 390)
    assert (seen["wide"], seen["overflow"]) == ([], 0)
    assert all(seen["sorted"])


def test_the_printed_pages_hold_the_whole_width(simulated: Path, chromium: Chromium) -> None:
    with chromium.open(simulated) as visit:
        printed = visit.page.pdf(prefer_css_page_size=True)
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    boxes = {
        tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", printed)
    }
    assert 8 <= pages <= 60
    # a page wider than its paper is shrunk or cut; neither changes the paper, which is portrait
    assert {(x2 - x1) < (y2 - y1) for x1, y1, x2, y2 in boxes} == {True}


def test_the_page_of_a_real_run_shows_every_chart(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path, chromium: Chromium
) -> None:
    page = report_on(database_of(corpus / "kineto" / "megatron_tp8"), tmp_path / "run.html")
    seen = _look(page, chromium)
    _expect(seen, DRAWN)
    assert page.stat().st_size < 2_500_000
