"""What a notebook shows: the numbers drawn are those of the analyses, and texts are escaped."""

from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

import traceweave
from tests.conftest import Recorded, Simulated
from tests.marks import nightly
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


def test_the_timeline_shows_all_that_ran_in_the_windows_of_the_median_step(
    run: traceweave.Run,
) -> None:
    axes = run.plot.timeline()
    step = run.steps().sort_values("length_ns")["step"].to_list()[1]
    assert axes.get_xlabel() == f"ms from the beginning of step {step}"
    drawn = drawn_ms(axes)
    windows = windows_of(run, step)
    begins, ends = windows["from_ns"].min(), windows["until_ns"].max()
    ops = run.sql(
        "SELECT rank, greatest(start_ns, $begins) AS start_ns, least(end_ns, $ends) AS end_ns,"
        " step = $step AS own FROM device_ops WHERE category = 'compute' AND start_ns < $ends"
        " AND end_ns > $begins ORDER BY start_ns",
        {"begins": int(begins), "ends": int(ends), "step": step},
    )
    apart_ns = (ends - begins) // 2000
    own = ops["own"].fillna(False).astype(bool)
    for alpha, of_step in ((1.0, own), (0.35, ~own)):
        compute = drawn[mpl.colors.to_rgb("#3f7fd0"), alpha]
        assert compute == pytest.approx(covered_ms(ops[of_step], apart_ns))
    waits = run.sql(
        "SELECT rank, start_ns, start_ns + wait_ns AS end_ns FROM collective_waits"
        " WHERE step = ? AND wait_ns > 0 ORDER BY start_ns",
        [step],
    )
    assert drawn[mpl.colors.to_rgb("#f0b892"), 1.0] == pytest.approx(covered_ms(waits, apart_ns))
    assert drawn[mpl.colors.to_rgb("#e07b39"), 1.0] > 0


@nightly
def test_a_timeline_draws_the_step_before_pale_where_its_work_runs_in_the_window(
    recorded: Recorded,
) -> None:
    """Of torchrec's step 5 the copy of the batch runs early, and step 4 computes for long."""
    run = recorded("kineto/torchrec_4")
    axes = run.plot.timeline(step=5, ranks=0)
    window = windows_of(run, 5).query("rank == 0")
    idle = run.breakdown().query("rank == 0 and step == 5")["idle_ns"].item() / 1e6
    ended = run.sql(
        "SELECT max(end_ns) AS ns FROM gpu_ops WHERE rank = 0 AND step = 4"
    )["ns"].item()  # fmt: skip
    length = (window["until_ns"] - window["from_ns"]).item() / 1e6
    assert axes.get_xlim() == (0, pytest.approx(length))
    spans = {alpha: spans_ms(axes, alpha) for alpha in (0.35, 1.0)}
    assert max(end for _, end in spans[0.35]) == pytest.approx(
        (ended - window["from_ns"].item()) / 1e6
    )
    busy = pd.DataFrame(sorted(spans[0.35] + spans[1.0]), columns=["start_ns", "end_ns"]) * 1e6
    undrawn = length - covered_ms(busy.assign(rank=0), 0)
    assert idle - 1 < undrawn <= idle  # what is closer than 70 us is one bar
    edges = [one for one in axes.collections if isinstance(one, LineCollection)]
    assert [one.get_segments()[0][0][0] for one in edges] == [0, pytest.approx(length)]
    assert "pale: other steps" in legend(axes)


def windows_of(run: traceweave.Run, step: int) -> pd.DataFrame:
    return run.sql(
        "SELECT rank, window_start_ns AS from_ns, window_start_ns + window_ns AS until_ns"
        " FROM breakdown() WHERE step = ?",
        [step],
    )


def spans_ms(axes: Axes, alpha: float) -> list[tuple[float, float]]:
    """Return from when to when anything is drawn so opaque."""
    bars = (one for one in axes.collections if isinstance(one, PolyCollection))
    paths = (path for one in bars if one.get_alpha() == alpha for path in one.get_paths())
    return [(path.get_extents().x0, path.get_extents().x1) for path in paths]


def drawn_ms(axes: Axes) -> dict[tuple[Any, float], float]:
    """Return how long bars are in all, by their colour and how opaque they are."""
    drawn: dict[tuple[Any, float], float] = {}
    for bars in axes.collections:
        if isinstance(bars, PolyCollection) and bars.get_paths():
            key = tuple(bars.get_facecolor()[0][:3]), float(bars.get_alpha() or 1)
            widths = sum(path.get_extents().width for path in bars.get_paths())
            drawn[key] = drawn.get(key, 0.0) + widths
    return drawn


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.figure.legends[0].get_texts()]


