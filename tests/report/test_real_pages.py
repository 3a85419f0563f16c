"""Pages of a real run and of 64 simulated ranks, opened from disk and used as a reader would."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chromium import Chromium, Visit
from tests.conftest import MakeOnce
from tests.marks import nightly
from tests.report.real import report_on, simulated_page

pytestmark = pytest.mark.browser

LOOK, LAYOUT, PRINTED = (
    Path(__file__).with_name(f"look_at_{what}.js").read_text(encoding="utf-8")
    for what in ("page", "layout", "paper")
)
PAPER = 688
"""CSS pixels between the margins of A4."""


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


@nightly
def test_a_page_of_64_ranks_shows_every_chart_and_stays_small(
    simulated: Path, chromium: Chromium
) -> None:
    seen = _look(simulated, chromium)
    _expect(seen, DRAWN | {"budget-spread", "budget-heat", "overlap"})
    assert seen["nodes"] < 15_000
    assert simulated.stat().st_size < 2_500_000
    text = simulated.read_text(encoding="utf-8")
    assert "Of 64 ranks, 20 are shown" in text


@nightly
def test_every_table_can_be_seen_on_screens_of_any_width(
    simulated: Path, chromium: Chromium
) -> None:
    with chromium.open(simulated, 1920) as visit:
        seen = {}
        for width in (1920, 1440, 1024, 390):
            visit.page.set_viewport_size({"width": width, "height": 900})
            seen[width] = visit.ask(LAYOUT)
        assert visit.console == []
    # what is wider than its place scrolls, shows so, and keeps its first column in sight
    assert {width: (one["overflow"], one["lost"]) for width, one in seen.items()} == {
        width: (0, []) for width in seen
    }
    assert seen[1920]["cut"] == []
    assert len(seen[1440]["cut"]) <= 3
    # on a telephone rows of sentences are lists, whose lines say what they are
    assert "table-fixes" not in seen[390]["cut"]
    assert seen[390]["labels"][:3] == ["Fixed", "Step ms", "Adds ms"]


@nightly
def test_the_numbers_of_a_step_are_in_one_row(simulated: Path, chromium: Chromium) -> None:
    tops = "[...document.querySelectorAll('.figures li')].map(item => item.offsetTop)"
    with chromium.open(simulated, 1280) as visit:
        found = visit.page.evaluate(tops)
    assert len(found) == 7
    assert len(set(found)) == 1


@nightly
def test_the_wheel_is_given_back_and_a_card_leads_to_its_place(
    simulated: Path, chromium: Chromium
) -> None:
    with chromium.open(simulated, 1440) as visit:
        page = visit.page
        page.emulate_media(reduced_motion="reduce")
        status = page.locator("#status")
        card = page.locator(".cards a[data-place]").first
        card.click()
        assert page.url.endswith("#figure-timeline")
        assert page.locator("[data-controls=timeline] label", has_text="5").first.is_checked()
        zoomed = status.text_content() or ""
        assert re.fullmatch(r"Shown: .* to .*", zoomed)
        assert zoomed != "Shown: 0 ns to 27.1 ms"

        box = page.locator("[data-timeline]").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 300, box["y"] + 8)
        assert _scrolled(visit, 300) == 0  # with the focus the wheel zooms
        page.keyboard.press("Escape")
        assert _scrolled(visit, 100) > 0
        page.mouse.click(box["x"] + 300, box["y"] + 60)
        page.keyboard.press("0")
        assert "Shown: 0 ns to" in (status.text_content() or "")
        assert _scrolled(visit, 100) > 0  # nothing to zoom out of
        assert visit.console == []


def _scrolled(visit: Visit, by: int) -> int:
    """Return how far a turn of the wheel moves the page."""
    before = visit.ask("() => scrollY")
    visit.page.mouse.wheel(0, by)
    visit.page.wait_for_timeout(300)
    return int(visit.ask("() => scrollY") - before)


@nightly
def test_paper_loses_nothing_from_any_window(simulated: Path, chromium: Chromium) -> None:
    with chromium.open(simulated, 1920) as visit:
        printed = visit.page.pdf(prefer_css_page_size=True)
        for width in (1920, 390):
            visit.page.set_viewport_size({"width": width, "height": 900})
            visit.ask("() => dispatchEvent(new Event('beforeprint'))")
            visit.page.emulate_media(media="print")
            visit.page.set_viewport_size({"width": PAPER, "height": 900})
            seen = visit.page.evaluate(PRINTED, PAPER)
            assert (seen["beyond"], seen["missing"], seen["pale"]) == ([], {}, [])
            assert {"budget", "waits", "overlap"} <= set(seen["ranks"])
            visit.page.emulate_media(media="screen")
            visit.ask("() => dispatchEvent(new Event('afterprint'))")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    boxes = {
        tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox\s*\[([^\]]+)\]", printed)
    }
    assert 8 <= pages <= 60
    # a page wider than its paper is shrunk or cut; neither changes the paper, which is portrait
    assert {(x2 - x1) < (y2 - y1) for x1, y1, x2, y2 in boxes} == {True}


@nightly
def test_the_page_of_a_real_run_shows_every_chart(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path, chromium: Chromium
) -> None:
    page = report_on(database_of(corpus / "kineto" / "megatron_tp8"), tmp_path / "run.html")
    seen = _look(page, chromium)
    _expect(seen, DRAWN)
    assert page.stat().st_size < 2_500_000


@nightly
@pytest.mark.parametrize(("name", "told"), [("pipeline_1f1b", False), ("ddp_gloo_straggler", True)])
def test_communication_of_which_no_waiting_is_known_is_not_drawn_as_transfer(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path, chromium: Chromium,
    name: str, told: bool,
) -> None:  # fmt: skip
    page = report_on(database_of(fixtures / name), tmp_path / "run.html")
    with chromium.open(page, 1440) as visit:
        legend = visit.ask("() => document.querySelector('.swatches').innerText")
        assert visit.console == []
    assert ("waiting or transfer" in legend) is not told
