"""The rows of `what-if`, in three views of the same answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from traceweave.errors import UsageError, suggest
from traceweave.replay.model import Answer, Model
from traceweave.replay.scenario import EXAMPLE, parse

VIEWS = ("scenario", "rank", "path")

_COLUMNS = {
    "scenario": (
        "scenario", "measured_step_ns", "replayed_step_ns", "predicted_step_ns", "gain_ns",
        "uncertainty_ns", "bottleneck", "note",
    ),
    "rank": ("scenario", "rank", "measured_step_ns", "predicted_step_ns", "gain_ns"),
    "path": ("scenario", "rank", "kind", "what", "path_ns", "share"),
}  # fmt: skip
_TYPES = {name: pa.string() for name in ("scenario", "bottleneck", "note", "kind", "what")}
_TYPES["share"] = pa.float64()
"""All others are integers."""

WHAT_IF_COLUMNS = _COLUMNS["scenario"]
"""Of the view by scenario."""


def check_scenario(text: str) -> None:
    """Raise UsageError for a scenario that makes no sense, whatever the run."""
    parse(text)


def what_if(con: duckdb.DuckDBPyConnection, scenarios: Sequence[str], by: str) -> pa.Table:
    """Return what a run's steps would take, by scenario, rank or what the critical path is made of.

    Raises UsageError and QueryError as Run.what_if says.
    """
    if by not in VIEWS:
        hint = suggest(by, VIEWS) or f"; there are: {', '.join(VIEWS)}"
        raise UsageError(f"what_if has no view {by!r}{hint}")
    if not scenarios:
        raise UsageError(f"name at least one scenario, {EXAMPLE}")
    rows = {"scenario": _by_scenario, "rank": _by_rank, "path": _by_path}[by]
    found = [row for answer in Model(con).answers(scenarios) for row in rows(answer)]
    schema = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in _COLUMNS[by]])
    return pa.Table.from_pylist(
        [dict(zip(schema.names, row, strict=True)) for row in found], schema
    )


def verified(answers: pa.Table, after: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return answers by scenario beside the run that was recorded after the fix: its mean step, its
    real gain, and whether that is within the uncertainty. Raises QueryError as Run.what_if says.
    """
    step = round(Model(after).measured)
    gains = [row - step for row in answers["measured_step_ns"].to_pylist()]
    known = zip(
        gains, answers["gain_ns"].to_pylist(), answers["uncertainty_ns"].to_pylist(), strict=True
    )
    holds = [None if most is None else abs(real - said) <= most for real, said, most in known]
    place = answers.schema.get_field_index("uncertainty_ns") + 1
    columns = {
        "verified_step_ns": pa.array([step] * len(gains), pa.int64()),
        "verified_gain_ns": pa.array(gains, pa.int64()),
        "within_uncertainty": pa.array(holds, pa.bool_()),
    }
    for offset, (name, column) in enumerate(columns.items()):
        answers = answers.add_column(place + offset, name, column)
    return answers


_Rows = Iterator[tuple[object, ...]]
"""Of a view, in the order of its columns."""


def _by_scenario(answer: Answer) -> _Rows:
    measured, predicted = round(answer.measured_step_ns), round(answer.predicted_step_ns)
    off = None if answer.uncertainty_ns is None else round(answer.uncertainty_ns)
    # replayed it takes as long as measured, or the graph would not have been built
    steps = (measured, measured, predicted, measured - predicted, off)
    yield answer.scenario, *steps, answer.bottleneck, answer.note


def _by_rank(answer: Answer) -> _Rows:
    steps = (answer.measured_by_rank, answer.predicted_by_rank)
    rounded = (of.round().astype("int64").tolist() for of in steps)
    for rank, measured, predicted in zip(answer.ranks.tolist(), *rounded, strict=True):
        yield answer.scenario, rank, measured, predicted, measured - predicted


def _by_path(answer: Answer) -> _Rows:
    total = max(sum(share.length for share in answer.shares), 1)
    for share in answer.shares:
        yield answer.scenario, *share, share.length / total