def covered_ms(ops: pd.DataFrame, apart_ns: int) -> float:
    """Return how long anything of each rank ran; what is closer than `apart_ns` is one bar."""
    covered = 0
    for _, own in ops.groupby("rank"):
        reached = own["start_ns"].iloc[0]
        for start, end in zip(own["start_ns"], own["end_ns"], strict=True):
            covered += max(end - (reached if start - reached <= apart_ns else start), 0)
            reached = max(reached, end)
    return covered / 1e6


@nightly
def test_ranks_of_a_timeline_can_be_chosen(run: traceweave.Run) -> None:
    axes = run.plot.timeline(step=3, ranks=[2, 0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["2", "0"]
    for ranks, expected in ((2, ["2"]), ("0,2-3", ["0", "2", "3"])):
        axes = run.plot.timeline(step=3, ranks=ranks)
        assert [label.get_text() for label in axes.get_yticklabels()] == expected
    with pytest.raises(traceweave.UsageError, match="rank 7 is not in this run; it has ranks 0-3"):
        run.plot.timeline(ranks=[7])
    with pytest.raises(traceweave.UsageError, match="step 99 is not in this run; it has steps 3-6"):
        run.plot.timeline(step=99)


@nightly
def test_tails_and_bandwidths_are_those_of_the_analyses(simulated: Simulated) -> None:
    run = simulated(SLOW_GPU)
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


@nightly
def test_what_cannot_be_drawn_is_said_in_the_picture(recorded: Recorded) -> None:
    axes = recorded("kineto/torchrec_4").plot.bandwidth()
    assert [text.get_text() for text in axes.texts] == ["the trace does not say how many bytes"]
    assert not axes.axison
    # its sends and receives are recorded; nccl-tests knows no bandwidth of theirs
    axes = recorded("pipeline_1f1b").plot.bandwidth()
    assert [text.get_text() for text in axes.texts] == [
        "no collective was recorded whose bandwidth could be measured"
    ]
    axes = recorded("ddp_gloo_nsys").plot.breakdown()
    assert [text.get_text() for text in axes.texts] == [
        "no operation was recorded that a budget could be made of"
    ]


def test_the_breakdown_of_a_run_without_steps_is_that_of_the_recording(recorded: Recorded) -> None:
    axes = recorded("kineto/cuda_sync").plot.breakdown()
    assert axes.get_xlabel() == "ms"
    assert axes.figure.legends[0].get_title().get_text() == "What the recording is made of"


def test_every_picture_has_a_title_and_room_for_all_bars(run: traceweave.Run) -> None:
    pictures = (run.plot.breakdown, run.plot.timeline, run.plot.tails, run.plot.bandwidth)
    titles = [draw().figure.legends[0].get_title().get_text() for draw in pictures]
    assert titles == [
        "What a step is made of", "What ran in step 3", "How long collectives take",
        "How fast collectives move their bytes",
    ]  # fmt: skip
    axes = run.plot.tails()
    bars = [y for one in axes.collections if isinstance(one, LineCollection)
            for part in one.get_segments() for y in part[:, 1]]  # fmt: skip
    lowest, highest = sorted(axes.get_ylim())
    assert lowest + 0.3 < min(bars) < max(bars) < highest - 0.3


def test_pictures_fit_light_and_dark_pages(run: traceweave.Run) -> None:
    axes = run.plot.breakdown()
    assert axes.patch.get_alpha() == axes.figure.patch.get_alpha() == 0  # type: ignore[union-attr]
    inks = {label.get_color() for label in axes.get_xticklabels()} | {axes.xaxis.label.get_color()}
    assert len(inks) == 1
    level = sum(mpl.colors.to_rgb(inks.pop())) / 3
    assert 0.35 < level < 0.65
    with mpl.style.context("dark_background"):
        dark = [line.get_color() for line in run.plot.bandwidth().lines]
    assert dark == [line.get_color() for line in run.plot.bandwidth().lines] != []


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


def test_a_comparison_shows_its_words_and_the_first_rows_of_its_tables(run: traceweave.Run) -> None:
    found = traceweave.compare(run, run)
    page = found._repr_html_()
    assert all(escape(sentence) in page for sentence in found.words)
    assert "<th>fact</th>" in page
    assert page.count("<table>") == len(list(found.brief())) > 3


def test_texts_of_traces_are_escaped() -> None:
    overview = Overview(
        "traceweave", None, None, None, None, 0, 0, 0, (), (), (), (Caution("<b>", 0, "<script>"),)
    )
    assert "<script>" not in overview._repr_html_()
    assert "&lt;script&gt;" in overview._repr_html_()
