"""A question has one number: commands, analyses, findings, page, export, compare and check agree.

Held on real runs. Whoever answers from rows of its own instead of an analysis is found here."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import traceweave
from tests.export.reading import Timeline
from tests.export.reading import read as read_timeline
from tests.marks import at_once
from tests.report.reading import Page
from tests.report.reading import read as read_page
from traceweave.agents.runs import Runs
from traceweave.agents.tools import Tools
from traceweave.analyses.blocks import block
from traceweave.checks import check_run, read_rules, starter_rules
from traceweave.cli import main
from traceweave.comparison import Comparison
from traceweave.export import Selection, write_perfetto
from traceweave.replay.graph import graph_of
from traceweave.replay.path import critical_path
from traceweave.words import count, duration, percent, size

RUNS = (
    "fixtures/ddp_gloo_straggler", "fixtures/many_buckets_gloo", "corpus/kineto/deepep8",
    "corpus/kineto/deepseek_train", "corpus/kineto/megatron_tp2", "corpus/kineto/nanogpt_8xh100",
    "corpus/kineto/resnet_hipfree_mi300x", "corpus/nsys/fsdp_2rank_before__2026.2.sqlite",
)  # fmt: skip
PARTS = {
    "Compute": "compute_ns", "Exposed waiting": "exposed_wait_ns",
    "Exposed transfer": "exposed_transfer_ns", "Waiting or transfer": "exposed_unsplit_ns",
    "Exposed copies": "exposed_memory_ns", "Idle": "idle_ns",
}  # fmt: skip
"""What a moment is, as the page calls it, and the column of breakdown."""

HEADS = {
    "Exposed waiting": "Exposed: Waiting", "Exposed transfer": "Exposed: Transfer",
    "Waiting or transfer": "Exposed: Waiting or transfer", "Exposed copies": "Exposed: Copies",
}  # fmt: skip
"""The headers of these in tables, where they differ."""


@dataclass(frozen=True)
class Answers:
    """A run, and what those say of it that are no analysis."""

    run: traceweave.Run
    page: Page
    timeline: Timeline
    itself: Comparison
    """The run beside itself."""
    folder: Path

    @property
    def windows(self) -> pd.DataFrame:
        """The time budget of every step; of the recordings in a run without steps."""
        rows = self.run.breakdown()
        rows = rows[rows["window_ns"] > 0]
        return rows[rows["step"].notna()] if rows["step"].notna().any() else rows

    @property
    def compared(self) -> pd.DataFrame:
        """The windows of those steps that compare counts, measured as it does."""
        base = self.itself.base
        rows = self.run.breakdown(window=base.window)
        return rows if base.steps is None else rows[rows["step"].isin(base.steps)]

    @property
    def health(self) -> pd.Series:
        """The values of health by their answer."""
        return self.run.health().set_index("answer")["value"]

    def evidence(self, rule: str) -> list[str]:
        """Return what a rule of findings says of the run."""
        found = self.run.findings()
        return found[found["rule"] == rule]["evidence"].tolist()

    def checked(self, analysis: str, column: str, aggregate: str, where: str = "TRUE") -> float:
        """Return what check measures."""
        rules = self.folder / "rules.toml"
        rules.write_text(
            f'[[rule]]\nname = "one number"\nanalysis = "{analysis}"\ncolumn = "{column}"\n'
            f'aggregate = "{aggregate}"\nwhere = "{where}"\nmax = 1\n'
        )
        [outcome] = check_run(self.run.con, read_rules(rules)).outcomes
        assert outcome.value is not None
        return outcome.value

    @property
    def starters(self) -> dict[str, float]:
        """What check measures by its own rules, by their names."""
        path = self.folder / "starters.toml"
        path.write_text(starter_rules(self.run.con))
        outcomes = check_run(self.run.con, read_rules(path)).outcomes
        return {one.rule.name: one.value for one in outcomes if one.value is not None}

    def printed(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        """Return what a command prints of the run."""
        command, *rest = arguments
        assert main([command, *rest[:1], str(self.run.path), *rest[1:]]) == 0
        return capsys.readouterr().out

    def samples(self, rank: int, track: str) -> list[float]:
        """Return the values of a counter of the Perfetto export."""
        return [
            value
            for uuid, samples in self.timeline.samples.items()
            if self.timeline.rank(uuid) == rank and self.timeline.path(uuid)[1] == track
            for _, value in samples
        ]


@pytest.fixture(scope="module", params=at_once(RUNS, "fixtures/ddp_gloo_straggler"))
def answers(
    request: pytest.FixtureRequest,
    database_of: Callable[..., Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Answers]:
    where, name = request.param.split("/", 1)
    database = database_of(request.getfixturevalue(where) / name)
    folder = tmp_path_factory.mktemp("answers")
    with traceweave.open(database) as run:
        write_perfetto(run.con, folder / "run.pftrace", Selection(host=False, gaps=True))
        yield Answers(
            run, read_page(run.report(folder / "run.html")), read_timeline(folder / "run.pftrace"),
            traceweave.compare(run, run), folder,
        )  # fmt: skip


def nanoseconds(row: dict[str, str], *columns: str) -> list[int]:
    return [int(row[column]) for column in columns]


def test_the_length_of_a_step(answers: Answers) -> None:
    page, windows = answers.page, answers.windows
    has_gpu = "gpu" in set(windows["timeline"])
    # what launched nothing is no step
    steps = answers.run.steps().query("device_ranks > 0" if has_gpu else "ranks > 0")
    if not len(steps):
        mean = windows["window_ns"].mean()
        assert answers.health["recording"] * 1e6 == pytest.approx(mean)
        assert f"A recording lasts {duration(round(mean))} on average" in page.text
        return
    lengths = steps.set_index("step")["length_ns"]
    median, mean = int(lengths.quantile(0.5, "lower")), lengths.mean()
    assert answers.health["step time"] * 1e6 == pytest.approx(mean)
    where = "device_ranks > 0" if has_gpu else "TRUE"
    assert answers.checked("steps", "length_ns", "mean", where) == pytest.approx(mean)
    assert f"A step takes {duration(round(mean))}" in page.text
    assert answers.starters["step time"] == pytest.approx(mean)
    # what is gained by fixes is taken from it
    fixes = answers.run.fixes()
    if len(fixes) and pd.notna(fixes["step_ns"].iloc[0]):
        assert fixes["step_ns"].iloc[0] == pytest.approx(mean, rel=1e-3)
    for chosen in page.charts["timeline"]["steps"]:
        step, told = re.fullmatch(r"Step (\d+) \(\w+, (.*)\)", chosen["label"]).groups()
        assert told == duration(lengths[int(step)])
    for evidence in answers.evidence("unsteady_steps"):
        assert f"{duration(median)} at the median, {duration(lengths.mean())} on av" in evidence
        assert f"longest, step {lengths.idxmax()}, takes {duration(lengths.max())}" in evidence
    # compare divides up the same lengths
    kept = lengths.loc[list(answers.itself.base.steps or ())]
    assert answers.itself.time.base_ns == pytest.approx(kept.mean(), abs=1)


def test_what_the_time_of_a_step_is_made_of(answers: Answers) -> None:
    windows, page = answers.windows, answers.page
    total = windows[[*PARTS.values(), "window_ns", "comm_ns", "overlap_ns"]].sum()
    shown = {f"{label}: Time" for label in PARTS} & set(page.tables["budget"][0])
    labels = [label for label in PARTS if f"{label}: Time" in shown]
    # what has no column of its own is nothing
    assert total[[PARTS[label] for label in PARTS if label not in labels]].sum() == 0
    assert total[[PARTS[label] for label in labels]].sum() == total["window_ns"]
    for label in labels:
        part = total[PARTS[label]] / total["window_ns"]
        assert f"{label} {percent(part)} " in page.text
        means = windows.groupby("rank")[PARTS[label]].mean()
        for row in page.tables["budget"]:
            assert int(row[f"{label}: Time"]) == round(means[int(row["Rank"])])
    check_tables_of_steps(answers, labels)
    answered = {"compute": "compute_ns", "exposed copies": "exposed_memory_ns",
                "exposed waiting": "exposed_wait_ns", "exposed transfer": "exposed_transfer_ns",
                "exposed comm": "exposed_unsplit_ns"}  # fmt: skip
    found = {name: column for name, column in answered.items() if name in answers.health}
    assert {"compute", "exposed copies"} < set(found)
    for name, column in found.items():
        share = 100 * total[column] / total["window_ns"]
        assert answers.health[name] == pytest.approx(share)
        where = "step IS NOT NULL" if windows["step"].notna().all() else "TRUE"
        assert answers.checked("breakdown", column, "sum", where) == total[column]
    if total["comm_ns"]:
        hidden = total["overlap_ns"] / total["comm_ns"]
        assert answers.health["overlap"] == pytest.approx(100 * hidden)
        assert f"Communication hidden {percent(hidden)} " in page.text


def check_tables_of_steps(answers: Answers, labels: list[str]) -> None:
    """Look at the tables of the page with a row per rank and step."""
    by_step = answers.windows.set_index(["rank", "step"])
    for table in ("budget-steps", "timeline"):
        for row in answers.page.tables.get(table, []):
            rank, step = int(row["Rank"]), row.get("Step", "")
            expected = by_step.loc[(rank, int(step))] if step else by_step.loc[rank].iloc[0]
            for label in labels:
                assert int(row[HEADS.get(label, label)]) == expected[PARTS[label]], (table, label)


def test_what_compare_and_the_export_say_of_the_budget(answers: Answers) -> None:
    parts = dict(answers.itself.table("budget").select(["part", "base_ns"]).to_pandas().values)
    kept = answers.compared
    means = kept[[*PARTS.values(), "exposed_comm_ns"]].mean()
    copied = ("exposed memory", "exposed copies")
    communicating = [
        part
        for part in parts
        if part == "waiting or transfer" or (part.startswith("exposed ") and part not in copied)
    ]
    exposed = sum(parts[part] for part in communicating)
    assert parts["compute"] == pytest.approx(means["compute_ns"], abs=1)
    assert exposed == pytest.approx(means["exposed_comm_ns"], abs=3)
    if "exposed waiting" in parts:
        assert parts["exposed waiting"] == pytest.approx(means["exposed_wait_ns"], abs=1)
    counters = {
        "exposed communication per step": "exposed_comm_ns",
        "exposed waiting per step": "exposed_wait_ns",
        "exposed transfer per step": "exposed_transfer_ns",
    }
    for rank, rows in answers.run.breakdown().groupby("rank"):
        for track, column in counters.items():
            expected = rows.sort_values("window_start_ns")[column].tolist()
            assert answers.samples(int(str(rank)), track) == expected


def test_why_nothing_runs(answers: Answers) -> None:
    windows, page = answers.windows, answers.page
    causes = answers.run.idle_causes()
    causes = causes[causes["step"].notna()] if windows["step"].notna().all() else causes
    idle = causes.groupby("cause")["idle_ns"].sum()
    assert idle.sum() == windows["idle_ns"].sum()
    shown = {row["Cause"]: int(row["Total"]) for row in page.tables.get("gap-causes", [])}
    assert shown == idle.to_dict()
    if shown:
        chart = page.charts["gaps"]
        assert dict(zip(chart["categories"], *chart["variants"][0]["values"], strict=True)) == shown
        assert f"Idle time adds up to {duration(int(idle.sum()))} over all ranks" in page.text
    told = {f"idle: {cause.replace('_', ' ')}": ns for cause, ns in idle.items()}
    health = answers.health[[name for name in answers.health.index if name.startswith("idle: ")]]
    assert set(health.index) == set(told)
    for name, ns in told.items():
        assert health[name] == pytest.approx(100 * ns / windows["window_ns"].sum())
    base = answers.itself.base
    causes = answers.run.idle_causes(window=base.window)
    kept = causes if base.steps is None else causes[causes["step"].isin(base.steps)]
    parts = dict(answers.itself.table("budget").select(["part", "base_ns"]).to_pandas().values)
    for cause, ns in kept.groupby("cause")["idle_ns"].sum().items():
        part = parts[f"idle: {str(cause).replace('_', ' ')}"]
        assert part == pytest.approx(ns / len(answers.compared), abs=1)


def _union_ns(waits: pd.DataFrame) -> int:
    """Return how long intervals from a to b are in all, each moment of a rank counted once."""
    before = waits.groupby("rank")["b"].transform(lambda b: b.cummax().shift(fill_value=0))
    return int((waits["b"] - waits["a"].clip(lower=before)).clip(lower=0).sum())


def test_who_is_waited_for(answers: Answers) -> None:
    page, ranks = answers.page, answers.run.stragglers().set_index("rank")
    rows = {int(row["Rank"]): row for row in page.tables.get("stragglers", [])}
    assert set(rows) == set(ranks.index)
    columns = {
        "Came last: Times": "known_last", "Others waited for it": "origin_wait_ns",
        "Waited for others": "waited_ns", "Clock-free wait": "waited_free_ns",
        "Inside collectives": "inside_ns",
    }  # fmt: skip
    for rank, row in rows.items():
        assert nanoseconds(row, *columns) == ranks.loc[rank, [*columns.values()]].tolist()
    base = answers.itself.base
    kept = answers.run.stragglers(per="run" if base.steps is None else "step")
    if base.steps is not None:
        kept = kept[kept["step"].isin(base.steps)]
    origins = kept.groupby("rank")["origin_wait_ns"].sum()
    for row in answers.itself.table("stragglers").to_pylist():
        assert row["base_origin_wait_ns"] == round(origins.get(row["rank"], 0) / base.count)
    for evidence in answers.evidence("straggler"):
        rank, last, known = re.match(
            r"Rank (\d+) .* last in (\d+) of (\d+) coll", evidence
        ).groups()
        assert [int(last), int(known)] == ranks.loc[
            int(rank), ["known_last", "known_instances"]
        ].tolist()
    waits = answers.run.sql("SELECT rank, start_local_ns AS a, a + wait_free_ns AS b FROM"
        " collective_waits JOIN collective_instances USING (collective_id) WHERE ranks_seen > 1"
        " ORDER BY rank, a, b")  # fmt: skip
    assert ranks["waited_free_ns"].sum() == _union_ns(waits)


def test_how_many_collectives_there_are(answers: Answers) -> None:
    matching = answers.run.matching(per="run")
    info = answers.run.info()
    calls = answers.run.ranks().set_index("rank")
    if not len(matching):
        assert (info.instances, calls["collectives"].sum()) == (0, 0)
        return
    [found] = matching.to_dict("records")
    assert (info.instances, info.complete_instances) == (found["instances"], found["complete"])
    assert calls["collectives"].sum() == found["calls"]
    assert calls["matched"].sum() == found["calls"] - found["unmatched"]
    assert [(r.rank, r.collectives, r.matched) for r in info.ranks] == list(
        calls[["collectives", "matched"]].itertuples(name=None)
    )
    columns = ["calls", "unmatched", "instances", "shared", "known_instances", "violations"]
    assert answers.run.matching()[columns].sum().to_dict() == {c: found[c] for c in columns}
    assert answers.run.groups()["calls"].sum() <= found["calls"]
    assert f"{count(found['calls'])} call" in answers.page.text
    assert f"make up {count(found['instances'])} collective" in answers.page.text


def test_how_fast_collectives_are(answers: Answers) -> None:
    measured = answers.run.bandwidth()
    assert len(answers.page.tables.get("bandwidth", [])) in (0, len(measured))
    speeds = sorted(measured["busbw_p50_gbps"].dropna())
    shown = [row["Bus bandwidth: Median"] for row in answers.page.tables.get("bandwidth", [])]
    assert sorted(float(one) for one in shown if one) == (speeds if shown else [])
    drawn = {
        point[1]
        for variant in answers.page.charts.get("bandwidth", {"variants": []})["variants"]
        for series in variant["series"]
        for point in series["points"]
    }
    told = set(measured["busbw_p50_gbps"]) | set(measured["busbw_free_p50_gbps"])
    assert drawn <= told
    factors = measured["busbw_p50_gbps"] / measured["algbw_p50_gbps"]
    assert factors.dropna().tolist() == pytest.approx(measured["bus_factor"][factors.notna()])


def test_how_long_kernels_run(answers: Answers) -> None:
    kernels, classes = answers.run.kernels(), answers.run.kernels(per="class")
    assert kernels["total_ns"].sum() == classes["total_ns"].sum()
    shown = [(row["Kernel"], int(row["Total"])) for row in answers.page.tables.get("kernels", [])]
    assert shown == [*kernels[["kernel", "total_ns"]].head(100).itertuples(index=False, name=None)]
    by_class = classes.set_index("kernel")["total_ns"].to_dict()
    tables = answers.page.tables.get("kernel-classes", [])
    assert {row["Class"]: int(row["Total"]) for row in tables} == by_class
    by_rank = answers.run.kernel_ranks().groupby("kernel")["total_ns"].sum()
    whole = kernels.set_index("kernel")["total_ns"]
    assert by_rank.to_dict() == whole[by_rank.index].to_dict()
    kept = answers.itself.base.steps
    rows = classes if kept is None else pd.concat(
        answers.run.kernels(per="class", step=step) for step in kept
    )  # fmt: skip
    expected = rows.groupby("kernel")["total_ns"].sum() / len(answers.compared)
    table = answers.itself.table("classes").to_pandas().groupby("item")["base_ns"].sum()
    for item, ns in table.items():
        assert ns == pytest.approx(expected[item], abs=len(classes))
    ran = {
        op
        for (op,) in answers.run.con.execute(
            "SELECT op_id FROM gpu_ops WHERE kind = 'kernel'"
        ).fetchall()
    }
    drawn = [
        name for op, each in answers.timeline.by_op().items() if op in ran for name in [each.name]
    ]
    assert (
        pd.Series(drawn).value_counts().to_dict() == kernels.set_index("kernel")["count"].to_dict()
    )


def test_how_much_memory_is_in_use(answers: Answers) -> None:
    memory = answers.run.memory()
    if not len(memory):
        assert "memory allocated" not in answers.health
        assert "memory" not in answers.page.charts
        assert len(answers.run.memory_timeline()) == 0
        return
    peaks = memory.groupby(["rank", "device"])["peak_allocated_bytes"].max()
    curves = answers.run.memory_timeline().groupby(["rank", "device"])["allocated_bytes"].max()
    assert curves.to_dict() == peaks.to_dict()
    for (rank, device), peak in peaks.items():
        assert max(answers.samples(rank, f"allocated memory {device}")) == peak
    highest = int(memory["peak_allocated_bytes"].max())
    assert f"At most {size(highest)} were allocated at once" in answers.page.text
    assert (
        max(int(row["At the peak: Allocated"]) for row in answers.page.tables["memory"]) == highest
    )
    assert answers.checked("memory", "peak_allocated_bytes", "max") == highest
    table = answers.itself.table("memory").to_pandas().set_index("measure")["base_bytes"]
    assert table["largest allocated at the peak"] == highest
    on_gpu = memory[~memory["on_host"]]["peak_allocated_bytes"].max()
    assert pd.isna(on_gpu) or answers.health["memory allocated"] * 1e9 == pytest.approx(on_gpu)


def test_how_far_clocks_tell_ranks_apart(answers: Answers) -> None:
    residuals = answers.run.clock_quality()["residual_p95_ns"]
    info = [clock.residual_p95_ns for clock in answers.run.info().clocks]
    assert info == [None if pd.isna(one) else one for one in residuals]
    # a column that no rank has a value in is left out
    shown = [row.get("Residual p95", "") for row in answers.page.tables["clocks"]]
    assert shown == ["" if one is None else str(one) for one in info]
    if residuals.isna().any():
        assert pd.isna(answers.health["clock resolution"])
        assert "clocks agree to" not in answers.page.text
        return
    worst = int(residuals.max())
    assert answers.health["clock resolution"] * 1e3 == pytest.approx(worst)
    assert len(residuals) == 1 or f"clocks agree to {duration(worst)} (" in answers.page.text
    for evidence in answers.evidence("weak_clocks"):
        assert evidence.startswith(f"Clocks tell ranks apart by {duration(worst)};")


def test_what_is_found(answers: Answers) -> None:
    found = answers.run.findings()
    blocks = [block(row, answers.run.path.name) for row in _findings(answers)]
    for said in blocks:
        assert all(text in answers.page.text for text in said[1:])
    costly = found.dropna(subset=["cost_ns"])
    told = answers.health.get("step time")
    mean = answers.windows["window_ns"].mean() if pd.isna(told) else told * 1e6
    assert costly["step_share"].tolist() == pytest.approx(
        (costly["cost_ns"] / mean).tolist(), rel=1e-4
    )


def test_what_fixing_is_worth(answers: Answers) -> None:
    found = answers.run.findings()
    fixes = answers.run.fixes()
    costs = found.dropna(subset=["scenario", "cost_ns"]).set_index("scenario")
    for row in fixes.dropna(subset=["scenario"]).to_dict("records"):
        # what others claim to the last is no finding, and the limit of a fix all the same
        same = costs[costs.index == row["scenario"]]
        assert len(same) or row["scenario"] == "kind=transfer times=0"
        assert (same["cost_ns"] <= row["alone_ns"]).all()
        is_replayed = same["cost_is"] == "replayed"
        assert (same["cost_ns"] == row["alone_ns"])[is_replayed].all()
        # where another finding claims the rest
        assert (same["cost_ns"] <= same["bound_ns"])[~is_replayed].all()
    shown = answers.page.tables.get("fixes", [])
    assert [int(row["Step"]) for row in shown] == fixes["step_ns"].tolist()
    told = answers.health
    for row in fixes[fixes["n"] > 0].to_dict("records"):
        if f"fix {row['n']}" in told.index:
            assert told[f"fix {row['n']}"] * 1e6 == pytest.approx(row["gain_ns"])
    replayed = fixes.dropna(subset=["scenario"])
    if len(replayed):
        scenario = replayed["scenario"].iloc[0]
        assert f"traceweave what-if {answers.run.path.name} '{scenario}'" in answers.page.text
        assert answers.run.what_if(scenario)["gain_ns"].iloc[0] == replayed["alone_ns"].iloc[0]


def _findings(answers: Answers) -> list[dict[str, Any]]:
    return answers.run.stream_analysis("findings").read_all().to_pylist()


def test_the_headline_has_the_cost_of_the_costliest_finding(answers: Answers) -> None:
    found = _findings(answers)
    costly = [row for row in found if row["cost_ns"]]
    if costly and costly[0]["step_share"] >= 0.05 and "hang" not in {row["rule"] for row in found}:
        assert f"; the largest cost, {block(costly[0], '').headline}" in answers.page.text


def test_costs_are_those_of_findings_for_check_agents_and_the_command_line(
    answers: Answers, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Agents are told four analyses of every run; the command line prints all four of the first."""
    run, is_first = answers.run, request.node.callspec.params["answers"] == RUNS[0]
    tools = Tools(Runs(Path(str(run.path)).parent), 60)
    name = Path(str(run.path)).name
    for analysis in ("findings", "fixes", "health", "accounting"):
        rows = run.stream_analysis(analysis).read_all().to_pylist()
        served = tools.analyze(name, analysis)["rows"]
        told = [served]
        if analysis == "findings" or is_first:
            printed = answers.printed(capsys, "analyze", analysis, "--format", "json")
            told.append(json.loads(printed)[: len(served)])
        for found in told:
            for one, other in zip(found, rows, strict=False):
                for column, value in one.items():
                    if isinstance(value, int | float):
                        assert value == pytest.approx(other[column]), (analysis, column)
    costs = run.findings()["cost_ns"].dropna()
    if len(costs):
        assert answers.checked("findings", "cost_ns", "max") == costs.max()
        assert answers.checked("findings", "cost_ns", "sum") == costs.sum()


