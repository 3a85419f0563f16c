"""Take the pictures of the report: `python docs/screenshots.py`.

Simulates a run of 64 ranks with a slow one, writes its report, and photographs parts of the page in
Chromium, 1440 and 390 pixels wide, light and dark. Needs Chromium on the PATH and Pillow.
"""

from __future__ import annotations

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image

import traceweave
from traceweave_simulator import Config, simulate, write_kineto

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from tests.chromium import find_chromium, launch  # noqa: E402

BOXES = """
() => Object.fromEntries([...document.querySelectorAll("section, figure")].map((one) => {
  const { top, height } = one.getBoundingClientRect();
  return [one.id, [Math.round(top + scrollY), Math.round(height)]];
}))
"""


class Picture(NamedTuple):
    """A part of the page: from the element `first` to the end of `last`, at most `most` pixels."""

    name: str
    width: int
    dark: bool
    first: str
    last: str
    most: int = 1400


PICTURES = (
    Picture("report", 1440, False, "verdict", "figure-budget"),
    Picture("report_dark", 1440, True, "verdict", "figure-budget"),
    Picture("report_timeline", 1440, False, "timeline", "timeline", 900),
    Picture("report_ranks", 1440, False, "figure-budget-spread", "figure-budget-heat", 1100),
    Picture("report_kernels", 1440, False, "kernels", "figure-kernel-ranks", 1500),
    Picture("report_bandwidth", 1440, True, "bandwidth", "figure-bandwidth"),
    Picture("report_narrow", 390, False, "verdict", "findings", 1500),
    Picture("report_narrow_dark", 390, True, "timeline", "timeline", 1100),
)


def main() -> None:
    """Write every picture into docs/images."""
    binary = find_chromium()
    if binary is None:
        raise SystemExit("no Chromium on PATH")
    with tempfile.TemporaryDirectory() as folder, launch(binary) as chromium:
        page = _page(Path(folder))
        for width, dark in sorted({(one.width, one.dark) for one in PICTURES}):
            with chromium.open(page, width, dark=dark) as visit:
                boxes = visit.ask(BOXES)
                shot = Image.open(BytesIO(visit.page.screenshot(full_page=True))).convert("RGB")
            for one in PICTURES:
                if (one.width, one.dark) == (width, dark):
                    _save(one, shot, boxes)


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


def _save(picture: Picture, shot: Image.Image, boxes: dict[str, tuple[int, int]]) -> None:
    top = 0 if picture.first == "verdict" else max(boxes[picture.first][0] - 24, 0)
    end = sum(boxes[picture.last]) + 24
    cut = shot.crop((0, top, picture.width, min(end, top + picture.most)))
    cut.save(IMAGES / f"{picture.name}.png", optimize=True)


if __name__ == "__main__":
    main()
