"""Drives a headless Chromium from the command line: no driver, no protocol, no network."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=4000",
    "--window-size=1280,900",
)


@dataclass(frozen=True)
class Visit:
    """What a page became once its scripts had run."""

    dom: str
    console: list[str]
    requested: list[str]
    """Addresses other than the page itself that the browser was asked for."""


@dataclass(frozen=True)
class Chromium:
    """One browser binary and a profile folder of its own."""

    binary: str
    profile: Path

    def visit(self, page: Path, *flags: str) -> Visit:
        """Open `page` from disk and return what it became."""
        log = self.profile.with_suffix(".netlog.json")
        done = subprocess.run(
            [
                self.binary,
                *_FLAGS,
                *flags,
                f"--user-data-dir={self.profile}",
                f"--log-net-log={log}",
                "--dump-dom",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        console = re.findall(r"CONSOLE[^\]]*\] (.*)", done.stderr)
        return Visit(done.stdout, console, _requests(log))

    def ask(self, page: Path, *flags: str) -> Visit:
        """Open a page whose injected script leaves JSON in its title, until it has.

        Time in the page is virtual and does not wait for other processes of the browser, which
        decode images and read blobs: on a busy machine it may run out before they are done.
        """
        for _ in range(8):
            visit = self.visit(page, *flags)
            with suppress(json.JSONDecodeError):
                title(visit)
                break
        return visit

    def pdf(self, page: Path, target: Path) -> bytes:
        """Print `page` to `target` and return what was printed."""
        subprocess.run(
            [
                self.binary,
                *_FLAGS,
                f"--user-data-dir={self.profile}",
                "--no-pdf-header-footer",
                f"--print-to-pdf={target}",
                page.as_uri(),
            ],
            capture_output=True,
            timeout=300,
            check=True,
        )
        return target.read_bytes()


def inject(page: Path, script: str) -> None:
    """Let `page` run one more script, with leave of its Content-Security-Policy."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    text = page.read_text(encoding="utf-8")
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    head, end = text.rsplit("</body>", 1)
    page.write_text(f"{head}<script>{script}</script></body>{end}", encoding="utf-8")


def title(visit: Visit) -> object:
    """Return what the page's scripts left as JSON in its title."""
    found = re.search("<title>(.*?)</title>", visit.dom, re.DOTALL)
    return json.loads(html.unescape(found.group(1))) if found else None


def _requests(log: Path) -> list[str]:
    text = log.read_text(encoding="utf-8")
    try:
        events = json.loads(text)["events"]
    except json.JSONDecodeError:
        events = json.loads(text.rstrip().rstrip(",") + "]}")["events"]
    parameters = [event.get("params", {}) for event in events]
    # the browser's own errands (updates, time) have no origin; what a page asks for has the page's
    urls = {p["url"] for p in parameters if p.get("initiator", "not an origin") != "not an origin"}
    return sorted(url for url in urls if not url.startswith(("file:", "data:")))
