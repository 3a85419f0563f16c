"""The rows of `what-if`, in three views of the same answers."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from traceweave.errors import UsageError, suggest
from traceweave.replay.model import Answer, Model
from traceweave.replay.scenario import EXAMPLE, parse

VIEWS = ("scenario", "rank", "path")


_BY_SCENARIO = pa.schema(
    [
        ("scenario", pa.string()),
        ("measured_step_ns", pa.int64()),
        ("replayed_step_ns", pa.int64()),
        ("predicted_step_ns", pa.int64()),
        ("gain_ns", pa.int64()),
        ("uncertainty_ns", pa.int64()),
        ("bottleneck", pa.string()),
        ("note", pa.string()),
    ]
)

WHAT_IF_COLUMNS: tuple[str, ...] = tuple(_BY_SCENARIO.names)
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
    answers = Model(con).answers(scenarios)
    table = {"scenario": _by_scenario, "rank": _by_rank, "path": _by_path}[by]
    return pa.concat_tables([table(answer) for answer in answers])


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


def _by_scenario(answer: Answer) -> pa.Table:
    row = {
        "scenario": answer.scenario,
        "measured_step_ns": round(answer.measured_step_ns),
        # the same, or the graph would not have been built
        "replayed_step_ns": round(answer.measured_step_ns),
        "predicted_step_ns": round(answer.predicted_step_ns),
        "gain_ns": round(answer.measured_step_ns) - round(answer.predicted_step_ns),
        "uncertainty_ns": None if answer.uncertainty_ns is None else round(answer.uncertainty_ns),
        "bottleneck": answer.bottleneck,
        "note": answer.note,
    }
    return pa.Table.from_pylist([row], schema=_BY_SCENARIO)


def _by_rank(answer: Answer) -> pa.Table:
    measured = answer.measured_by_rank.round().astype("int64")
    predicted = answer.predicted_by_rank.round().astype("int64")
    return pa.table(
        {
            "scenario": [answer.scenario] * len(measured),
            "rank": answer.ranks,
            "measured_step_ns": measured,
            "predicted_step_ns": predicted,
            "gain_ns": measured - predicted,
        }
    )


def _by_path(answer: Answer) -> pa.Table:
    shares = answer.shares
    total = max(int(shares.length.sum()), 1)
    return pa.table(
        {
            "scenario": [answer.scenario] * len(shares.rank),
            "rank": shares.rank,
            "kind": list(shares.kind),
            "what": pa.array(shares.what, pa.string()),
            "path_ns": shares.length,
            "share": shares.length / total,
        }
    )
