"""What a command reads, from its arguments: no command writes over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any

import click

from traceweave.errors import TraceweaveError
from traceweave.locations import is_sql_file
from traceweave.targets import reading

_RUNS = ("database", "base", "new", "baselines")
"""Parameters that name runs."""
_FILES = ("paths", "rules", "name")
"""Parameters that name other files, or something else."""


def knowing_inputs(command: click.Command) -> click.Command:
    """Have a command refuse to write over what its arguments say that it reads."""
    run = command.callback
    assert run is not None

    @wraps(run)
    def guarded(*arguments: Any, **parameters: Any) -> Any:
        with reading(cache(lambda: tuple(inputs(parameters)))):
            return run(*arguments, **parameters)

    command.callback = guarded
    return command


def inputs(parameters: Mapping[str, Any]) -> Iterator[str | Path]:
    """Yield the files and folders that a command with these parameters reads."""
    for name in _RUNS:
        for run in _each(parameters.get(name)):
            yield from _files_of(run)
    for name in _FILES:
        for file in _each(parameters.get(name)):
            # a folder of traces may have the database beside them; what is a trace is no database
            if (name != "name" or is_sql_file(file)) and not Path(file).is_dir():
                yield file


def _files_of(run: str | Path) -> Iterator[str | Path]:
    """Yield what a run is in, and the files that it was read from as far as it can be asked."""
    yield run
    from traceweave import api
    from traceweave.run import files_of

    with suppress(TraceweaveError, OSError), api.open(run) as opened:
        yield from files_of(opened)


def _each(value: Any) -> Iterable[str | Path]:
    return () if value is None else value if isinstance(value, tuple) else (value,)
