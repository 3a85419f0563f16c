"""Take the pictures of the report and the explorer: `python docs/screenshots.py`.

Simulates a run of 64 ranks with a slow one, writes its report, and photographs the top of the page,
and the explorer, in Chromium, 1440 pixels wide. Needs Chromium on the PATH and Pillow.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

import traceweave
from traceweave.explorer.explorer import explore
from traceweave_simulator import Config, simulate, write_kineto

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from tests.chromium import Chromium, find_chromium, launch  # noqa: E402
from tests.explorer.conftest import serving  # noqa: E402

BUDGET_END = """
() => Math.round(document.getElementById("figure-budget").getBoundingClientRect().bottom + scrollY)
"""


def main() -> None:
    """Write every picture into docs/images."""
    binary = find_chromium()
    if binary is None:
        raise SystemExit("no Chromium on PATH")
    with tempfile.TemporaryDirectory() as folder, launch(binary) as chromium:
        with chromium.open(_page(Path(folder)), 1440) as visit:
            end = min(visit.ask(BUDGET_END) + 24, 1400)
            shot = Image.open(BytesIO(visit.page.screenshot(full_page=True))).convert("RGB")
        _save(shot.crop((0, 0, 1440, end)), "report")
        _explorer(chromium, Path(folder) / "run.duckdb")


def _explorer(chromium: Chromium, run: Path) -> None:
    """Photograph two steps in the explorer, with a collective that waits for the slow rank."""
    with (
        explore(run) as explorer,
        serving(explorer) as server,
        chromium.open(server.url, 1440, 900) as visit,
    ):
        explorer.levels.wait()
        page = visit.page
        page.wait_for_function("() => window.traceweave?.data.lanes")
        page.evaluate(
            """() => {
              const { view, run } = window.traceweave;
              for (const rank of [4, 5]) view.toggle("streams", rank);
              view.look(run.steps[2].start_ns, (run.steps[2].end_ns - run.steps[2].start_ns) * 1.2);
            }"""
        )
        page.fill("#search input", "AllReduce")
        page.keyboard.press("Enter")
        page.fill("#search input", "")
        page.get_by_role("button", name="rank 5", exact=True).click()
        page.wait_for_timeout(3_000)  # gaps of both ranks
        _save(Image.open(BytesIO(page.screenshot())).convert("RGB"), "explorer")


def _page(folder: Path) -> Path:
    config = Config(
        ranks=64,
        hosts=8,
        steps=6,
        layers=8,
        straggler={5: 2_500_000},
        clock_offset_ns=400_000,
        end_jitter_ns=4_000,
    )
    (folder / "traces").mkdir()
    write_kineto(simulate(config), folder / "traces")
    traceweave.ingest([folder / "traces"], folder / "run.duckdb")
    with traceweave.open(folder / "run.duckdb") as run:
        return run.report(folder / "run.html")


def _save(shot: Image.Image, name: str) -> None:
    shot.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
