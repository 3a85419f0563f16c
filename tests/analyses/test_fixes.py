"""What fixing a finding is worth: by hand, and the same as what-if says of its scenario."""

from pathlib import Path

import pandas as pd
import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.analyses.builders import rows, unchanging
from tests.conftest import DatabaseOf
from tests.marks import at_once, nightly
from tests.replay import by_hand
from tests.replay.by_hand import US
from traceweave.analyses.blocks import cost_in_words
from traceweave.replay.fixes import fixes


def test_by_hand(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    with unchanging(empty_run):
        found, (as_it_is, fixed, _) = (rows(empty_run, name) for name in ("findings", "fixes"))
    by_rule = {row["rule"]: row for row in found}
    slow = by_rule["slow_kernels"]
    # A and B take 30 and 18 where the others take 15 and 8 at the median
    assert (slow["ranks"], slow["bound_ns"]) == ([1], 25 * US)
    assert slow["scenario"] == "rank=1 kind=compute like=median"
    # with A at 20 the transfer begins at 25, when rank 2 is there; B takes 8, the lower of two:
    # of steps of 50, 60 and 70 there are left 45, 37 + 8 and 65
    assert (slow["cost_ns"], slow["cost_is"]) == (60_000 - 51_667, "replayed")
    assert (slow["uncertainty_ns"], fixed["uncertainty_ns"]) == (None, None)  # of one step
    # what better overlap would be, no scenario can say
    assert (by_rule["poor_overlap"]["cost_ns"], by_rule["poor_overlap"]["cost_is"]) == (
        12 * US,
        "at most",
    )
    assert (as_it_is["step_ns"], as_it_is["alone_ns"], as_it_is["scenario"]) == (60_000, None, None)
    assert as_it_is["bottleneck"] == "compute (other) of rank 1, 42.9% of the path"
    assert (fixed["n"], fixed["rule"], fixed["step_ns"]) == (1, "slow_kernels", 51_667)
    assert fixed["gain_ns"] == fixed["alone_ns"] == fixed["together_ns"] == slow["cost_ns"]


@nightly
def test_the_first_n_are_replayed_together(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    slow, transfer = "rank=1 kind=compute like=median", "op=all_reduce times=0"
    as_it_is, *found = fixes(empty_run, [slow, transfer, "rank=9 times=0"])
    assert as_it_is.step_ns == 60_000
    # the best first: without a transfer of 12, and then with rank 2 the last, at 25
    assert [(f.n, f.scenario, f.alone_ns) for f in found[:2]] == [
        (1, transfer, 12_000),
        (2, slow, 8_333),
    ]
    assert [f.step_ns for f in found[:2]] == [48_000, round((33 + 33 + 53) / 3 * US)]
    assert (found[2].n, found[2].alone_ns) == (None, None)
    assert found[2].note == "this run has no rank 9; it has ranks 0-2"
    # 13.9 % are too little: what is left out is in the steps of no other either
    _, first, other, _ = fixes(empty_run, [slow, transfer, "rank=9 times=0"], least=0.14)
    assert (first.n, first.step_ns, other) == (
        1,
        48_000,
        found[1]._replace(n=None, adds_ns=None, step_ns=None, bottleneck=None),
    )


RUNS = ("fixtures/ddp_gloo_straggler", "corpus/kineto/megatron_tp8")


@pytest.fixture(params=at_once(RUNS, RUNS[0]))
def run(request: pytest.FixtureRequest, database_of: DatabaseOf) -> traceweave.Run:
    where, name = request.param.split("/", 1)
    return traceweave.open(database_of(request.getfixturevalue(where) / name))


@nightly
def test_a_cost_is_what_what_if_says_of_the_scenario(run: traceweave.Run) -> None:
    found = run.findings().dropna(subset=["cost_ns"])
    replayed = found[found["cost_is"] == "replayed"]
    assert len(replayed)
    of = ["critical", "warning", "info"]
    order = [(of.index(row.severity), -row.cost_ns) for row in found.itertuples()]
    assert order == sorted(order)
    scenarios = replayed["scenario"].unique().tolist()
    answers = run.what_if(*scenarios).head(len(scenarios)).set_index("scenario")
    for row in replayed.to_dict("records"):
        # what makes a step longer gains nothing
        assert row["cost_ns"] == max(answers.loc[row["scenario"], "gain_ns"], 0)
        of_what_if = answers.loc[row["scenario"], "uncertainty_ns"]
        assert row["uncertainty_ns"] == of_what_if or pd.isna(of_what_if)
    fixes = run.fixes()
    assert (fixes["gain_ns"].iloc[1:] > 0).all()
    first = run.what_if("; ".join(fixes["scenario"].dropna())).iloc[0]
    last = fixes.iloc[-1]
    assert (last["step_ns"], last["together_ns"]) == (first["predicted_step_ns"], first["gain_ns"])
    assert fixes.iloc[0]["step_ns"] == first["measured_step_ns"]
    assert last["bottleneck"] == first["bottleneck"]


@nightly
def test_a_fix_that_adds_nothing_to_the_others_has_no_place(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    transfer, again = "op=all_reduce times=0", "kind=transfer times=0.5"
    _, first, *others = fixes(empty_run, [again, transfer])
    assert (first.n, first.scenario, first.step_ns) == (1, transfer, 48_000)
    # half of 12, and nothing of what is gone
    assert [(f.n, f.scenario, f.alone_ns) for f in others] == [(None, again, 6_000)]


@nightly
def test_a_limit_is_replayed_and_is_no_fix(empty_run: Connection) -> None:
    by_hand.write(empty_run)
    limit = "kind=transfer times=0"
    [alone] = fixes(empty_run, [], [limit])
    assert (alone.n, alone.scenario, alone.alone_ns) == (None, limit, 12_000)
    fix = "rank=1 kind=compute like=median"
    assert [f.n for f in fixes(empty_run, [fix], [limit])] == [0, 1, None]


def test_a_finding_says_what_it_gains_once_others_are_fixed(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    """Ranks 3 and 1 sleep 50 and 25 ms in each step: the second is hidden by the first."""
    run = traceweave.open(database_of(fixtures / "second_straggler_gloo"))
    found, fixes = run.findings(), run.fixes().set_index("scenario")
    told = found[found["on_top_ns"].notna()]
    assert told["title"].tolist() == ["Rank 1 is late too, hidden by rank 3"]
    [second] = found[found["scenario"] == "rank=1 like=median"].to_dict("records")
    adds = fixes.loc["rank=1 like=median", "gain_ns"]
    assert (second["severity"], second["on_top_ns"]) == ("critical", adds)
    assert second["cost_ns"] < 1_000
    assert 22e6 < adds < 27e6
    cost = cost_in_words(second)
    assert cost == f"{adds / 1e6:.1f} ms per step once others are fixed; alone hardly anything"


def test_a_finding_that_counts_the_time_of_another_is_as_severe_as_what_it_adds(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    """Batches come 40.8 ms late every fourth step: what a host does after a wait is mostly that."""
    run = traceweave.open(database_of(fixtures / "late_loader_nccl"))
    found = run.findings().set_index("rule")
    assert found.loc["sync_bound", "severity"] == "info"
    assert 5e6 < found.loc["sync_bound", "cost_ns"] < 6e6
    assert (
        found.loc["sync_bound", "on_top_ns"]
        == run.fixes().set_index("rule").loc["sync_bound", "gain_ns"]
    )


@nightly
def test_what_takes_all_away_is_the_last_fix_and_no_other_is_less_severe_for_it(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    """Six metrics gathered one by one: 6.9 ms per step, 2.6 without them. What was wrong: they were
    0.57 ms once no transfer took any time, and a warning, as sums of 60 weights were an info."""
    run = traceweave.open(database_of(fixtures / "metrics_gathered_gloo"))
    first = run.findings().to_dict("records")[0]
    assert (first["rule"], first["severity"]) == ("read_sum", "critical")
    assert run.fixes()["scenario"].tolist()[1:] == [first["scenario"], "kind=transfer times=0"]
    assert run.fixes()["step_ns"].iloc[1] == pytest.approx(2.6e6, rel=0.05)


@nightly
def test_who_was_not_recorded_may_be_as_late(fixtures: Path, database_of: DatabaseOf) -> None:
    folder = fixtures / "ddp_gloo_straggler"
    some = database_of(*(folder / f"rank{rank}.json.gz" for rank in (0, 2)))
    for database, said, why in ((database_of(folder), "replayed", False), (some, "at most", True)):
        late = traceweave.open(database).findings().set_index("rule").loc["straggler"]
        assert late["cost_is"] == said
        assert ("not recorded may be as late" in (late["note"] or "")) == why


@nightly
def test_nothing_is_known_to_wait_is_no_gain_of_nothing(
    corpus: Path, database_of: DatabaseOf
) -> None:
    found = traceweave.open(database_of(corpus / "kineto/cpu_gloo_1of300")).findings()
    [row] = found[found["rule"] == "communication_bound"].to_dict("records")
    # sums run in all but 31 ms of its step, and its file has no operator that begins after one
    assert (row["cost_is"], row["cost_ns"]) == ("at most", row["bound_ns"])
    assert row["bound_ns"] / 1e6 == pytest.approx(178.8, abs=0.1)
    assert row["note"].startswith("not replayed: nothing is known to wait for 100.0%")


@nightly
def test_a_run_too_large_has_bounds_and_says_how_to_ask(run: traceweave.Run) -> None:
    found = run.findings(replay_ops=100)
    costs = found.dropna(subset=["cost_ns"])
    assert set(costs["cost_is"]) == {"at most"}
    assert costs["cost_ns"].tolist() == costs["bound_ns"].tolist()
    notes = costs.dropna(subset=["scenario"])["note"]
    assert notes.str.contains("not replayed: .* operations are more than 100; -p replay_ops").all()
    [row] = run.fixes(replay_ops=100).to_dict("records")
    assert (row["n"], row["note"]) == (0, notes.iloc[0])
    assert pd.isna(row["step_ns"])
    [line] = [r for r in run.health(replay_ops=100).to_dict("records") if r["answer"] == "fix 1"]
    assert (line["verdict"], line["proof"]) == ("not replayed: see fixes", "fixes")
