"""Real pairs of runs beside what HTA and nsys stats say of either."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.end_to_end.peers import hta_answers
from tests.marks import nightly


@nightly
def test_the_nsys_pair_is_compared_by_inferred_steps(
    database_of: Callable[..., Path], corpus: Path, expected: Path
) -> None:
    names = ("fsdp_2rank_before", "fsdp_2rank_after")
    reports = [next((corpus / "nsys").glob(f"{name}*")) for name in names]
    found = traceweave.compare(*map(database_of, reports))

    # their steps are inferred from the kernels
    assert found.verdict == "slower"
    budget = found.table("budget").to_pylist()
    assert sum(row["difference_ns"] for row in budget[:-1]) == budget[-1]["difference_ns"]
    for side, name in zip(("base", "new"), names, strict=True):
        theirs = _kernels(next((expected / "nsys_stats").glob(f"{name}*gpu_kern_sum.csv")))
        ours = {row["item"] for row in found.table("kernels").to_pylist() if row[f"{side}_calls"]}
        # what runs in no inferred step is left out
        assert ours <= theirs
        assert len(ours) > len(theirs) / 2


@nightly
def test_the_kineto_pair_is_compared_per_rank_and_step(
    database_of: Callable[..., Path], corpus: Path, expected: Path
) -> None:
    paths = [corpus / "kineto" / name for name in ("diff_control", "diff_test")]
    found = traceweave.compare(*map(database_of, paths))

    assert (found.base.ranks, found.base.steps) == (1, (1010, 1011, 1012, 1013))
    # new steps last 82 to 167 ms: slower in every pair, and yet too unsteady for four steps
    assert found.verdict == "not significant"
    amount = [one for one in found.comparability.facts if one.fact == "arithmetic per step"]
    assert [(one.base, one.new, one.verdict) for one in amount] == [
        ("345 GFLOP", "26.0 GFLOP", "with care")
    ]
    assert found.words[2:] == ("Mean step: 77.1 ms in base, 119 ms in new.",)
    budget = found.table("budget").to_pylist()
    assert sum(row["difference_ns"] for row in budget[:-1]) == budget[-1]["difference_ns"]
    changes = set(found.table("kernels")["change"].to_pylist())
    assert {"added", "removed"} < changes
    hidden = [
        hta_answers(expected, path.name)["comm_comp_overlap_pct"][0]["comp_comm_overlap_pctg"]
        for path in paths
    ]
    # HTA's are over the whole recording, two steps more than here
    overlap = found.table("overlap").to_pylist()[0]
    assert 100 * overlap["base_share"] == pytest.approx(hidden[0], abs=3)
    assert 100 * overlap["new_share"] == pytest.approx(hidden[1], abs=3)
    assert overlap["change"] == "higher"


def test_words_on_unlike_programs_are_the_reasons_and_both_step_times(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    names = ("host_pause_nccl", "host_work_nccl")
    found = traceweave.compare(*(database_of(fixtures / name) for name in names))
    # tables have the test; '+987.4%, significantly slower' is none of one program
    assert found.verdict == "slower"
    assert found.words == (
        "Not comparable: 0.0% of base's and 0.0% of new's compute time is in kernels of both."
        " Differences cannot be read as the effect of a change.",
        "Mean step: 9.41 ms in base, 102 ms in new.",
    )
    assert found.to_dict()["words"] == list(found.words)


@nightly
def test_exposed_communication_is_waiting_and_transfer_as_breakdown_has_them(
    fixtures: Path, database_of: Callable[..., Path], corpus: Path
) -> None:
    databases = [database_of(fixtures / f"ddp_gloo_{name}") for name in ("4ranks", "straggler")]
    found = traceweave.compare(*databases)

    budget = {row["part"]: row for row in found.table("budget").to_pylist()}
    assert "exposed communication" not in budget
    for side, database in zip(("base", "new"), databases, strict=True):
        with traceweave.open(database) as run:
            rows = run.analyze("breakdown")
        # the first step does not count
        mean = rows[rows["step"] > rows["step"].min()].mean(numeric_only=True)
        wait, transfer, whole = (mean[f"exposed_{s}_ns"] for s in ("wait", "transfer", "comm"))
        parts = [budget[f"exposed {part}"][f"{side}_ns"] for part in ("waiting", "transfer")]
        assert parts == pytest.approx([wait, transfer], abs=1)
        assert sum(parts) == pytest.approx(whole, abs=2)
    # a rank that sleeps computes no more
    amount = [one for one in found.comparability.facts if one.fact == "arithmetic per step"]
    assert [(one.base, one.new, one.verdict) for one in amount] == [
        ("109 MFLOP", "109 MFLOP", "comparable")
    ]
    # the sleeping rank is waited for
    assert budget["exposed waiting"]["change"] == "longer"
    # what was wrong: 'most changed' left out what one run alone has, which is the cause here
    said = "Operators and ranges of the host: 1 added; most changed: slow data loader (added, +10.1"
    assert said in " ".join(found.words)

    # one of four ranks was recorded: nothing tells its waiting from transfer
    reports = sorted((corpus / "nsys").glob("ddp_4gpu_*"))
    parts = traceweave.compare(*map(database_of, reports)).table("budget")["part"].to_pylist()
    assert [part for part in parts if "exposed" in part] == [
        "exposed communication",
        "exposed memory",
    ]


def _kernels(path: Path) -> set[str]:
    with path.open(newline="", encoding="utf-8") as stream:
        return {row["Name"] for row in csv.DictReader(stream)}
