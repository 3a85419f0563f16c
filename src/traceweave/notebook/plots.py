"""Pictures of a run for notebooks, drawn with matplotlib; transparent, so that they fit any page.

Each draws rows of an analysis, which one gets by its name: `run.breakdown()` for
`run.plot.breakdown()`. All return matplotlib's axes, for titles and changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import duckdb
import pandas as pd

from traceweave import analyses, words
from traceweave.errors import UsageError
from traceweave.export import Ranges, select
from traceweave.frames import to_frame
from traceweave.vocabulary import script

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_INK = "#808890"
"""Text and lines: legible on white and on black."""

_COLORS = {
    "compute": "#3f7fd0",
    "transfer": "#e07b39",
    "waiting": "#f0b892",
    "communication": "#e59b6a",
    "copies": "#9673cc",
    "idle": "#a9b0b9",
}
"""Those of the report, as they look on both."""

_LINES = (
    "#3f7fd0", "#e07b39", "#2a9d8f", "#9673cc", "#c8443c", "#b8860b", "#b0479b", "#7d8794",
)  # fmt: skip
"""Of lines, in their order: whatever style is chosen, legible on white and on black."""

_PARTS = {
    "compute_ns": "compute",
    "exposed_transfer_ns": "transfer",
    "exposed_wait_ns": "waiting",
    "exposed_unsplit_ns": "communication",
    "exposed_memory_ns": "copies",
    "idle_ns": "idle",
}
"""Columns of `breakdown` that add up to the window; 'communication' is what cannot be divided."""

_PALE = 0.35
"""How opaque the work of other steps is."""

_WIDTH = 9.0
"""Inches."""

MOST_RANKS = 16
"""Ranks that a timeline shows unless it is told which."""

MOST_COLLECTIVES = 12
"""Kinds of collectives of which tails are drawn: those that took the most time."""


class Plots:
    """The pictures of one run."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._con = con

    def breakdown(self, **params: object) -> Axes:
        """Draw what the mean step of every rank is made of; `params` are those of the analysis.

        Of a run without steps it is the recording; else ranks that mark none are left out.
        """
        rows = self._rows("breakdown", **params)
        stepped = bool(rows["step"].notna().any())
        rows = rows[rows["step"].notna()] if stepped else rows
        title = f"What {'a step' if stepped else 'the recording'} is made of"
        if rows.empty:
            return _empty(title, "no operation was recorded that a budget could be made of")
        means = rows.groupby("rank")[list(_PARTS)].mean().astype(float) / 1e6
        means = means.rename(columns=_PARTS).loc[:, lambda frame: (frame != 0).any()]
        axes = _axes(1.0 + 0.28 * len(means))
        left = pd.Series(0.0, index=means.index)
        places = range(len(means))
        for part in means:
            color = _COLORS[str(part)]
            axes.barh(places, means[part], left=left, color=color, height=0.75, label=part)
            left += means[part]
        axes.set_yticks(places, [str(rank) for rank in means.index])
        axes.invert_yaxis()
        axes.set(xlabel="ms, mean over steps" if stepped else "ms", ylabel="rank")
        return _finished(axes, title, columns=len(means.columns))

    def timeline(self, step: int | None = None, ranks: int | Ranges = None) -> Axes:
        """Draw what ran in a step: compute above, communication, copies below, for every rank.

        That is all that ran within the windows that `breakdown` measures, which marks enclose for
        each rank; what other steps launched, as the host may be far ahead, is pale. `step` is the
        median one by length unless given; of a run without steps all is drawn. `ranks` (a number,
        several, or '0,3-5') are the first MOST_RANKS unless given. Raises UsageError for a step or
        rank that is not in the run, or where nothing ran.
        """
        step = self._median_step() if step is None else step
        ranks = self._ranks(ranks)
        windows = self._windows(step, ranks)
        if windows.empty:
            raise UsageError("nothing ran on these ranks then; run.breakdown() has what did")
        rows = self._ran(step, ranks, windows)
        axes = _axes(1.2 + 0.5 * len(ranks))
        axes.set_xlim(0, (windows["until_ns"].max() - windows["from_ns"].min()) / 1e6)
        lanes = {"compute": 0.0, "communication": 0.3, "memory": 0.6}
        rows[["start_ns", "duration_ns"]] /= 1e6
        of: Any
        for of, ops in rows.groupby(["rank", "category", "kind", "own"]):
            rank, category, kind, own = of
            bars = list(zip(ops["start_ns"], ops["duration_ns"], strict=True))
            top = ranks.index(rank) + lanes[category]
            label, alpha = (kind, 1.0) if own else ("_", _PALE)
            color = _COLORS[kind]
            axes.broken_barh(bars, (top, 0.26), facecolors=color, alpha=alpha, label=label)
        _mark(axes, windows, ranks, pale=not rows["own"].all())
        axes.set_yticks([place + 0.42 for place in range(len(ranks))], [str(r) for r in ranks])
        axes.invert_yaxis()
        where = "the recording" if step is None else f"step {step}"
        axes.set(xlabel=f"ms from the beginning of {where}", ylabel="rank")
        return _finished(axes, f"What ran in {where}", columns=6)

    def tails(self, **params: object) -> Axes:
        """Draw how long collectives take: from the median to the 99th percentile, and the longest.

        `params` are those of the analysis. Of more than MOST_COLLECTIVES kinds, those are drawn
        that took the most time in all.
        """
        rows = self._rows("tails", **params)
        rows["spent_ns"] = rows["duration_p50_ns"] * rows["calls"]
        rows = rows.nlargest(MOST_COLLECTIVES, "spent_ns").reset_index(drop=True)
        title = "How long collectives take"
        if rows.empty:
            return _empty(title, "no collectives are recorded")
        axes = _axes(1.0 + 0.32 * len(rows))
        for name, color, label in (
            ("duration", _COLORS["waiting"], "with waiting"),
            ("transfer", _COLORS["transfer"], "transfer"),
        ):
            known = rows.dropna(subset=[f"{name}_p50_ns"])
            if known.empty:
                continue
            median, tail, most = (
                known[f"{name}_{of}_ns"].astype(float) for of in ("p50", "p99", "max")
            )
            place = known.index + (0.14 if name == "duration" else -0.14)
            axes.hlines(place, median, tail, color=color, linewidth=5, label=f"{label}, p50 to p99")
            axes.scatter(most, place, color=color, marker="|", s=60, label=f"{label}, longest")
        axes.set_yticks(range(len(rows)), [_collective(row) for row in rows.itertuples()])
        axes.set(xscale="log", xlabel="time, logarithmic")
        axes.set_ylim(len(rows) - 0.5, -0.5)
        _write_ticks(axes.xaxis, words.duration)
        return _finished(axes, title, columns=2)

    def bandwidth(self, **params: object) -> Axes:
        """Draw the bus bandwidth of collectives by size; `params` are those of the analysis."""
        found = self._rows("bandwidth", **params)
        rows = found.dropna(subset=["busbw_p50_gbps"])
        title = "How fast collectives move their bytes"
        if rows.empty:
            unknown = "no collective was recorded whose bandwidth could be measured"
            return _empty(title, next(iter(found["note"].dropna()), unknown))
        axes = _axes(3.6)
        of: Any
        for number, (of, sizes) in enumerate(rows.groupby(["op", "group_id"], dropna=False)):
            op, group = of
            points = sizes.sort_values("bytes")[["bytes", "busbw_p50_gbps"]].astype(float)
            name = op if pd.isna(group) else f"{op}, group {group}"
            color = _LINES[number % len(_LINES)]
            axes.plot(*points.to_numpy().T, marker="o", color=color, label=name)
        axes.set(xscale="log", xlabel="size, logarithmic", ylabel="median bus bandwidth")
        _write_ticks(axes.xaxis, words.size)
        if rows["busbw_p50_gbps"].max() > 10 * rows["busbw_p50_gbps"].min():
            axes.set(yscale="log", ylabel="median bus bandwidth, logarithmic")
        else:
            axes.margins(y=0.1)
            axes.set_ylim(bottom=0)
        _write_ticks(axes.yaxis, words.rate)
        return _finished(axes, title, columns=3)

    def _rows(self, analysis: str, **params: object) -> pd.DataFrame:
        return to_frame(analyses.run(self._con, analysis, **params).to_arrow_table())

    def _median_step(self) -> int | None:
        lengths = self._rows("steps").dropna(subset=["step"]).sort_values(["length_ns", "step"])
        return int(lengths["step"].iloc[(len(lengths) - 1) // 2]) if len(lengths) else None

    def _ranks(self, wanted: int | Ranges) -> list[int]:
        """Return the ranks to draw, in the order in which they were named."""
        given = [operator.index(wanted)] if isinstance(wanted, SupportsIndex) else wanted
        listed = None if given is None or isinstance(given, str) else list(given)
        found = select(self._con, ranks=given if listed is None else listed).ranks
        if found is None:
            rows = self._con.sql("SELECT rank FROM ranks ORDER BY 1").fetchall()
            return [rank for (rank,) in rows[:MOST_RANKS]]
        return list(found) if listed is None else listed

    def _windows(self, step: int | None, ranks: list[int]) -> pd.DataFrame:
        """Return the windows of a step, in which `breakdown` measures: rank, from_ns, until_ns."""
        select(self._con, steps=None if step is None else [step])
        rows = self._rows("breakdown")
        of_step = rows["step"].isna() if step is None else rows["step"] == step
        rows = rows[of_step & rows["rank"].isin(ranks)]
        return pd.DataFrame(
            {
                "rank": rows["rank"],
                "from_ns": rows["window_start_ns"],
                "until_ns": rows["window_start_ns"] + rows["window_ns"],
            }
        )

    def _ran(self, step: int | None, ranks: list[int], windows: pd.DataFrame) -> pd.DataFrame:
        query = script(__package__, "timeline.sql")
        params = {
            "step": step,
            "ranks": ranks,
            "from_ns": int(windows["from_ns"].min()),
            "until_ns": int(windows["until_ns"].max()),
        }
        return to_frame(self._con.sql(query, params=params).to_arrow_table())


def _empty(title: str, reason: str) -> Axes:
    """Return a picture that says why nothing is drawn."""
    axes = _axes(1.4)
    axes.set_axis_off()
    axes.set_title(title, loc="left", color=_INK, fontsize="medium")
    axes.text(0, 0.5, reason, color=_INK, transform=axes.transAxes)
    return axes


def _mark(axes: Axes, windows: pd.DataFrame, ranks: list[int], pale: bool) -> None:
    """Mark where each rank's window begins and ends, and say what is pale."""
    began = windows["from_ns"].min()
    for edge in ("from_ns", "until_ns"):
        at = (windows[edge] - began) / 1e6
        tops = [ranks.index(rank) for rank in windows["rank"]]
        axes.vlines(at, [top - 0.06 for top in tops], [top + 0.92 for top in tops], color=_INK,
                    linewidth=1.2, label="window", clip_on=False)  # fmt: skip
    if pale:
        axes.broken_barh([], (0, 0), facecolors=_INK, alpha=_PALE, label="pale: other steps")


def _axes(height: float) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise UsageError(
            "pictures need matplotlib: pip install 'traceweave-ranks[plot]'"
        ) from error
    figure, axes = plt.subplots(figsize=(_WIDTH, height), layout="constrained")
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    return axes


def _finished(axes: Axes, title: str, columns: int) -> Axes:
    """Give axes a legend under a title, and an ink that can be read on light and dark."""
    found = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    named = {name: found.pop(name) for name in _COLORS if name in found} | found
    legend = axes.figure.legend(
        named.values(), named.keys(), ncols=columns, loc="outside upper left", frameon=False,
        labelcolor=_INK, title=title, alignment="left",
    )  # fmt: skip
    legend.get_title().set_color(_INK)
    axes.tick_params(colors=_INK, which="both")
    axes.xaxis.label.set_color(_INK)
    axes.yaxis.label.set_color(_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    return axes


def _write_ticks(axis: Axis, write: Callable[[float], str]) -> None:
    """Write the numbers of an axis with their units; of a logarithmic one few, as they are wide."""
    axis.set_major_formatter(lambda value, _: write(value))
    if axis.get_scale() == "log":
        axis.set_minor_formatter(lambda *_: "")
        low, high = axis.get_view_interval()
        if high < 20 * low:
            from matplotlib.ticker import LogLocator

            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _collective(row: Any) -> str:
    size = "size unknown" if pd.isna(row.bytes_from) else f"from {words.size(int(row.bytes_from))}"
    group = "" if pd.isna(row.group_id) else f", group {row.group_id}"
    return f"{row.op}{group}, {size}"
