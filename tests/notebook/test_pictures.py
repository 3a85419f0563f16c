"""What a notebook shows: the numbers drawn are those of the analyses, and texts are escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PolyCollection

import traceweave
from tests.simulated_runs import SLOW_GPU
from traceweave.notebook.plots import Plots
from traceweave.overview import Caution, Overview

mpl.use("Agg")


@pytest.fixture
def run(fixtures: Path, database_of: Callable[..., Path]) -> Iterator[traceweave.Run]:
    import matplotlib.pyplot as plt

    with traceweave.open(database_of(fixtures / "ddp_gloo_straggler")) as opened:
        yield opened
    plt.close("all")


def test_the_breakdown_adds_up_to_the_window_and_has_every_rank(run: traceweave.Run) -> None:
    axes = run.plot.breakdown()
    ends: dict[float, float] = {}
    for bar in axes.patches:
        place = bar.get_y() + bar.get_height() / 2  # type: ignore[attr-defined]
        ends[place] = max(ends.get(place, 0), bar.get_x() + bar.get_width())  # type: ignore[attr-defined]
    means = run.breakdown().groupby("rank")["window_ns"].mean() / 1e6
    assert list(ends.values()) == pytest.approx(means.to_list())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1", "2", "3"]


def test_the_timeline_shows_the_work_of_the_median_step(run: traceweave.Run) -> None:
    axes = run.plot.timeline()
    steps = run.steps().sort_values("length_ns")["step"].to_list()
    assert axes.get_xlabel() == f"ms from the first operation of step {steps[1]}"
    drawn = dict.fromkeys(("compute", "waiting", "transfer"), 0.0)
    for bars in axes.collections:
        assert isinstance(bars, PolyCollection)
        for path in bars.get_paths():
            drawn[str(bars.get_label())] += path.get_extents().width
    ops = run.sql(
        "SELECT rank, start_ns, end_ns, category FROM device_ops WHERE step = ? ORDER BY start_ns",
        [steps[1]],
    )
    apart_ns = (ops["end_ns"].max() - ops["start_ns"].min()) // 2000
    assert drawn["compute"] == pytest.approx(
        covered_ms(ops[ops["category"] == "compute"], apart_ns)
    )
    waits = run.sql(
        "SELECT rank, start_ns, start_ns + wait_ns AS end_ns FROM collective_waits"
        " WHERE step = ? AND wait_ns > 0 ORDER BY start_ns",
        [steps[1]],
    )
    assert drawn["waiting"] == pytest.approx(covered_ms(waits, apart_ns))
    assert drawn["transfer"] > 0


def covered_ms(ops: pd.DataFrame, apart_ns: int) -> float:
    """Return how long anything of each rank ran; what is closer than `apart_ns` is one bar."""
    covered = 0
    for _, own in ops.groupby("rank"):
        reached = own["start_ns"].iloc[0]
        for start, end in zip(own["start_ns"], own["end_ns"], strict=True):
            covered += max(end - (reached if start - reached <= apart_ns else start), 0)
            reached = max(reached, end)
    return covered / 1e6


def test_ranks_of_a_timeline_can_be_chosen(run: traceweave.Run) -> None:
    axes = run.plot.timeline(step=3, ranks=[2, 0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["2", "0"]
    with pytest.raises(traceweave.UsageError, match="no such rank in the run: 7"):
        run.plot.timeline(ranks=[7])
    with pytest.raises(traceweave.UsageError, match="nothing ran in step 99"):
        run.plot.timeline(step=99)


def test_tails_and_bandwidths_are_those_of_the_analyses(
    simulated_database: Callable[..., Path],
) -> None:
    with traceweave.open(simulated_database(SLOW_GPU)) as run:
        axes = run.plot.tails()
        lines = [one for one in axes.collections if isinstance(one, LineCollection)]
        drawn = sorted(tuple(part[:, 0]) for one in lines for part in one.get_segments())
        tails = run.tails()
        expected = [
            tuple(row)
            for name in ("duration", "transfer")
            for row in tails[[f"{name}_p50_ns", f"{name}_p99_ns"]].astype(float).to_numpy()
        ]
        assert drawn == sorted(expected)
        points = {tuple(p) for line in run.plot.bandwidth().lines for p in line.get_xydata()}  # type: ignore[union-attr]
        rows = run.bandwidth().dropna(subset=["busbw_p50_gbps"])[["bytes", "busbw_p50_gbps"]]
        assert points == {tuple(row) for row in rows.astype(float).to_numpy()} != set()


def test_pictures_fit_light_and_dark_pages(run: traceweave.Run) -> None:
    axes = run.plot.breakdown()
    assert axes.patch.get_alpha() == axes.figure.patch.get_alpha() == 0  # type: ignore[union-attr]
    inks = {label.get_color() for label in axes.get_xticklabels()} | {axes.xaxis.label.get_color()}
    assert len(inks) == 1
    level = sum(mpl.colors.to_rgb(inks.pop())) / 3
    assert 0.35 < level < 0.65


def test_every_picture_is_documented() -> None:
    assert {name for name in vars(Plots) if not name.startswith("_")} == {
        "breakdown", "timeline", "tails", "bandwidth",
    }  # fmt: skip
    assert all(getattr(Plots, name).__doc__ for name in ("breakdown", "timeline", "tails"))


def test_a_run_shows_its_facts_and_its_health(run: traceweave.Run) -> None:
    page = run._repr_html_()
    assert "ranks 0-3; hosts not named; no GPU named; 22 collectives matched" in page
    for answer in run.health()["answer"]:
        assert f"<td>{answer}</td>" in page
    assert "<th>offset_ns</th>" in run.info()._repr_html_()
    schema = run.schema()._repr_html_()
    assert all(f"<td>{relation.name}</td>" in schema for relation in run.schema())


def test_texts_of_traces_are_escaped() -> None:
    overview = Overview(
        "traceweave", None, None, None, None, 0, 0, 0, (), (), (), (Caution("<b>", 0, "<script>"),)
    )
    assert "<script>" not in overview._repr_html_()
    assert "&lt;script&gt;" in overview._repr_html_()
