"""Rows in every format. Results go to stdout or a file, and nothing else does."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from traceweave import records, words
from traceweave.cli import cells, layout
from traceweave.cli.colour import painter
from traceweave.cli.options import KINDS
from traceweave.errors import InputError, UsageError
from traceweave.locations import shown, without_secrets
from traceweave.outputs import whole_file
from traceweave.streams import tell
from traceweave.targets import FileKind, marked
from traceweave.vocabulary import readable

if TYPE_CHECKING:
    import pyarrow as pa

    from traceweave.cli.options import Printing


def print_rows(reader: pa.RecordBatchReader, printing: Printing) -> bool:
    """Print the rows of `reader`.

    Returns whether there were any, as far as that is known: False only for a table without rows.
    """
    any_rows = True
    format_, output = printing.format_, printing.output
    if format_ == "parquet":
        _write_parquet(reader, output)
        return any_rows
    with destination(output, KINDS[format_]) as stream:
        if format_ == "csv":
            _write_csv(reader, stream)
        elif format_ == "json":
            _write_json(reader, stream)
        else:
            any_rows = _write_text(reader, stream, printing)
    return any_rows


def print_object(value: Mapping[str, object], output: Path | None) -> None:
    """Print what is more than rows as JSON to a file, or to stdout."""
    import orjson

    with destination(output, FileKind.JSON) as stream:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2, default=records.plain)
        stream.write(text.decode() + "\n")


def largest_first(reader: pa.RecordBatchReader, column: str) -> pa.RecordBatchReader:
    """Return the rows by falling value of a column, NULLs last, else in their order.

    Raises UsageError for a column that the rows do not have, or that has no order.
    """
    import pyarrow as pa

    try:
        return _read(reader).sort_by([(column, "descending")]).to_reader()
    except pa.ArrowException as error:
        raise UsageError(f"rows cannot be ordered by {column}: {error}") from error


def only_columns(reader: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    """Return these columns of the rows, in this order."""
    import pyarrow as pa

    schema = pa.schema([reader.schema.field(name) for name in names])
    batches = (batch.select(names) for batch in records.batches(reader))
    return pa.RecordBatchReader.from_batches(schema, batches)


def ready(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the rows of `reader` once the first of them are there."""
    import pyarrow as pa

    batches = records.batches(reader)
    first = list(islice(batches, 1))
    return pa.RecordBatchReader.from_batches(reader.schema, chain(first, batches))


def _read(reader: pa.RecordBatchReader) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(records.batches(reader), reader.schema)


def note(text: str) -> None:
    """Tell the user something that is not a result, on one line."""
    tell(cells.printable(" ".join(without_secrets(text).split())))


def page_width(stream: IO[str]) -> int:
    """Return the columns that text may fill: the terminal's, or 100 where there is none."""
    return shutil.get_terminal_size((layout.WIDTH, 24)).columns if stream.isatty() else layout.WIDTH


def text_width() -> int:
    """Return the characters to a line of text on stdout, where no more than 100 read well."""
    return min(page_width(sys.stdout), layout.WIDTH)


@contextmanager
def destination(output: Path | None, kind: FileKind) -> Iterator[IO[str]]:
    """Yield the file that text goes to, whole or not at all, of which a note tells, or stdout."""
    if output is None:
        yield sys.stdout
        return
    with whole_file(output, kind) as file:
        stream = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield stream
        stream.detach()
    note(f"wrote {shown(output)}")


def _write_parquet(reader: pa.RecordBatchReader, output: Path | None) -> None:
    if output is None and sys.stdout.isatty():
        raise UsageError("parquet is not for a terminal; name a file with -o FILE")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        into = (
            nullcontext(sys.stdout.buffer)
            if output is None
            else whole_file(output, FileKind.PARQUET)
        )
        with into as file, pq.ParquetWriter(file, marked(reader.schema)) as writer:
            for batch in records.batches(reader):
                writer.write_batch(batch)
    except BrokenPipeError:  # who reads stdout has seen enough
        raise
    except (OSError, pa.ArrowNotImplementedError) as error:
        raise InputError(f"{shown(output or 'stdout')}: cannot be written: {error}") from error
    if output is not None:
        note(f"wrote {shown(output)}")


def _write_csv(reader: pa.RecordBatchReader, stream: IO[str]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    # a terminal obeys control characters
    shown_as = _printable if stream.isatty() else records.plain
    writer.writerow(map(shown_as, reader.schema.names))
    for batch in records.batches(reader):
        for row in records.rows(batch):
            writer.writerow(["" if value is None else shown_as(value) for value in row])


def _printable(value: object) -> object:
    value = records.plain(value)
    return cells.printable(value) if isinstance(value, str) else value


def _write_json(reader: pa.RecordBatchReader, stream: IO[str]) -> None:
    separator = "[\n"
    for record in records.json_rows(reader):
        stream.write(separator + record.decode())
        separator = ",\n"
    stream.write("[]\n" if separator == "[\n" else "\n]\n")


def _write_text(reader: pa.RecordBatchReader, stream: IO[str], printing: Printing) -> bool:
    names = reader.schema.names
    most_rows = printing.limit
    rows: list[list[str]] = []
    hidden = 0
    for batch in records.batches(reader):
        room = most_rows - len(rows) if most_rows else batch.num_rows
        hidden += max(batch.num_rows - room, 0)
        rows += [
            [cells.cell(name, value) for name, value in zip(names, row, strict=True)]
            for row in records.rows(batch.slice(0, max(room, 0)))
        ]
    numeric = [_is_numeric(field.type) for field in reader.schema]
    recorded = rows
    if printing.to_read and not printing.full_names:
        rows = _with_readable_names(rows, numeric)
    headings = cells.headings([cells.printable(name) for name in names])
    if printing.format_ == "markdown":
        stream.writelines(f"{line}\n" for line in layout.markdown(headings, rows, numeric))
        return bool(rows)
    width = sys.maxsize if printing.full_names or not printing.to_read else page_width(stream)
    lines, empty, crowded = layout.lay_out(
        headings, rows, numeric, width, printing.only_filled, painter(stream)
    )
    stream.writelines(f"{line}\n" for line in lines)
    if not rows and not hidden:
        note("no rows")
    if empty:
        note(f"columns without a value: {', '.join(empty)}")
    if crowded:
        more = "" if printing.only_filled else "; --format csv has all columns"
        note(f"columns for which there is no room: {', '.join(crowded)}{more}")
    if rows != recorded:
        note("names are shortened; --full-names has them as they were recorded")
    if hidden:
        note(f"{words.plural(hidden, 'more row')}; --rows 0 shows all")
    return bool(rows) or hidden > 0


def _with_readable_names(rows: list[list[str]], numeric: list[bool]) -> list[list[str]]:
    columns = [
        column if number else map(readable(column).__getitem__, column)
        for column, number in zip(zip(*rows, strict=True), numeric, strict=bool(rows))
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _is_numeric(type_: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    )


def as_table(rows: Sequence[Mapping[str, object]]) -> pa.RecordBatchReader:
    """Return rows as a reader, so that they print like any result."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows).to_reader()
