"""Take the pictures of the report: `python docs/screenshots.py`.

Simulates a run of 64 ranks with a slow one, writes its report, and photographs parts of the page in
Chromium, 1440 and 390 pixels wide, light and dark. Needs Chromium on the PATH and Pillow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image

import traceweave
from traceweave_simulator import Config, simulate, write_kineto

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))

from tests.chromium import Chromium, inject, title  # noqa: E402

HEIGHT = {1440: 15_000, 390: 26_000}
BOXES = """
setTimeout(() => {
  const boxes = {};
  for (const one of document.querySelectorAll("section, figure")) {
    const { top, height } = one.getBoundingClientRect();
    boxes[one.id] = [Math.round(top + scrollY), Math.round(height)];
  }
  parent.document.title = JSON.stringify(boxes);
}, 2000);
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
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    if binary is None:
        raise SystemExit("no Chromium on PATH")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = _page(folder)
        for width, dark in sorted({(one.width, one.dark) for one in PICTURES}):
            shot, boxes = _photograph(Chromium(binary, folder / "profile"), page, width, dark=dark)
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


def _photograph(
    chromium: Chromium, page: Path, width: int, *, dark: bool
) -> tuple[Image.Image, dict[str, tuple[int, int]]]:
    """Return the whole page as a picture, and where its parts begin and how tall they are."""
    # a window cannot be as narrow as a telephone, a frame can; the page in it is the same
    inner = page.with_name("inner.html")
    shutil.copy(page, inner)
    inject(inner, BOXES)
    frame = page.with_name("frame.html")
    frame.write_text(
        "<!DOCTYPE html><title>0</title><style>body{margin:0}iframe{border:0}</style>"
        f"<iframe src='inner.html' width={width} height={HEIGHT[width]}></iframe>",
        encoding="utf-8",
    )
    flags = ["--allow-file-access-from-files", "--hide-scrollbars"]
    flags += [f"--window-size={max(width, 600)},{HEIGHT[width]}"]
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    boxes = title(chromium.visit(frame, *flags))
    target = page.with_suffix(".png")
    command = [chromium.binary, "--headless", "--no-sandbox", "--disable-gpu", *flags]
    command += ["--virtual-time-budget=4000", f"--user-data-dir={chromium.profile}"]
    subprocess.run(
        [*command, f"--screenshot={target}", frame.as_uri()], capture_output=True, check=True
    )
    return Image.open(target).convert("RGB"), boxes  # type: ignore[return-value]


def _save(picture: Picture, shot: Image.Image, boxes: dict[str, tuple[int, int]]) -> None:
    top = 0 if picture.first == "verdict" else max(boxes[picture.first][0] - 24, 0)
    end = sum(boxes[picture.last]) + 24
    cut = shot.crop((0, top, picture.width, min(end, top + picture.most)))
    cut.save(IMAGES / f"{picture.name}.png", optimize=True)


if __name__ == "__main__":
    main()
