"""How much communication hides behind compute, and why the rest does not and whether it could."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from traceweave.analyses import EXPOSED, analysis_relation, cause_words
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars
from traceweave.report.query import Row, analysis_rows
from traceweave.report.sections.budget import BREAKDOWN_COMMAND, Budget, part_column
from traceweave.report.selection import Selection, select_ranks
from traceweave.words import duration

_EXPOSED = "Communication while no compute runs"
_POSSIBLE = "traceweave analyze overlap run.duckdb"
_CAUSES = "traceweave analyze exposed_causes run.duckdb"

LONGEST = 16
"""Exposed collectives that are listed one by one."""


@dataclass(frozen=True)
class Overlap:
    """Rows of the analysis `overlap`, and the collectives of one step that are exposed longest."""

    rows: list[Row]
    step: int | None
    """The step; None: the whole recording."""
    calls: list[Row]
    """By rank, operation, bytes, exposed_ns, cause, cause_detail, cause_ns."""
    words: dict[str, str]
    """What causes mean."""

    @property
    def whole(self) -> Row | None:
        """The row of all time without compute."""
        return next((row for row in self.rows if row["op"] is None), None)


def load_overlap(con: duckdb.DuckDBPyConnection, step: int | None) -> Overlap:
    """Read what is hidden and what could be, and why calls of a step are exposed."""
    causes = con.table(analysis_relation(con, "exposed_causes"))
    of_step = causes.filter("step IS NULL" if step is None else f"step = {int(step)}")
    calls = (
        of_step.aggregate(
            "rank, start_ns, call_id, any_value(op) AS op, any_value(bytes) AS bytes,"
            " CAST(sum(time_ns) AS BIGINT) AS exposed_ns,"
            " unnest(arg_max({'cause': cause, 'cause_detail': cause_detail, 'cause_ns': time_ns},"
            " (time_ns, cause)))",
            "rank, start_ns, call_id",
        )
        .order("exposed_ns DESC, rank, start_ns")
        .limit(LONGEST)
    )
    rows = calls.to_arrow_table().to_pylist()
    return Overlap(analysis_rows(con, "overlap"), step, rows, cause_words(con, EXPOSED))


def overlap_section(budget: Budget, overlap: Overlap) -> Section:
    """Lay out how much of the communication hides behind compute, and why the rest does not."""
    ranks = [r for r in budget.per_rank if r["comm_ns"]]
    hidden = any(r["overlap_ns"] for r in ranks)
    shown = select_ranks(ranks, lambda r: r["exposed_comm_ns"] / r["windows"])
    rows = shown.rows
    return Section(
        anchor="overlap",
        title="Overlap of communication and compute",
        lead=(
            "Communication that runs while the rank computes is hidden and costs little. What"
            " does not hide this way lengthens the step."
        ),
        notes=tuple(_notes(budget, overlap, hidden)) if rows else (),
        figures=(_overlap_figure(shown),) if hidden else (),
        tables=(
            _overlap_table(shown, budget),
            *((_possible_table(overlap, budget), _calls_table(overlap)) if overlap.calls else ()),
        )
        if rows
        else (),
        origins=(
            Origin("Time budget and overlap, per rank and step", BREAKDOWN_COMMAND),
            Origin("What could be hidden", _POSSIBLE),
            Origin("Why it is exposed", _CAUSES),
        ),
        empty="" if rows else "No communication was recorded inside the windows measured.",
        terms={
            **{cause: overlap.words[cause] for cause in _causes(overlap)},
            "Hidden": "share of the communication time during which compute runs too",
            "Overlap efficiency": "time saved by overlapping, as a share of what could be saved"
            " at best: 100% if the shorter of the two hides completely",
        },
    )


def _overlap_figure(shown: Selection) -> Figure:
    rows = shown.rows
    return Figure(
        "overlap",
        "Overlap per rank",
        shown.told("%"),
        "Bar chart per rank: share of communication hidden behind compute, and overlap"
        " efficiency. The table “Overlap per rank” holds the numbers.",
        bars(
            [str(r["rank"]) for r in rows],
            ("Communication hidden", "hidden", [_round(r["hidden"]) for r in rows]),
            ("Overlap efficiency", "efficiency", [_round(r["efficiency"]) for r in rows]),
            axis="Rank",
            measure="fraction",
        ),
        height=280,
    )


def _round(fraction: float | None) -> float | None:
    return None if fraction is None else round(fraction, 5)


def _overlap_table(shown: Selection, budget: Budget) -> Table:
    per = "step" if budget.has_steps else "recording"
    keys = ("comm_ns", "overlap_ns", *(part.key for part in budget.exposed_parts))
    return Table(
        "overlap",
        "Overlap per rank",
        (
            Column("Rank", "int"),
            Column("Communication", "duration", note=f"Mean per {per}"),
            Column("Hidden", "duration", note="Communication while compute runs"),
            *(part_column(part, _EXPOSED) for part in budget.exposed_parts),
            Column("Communication hidden", "percent"),
            Column("Overlap efficiency", "percent"),
        ),
        tuple(
            (
                r["rank"],
                *(round(r[key] / r["windows"]) for key in keys),
                r["hidden"],
                r["efficiency"],
            )
            for r in shown.rows
        ),
        note=shown.note("exposed communication", BREAKDOWN_COMMAND),
    )


def _causes(overlap: Overlap) -> list[str]:
    return list(dict.fromkeys(call["cause"] for call in overlap.calls))


def _notes(budget: Budget, overlap: Overlap, hidden: bool) -> Iterator[str]:
    if not hidden:
        yield "No rank hides any of its communication."
    whole = overlap.whole
    if whole is None or whole["first_change"] is None:
        return
    lost = whole["lost_ns"]
    cost = f", which costs compute {duration(round(lost))}" if lost and lost > 0 else ""
    unit = "step" if budget.has_steps else "recording"
    yield (
        f"Each {unit} hides {duration(round(whole['hidden_ns']))}{cost}."
        f" {_waiting(budget, round(whole['waiting_ns']))} a schedule could"
        f" hide {duration(round(whole['movable_ns'] + whole['reorder_ns']))} at most."
    )
    yield f"First: {whole['first_change']}."


def _waiting(budget: Budget, waiting_ns: int) -> str:
    """Begin a sentence with how much of the exposed communication is waiting, if that is known."""
    if not budget.tells_waiting:
        return "How much of the rest is waiting for other ranks is not known;"
    least = "at least " if budget.total["exposed_unsplit_ns"] else ""
    return f"Of the rest, {least}{duration(waiting_ns)} is waiting for other ranks, and"


def _possible_table(overlap: Overlap, budget: Budget) -> Table:
    per = "step" if budget.has_steps else "recording"
    keys = ("hidden_ns", "lost_ns", "exposed_ns")
    possible = ("waiting_ns", "movable_ns", "reorder_ns", "never_ns")
    # where it is not known, the analysis counts it among the others
    unknown = {} if budget.tells_waiting else {"waiting_ns": None}
    return Table(
        "possible",
        f"What of each {per} was hidden, and what could be",
        (
            Column("Operation", "name"),
            Column("Hidden", "duration", note="Each call in full; of all, each moment once"),
            Column("Lost", "duration", note="What compute loses to it meanwhile: contention"),
            Column("Exposed", "duration", note="Time in which it runs and no compute does"),
            Column("Waiting", "duration", "For other ranks", group="Of it"),
            Column("Movable", "duration", "At another time, all else in order", group="Of it"),
            Column("By order", "duration", "Another order, stream, or pieces", group="Of it"),
            Column("Never", "duration", "The step has no more compute", group="Of it"),
            Column("Gain", "duration", note="By replay, if it took no time: waiting stays"),
        ),
        tuple(
            (
                row["op"] or "all",
                *(None if row[key] is None else round(row[key]) for key in (*keys, *possible)),
                row["gain_ns"],
            )
            for row in ({**row, **unknown} for row in overlap.rows)
        ),
        origin="What could be hidden",
    ).known()


def _calls_table(overlap: Overlap) -> Table:
    where = "the recording" if overlap.step is None else f"step {overlap.step}"
    return Table(
        "exposed-calls",
        f"Collectives of {where} that are exposed longest, and why",
        (
            Column("Rank", "int"),
            Column("Operation", "name"),
            Column("Size", "bytes"),
            Column("Exposed", "duration"),
            Column("Mostly because", "name"),
            Column("Namely", "name"),
            Column("Share", "percent", "Of its exposed time"),
        ),
        tuple(
            (
                *(call[key] for key in ("rank", "op", "bytes", "exposed_ns", "cause")),
                call["cause_detail"],
                call["cause_ns"] / call["exposed_ns"],
            )
            for call in overlap.calls
        ),
        note="The timeline draws all of them, in its rows “no compute”.",
        origin="Why it is exposed",
    )
