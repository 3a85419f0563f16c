"""The answers of replay as temporary tables, for analyses to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.arrays import Ints
from traceweave.errors import QueryError
from traceweave.replay.fixes import Fix, fixes, refused
from traceweave.replay.graph import Graph, NothingToReplayError, build
from traceweave.replay.lookups import numbered
from traceweave.replay.model import Model, texts_of, what_of
from traceweave.replay.nodes import KINDS, Kind
from traceweave.replay.path import Path, spent
from traceweave.replay.quality import quality
from traceweave.replay.rows import where
from traceweave.replay.slowdown import slowdowns
from traceweave.store.rows import Columns, column, insert_rows, registered

_TABLES = {
    "tw_path_pieces": (
        "step BIGINT, rank INTEGER, kind VARCHAR, what VARCHAR, group_id INTEGER, start_ns BIGINT,"
        " length_ns BIGINT"
    ),
    "tw_spent": (
        "step BIGINT, rank INTEGER, kind VARCHAR, what VARCHAR, group_id INTEGER, spent_ns BIGINT"
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
    """Make tw_path_pieces: the critical path, piece by piece; tw_spent: for how long ranks do the
    same in all; tw_path_changes and tw_replay_quality.

    They are empty for a run without a timeline. Raises QueryError where replay is refused.
    """
    for name, columns in _TABLES.items():
        con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
    try:
        model = Model(con)
    except NothingToReplayError:
        return
    graph, path = model.graph, model.path
    _fill(con, "tw_path_pieces", _pieces(model))
    for block in graph.nodes.blocks():
        for node, kind, ns in spent(graph, np.arange(block.start, block.stop)):
            _fill(con, "tw_spent", _summed(graph, node, kind, ns))
    _fill(con, "tw_path_changes", _changes(graph, path))
    insert_rows(con, "tw_replay_quality", quality(graph, model.unexplained))


_SLOWDOWN = (
    "place BIGINT, scope VARCHAR, what VARCHAR, rank INTEGER, step BIGINT, slowdown DOUBLE,"
    " share DOUBLE, step_ns DOUBLE, ideal_ns DOUBLE"
)


def create_slowdown_table(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_slowdown: the rows of slowdown.slowdowns, numbered by `place`.

    It is empty for a run without a timeline. Raises QueryError where replay is refused.
    """
    con.execute(f"CREATE OR REPLACE TEMP TABLE tw_slowdown ({_SLOWDOWN})")
    try:
        rows = list(slowdowns(build(con)))
    except NothingToReplayError:
        return
    numbered_rows = ({"place": place, **row._asdict()} for place, row in enumerate(rows))
    insert_rows(con, "tw_slowdown", numbered_rows)


def path_pieces(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    counted: Callable[[], pa.Table],
) -> Columns:
    """Return the stretches of the critical path; none where the run is not replayed.

    `counted` says how many operations it has; more than the parameter `replay_ops` are too many.
    """
    names = ("step", "rank", "kind", "what", "start_ns", "end_ns")
    nothing = {name: np.empty(0, np.int64) for name in names}
    if _operations(counted()) > _most(values):
        return nothing
    try:
        pieces = _pieces(Model(con))
    except QueryError:
        return nothing
    # where the path changes rank, clocks that are a little off let it go back: what lies before the
    # end of an earlier piece is cut off
    start, end = pieces["start_ns"], pieces["start_ns"] + pieces["length_ns"]
    reached = np.maximum.accumulate(end)
    start = np.maximum(start, np.append(start[:1], reached[:-1]))
    cut = {**pieces, "start_ns": start, "end_ns": end}
    return where({name: cut[name] for name in names}, start < end)


def replayed_fixes(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    scenarios: Callable[[], pa.Table],
) -> Columns:
    """Return the rows of fixes.fixes for a column `scenario`, in which NULL is none, `is_fix` and
    `is_limit`.

    Beside it is how many operations the run has; more than the parameter `replay_ops` are too many.
    What gains less than the share `min_share` of the step, where there is one, alone and on top of
    others, has no n.
    """
    selected, most = scenarios(), _most(values)
    operations = _operations(selected)
    if operations > most:
        rows = refused(operations, most)
    else:
        asked = [row for row in selected.to_pylist() if row["scenario"] is not None]
        wanted, limits = (
            [row["scenario"] for row in asked if row[what]] for what in ("is_fix", "is_limit")
        )
        rows = fixes(con, wanted, limits, float(str(values.get("min_share", 0))))
    return {name: column([getattr(row, name) for row in rows]) for name in Fix._fields}


def _operations(selected: pa.Table) -> int:
    return int(selected.column("operations")[0].as_py())


def _most(values: Mapping[str, object]) -> int:
    return int(str(values["replay_ops"]))


def _fill(con: duckdb.DuckDBPyConnection, name: str, columns: Columns) -> None:
    with registered(con, columns) as rows:
        con.execute(f"INSERT INTO {name} BY NAME FROM {rows}")


def _known(numbers: Ints) -> Ints:
    return np.ma.masked_less(numbers, 0)


def _texts(of: Sequence[str], numbers: Ints) -> npt.NDArray[np.object_]:
    """Return the text that each number stands for, None for -1."""
    return np.array([*of, None], dtype=object)[numbers]


def _pieces(model: Model) -> Columns:
    graph, path = model.graph, model.path
    of = _told(graph, *_keys(graph, path.node, path.kind))
    return {**of, "start_ns": path.begin + graph.origin, "length_ns": path.length}


def _summed(graph: Graph, node: Ints, kind: Ints, ns: Ints) -> Columns:
    """Return what nodes spend time on, and how long in all."""
    keys = _keys(graph, node, kind)
    number, count = numbered(*keys)
    first = np.unique(number, return_index=True)[1]
    total = np.bincount(number, ns, minlength=count).astype(np.int64)
    return {**_told(graph, *(key[first] for key in keys)), "spent_ns": total}


def _keys(graph: Graph, node: Ints, kind: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return of what nodes spend time on: step, rank, kind, work and group."""
    nodes = graph.nodes
    group = np.append(graph.instances["group_id"], -1)[nodes.instance[node]]
    group = np.where(kind == Kind.TRANSFERRING, group, -1)
    return nodes.step[node], nodes.rank[node], kind, what_of(graph, node, kind), group


def _told(graph: Graph, step: Ints, rank: Ints, kind: Ints, what: Ints, group: Ints) -> Columns:
    return {
        "step": _known(step), "rank": rank, "kind": _texts(KINDS, kind),
        "what": _texts(texts_of(graph), what), "group_id": _known(group),
    }  # fmt: skip


def _changes(graph: Graph, path: Path) -> Columns:
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
