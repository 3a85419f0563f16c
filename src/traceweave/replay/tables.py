"""The answers of replay as temporary tables, for analyses to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.arrays import Ints
from traceweave.errors import QueryError
from traceweave.replay.fixes import Fix, fixes, refused
from traceweave.replay.graph import NothingToReplayError, build
from traceweave.replay.model import Model, what_of
from traceweave.replay.nodes import KINDS, Kind
from traceweave.replay.path import spent
from traceweave.replay.quality import quality
from traceweave.replay.slowdown import Row, slowdowns
from traceweave.store.rows import Columns, column, registered

_TABLES = {
    "tw_critical_path": (
        "step BIGINT, rank INTEGER, kind VARCHAR, what VARCHAR, group_id INTEGER, path_ns BIGINT,"
        " rank_ns BIGINT, mean_ns DOUBLE, pieces BIGINT"
    ),
    "tw_path_changes": (
        "step BIGINT, at_ns BIGINT, from_rank INTEGER, to_rank INTEGER, op VARCHAR,"
        " group_id INTEGER, collective_id BIGINT"
    ),
    "tw_replay_quality": (
        "rank INTEGER, nodes BIGINT, window_ns BIGINT, unexplained_ns BIGINT, launched BIGINT,"
        " ops BIGINT, stream_waits BIGINT, inferred_waits BIGINT, wait_calls BIGINT,"
        " host_waits BIGINT, unfollowed BIGINT, collectives BIGINT, incomplete BIGINT,"
        " dropped BIGINT,"
        " dropped_kinds VARCHAR, path_unexplained DOUBLE"
    ),
}


def create_replay_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_critical_path, tw_path_changes and tw_replay_quality.

    They are empty for a run without a timeline. Raises QueryError where replay is refused.
    """
    for name, columns in _TABLES.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
    try:
        model = Model(con)
    except NothingToReplayError:
        return
    _fill(con, "tw_critical_path", _path_rows(con, model))
    _fill(con, "tw_path_changes", _change_rows(model))
    found = quality(model.graph, model.unexplained)
    _fill(con, "tw_replay_quality", {name: column(values) for name, values in found.items()})


_SLOWDOWN = (
    "scope VARCHAR, what VARCHAR, rank INTEGER, step BIGINT, slowdown DOUBLE, share DOUBLE,"
    " step_ns DOUBLE, ideal_ns DOUBLE"
)


