"""Time the report: seconds and memory per section and statement, and how fast a browser shows it.

    python benchmarks/report.py run.duckdb [--browser] [--memory 2.5GB] [--least 0.01]

The page is built in this process, statement by statement as `traceweave report` does. A section
counts what it asks first: rows of an analysis that several sections show are computed once. CPU
seconds are of all threads, which other work on the machine moves least; memory is the largest
resident set while a statement ran (Linux only). Statements below `--least` of the CPU time are left
out. `--memory` is DuckDB's limit, beyond which it spills to disk; without it, DuckDB's own default.
`benchmarks/analyses.py make` makes databases of many ranks.

`--browser` opens the page three times in a headless Chromium, from disk, with an empty profile:
until the page takes clicks (its scripts have run), until its last chart is drawn, and the CPU
seconds of the browser's main thread for all of it, which a busy machine does not stretch as far.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import duckdb

from traceweave.report.render import build_report, render_report
from traceweave.store.database import connect

WATCH = """
(() => {
  const charts = document.querySelectorAll("[data-chart], [data-timeline]").length;
  const shown = "[data-chart] svg, [data-chart] canvas, [data-timeline] canvas";
  let drawn = 0;
  const look = () => {
    const now = performance.now();
    if (!drawn && document.querySelectorAll(shown).length >= charts) drawn = now;
    if (!drawn || now - drawn < 500) return setTimeout(look, 10);
    const [page] = performance.getEntriesByType("navigation");
    console.log(`MEASURED ${page.domContentLoadedEventEnd} ${drawn}`);
  };
  look();
})();
"""


@dataclass(frozen=True)
class Cost:
    """What one statement took."""

    section: str
    statement: str
    passed: float
    cpu: float
    peak_mb: float


@dataclass(frozen=True)
class Meter:
    """Stands for a connection or a relation, and notes what each call of it costs."""

    of: Any
    costs: list[Cost]
    statement: str = ""
    names: dict[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.of, name)
        return partial(self._call, attribute) if callable(attribute) else attribute

    def _name(self, text: str) -> str:
        query = next((name for sql, name in self.names.items() if text.strip().endswith(sql)), "")
        if found := re.search(r"\btw_rows_(\w+)_[0-9a-f]{16}\b", text):
            return query or f"analysis {found[1]}"
        return query or ("macros" if "MACRO" in text[:2000] else "other")

    def _call(self, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        text = next((one for one in given if isinstance(one, str)), "")
        statement = self.statement or self._name(text)
        reset_peak()
        passed, cpu = time.perf_counter(), cpu_seconds()
        try:
            result = method(*given, **named)
        finally:
            self.costs.append(
                Cost(
                    _section(),
                    statement,
                    time.perf_counter() - passed,
                    cpu_seconds() - cpu,
                    peak_mb(),
                )
            )
        if isinstance(result, duckdb.DuckDBPyRelation):
            return Meter(result, self.costs, statement)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database", type=Path)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--memory", help="DuckDB's memory limit, such as 2.5GB")
    parser.add_argument("--least", type=float, default=0.01)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "run.html"
        print_costs(options.database, page, options.memory, options.least)
        if options.browser:
            print_browser(page)


def print_costs(database: Path, page: Path, memory: str | None, least: float) -> None:
    """Write the report to `page`; print what it took, in all, per section and per statement."""
    costs: list[Cost] = []
    with connect(database, read_only=True) as con:
        if memory:
            con.execute("SET memory_limit = ?", [memory])
        counted = "SELECT (SELECT count(*) FROM ranks), (SELECT count(*) FROM gpu_ops)"
        ranks, ops = con.execute(counted).fetchall()[0]
        passed, cpu = time.perf_counter(), cpu_seconds()
        report = build_report(Meter(con, costs, names=named_queries()))  # type: ignore[arg-type]
        page.write_text(render_report(report), encoding="utf-8")
        passed, cpu = time.perf_counter() - passed, cpu_seconds() - cpu
    peak = max(cost.peak_mb for cost in costs)
    size = page.stat().st_size / 1e6
    print("| ranks | GPU ops | s | CPU s | peak MB | page MB |\n|---:|---:|---:|---:|---:|---:|")
    print(f"| {ranks} | {ops:,} | {passed:.1f} | {cpu:.1f} | {peak:.0f} | {size:.2f} |\n")
    print_table("section", costs, lambda cost: cost.section, least * cpu)
    print_table("statement", costs, lambda cost: cost.statement, least * cpu)


def print_table(title: str, costs: list[Cost], key: Callable[[Cost], str], least: float) -> None:
    """Print the costs summed by `key`, those of at least `least` CPU seconds, most first."""
    summed: dict[str, list[float]] = {}
    for cost in costs:
        total = summed.setdefault(key(cost), [0.0, 0.0, 0.0])
        total[:] = total[0] + cost.passed, total[1] + cost.cpu, max(total[2], cost.peak_mb)
    print(f"| {title} | s | CPU s | peak MB |\n|---|---:|---:|---:|")
    for name, (passed, cpu, peak) in sorted(summed.items(), key=lambda item: -item[1][1]):
        if cpu >= least:
            print(f"| {name} | {passed:.2f} | {cpu:.2f} | {peak:.0f} |")
    print(flush=True)


def named_queries() -> dict[str, str]:
    """Return the text of every query of the report, and its name."""
    folder = resources.files("traceweave.report").joinpath("queries")
    return {
        file.read_text(encoding="utf-8").strip(): file.name
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }


def _section() -> str:
    """Return the section of the page that is being loaded, by the modules on the stack."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        module = frame.f_globals["__name__"]
        if module.startswith("traceweave.report.sections."):
            return str(module.rsplit(".", 1)[1])
    return "none"


