"""A headless Chromium driven by Playwright: what a page becomes, says and asks for."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Request, sync_playwright

_FLAGS = ("--no-sandbox", "--disable-gpu")
_LOCAL = ("file:", "data:", "blob:")


@dataclass
class Visit:
    """A page that is open."""

    page: Page
    """For a real mouse and real keys."""

    console: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    """Addresses other than local files that were asked for and no policy held back."""

    @property
    def dom(self) -> str:
        """The document as the scripts have made it."""
        return self.page.content()

    def note(self, request: Request) -> None:
        """Take down an address that is not a local file."""
        if not request.url.startswith(_LOCAL):
            self.requested.append(request.url)

    def forget_if_blocked(self, request: Request) -> None:
        """Strike what the page's own policy has kept from leaving."""
        if request.failure == "csp":
            self.requested.remove(request.url)

    def ask(self, script: str) -> Any:
        """Return what a function of JavaScript returns in the page."""
        return self.page.evaluate(script)


@dataclass(frozen=True)
class Chromium:
    """One browser, in which every page has a profile of its own."""

    browser: Browser

    @contextmanager
    def open(
        self, page: Path | str, width: int = 1280, height: int = 900, *, dark: bool = False
    ) -> Iterator[Visit]:
        """Open a page from disk or at an address until its scripts have drawn."""
        with self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        ) as context:
            visit = Visit(context.new_page())
            visit.page.on("console", lambda message: visit.console.append(message.text))
            visit.page.on("pageerror", lambda error: visit.console.append(str(error)))
            context.on("request", visit.note)
            context.on("requestfailed", visit.forget_if_blocked)
            visit.page.goto(page.as_uri() if isinstance(page, Path) else page)
            for frame in visit.page.frames:
                # asked by the clock: a frame that is out of sight gets no animation frames
                frame.wait_for_function(_DRAWN, polling=50)
            visit.ask(_TWO_FRAMES)
            yield visit


# charts are drawn one after the other, so that the page can be used meanwhile
_DRAWN = """
() => [...document.querySelectorAll("[data-chart], [data-timeline]")].every(
  (one) => one.querySelector("svg, canvas"))
"""
_TWO_FRAMES = "() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(d)))"


def find_chromium() -> str | None:
    """Return where the browser is, if it is on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def launch(binary: str) -> Iterator[Chromium]:
    """Run the browser `binary`."""
    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=binary, args=list(_FLAGS)) as browser,
    ):
        yield Chromium(browser)
