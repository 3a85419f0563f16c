"""Draw the pictures of concepts.md from a simulated run: `python docs/pictures.py`.

What is drawn is what the tables of the database say, so the pictures show the program's own
definitions. Needs matplotlib.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes

import traceweave
from traceweave_simulator import Config, simulate, write_kineto
from traceweave_simulator.config import Gap

IMAGES = Path(__file__).resolve().parent / "images"
COMPUTE, COMM, HIDDEN, MEMORY = "#4c78a8", "#e45756", "#8e6c9c", "#b79a20"
WAIT, IDLE, CALL = "#f2b8b5", "#d9d6d2", "#9c9c9c"
SLOW_NS = 400_000


def main() -> None:
    """Simulate a run with one slow rank and clocks apart, and draw four pictures of it."""
    # the same bytes for the same run
    mpl.rcParams |= {"svg.hashsalt": "traceweave", "font.size": 9, "axes.spines.top": False}
    mpl.rcParams |= {"axes.spines.right": False, "svg.fonttype": "none"}
    config = Config(
        ranks=4,
        hosts=2,
        steps=6,
        layers=4,
        straggler={2: SLOW_NS},
        clock_offset_ns=600_000,
        gaps=(Gap("launch_bound", 40_000, step=2, ranks=(0,)),),
    )
    with tempfile.TemporaryDirectory() as folder:
        write_kineto(simulate(config), Path(folder))
        traceweave.ingest([folder], Path(folder) / "run.duckdb")
        with traceweave.open(Path(folder) / "run.duckdb") as run:
            for name, picture in PICTURES.items():
                figure = picture(run)
                figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
                plt.close(figure)


def overlap(run: traceweave.Run) -> plt.Figure:
    """Streams of one rank, and below them what each moment counts as."""
    ops = run.sql(
        "SELECT category, stream, start_ns, end_ns FROM gpu_ops WHERE rank = 0 AND step = 3"
        " ORDER BY start_ns"
    )
    begin = ops["end_ns"].max() - 2_450_000
    ops = ops[ops["start_ns"] > begin]
    figure, axes = plt.subplots(figsize=(7.5, 1.9))
    colors = {"compute": COMPUTE, "communication": COMM, "memory": MEMORY}
    for op in ops.itertuples():
        _bar(
            axes,
            2 if op.category == "compute" else 1,
            op.start_ns,
            op.end_ns,
            begin,
            colors[op.category],
        )
    for start, end, color in _moments(ops):
        _bar(axes, 0, start, end, begin, color)
    axes.set(yticks=[2, 1, 0], yticklabels=["compute stream", "communication stream", "counts as"])
    _legend(
        axes, {"compute": COMPUTE, "exposed communication": COMM, "hidden communication": HIDDEN}
    )
    return _microseconds(axes, figure)


def _moments(ops: pd.DataFrame) -> list[tuple[int, int, str]]:
    edges = sorted({*ops["start_ns"], *ops["end_ns"]})
    found = []
    for start, end in itertools.pairwise(edges):
        running = set(ops[(ops["start_ns"] <= start) & (ops["end_ns"] >= end)]["category"])
        both = {"compute", "communication"} <= running
        color = COMPUTE if "compute" in running else COMM if running else IDLE
        found.append((start, end, HIDDEN if both else color))
    return found


def gap(run: traceweave.Run) -> plt.Figure:
    """A gap on the device with the launch that came too late for it."""
    gaps = run.gaps(window="span")
    late = gaps[(gaps["rank"] == 0) & (gaps["cause"] == "launch_bound")].nlargest(1, "duration_ns")
    begin, end = late["start_ns"].item() - 50_000, late["end_ns"].item() + 50_000
    figure, axes = plt.subplots(figsize=(7.5, 1.6))
    for row, table, color in ((0, "gpu_ops", COMPUTE), (1, "host_ops", CALL)):
        only = "" if row == 0 else " AND kind = 'runtime'"
        for op in run.sql(
            f"SELECT start_ns, end_ns FROM {table}"
            f" WHERE rank = 0 AND end_ns > ? AND start_ns < ?{only}",
            [begin, end],
        ).itertuples():
            _bar(axes, row, max(op.start_ns, begin), min(op.end_ns, end), begin, color)
    axes.set(yticks=[0, 1], yticklabels=["GPU", "launching calls"])
    return _microseconds(axes, figure)


def tail(run: traceweave.Run) -> plt.Figure:
    """One collective on all ranks: who waits, for whom, and when the transfer begins."""
    calls = run.sql(
        "SELECT * FROM collective_waits WHERE collective_id = (SELECT collective_id FROM"
        " collective_instances WHERE op = 'all_reduce' ORDER BY arrival_skew_ns DESC LIMIT 1)"
    )
    begin = calls["start_ns"].min()
    figure, axes = plt.subplots(figsize=(7.5, 1.9))
    for call in calls.itertuples():
        met = call.start_ns + call.wait_ns
        _bar(axes, call.rank, call.start_ns, met, begin, WAIT)
        _bar(axes, call.rank, met, call.end_ns, begin, COMM)
    axes.invert_yaxis()
    axes.set(yticks=sorted(calls["rank"]), ylabel="rank")
    _legend(axes, {"waits for the last rank": WAIT, "transfer": COMM})
    return _microseconds(axes, figure)


def alignment(run: traceweave.Run) -> plt.Figure:
    """The same collectives on the ranks' own clocks and on the common one."""
    calls = run.sql(
        "SELECT c.rank, c.start_local_ns, c.start_ns, c.duration_ns FROM collectives AS c"
        " WHERE c.step = 3 AND c.op = 'all_reduce' AND c.bytes > 1000"
    )
    figure, both = plt.subplots(2, 1, figsize=(7.5, 3.2), sharex=True)
    for axes, column, title in zip(
        both, ["start_local_ns", "start_ns"], ["each rank's own clock", "common clock"], strict=True
    ):
        begin = calls[column].min()
        for call in calls.itertuples():
            start = getattr(call, column)
            _bar(axes, call.rank, start, start + call.duration_ns, begin, COMM)
        axes.invert_yaxis()
        axes.set(yticks=sorted(set(calls["rank"])), ylabel="rank")
        axes.set_title(title, loc="left", fontsize=9)
        _microseconds(axes, figure)
    both[0].set_xlabel("")
    return figure


def _bar(axes: Axes, row: int, start: int, end: int, begin: int, color: str) -> None:
    axes.barh(row, (end - start) / 1e3, left=(start - begin) / 1e3, height=0.7, color=color)


def _legend(axes: Axes, colors: dict[str, str]) -> None:
    handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
    axes.legend(
        handles, colors, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, fontsize=8
    )


def _microseconds(axes: Axes, figure: plt.Figure) -> plt.Figure:
    axes.set_xlabel("us")
    return figure


PICTURES = {"overlap": overlap, "gap": gap, "tail": tail, "alignment": alignment}

if __name__ == "__main__":
    main()
