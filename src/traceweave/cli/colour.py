"""Colours where somebody looks: on a terminal, unless NO_COLOR (https://no-color.org) is set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO

import click

from traceweave.cli.layout import Paint, plain
from traceweave.words import MISSING

BAD, DOUBTFUL, GOOD = "red", "yellow", "green"

MEANINGS: Mapping[str, Mapping[str, str]] = {
    "severity": {"critical": BAD, "warning": DOUBTFUL, "info": "cyan"},
    "result": {"crossed": BAD, "not comparable": BAD, "no value": BAD, "ok": GOOD,
               "skipped": DOUBTFUL},
    "change": {"slower": BAD, "faster": GOOD},
    "status": {"failed": BAD, "partial": DOUBTFUL, "unaligned": DOUBTFUL},
}  # fmt: skip
"""What the values of a column are to the reader. The word always says it too."""


def painter(stream: IO[str]) -> Paint:
    """Return what colours the cells of a table on `stream`."""
    return _painted if is_coloured(stream) else plain


def is_coloured(stream: IO[str]) -> bool:
    """Tell whether who reads a stream wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(heading: str, text: str) -> str:
    if not heading:
        return click.style(text, bold=True)
    if text == MISSING:
        return click.style(text, dim=True)
    colour = MEANINGS.get(heading, {}).get(text)
    return click.style(text, fg=colour) if colour else text
