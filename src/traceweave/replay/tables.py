"""The answers of replay as temporary tables, for analyses to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.arrays import Floats, Ints
from traceweave.errors import QueryError
from traceweave.replay.fixes import Fix, fixes, refused
from traceweave.replay.graph import NothingToReplayError, build
from traceweave.replay.lookups import numbered
from traceweave.replay.model import Model, texts_of, what_of
from traceweave.replay.nodes import KINDS, Kind
from traceweave.replay.path import spent
from traceweave.replay.quality import quality
from traceweave.replay.rows import where
from traceweave.replay.slowdown import Row, slowdowns
from traceweave.store.rows import Columns, column, insert_rows, registered

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
    _fill(con, "tw_critical_path", _path_rows(model))
    _fill(con, "tw_path_changes", _change_rows(model))
    insert_rows(con, "tw_replay_quality", quality(model.graph, model.unexplained))


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
    nothing = {name: np.empty(0, np.int64) for name in _PIECES}
    if _operations(counted()) > _most(values):
        return nothing
    try:
        pieces = _pieces(Model(con))
    except QueryError:
        return nothing
    # where the path changes rank, clocks that are a little off let it go back: what lies before the
    # end of an earlier piece is cut off
    start, end = pieces["start_ns"], pieces["end_ns"]
    reached = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(start[:1], reached[:-1]))
    return where({**pieces, "start_ns": start}, start < end)


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


def _path_rows(model: Model) -> Columns:
    """The path by step, rank, kind, work and group, and how long ranks do the same in all: the
    row's own, and the mean of all in the step; none of delays of the device, which are nobody's
    work."""
    graph, path = model.graph, model.path
    of_piece = _keys(model, path.node, path.kind)
    number, count = numbered(*of_piece)
    first = np.unique(number, return_index=True)[1]
    rows = [key[first] for key in of_piece]
    step, rank, kind, what, group = rows
    own, of_all = np.zeros(count), np.zeros(count)
    for block in graph.nodes.blocks():
        for node, kind_of, ns in spent(graph, np.arange(block.start, block.stop)):
            of = _keys(model, node, kind_of)
            own += _summed(rows, of, ns)
            of_all += _summed([step, kind, what], [of[0], of[2], of[3]], ns)
    delayed = kind == Kind.DELAYED
    return {
        "step": _known(step),
        "rank": rank,
        "kind": _texts(KINDS, kind),
        "what": _texts(texts_of(graph), what),
        "group_id": _known(group),
        "path_ns": np.bincount(number, path.length, minlength=count).astype(np.int64),
        "rank_ns": np.ma.masked_array(own.astype(np.int64), delayed),
        "mean_ns": np.ma.masked_array(of_all / len(graph.ranks), delayed),
        "pieces": np.bincount(number, minlength=count),
    }


def _keys(model: Model, node: Ints, kind: Ints) -> list[Ints]:
    """Return of what nodes spend time on: step, rank, kind, work and group."""
    nodes = model.graph.nodes
    what, group = what_of(model.graph, node, kind), _groups(model, node, kind)
    return [nodes.step[node], nodes.rank[node], kind, what, group]


def _summed(rows: list[Ints], of: list[Ints], ns: Ints) -> Floats:
    """Return the sum of what has the keys of each row."""
    number, count = numbered(*map(np.append, rows, of))
    row = len(rows[0])
    summed: Floats = np.bincount(number[row:], ns, minlength=count).astype(np.float64)
    return summed[number[:row]]


def _groups(model: Model, node: Ints, kind: Ints) -> Ints:
    instance = model.graph.nodes.instance[node]
    group = np.append(model.graph.instances["group_id"], -1)
    return np.where((kind == Kind.TRANSFERRING) & (instance >= 0), group[instance], -1)


def _change_rows(model: Model) -> Columns:
    graph, path = model.graph, model.path
    nodes, of = graph.nodes, graph.instances
    instance = nodes.instance[path.changes]
    place = np.searchsorted(path.begin, nodes.start[path.changes])
    piece = path.node[np.minimum(place, max(len(path.node) - 1, 0))]
    return {
        "step": _known(nodes.step[piece]),
        "at_ns": nodes.start[path.changes] + graph.origin,
        "from_rank": nodes.rank[path.left],
        "to_rank": nodes.rank[path.changes],
        "op": _texts(of["op"].tolist(), instance),
        "group_id": _known(np.append(of["group_id"], -1)[instance]),
        "collective_id": _known(np.append(of["collective_id"], -1)[instance]),
    }


def _pieces(model: Model) -> Columns:
    graph, path = model.graph, model.path
    what = what_of(graph, path.node, path.kind)
    begin = path.begin + graph.origin
    found = (
        _known(graph.nodes.step[path.node]),
        graph.nodes.rank[path.node],
        _texts(KINDS, path.kind),
        _texts(texts_of(graph), what),
        begin,
        begin + path.length,
    )
    return dict(zip(_PIECES, found, strict=True))
