"""Time the explorer's views: what a page of `traceweave serve` waits for, view by view.

    python -m benchmarks.explorer run.duckdb [--browser]

Every view is asked for over HTTP as the page does, all ranks in view at 1,200 pixels, five times
at different places; the table has the median and the longest. Wall time is what a user waits for
where the machine is free; CPU seconds, of this process with all its threads (server and client),
are what other work on the machine moves least. `opened` is from nothing to the server's address,
`levels` until the levels of detail are made, which views of the whole run are answered from.

`--browser` opens the page in a headless Chromium, at once and when all levels are made: until the
first lanes are drawn, until those of all ranks are, then zooms in by the wheel, until each zoom is
drawn.
"""

from __future__ import annotations

import argparse
import http.client
import random
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.chromium import find_chromium
from tests.explorer.serving import serving

from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.server import Server

PIXELS = 1_200
TIMES = 5
MARGIN = 0.3
PART = (1, 4, 10, 40, 100, 400, 2_000, 20_000)


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Watch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), cpu()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, cpu() - self._cpu


def get(server: Server, path: str) -> tuple[float, float, int]:
    """Return wall and CPU seconds and bytes of an answer."""
    place = urlsplit(server.url)
    watch = Watch()
    con = http.client.HTTPConnection(place.netloc, timeout=120)
    con.request("GET", f"{place.path}ask/{path}")
    answer = con.getresponse()
    size = len(answer.read())
    con.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status}")
    return *watch.read(), size


def tell(what: str, asked: list[tuple[float, float, int]]) -> None:
    wall, used, size = zip(*asked, strict=True)
    print(
        f"{what:38} {1e3 * statistics.median(wall):8.0f} {1e3 * max(wall):8.0f}"
        f" {1e3 * statistics.median(used):8.0f} {1e3 * max(used):8.0f}"
        f" {statistics.median(size) / 1e3:9,.0f}"
    )


def stretches(explorer: Explorer, part: int) -> Iterator[tuple[int, int, int]]:
    """Yield from, until and blocks of views of a part of the run, as the page asks for them."""
    random.seed(part)
    span = explorer.run.span_ns
    length = span / part
    for _ in range(TIMES):
        first = random.random() * (span - length)
        low = max(int(first - MARGIN * length), 0)
        high = min(int(first + (1 + MARGIN) * length), span)
        yield low, high, int((high - low) / length * PIXELS / 1.5)


def views(explorer: Explorer, server: Server) -> None:
    ranks = f"{explorer.run.ranks[0]}-{explorer.run.ranks[-1]}"
    print(f"\n{'':38} {'wall ms':>17} {'CPU ms':>17}")
    print(f"{'view':38} {'median':>8} {'longest':>8} {'median':>8} {'longest':>8} {'kB':>9}")
    tell("run", [get(server, "run") for _ in range(TIMES)])
    tell("overview", [get(server, "whole?blocks=1000") for _ in range(TIMES)])
    for part in PART:
        tell(
            f"1/{part:,} of the run" if part > 1 else "the whole run",
            [
                get(server, f"lanes?from={a}&until={b}&blocks={n}&ranks={ranks}")
                for a, b, n in stretches(explorer, part)
            ],
        )
    rank = explorer.run.ranks[-1]
    tell("threads of a rank, first time", [get(server, f"threads?rank={rank}")])
    for part in (1, 40, 2_000):
        tell(
            f"its threads, 1/{part:,} of the run",
            [
                get(server, f"host?from={a}&until={b}&blocks={n}&rank={rank}")
                for a, b, n in stretches(explorer, part)
            ],
        )
    tell("its gaps, first time", [get(server, f"find-gaps?rank={rank}")])
    a, b, n = next(stretches(explorer, 40))
    tell("its gaps, then", [get(server, f"gaps?from={a}&until={b}&blocks={n}&ranks={rank}")])
    tell("totals of 1/40 of the run", [get(server, f"totals?from={a}&until={b}&ranks={ranks}")])
    whole = f"totals?from=0&until={explorer.run.span_ns}&ranks={ranks}"
    tell("totals of the whole run", [get(server, whole)])
    tell("search", [get(server, "search?text=nccl")])
    hit = f"hit?text=nccl&at={explorer.run.span_ns // 2}&id=0"
    tell("next hit", [get(server, hit) for _ in range(TIMES)])


DRAWN = """() => {
  const { data, view, frameAsked } = window.traceweave ?? {};
  const lanes = data?.lanes;
  if (!lanes || frameAsked || lanes.pending.length) return false;
  const [from, until] = [Math.max(view.from, 0), Math.min(view.until, view.span)];
  const seen = lanes.from_ns <= from && lanes.until_ns >= until;
  return data.coming.size === 0 || (lanes.blurred && seen && lanes.look === data.look);
}"""
"""All that is in view is drawn, or the lanes are, in blocks that are longer than they will be."""


def browse(path: Path) -> None:
    """Open the page in a browser as a user does, from the start of the server."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(args=["--no-sandbox"], executable_path=find_chromium())
        for ready in (False, True):
            watch = Watch()
            with explore(path) as explorer, serving(explorer) as server:
                since = "after the start"
                if ready:
                    explorer.levels.wait()
                    watch, since = Watch(), "after it was opened, levels made"
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(server.url)
                page.wait_for_function("() => window.traceweave?.data.lanes")
                first = watch.read()[0]
                ranks = page.evaluate("() => window.traceweave.data.lanes.ranks.size")
                print(f"lanes of {ranks} ranks drawn {first:.2f} s {since}", end="")
                page.wait_for_function(DRAWN)
                print(f", all of them {watch.read()[0]:.2f} s")
                page.mouse.move(700, 400)
                told = []
                for _ in range(10):
                    before = page.evaluate("() => window.traceweave.view.length")
                    zoom = Watch()
                    page.mouse.wheel(0, -300)
                    page.wait_for_function(f"() => window.traceweave.view.length < {before}")
                    page.wait_for_function(DRAWN)
                    told.append(f"{1e3 * zoom.read()[0]:.0f}")
                print("zooms by the wheel, ms:", *told)
                page.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("--browser", action="store_true")
    arguments = parser.parse_args()
    watch = Watch()
    with explore(arguments.database) as explorer, serving(explorer) as server:
        print("opened: {:.2f} s, CPU {:.2f} s".format(*watch.read()))
        get(server, "run")
        print("page's first answer: {:.2f} s, CPU {:.2f} s".format(*watch.read()))
        explorer.levels.wait()
        print("levels and names: {:.2f} s, CPU {:.2f} s".format(*watch.read()))
        ops = sum(lane.ops for lane in explorer.run.lanes)
        print(f"{len(explorer.run.ranks)} ranks, {ops:,} operations")
        views(explorer, server)
    if arguments.browser:
        browse(arguments.database)


if __name__ == "__main__":
    main()
