"""What GPU ops do, told by their names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import duckdb

from traceweave.vocabulary import Spelling, spell, with_names

_COPIES = {"memcpy": "copy", "memset": "memset"}
_COPY_ENGINE = "MEMORY_COPY"
"""ROCm lists copies that its engines do among the kernels, under names that begin so."""

_TABLES = {"communication": "path", "kernel_families": "whole", "kernel_words": "own"}
"""The tables of the vocabulary that tell of kernels, in the order in which they are asked, and the
part of a name that each is matched with.
"""

_COMPUTED = """
WITH launched AS (
    SELECT g.name, h.rank, h.tid, h.start_local_ns
    FROM new_gpu_ops AS g
    LEFT JOIN new_host_ops AS h ON h.op_id = g.launch_op_id
    WHERE g.name IN (SELECT unnest($1::VARCHAR[]))
),
ranges AS (
    SELECT rank, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns, name
    FROM new_host_ops WHERE kind IN ('op', 'annotation', 'nvtx')
)
SELECT l.name, min(r.name) AS operator
FROM launched AS l
ASOF LEFT JOIN ranges AS r
    ON r.rank = l.rank AND r.tid = l.tid AND l.start_local_ns >= r.start_local_ns
GROUP BY l.name
HAVING bool_and((starts_with(r.name, 'aten::') AND l.start_local_ns < r.end_local_ns) IS TRUE)
"""
"""Kernels whose names speak of communication, each launched by an operator of ATen, none of which
moves data between ranks: they are what the operator does."""

_LIBRARIES = ("nccl", "rccl", "msccl", "nvshmem")
"""Part of the names of all kernels of libraries that only communicate."""

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


def reclassify(con: duckdb.DuckDBPyConnection) -> None:
    """Mend `classified` where names speak of communication and operators compute."""
    named = "SELECT DISTINCT name FROM classified WHERE category = 'communication'"
    doubtful = [name for (name,) in con.execute(named).fetchall() if _may_compute(name)]
    if not doubtful:
        return
    found = con.execute(_COMPUTED, [doubtful]).fetchall()
    words = ("kernel_families", "kernel_words")
    by_operator = _ask(con, {name: spell(operator) for name, operator in found}, words)
    by_name = _ask(con, {name: spell(name) for name, _ in found}, words)
    for name, (category, class_) in by_operator.items():
        if class_ == "other":
            _, class_ = by_name[name]
        con.execute(
            "UPDATE classified SET category = $1, class = $2 WHERE name = $3",
            [category, class_, name],
        )


def _may_compute(name: str) -> bool:
    return not any(library in name.lower() for library in _LIBRARIES)


def _ask_once(con: duckdb.DuckDBPyConnection, names: set[str]) -> dict[str, tuple[str, str]]:
    # one look at each: other threads add to it, and clear it, meanwhile
    known = {name: told for name in names if (told := _told.get(name)) is not None}
    new = _ask(con, {name: spell(name) for name in names - known.keys()})
    if len(_told) + len(new) > _MOST:
        _told.clear()
    _told.update(new)
    return known | new


def _ask(
    con: duckdb.DuckDBPyConnection, names: dict[str, Spelling], tables: Iterable[str] = _TABLES
) -> dict[str, tuple[str, str]]:
    """Return category and class of kernels: each table is asked of those that none before knows."""
    told = dict.fromkeys(names, ("compute", "other"))
    left = set(names)
    for table in tables:
        if not left:
            break
        subjects = [getattr(names[name], _TABLES[table]) for name in left]
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
