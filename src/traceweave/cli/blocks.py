"""Findings on the terminal, and in Markdown: one block each, in place of a wide table."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from traceweave import records, words
from traceweave.analyses.blocks import Block, block
from traceweave.cli.cells import printable
from traceweave.cli.colour import painter
from traceweave.cli.layout import Paint, escaped, plain
from traceweave.cli.options import KINDS
from traceweave.cli.output import destination, note, page_width
from traceweave.locations import shown

if TYPE_CHECKING:
    import pyarrow as pa

    from traceweave.cli.options import Printing

FORMATS = ("table", "markdown")
"""What is written for readers; the others have columns."""


def print_blocks(
    reader: pa.RecordBatchReader, database: Path, printing: Printing
) -> list[dict[str, Any]]:
    """Print the rows of `findings`, all their columns given, and return them."""
    rows = [dict(row) for batch in records.batches(reader) for row in batch.to_pylist()]
    chosen = rows[: printing.limit]
    with destination(printing.output, KINDS[printing.format_]) as stream:
        for line in _document(chosen, named(database), printing.format_, stream):
            stream.write(f"{line}\n")
        if not rows:
            note("no rows")
        if len(chosen) < len(rows):
            note(f"{words.plural(len(rows) - len(chosen), 'more row')}; --rows 0 shows all")
    return rows


def named(database: Path) -> str:
    """Return how a shell names a run."""
    return shlex.quote(str(shown(database)))


def block_lines(
    row: Mapping[str, Any], database: str, width: int, paint: Paint = plain
) -> list[str]:
    """Return the lines of a finding, no wider than `width`; the command is never broken."""
    said = _printable(block(row, database))
    first, *rest = textwrap.wrap(f"{said.severity}  {said.headline}", width, subsequent_indent="  ")
    lines = [paint("severity", said.severity) + first.removeprefix(said.severity), *rest]
    for text in (said.evidence, said.advice and f"Try: {said.advice}"):
        lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="  ")
    return [*lines, f"  Next: {said.command}"]


def _document(
    rows: list[dict[str, Any]], database: str, format_: str, stream: IO[str]
) -> Iterator[str]:
    for number, row in enumerate(rows):
        if format_ == "markdown":
            yield from _item(_printable(block(row, database)))
        else:
            yield from [""] if number else []
            yield from block_lines(row, database, page_width(stream), painter(stream))


def _item(said: Block) -> Iterator[str]:
    """Yield the lines of an item of a Markdown list; its parts are paragraphs."""
    yield f"- **{said.severity}** {escaped(said.headline)}"
    for text in (said.evidence, said.advice and f"Try: {said.advice}"):
        yield from ["", f"  {escaped(text)}"] if text else []
    yield from ["", f"  Next: `{said.command}`", ""]


def _printable(said: Block) -> Block:
    return Block(*(printable(" ".join(text.split())) for text in said))
