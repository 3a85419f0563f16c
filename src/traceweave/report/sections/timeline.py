"""One ordinary step and the longest one, operation by operation, for a few ranks side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import duckdb
import pyarrow as pa

from traceweave.analyses import analysis_relation, shared_rows
from traceweave.report.page import Column, Figure, Origin, Section, Table
from traceweave.report.query import (
    Row,
    query_as,
    query_rows,
    query_text,
    rows_as,
    standing_as,
)
from traceweave.report.sections.budget import PARTS, Budget, BudgetPart, part_column
from traceweave.report.sections.collectives import Collectives
from traceweave.words import count, duration, name_ranks, plural

MAX_NAME = 200
"""Characters of a name that the timeline shows."""

_CATEGORIES = ("compute", "communication", "memory")
_WINDOWS = {
    "rank": "INTEGER",
    "step": "BIGINT",
    "window_start_ns": "BIGINT",
    "window_ns": "BIGINT",
    **{part.key: "BIGINT" for part in PARTS},
}
_WAITS = {"rank": "INTEGER", "origin_wait_ns": "BIGINT"}
_CALL = ("op", "bytes", "wait_ns", "is_whole", "last_rank", "below_resolution")
_QUERIES = (
    ("Steps on the timeline", "timeline_steps"),
    ("Ranks on the timeline", "timeline_ranks"),
    ("Operations on the timeline", "timeline_ops"),
    ("Time without compute on the timeline", "timeline_gaps"),
    ("Critical path on the timeline", "timeline_path"),
    ("Timeline in numbers", "timeline_summary"),
)


@dataclass(frozen=True)
class Timeline:
    """Rows of the timeline queries; operations, gaps and path as Arrow tables."""

    steps: list[Row]
    ranks: list[Row]
    ops: pa.Table
    gaps: pa.Table
    """Time without compute: gaps, and communication that is exposed."""
    path: pa.Table
    """The critical path where it is on the ranks shown."""
    summary: list[Row]
    parts: tuple[BudgetPart, ...]
    """What the time of the steps divides into."""


def load_timeline(
    con: duckdb.DuckDBPyConnection, budget: Budget, collectives: Collectives, gaps: str
) -> Timeline:
    """Choose steps and ranks and read what ran there; `gaps`: table of the analysis `gaps`."""
    with ExitStack() as stack:
        stack.enter_context(rows_as(con, "breakdown", budget.rows, _WINDOWS))
        stack.enter_context(rows_as(con, "waits", collectives.waits, _WAITS))
        lengths = analysis_relation(con, "steps")
        pieces = shared_rows(con, "path_pieces").alias
        exposed = shared_rows(con, "exposed_lane").alias
        split = shared_rows(con, "split_calls").alias
        relations = {
            "gaps": gaps, "exposed": exposed, "step_lengths": lengths, "path": pieces,
            "split_calls": split,
        }  # fmt: skip
        froms = {name: f"FROM {relation}" for name, relation in relations.items()}
        stack.enter_context(standing_as(con, **froms))
        steps = stack.enter_context(query_as(con, "shown_steps", "timeline_steps"))
        ranks = stack.enter_context(query_as(con, "shown_ranks", "timeline_ranks"))
        ops = stack.enter_context(query_as(con, "shown_ops", "timeline_ops"))
        shown_gaps = stack.enter_context(query_as(con, "shown_gaps", "timeline_gaps"))
        summary = query_rows(con, "timeline_summary")
        path = stack.enter_context(query_as(con, "shown_path", "timeline_path"))
    return Timeline(
        steps.to_pylist(), ranks.to_pylist(), ops, shown_gaps, path, summary, budget.parts
    )


def timeline_section(timeline: Timeline, ranks: int) -> Section:
    """Lay out the drawing and, for those who cannot see it, numbers; `ranks`: of the whole run."""
    drawn = bool(timeline.ops.num_rows)
    return Section(
        anchor="timeline",
        title="Timeline",
        lead=(
            "What each rank ran, stream by stream, on the common clock, when and why it did not"
            f" compute, and where it was on the critical path: {_told(timeline)}."
        ),
        notes=tuple(_notes(timeline, ranks)) if drawn else (),
        figures=(_figure(timeline),) if drawn else (),
        tables=(_table(timeline),) if drawn else (),
        origins=tuple(Origin(title, query_text(name)) for title, name in _QUERIES),
        empty="" if drawn else "No operation was recorded that could be drawn.",
    )


def _notes(timeline: Timeline, ranks: int) -> Iterator[str]:
    yield (
        "Click the drawing or reach it with Tab; then the wheel or + and − zoom, dragging or the"
        f" arrow keys ← → move, 0 shows the whole {_unit(timeline)}, and a double click zooms to"
        " one operation. N and P step from operation to operation, ↑ and ↓ from row to row, and"
        " read out what is there. Escape gives the wheel back to the page."
    )
    shown = [row["rank"] for row in timeline.ranks]
    if len(shown) < ranks:
        yield (
            f"Of {plural(ranks, 'rank')} the page holds {name_ranks(shown)}: those that the"
            " others waited for most, and those that compute least, most and in the middle."
        )
    merged = int(sum(n for n in timeline.ops["ops"].to_pylist() if n > 1))
    if merged:
        yield (
            f"Per rank and step the 2,000 longest operations stand alone; {count(merged)} shorter"
            " ones are drawn as blocks of “n ops”."
        )


def _unit(timeline: Timeline) -> str:
    return "recording" if any(step["step"] is None for step in timeline.steps) else "step"


def _told(timeline: Timeline) -> str:
    if _unit(timeline) == "recording":
        return "the whole recording"
    return "the step of median length and the longest one"


def _step_name(step: Row) -> str:
    if step["step"] is None:
        return "the whole recording"
    return f"step {step['step']} ({step['role']}, {duration(step['length_ns'])})"


def _figure(timeline: Timeline) -> Figure:
    steps = " and ".join(_step_name(step) for step in timeline.steps)
    return Figure(
        "timeline",
        "Streams, collectives and time without compute",
        f"time since the {_unit(timeline)} began on the first rank",
        f"Timeline of {steps}, for {name_ranks([r['rank'] for r in timeline.ranks])}. Plus and"
        " minus zoom, left and right move, up and down change the row, N and P step from operation"
        " to operation. The table “Steps of the timeline” holds numbers.",
        _chart(timeline),
        origin="Operations on the timeline",
    )


def _chart(timeline: Timeline) -> dict[str, Any]:
    names = _Numbers()
    causes = sorted(set(timeline.gaps["cause"].to_pylist()))
    lanes = _by_role(_lanes(timeline.ops, names))
    kinds = sorted(set(timeline.path["kind"].to_pylist()))

    def of_gaps(columns: dict[str, list[Any]]) -> dict[str, list[int]]:
        return {
            "cause": [causes.index(cause) for cause in columns["cause"]],
            "what": [-1 if op is None else names[op] for op in columns["what"]],
        }

    def of_path(columns: dict[str, list[Any]]) -> dict[str, list[int]]:
        return {"kind": [kinds.index(kind) for kind in columns["kind"]]}

    gaps = _by_role(_stretch_lanes(timeline.gaps, of_gaps))
    path = _by_role(_stretch_lanes(timeline.path, of_path))
    return {
        "kind": "timeline",
        "unit": _unit(timeline),
        "ranks": timeline.ranks,
        "causes": causes,
        "kinds": kinds,
        "steps": [
            {
                "label": _step_name(step).capitalize(),
                "length": step["until_ns"] - step["from_ns"],
                "lanes": lanes.get(step["role"], []),
                "gaps": gaps.get(step["role"], []),
                "path": path.get(step["role"], []),
            }
            for step in timeline.steps
        ],
        "names": [name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…" for name in names],
    }


class _Numbers(dict[str, int]):
    """Numbers names in the order in which they are met."""

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


def _by_role(lanes: Iterator[tuple[str, Row]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for role, lane in lanes:
        found.setdefault(role, []).append(lane)
    return found


def _slices(table: pa.Table, keys: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Cut a table, ordered by `keys`, where they change."""
    start = 0
    for key, run in groupby(zip(*(table[key].to_pylist() for key in keys), strict=True)):
        length = sum(1 for _ in run)
        yield key, table.slice(start, length)
        start += length


