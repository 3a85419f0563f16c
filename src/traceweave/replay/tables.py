"""The answers of replay as temporary tables, for analyses to read."""

from __future__ import annotations

from dataclasses import asdict

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.arrays import Ints
from traceweave.replay.graph import NothingToReplayError, build
from traceweave.replay.model import Model, what_of, what_of_nodes
from traceweave.replay.nodes import ARRIVAL, BARRIER, CALL
from traceweave.replay.path import KINDS, TRANSFERRING, of_length
from traceweave.replay.quality import quality
from traceweave.replay.slowdown import slowdowns

_TABLES = {
    "tw_critical_path": (
        "step BIGINT, rank INTEGER, kind VARCHAR, what VARCHAR, group_id INTEGER, path_ns BIGINT,"
        " rank_ns BIGINT, mean_ns DOUBLE, pieces BIGINT"
    ),
    "tw_path_changes": (
        "step BIGINT, at_ns BIGINT, from_rank INTEGER, to_rank INTEGER, op VARCHAR,"
        " group_id INTEGER, collective_id BIGINT"
    ),
    "tw_path_pieces": (
        "step BIGINT, rank INTEGER, kind VARCHAR, what VARCHAR, start_ns BIGINT, end_ns BIGINT,"
        " op_id BIGINT, sort VARCHAR"
    ),
    "tw_replay_quality": (
        "rank INTEGER, nodes BIGINT, window_ns BIGINT, unexplained_ns BIGINT, launched BIGINT,"
        " ops BIGINT, stream_waits BIGINT, inferred_waits BIGINT, wait_calls BIGINT,"
        " host_waits BIGINT, collectives BIGINT, incomplete BIGINT, dropped BIGINT,"
        " dropped_kinds VARCHAR, path_unexplained DOUBLE"
    ),
}


def create_replay_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_critical_path, tw_path_changes, tw_path_pieces and tw_replay_quality.

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
    _fill(con, "tw_path_pieces", _piece_rows(model))
    _fill(con, "tw_replay_quality", quality(model.graph, model.unexplained))


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
        rows = [asdict(row) for row in slowdowns(build(con))]
    except NothingToReplayError:
        return
    if rows:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        _fill(con, "tw_slowdown", {**columns, "place": list(range(len(rows)))})


def _fill(con: duckdb.DuckDBPyConnection, name: str, columns: dict[str, object]) -> None:
    con.from_arrow(pa.table(columns)).query("rows", f"INSERT INTO {name} BY NAME FROM rows")


def _known(numbers: Ints, least: int = 0) -> pa.Array:
    return pa.array(numbers, mask=numbers < least)


def _path_rows(model: Model) -> dict[str, object]:
    """The path by step, rank, kind, work and group, and how long ranks do the same in all."""
    graph, path = model.graph, model.path
    nodes = graph.nodes
    what, texts = what_of(graph, path)
    group = _groups(model, path.node, path.kind)
    keys = np.stack([path.step, nodes.rank[path.node], path.kind, what, group])
    rows, number = np.unique(keys, axis=1, return_inverse=True)
    length = np.bincount(number, path.length, minlength=rows.shape[1]).astype(np.int64)
    step, rank, kind, what, group = rows
    total, mean = _totals(model, rows)
    return {
        "step": _known(step),
        "rank": rank,
        "kind": [KINDS[k] for k in kind.tolist()],
        "what": [texts[w] if w >= 0 else None for w in what.tolist()],
        "group_id": _known(group),
        "path_ns": length,
        "rank_ns": total,
        "mean_ns": mean,
        "pieces": np.bincount(number, minlength=rows.shape[1]),
    }


def _totals(model: Model, rows: Ints) -> tuple[Ints, pa.Array]:
    """Return how long each row's rank did the same in its step, and the mean over all ranks."""
    graph = model.graph
    nodes = graph.nodes
    kind = of_length(nodes.sort)
    every = np.flatnonzero((nodes.sort != BARRIER) & (nodes.sort != ARRIVAL))
    what, _ = what_of_nodes(graph, every, kind[every])
    group = _groups(model, every, kind[every])
    keys = np.stack([nodes.step[every], nodes.rank[every], kind[every], what, group])
    both, number = np.unique(np.concatenate([rows, keys], axis=1), axis=1, return_inverse=True)
    total = np.bincount(number[rows.shape[1] :], nodes.length[every], minlength=both.shape[1])
    _, same = np.unique(both[[0, 2, 3]], axis=1, return_inverse=True)
    mean = np.bincount(same, total) / len(graph.ranks)
    at = number[: rows.shape[1]]
    # delays are nobody's work: what others had of them says nothing
    works = np.isin(rows[2], np.unique(kind[every]))
    return total[at].astype(np.int64), pa.array(mean[same[at]], mask=~works)


def _groups(model: Model, node: Ints, kind: Ints) -> Ints:
    instance = model.graph.nodes.instance[node]
    group = np.append(model.graph.instances["group_id"], -1)
    return np.where((kind == TRANSFERRING) & (instance >= 0), group[instance], -1)


def _change_rows(model: Model) -> dict[str, object]:
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
        "op": [of["op"][i] if i >= 0 else None for i in instance.tolist()],
        "group_id": _known(np.append(of["group_id"], -1)[instance]),
        "collective_id": _known(np.append(of["collective_id"], -1)[instance]),
    }


def _piece_rows(model: Model) -> dict[str, object]:
    graph, path = model.graph, model.path
    nodes = graph.nodes
    what, texts = what_of(graph, path)
    begin = path.begin + graph.origin
    sort = nodes.sort[path.node]
    return {
        "step": _known(path.step),
        "rank": nodes.rank[path.node],
        "kind": [KINDS[k] for k in path.kind.tolist()],
        "what": [texts[w] if w >= 0 else None for w in what.tolist()],
        "start_ns": begin,
        "end_ns": begin + path.length,
        "op_id": nodes.op_id[path.node],
        "sort": ["host" if s >= CALL else "device" for s in sort.tolist()],
    }