def cpu_seconds() -> float:
    """Return the CPU time of all threads of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def reset_peak() -> None:
    """Let the kernel forget how large this process has been."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mb() -> float:
    """Return the largest resident set since the last `reset_peak`, in MiB."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def print_browser(page: Path) -> None:
    """Print how long a browser takes to show `page`, three times."""
    print("| takes clicks, s | last chart, s | main thread, CPU s |\n|---:|---:|---:|")
    for _ in range(3):
        clicks, drawn, cpu = browse(page)
        print(f"| {clicks:.2f} | {drawn:.2f} | {cpu:.2f} |", flush=True)


def browse(page: Path) -> tuple[float, float, float]:
    """Open `page` in Chromium: seconds until its scripts have run and until its last chart, CPU."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    if binary is None:
        raise SystemExit("no Chromium on PATH: apt-get install chromium")
    digest = base64.b64encode(hashlib.sha256(WATCH.encode()).digest()).decode()
    text = page.read_text(encoding="utf-8")
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    head, end = text.rsplit("</body>", 1)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        watched = Path(folder) / "page.html"
        watched.write_text(f"{head}<script>{WATCH}</script></body>{end}", encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        flags += ["--disable-background-networking", "--enable-logging=stderr"]
        flags += ["--remote-debugging-port=0", f"--user-data-dir={folder}/profile"]
        with subprocess.Popen(
            [binary, *flags, watched.as_uri()], stderr=subprocess.PIPE, text=True
        ) as browser:
            assert browser.stderr is not None
            for line in browser.stderr:
                if found := re.search(r"MEASURED ([\d.]+) ([\d.]+)", line):
                    cpu = main_thread_seconds(browser.pid)
                    browser.terminate()
                    return float(found[1]) / 1000, float(found[2]) / 1000, cpu
    raise SystemExit("the browser ended without an answer")


def main_thread_seconds(browser: int) -> float:
    """Return the CPU seconds of the busiest page process under the process `browser`."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "task" / folder.name / "stat").read_text().rsplit(")", 1)[1].split()
            kind = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)] = int(stat[1])
        if b"--type=renderer" in kind:
            used[int(folder.name)] = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def is_under(process: int) -> bool:
        return process == browser or (process > 1 and is_under(parents.get(process, 0)))

    return max(seconds for process, seconds in used.items() if is_under(process))


if __name__ == "__main__":
    main()
