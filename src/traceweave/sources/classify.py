"""What GPU ops do, told by their names."""

from __future__ import annotations

from functools import cache

import duckdb

from traceweave.vocabulary import spell, with_names

_COPIES = {"memcpy": "copy", "memset": "memset"}
_COPY_ENGINE = "MEMORY_COPY"
"""ROCm lists copies that its engines do among the kernels, under names that begin so."""

_TABLES = {"communication": "path", "kernel_families": "whole", "kernel_words": "own"}
"""The tables of the vocabulary that tell of kernels, in the order in which they are asked, and the
part of a name that each is matched with.
"""

_told: dict[str, tuple[str, str]] = {}
"""Category and class of kernels' names. Ranks of one run have most of them in common, and a
question costs some 10 ms however few names it is about.
"""

_MOST = 1 << 16


def classify(con: duckdb.DuckDBPyConnection) -> None:
    """Create the temporary table `classified` (kind, name, category, class): what the name of each
    staged GPU op says of its work.
    """
    rows = []
    kernels = []
    for kind, name in con.sql("SELECT DISTINCT kind, name FROM new_gpu_ops").fetchall():
        if kind in _COPIES or name.startswith(_COPY_ENGINE):
            rows.append((kind, name, "memory", _COPIES.get(kind, "copy")))
        else:
            kernels.append((kind, name))
    told = _ask_once(con, {name for _, name in kernels})
    rows += [(kind, name, *told[name]) for kind, name in kernels]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE classified AS SELECT unnest($1::VARCHAR[]) AS kind,"
        " unnest($2::VARCHAR[]) AS name, unnest($3::VARCHAR[]) AS category,"
        " unnest($4::VARCHAR[]) AS class",
        [list(column) for column in zip(*rows, strict=True)] or [[]] * 4,
    )


def _ask_once(con: duckdb.DuckDBPyConnection, names: set[str]) -> dict[str, tuple[str, str]]:
    # one look at each: other threads add to it, and clear it, meanwhile
    known = {name: told for name in names if (told := _told.get(name)) is not None}
    new = _ask(con, names - known.keys())
    if len(_told) + len(new) > _MOST:
        _told.clear()
    _told.update(new)
    return known | new


def _ask(con: duckdb.DuckDBPyConnection, names: set[str]) -> dict[str, tuple[str, str]]:
    """Return category and class of kernels: each table is asked of those that none before knows."""
    spelled = {name: spell(name) for name in names}
    told = dict.fromkeys(names, ("compute", "other"))
    left = set(names)
    for table, part in _TABLES.items():
        if not left:
            break
        subjects = [getattr(spelled[name], part) for name in left]
        for name, class_ in con.execute(_question(table), [list(left), subjects]).fetchall():
            if class_ != "no":
                category = "communication" if table == "communication" else "compute"
                told[name] = (category, class_)
                left.remove(name)
    return told


@cache
def _question(table: str) -> str:
    """Return what asks a table of the vocabulary which names it knows, and their classes."""
    class_ = with_names(f"{{{{ names('{table}', 'subject') }}}}")
    return (
        "WITH asked AS (SELECT unnest($1::VARCHAR[]) AS name, unnest($2::VARCHAR[]) AS subject)"
        f" SELECT name, {class_} AS class FROM asked WHERE class IS NOT NULL"
    )