def create_slowdown_table(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_slowdown: the rows of slowdown.slowdowns, numbered by `place`.

    It is empty for a run without a timeline. Raises QueryError where replay is refused.
    """
    con.execute(f"CREATE OR REPLACE TEMP TABLE tw_slowdown ({_SLOWDOWN}, place BIGINT)")
    try:
        rows = list(slowdowns(build(con)))
    except NothingToReplayError:
        return
    _fill(con, "tw_slowdown", {**_columns(Row, rows), "place": np.arange(len(rows))})


def path_pieces(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    counted: Callable[[], pa.Table],
) -> Columns:
    """Return the stretches of the critical path; none where the run is not replayed.

    `counted` says how many operations it has; more than the parameter `replay_ops` are too many.
    """
    if _operations(counted()) <= _most(values):
        try:
            return _side_by_side(_pieces(Model(con)))
        except QueryError:
            pass
    return {name: np.empty(0, np.int64) for name in _PIECES}


def _side_by_side(pieces: Columns) -> Columns:
    """Return pieces that follow each other in time.

    Clocks that are a little off let the path go back where it changes rank: what lies before the
    end of an earlier piece is cut off.
    """
    start, end = pieces["start_ns"], pieces["end_ns"]
    if not len(start):
        return pieces
    reached = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(start[0], reached[:-1]))
    return {name: values[start < end] for name, values in {**pieces, "start_ns": start}.items()}


def replayed_fixes(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    scenarios: Callable[[], pa.Table],
) -> Columns:
    """Return the rows of fixes.fixes for a column `scenario`, in which NULL is none, and `is_fix`.

    Beside it is how many operations the run has; more than the parameter `replay_ops` are too many.
    """
    selected, most = scenarios(), _most(values)
    operations = _operations(selected)
    if operations > most:
        rows = refused(operations, most)
    else:
        asked = [row for row in selected.to_pylist() if row["scenario"] is not None]
        wanted, limits = (
            [row["scenario"] for row in asked if row["is_fix"] == is_fix]
            for is_fix in (True, False)
        )
        rows = fixes(con, wanted, limits)
    return _columns(Fix, rows)


def _columns(kind: type[Fix | Row], rows: Sequence[Fix | Row]) -> Columns:
    names = [field.name for field in fields(kind)]
    return {name: column([getattr(row, name) for row in rows]) for name in names}


def _operations(selected: pa.Table) -> int:
    return int(selected.column("operations")[0].as_py())


def _most(values: Mapping[str, object]) -> int:
    return int(str(values["replay_ops"]))


_PIECES = ("step", "rank", "kind", "what", "start_ns", "end_ns")


def _fill(con: duckdb.DuckDBPyConnection, name: str, columns: Columns) -> None:
    with registered(con, columns) as rows:
        con.execute(f"INSERT INTO {name} BY NAME FROM {rows}")


def _known(numbers: Ints) -> Ints:
    return np.ma.masked_less(numbers, 0)


def _texts(of: Sequence[str], numbers: Ints) -> npt.NDArray[np.object_]:
    """Return the text that each number stands for, None for -1."""
    return np.array([*of, None], dtype=object)[numbers]


def _path_rows(con: duckdb.DuckDBPyConnection, model: Model) -> Columns:
    """The path by step, rank, kind, work and group, and how long ranks do the same in all."""
    graph, path = model.graph, model.path
    nodes = graph.nodes
    what, texts = what_of(graph, path.node, path.kind)
    group = _groups(model, path.node, path.kind)
    keys = np.stack([path.step, nodes.rank[path.node], path.kind, what, group])
    rows, number = np.unique(keys, axis=1, return_inverse=True)
    length = np.bincount(number, path.length, minlength=rows.shape[1]).astype(np.int64)
    step, rank, kind, what, group = rows
    return {
        "step": _known(step),
        "rank": rank,
        "kind": _texts(KINDS, kind),
        "what": _texts(texts, what),
        "group_id": _known(group),
        "path_ns": length,
        **_totals(con, model, rows),
        "pieces": np.bincount(number, minlength=rows.shape[1]),
    }


def _totals(con: duckdb.DuckDBPyConnection, model: Model, rows: Ints) -> Columns:
    """Return how long each row's rank did the same in its step, and the mean over all ranks; none
    of delays of the device, which are nobody's work."""
    graph, nodes = model.graph, model.graph.nodes
    con.execute(f"CREATE OR REPLACE TEMP TABLE tw_spent ({', '.join(_KEYS)}, ns BIGINT)")
    for block in nodes.blocks():
        for mine, kind, length in spent(graph, np.arange(block.start, block.stop)):
            what, _ = what_of(graph, mine, kind)
            keys = (nodes.step[mine], nodes.rank[mine], kind, what, _groups(model, mine, kind))
            with registered(con, {**_named(*keys), "ns": length}) as read:
                con.execute(f"INSERT INTO tw_spent FROM {read}")
    with registered(con, {**_named(*rows), "place": np.arange(rows.shape[1])}) as read:
        found = con.execute(_TOTALS.format(rows=read), [len(graph.ranks)]).fetchnumpy()
    con.execute("DROP TABLE tw_spent")
    return {name: np.ma.masked_array(of, rows[2] == Kind.DELAYED) for name, of in found.items()}


_KEYS = ("step BIGINT", "rank BIGINT", "kind BIGINT", "what BIGINT", "group_id BIGINT")


def _named(*keys: Ints) -> dict[str, Ints]:
    return {name.split()[0]: of for name, of in zip(_KEYS, keys, strict=True)}


_TOTALS = """
SELECT
    coalesce(sum(s.ns) FILTER (WHERE s.rank = r.rank AND s.group_id = r.group_id), 0)::BIGINT
        AS rank_ns,
    coalesce(sum(s.ns), 0) / $1 AS mean_ns
FROM {rows} AS r LEFT JOIN (
    SELECT step, rank, kind, what, group_id, sum(ns) AS ns FROM tw_spent GROUP BY ALL
) AS s ON s.step = r.step AND s.kind = r.kind AND s.what = r.what
GROUP BY r.place ORDER BY r.place
"""


def _groups(model: Model, node: Ints, kind: Ints) -> Ints:
    instance = model.graph.nodes.instance[node]
    group = np.append(model.graph.instances["group_id"], -1)
    return np.where((kind == Kind.TRANSFERRING) & (instance >= 0), group[instance], -1)


def _change_rows(model: Model) -> Columns:
    graph, path = model.graph, model.path
    nodes, of = graph.nodes, graph.instances
    instance = nodes.instance[path.changes]
    place = np.searchsorted(path.begin, nodes.start[path.changes])
    step = path.step[np.minimum(place, max(len(path.step) - 1, 0))]
    return {
        "step": _known(step),
        "at_ns": nodes.start[path.changes] + graph.origin,
        "from_rank": nodes.rank[path.left],
        "to_rank": nodes.rank[path.changes],
        "op": _texts(of["op"].tolist(), instance),
        "group_id": _known(np.append(of["group_id"], -1)[instance]),
        "collective_id": _known(np.append(of["collective_id"], -1)[instance]),
    }


def _pieces(model: Model) -> Columns:
    graph, path = model.graph, model.path
    what, texts = what_of(graph, path.node, path.kind)
    begin = path.begin + graph.origin
    found = (
        _known(path.step),
        graph.nodes.rank[path.node],
        _texts(KINDS, path.kind),
        _texts(texts, what),
        begin,
        begin + path.length,
    )
    return dict(zip(_PIECES, found, strict=True))
