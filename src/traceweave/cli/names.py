"""What the user may have meant: answered from names alone, before anything heavy is loaded."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.errors import UsageError, nearest, shortened, suggest
from traceweave.locations import is_elsewhere, is_sql_file, own_statements
from traceweave.places import is_duckdb

if TYPE_CHECKING:
    from traceweave.analyses import Analysis

_LIST = "; 'traceweave analyze --list' has all"


def analysis_names() -> tuple[str, ...]:
    """Return the names of all analyses, which are those of their files."""
    own = (stem for stem, text in own_statements().items() if text.startswith("-- analysis: "))
    return tuple(sorted({*_our_names(), *own}))


@cache
def _our_names() -> tuple[str, ...]:
    # not through traceweave.analyses: importing that loads DuckDB
    files = resources.files("traceweave").joinpath("analyses").iterdir()
    stems = (file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql"))
    return tuple(stems)


def beginning_names(_: object, __: object, beginning: str) -> list[str]:
    """Return the analyses whose name a shell may complete `beginning` to."""
    return [name for name in analysis_names() if name.startswith(beginning)]


def is_file(path: str | Path) -> bool:
    """Tell whether there is such a file; what is too long for a path is none."""
    return os.path.isfile(path)


def is_run(path: str | Path) -> bool:
    """Tell whether there is a database file or a run folder; what is elsewhere may be one."""
    return is_file(path) or is_file(os.path.join(path, "manifest.json")) or is_elsewhere(path)


def unknown_command(arguments: Sequence[str], commands: Iterable[str]) -> UsageError:
    """Return the error for arguments that begin with no command: the line to type, or a guess."""
    name, *rest = arguments
    listed = list(commands)
    if os.path.exists(name):
        what = ["analyze", "health", name] if is_database(name) else _ingest(name)
        line = shlex.join(["traceweave", *what])
        return UsageError(f"{name!r} is not a command; type what to do with it, such as: {line}")
    if near := nearest(name, listed):
        return UsageError(f"no such command: {name!r}; did you mean {near!r}?")
    if _is_table(name):
        line = shlex.join(["traceweave", "query", *(rest or ["DATABASE"])[:1], f"FROM {name}"])
        return UsageError(f"{name!r} is a table, not a command; type: {line}")
    if near := nearest(name, analysis_names(), cutoff=0.75):
        return UsageError(f"no such command: {name!r}; did you mean 'analyze {near}'?")
    return UsageError(f"no such command: {shortened(name)!r}; available: {', '.join(listed)}")


def analysis_and_database(name: str | None, database: Path | None) -> tuple[str, Path]:
    """Return both as given; raise UsageError if one is missing, unknown, or they are swapped."""
    if name is None or database is None:
        raise UsageError(_what_is_missing(name))
    if name in analysis_names() or is_sql_file(name):
        return name, database
    first = "the analysis comes first, then the database"
    if str(database) in analysis_names() or is_sql_file(database):
        line = shlex.join(["traceweave", "analyze", str(database), name])
        raise UsageError(f"{first}; type: {line}")
    if is_database(name) and not is_run(database):
        raise UsageError(f"{first}; {_unknown_analysis(str(database))}")
    if _is_table(name):
        line = shlex.join(["traceweave", "query", str(database), f"FROM {name}"])
        raise UsageError(f"{name!r} is a table, not an analysis; type: {line}")
    raise UsageError(_unknown_analysis(name))


def known_analysis(name: str) -> Analysis:
    """Return the analysis called `name`, or in the file `name`; raise UsageError if none is."""
    if is_sql_file(name):
        from traceweave.analyses import read_own

        return read_own(name)
    if name not in analysis_names():
        raise UsageError(_unknown_analysis(name))
    from traceweave.analyses import find

    return find(name)


def _what_is_missing(name: str | None) -> str:
    if name is None:
        return "give NAME and DATABASE, such as 'traceweave analyze health run.duckdb', or --list"
    if name in analysis_names() or is_sql_file(name):
        return f"which database? type: traceweave analyze {name} DATABASE"
    if is_database(name):
        line = shlex.join(["traceweave", "analyze", "health", name])
        return f"which analysis of it? type, for instance: {line}"
    return f"{_unknown_analysis(name)}; after it comes the database"


def _unknown_analysis(name: str) -> str:
    if name in own_statements():
        from traceweave.analyses import find

        find(name)  # says what is wrong with a file of that name
    return f"no such analysis: {name!r}{suggest(name, analysis_names()) or _LIST}"


def _ingest(name: str) -> list[str]:
    return ["ingest", name, "-o", "run.duckdb"]


def _is_table(name: str) -> bool:
    from traceweave.store.schema import public_relations

    return name in {relation.name for relation in public_relations()}


def is_database(name: str) -> bool:
    """Tell whether there is a run of that name on this machine, by what it holds."""
    if os.path.isdir(name):
        return is_run(name)
    try:
        return is_duckdb(name)
    except (OSError, ValueError):
        return False