def _lanes(ops: pa.Table, names: _Numbers) -> Iterator[tuple[str, Row]]:
    devices = len(set(ops["device"].to_pylist())) > len(set(ops["rank"].to_pylist()))
    for (role, rank, device, stream), lane in _slices(ops, ("role", "rank", "device", "stream")):
        columns = lane.to_pydict()
        word = "thread" if columns["timeline"][0] == "cpu" else "stream"
        label = f"{word} {stream}" if stream >= 0 else word
        calls = zip(*(columns[key] for key in _CALL), strict=True)
        yield (
            role,
            {
                "rank": rank,
                "label": f"GPU {device} {label}" if devices and device >= 0 else label,
                "start": columns["start_ns"],
                "duration": columns["duration_ns"],
                "name": [names[name] for name in columns["name"]],
                "category": [_CATEGORIES.index(one) for one in columns["category"]],
                "many": [[i, n] for i, n in enumerate(columns["ops"]) if n > 1],
                "calls": [[i, *call] for i, call in enumerate(calls) if call[0] is not None],
            },
        )


def _stretch_lanes(
    stretches: pa.Table, told: Callable[[dict[str, list[Any]]], dict[str, list[int]]]
) -> Iterator[tuple[str, Row]]:
    """Yield lanes of stretches of time; `told` makes of a lane's columns what is told of each."""
    for (role, rank), lane in _slices(stretches, ("role", "rank")):
        columns = lane.to_pydict()
        times = {"start": columns["start_ns"], "duration": columns["duration_ns"]}
        yield role, {"rank": rank, **times, **told(columns)}


def _table(timeline: Timeline) -> Table:
    keys = ("ops", *(part.key for part in timeline.parts), "longest_ns", "cause", "host_op")
    return Table(
        "timeline",
        "Steps of the timeline",
        (
            Column("Step", "int"),
            Column("Chosen as"),
            Column("Rank", "int"),
            Column("Rank chosen for"),
            Column("Operations", "count", note="Those of the step that are drawn"),
            *(part_column(part) for part in timeline.parts),
            Column("Length", "duration", group="Longest gap"),
            Column("Cause", group="Longest gap"),
            Column("Host activity", "name", group="Longest gap"),
        ),
        tuple(
            (
                row["step"],
                None if row["step"] is None else row["role"],
                row["rank"],
                row["why"],
                *(row[key] for key in keys),
            )
            for row in timeline.summary
        ),
        origin="Timeline in numbers",
    )