def test_a_bound_is_called_one_wherever_it_stands(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answers.run.findings().dropna(subset="cost_ns")
    text = answers.printed(capsys, "analyze", "findings")
    bounds = found[(found["cost_is"] == "at most") & (found["cost_ns"] > 0)]
    assert " ".join(text.split()).count("at most") >= len(bounds)
    # what is replayed is no more than the run gains without anything that could be removed
    for row in found[found["cost_is"] == "replayed"].to_dict("records"):
        alone = answers.run.what_if(row["scenario"])["gain_ns"].iloc[0]
        assert row["cost_ns"] == max(alone, 0), row["scenario"]
    largest = answers.health.get("largest finding")
    if largest is not None and pd.notna(largest):
        assert largest * 1e6 == pytest.approx(found["bound_ns"].max())


def test_fixes_are_numbered_alike_everywhere(answers: Answers) -> None:
    fixes = answers.run.fixes()
    chosen = fixes[fixes["n"] > 0]
    assert chosen["n"].tolist() == list(range(1, len(chosen) + 1))
    assert (chosen["gain_ns"] > 0).all()
    assert chosen["together_ns"].tolist() == chosen["gain_ns"].cumsum().tolist()
    shares = chosen["together_ns"] / fixes["step_ns"].iloc[0] if len(fixes) else []
    assert chosen["together_share"].tolist() == pytest.approx(list(shares))
    asked = answers.run.health()
    told = asked[asked["answer"].str.startswith("fix ") & asked["value"].notna()]
    for row in told.to_dict("records"):
        [fix] = chosen[chosen["n"] == int(row["answer"].removeprefix("fix "))].to_dict("records")
        assert row["verdict"].startswith(fix["title"])
        assert f"leaves {duration(fix['step_ns'])}" in row["verdict"]


def test_who_is_late_is_one_rank(answers: Answers) -> None:
    asked = answers.run.health().set_index("answer")
    found = answers.run.findings()
    blamed = found[found["rule"] == "straggler"]
    if "worst straggler" not in asked.index or not len(blamed):
        return
    worst = asked.loc["worst straggler"]
    [row] = [row for row in blamed.to_dict("records") if list(row["ranks"]) == [worst["rank"]]]
    # what others wait is the bound of what is gained
    assert worst["value"] * 1e6 == pytest.approx(row["bound_ns"], abs=1)
    assert duration(row["bound_ns"]) in row["evidence"]


def test_the_critical_path(answers: Answers) -> None:
    """Its pieces as the export draws them add up to what the analysis has of each rank."""
    path = answers.run.critical_path().groupby("rank")["path_ns"].sum()
    ranks = answers.run.ranks()["rank"].tolist()
    drawn = {rank: answers.timeline.on("critical path", rank) for rank in ranks}
    graph = graph_of(answers.run.con)
    lengths = critical_path(graph, graph.nodes, graph.edges).length
    # where clocks, or a thread that wakes before a collective's end is noted, let the path go back,
    # the export cuts off what would lie side by side
    back = int(-lengths[lengths < 0].sum())
    for rank, found in drawn.items():
        total = sum(s.end - s.start for s in found)
        assert total == pytest.approx(path.get(rank, 0), abs=back + 1_000)
    pieces = sorted((s.start, s.end) for found in drawn.values() for s in found)
    holes = [(one[1], other[0]) for one, other in pairwise(pieces) if one[1] != other[0]]
    # what a device did before the recording let its first op wait
    first_ns = answers.run.sql("SELECT min(start_ns) AS ns FROM device_ops")["ns"][0]
    assert all(begin < end <= first_ns for begin, end in holes)


def test_what_was_read(answers: Answers) -> None:
    info, issues = answers.run.info(), answers.run.issues()
    sources = answers.run.sql("FROM sources ORDER BY source_id")
    shown = answers.page.tables["sources"]
    assert sum(int(row["Events read"]) for row in shown) == sources["events_read"].sum()
    assert sum(s.events_read for s in info.sources) == sources["events_read"].sum()
    warned = {w.kind: w.count for w in info.warnings if w.kind != "missing ranks"}
    told = {row["Kind"]: int(row["Events"]) for row in answers.page.tables.get("issues", [])}
    assert warned == told == issues.groupby("kind")["events"].last().to_dict()
