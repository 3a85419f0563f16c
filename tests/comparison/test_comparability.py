"""Whether two runs can be compared: real pairs, and every fact by itself."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest

import traceweave
from tests.cases import cases
from tests.comparison.runs import run_of
from tests.conftest import DatabaseOf
from tests.marks import nightly
from traceweave.comparison import can_be_compared, compare_runs
from traceweave.comparison.comparability import Comparability, compare_facts
from traceweave.comparison.facts import Facts

RUN = Facts(
    timeline="gpu", gpu_models=("NVIDIA H100",), world_size=4, ranks=(0, 1), roles=(), hosts=("a",),
    profilers=("PyTorch Profiler",), formats=("kineto",), backends=("nccl",),
    nccl_versions=("2.28.9",), settings=(("NCCL_ALGO", "Ring"), ("torch", "2.11")),
    step_sources=("ProfilerStep",), steps_counted=4, steps_marked=6, extras=("input shapes",),
    tick_ns=1, arithmetic=("bf16",), messages=("bfloat16",), compute={"gemm": 90.0, "norm": 10.0},
    operators={"aten::mm": 4.0, "aten::add": 4.0}, collectives={"all_reduce": 8.0}, matched=1.0,
)  # fmt: skip
OTHER_KERNELS = {"gemm_fp8": 95.0, "norm": 5.0}
OTHER_OPERATORS = {"aten::conv2d": 4.0, "aten::add": 4.0}


@pytest.mark.parametrize(
    ("change", "fact", "verdict"),
    [
        ({}, "GPU model", "comparable"),
        ({"timeline": "cpu"}, "device", "not comparable"),
        ({"gpu_models": ("NVIDIA A100",)}, "GPU model", "not comparable"),
        # older drivers leave the maker out
        ({"gpu_models": ("H100",)}, "GPU model", "comparable"),
        ({"gpu_models": ()}, "GPU model", "not known"),
        ({"world_size": 8}, "world size", "not comparable"),
        ({"world_size": None}, "world size", "not known"),
        ({"ranks": (0,)}, "ranks recorded", "with care"),
        ({"roles": ("stage 0",)}, "ranks recorded", "not comparable"),
        ({"step_sources": ()}, "steps that count", "not comparable"),
        ({"step_sources": ("inferred",)}, "steps that count", "not comparable"),
        ({"steps_counted": 3}, "steps that count", "comparable"),
        # 95% of the new run's time is in a kernel that the base lacks, under the same operators ...
        ({"compute": OTHER_KERNELS}, "compute in common", "with care"),
        # ... or, of three operators in all, one that both have
        (
            {"compute": OTHER_KERNELS, "operators": OTHER_OPERATORS},
            "compute in common",
            "not comparable",
        ),
        # a costly new kernel beside all that there was is a regression: (100% + 25%) / 2
        (
            {"compute": {**RUN.compute, "slow": 300.0}, "operators": OTHER_OPERATORS},
            "compute in common",
            "with care",
        ),
        ({"arithmetic": ("fp32",)}, "arithmetic", "with care"),
        # what was wrong: gradients summed in double took twice as long, and nothing said why
        ({"messages": ("double",)}, "numbers sent", "with care"),
        ({"collectives": {"all_gather": 8.0}}, "collectives in common", "with care"),
        ({"in_part": (1,)}, "files read", "with care"),
        ({"matched": 0.95}, "collectives matched", "comparable"),
        ({"matched": 0.0}, "collectives matched", "with care"),
        ({"matched": 0.5}, "collectives matched", "with care"),
        ({"hosts": ("b",)}, "hosts", "with care"),
        ({"backends": ("gloo",)}, "communication", "with care"),
        ({"nccl_versions": ("2.27.0",)}, "NCCL version", "with care"),
        ({"settings": (("torch", "2.11"),)}, "versions and switches", "with care"),
        ({"formats": ("nsys",), "profilers": ("Nsight Systems",)}, "profiler", "with care"),
        ({"profilers": ("PyTorch Profiler 2",)}, "profiler", "comparable"),
        ({"extras": ()}, "recorded besides", "with care"),
        ({"tick_ns": 1000}, "resolution of times", "with care"),
    ],
)
def test_every_fact_by_itself(change: dict[str, Any], fact: str, verdict: str) -> None:
    found = compare_facts(RUN, replace(RUN, **change))
    verdicts = {one.fact: one.verdict for one in found.facts}
    assert verdicts.pop(fact) == verdict
    assert set(verdicts.values()) == {"comparable"}
    assert found.verdict == ("comparable" if verdict == "not known" else verdict)
    for one in found.facts:
        differs = one.verdict in ("with care", "not comparable")
        assert bool(one.difference) == bool(one.limits) == differs


def test_what_neither_run_says_is_named_or_left_out() -> None:
    unknown = replace(
        RUN, world_size=None, hosts=(), nccl_versions=(), arithmetic=(), messages=(), settings=()
    )
    found = compare_facts(unknown, unknown)
    assert found.sentences == (
        "Comparable: nothing that was recorded speaks against it.",
        "Not known of both runs: world size.",
    )
    never = {"hosts", "NCCL version", "arithmetic", "numbers sent", "versions and switches"}
    assert not never & {one.fact for one in found.facts}


def test_without_steps_only_whole_recordings_stand_side_by_side() -> None:
    found = compare_facts(*[replace(RUN, step_sources=())] * 2)
    assert found.verdict == "with care"
    assert "lengths say when the profiler was stopped" in found.sentences[0]


def test_collectives_of_one_run_only_are_said_to_be_that() -> None:
    found = compare_facts(RUN, replace(RUN, collectives={}))
    assert "collectives in base only (ranks communicate in another way)" in found.sentences[0]


def test_a_recording_beside_itself_is_said_to_be_the_same() -> None:
    run = replace(RUN, moments=((0, 10, 90), (1, 12, 88)))
    other = replace(RUN, moments=((0, 10, 90), (1, 12, 89)))
    assert compare_facts(run, run).sentences[0].startswith("Both are the same recording")
    # one rank ended later; nothing is known of either
    assert not compare_facts(run, other).same
    assert not compare_facts(RUN, RUN).same


@nightly
def test_a_real_run_beside_itself_is_the_same(fixtures: Path, database_of: DatabaseOf) -> None:
    straggler, other = (fixtures / f"ddp_gloo_{name}" for name in ("straggler", "4ranks"))
    assert comparability(database_of, straggler, straggler).same
    assert not comparability(database_of, straggler, other).same


def test_a_file_that_ends_early_is_named() -> None:
    found = compare_facts(replace(RUN, in_part=(0, 1)), replace(RUN, in_part=(1,)))
    named = "files of ranks 0 and 1 end early in base; the file of rank 1 ends early in new"
    assert named in " ".join(found.sentences)


@nightly
def test_two_schedules_of_one_pipeline_are_comparable(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    found = comparability(database_of, *(fixtures / f"pipeline_{s}" for s in ("1f1b", "gpipe")))
    assert found.sentences == ("Comparable: nothing that was recorded speaks against it.",)


def test_what_one_of_two_recordings_has_besides_asks_for_care(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    names = ("ddp_gloo_4ranks", "ddp_gloo_straggler")
    found = comparability(database_of, *(fixtures / name for name in names))
    assert found.sentences == (
        "Comparable with care: memory events recorded in base only"
        " (recording it takes time of the host).",
    )


# what was wrong: 'Float instead of float', as NCCL's calls and gloo's have it
@nightly
def test_numbers_sent_are_compared_by_their_type(fixtures: Path, database_of: DatabaseOf) -> None:
    names = ("ddp_gloo_4ranks", "slow_rank_nccl")
    found = comparability(database_of, *(fixtures / name for name in names))
    [sent] = [one for one in found.facts if one.fact == "numbers sent"]
    assert (sent.verdict, sent.base, sent.new) == ("comparable", "float", "float")


@nightly
def test_an_a100_is_not_compared_with_a_v100(database_of: DatabaseOf, corpus: Path) -> None:
    names = ("diff_control", "diff_test")
    found = comparability(database_of, *(corpus / "kineto" / name for name in names))

    assert found.sentences[0] == (
        "Not comparable: GPU model Tesla V100-SXM2-16GB instead of NVIDIA A100-PG509-200; world"
        " size 2 instead of 8. Differences cannot be read as the effect of a change."
    )
    assert "rank 1 recorded instead of rank 3" in found.sentences[1]
    assert "arithmetic fp32 instead of tf32" in found.sentences[1]
    # the operators are those of one program, whose kernels are those of another GPU
    [compute] = [one for one in found.facts if one.fact == "compute in common"]
    assert (compute.verdict, compute.base, compute.new) == ("with care", "50.9%", "43.2%")


@nightly
def test_another_model_on_more_ranks_is_another_program(
    database_of: DatabaseOf, corpus: Path
) -> None:
    names = ("megatron_tp2", "megatron_tp8")
    found = comparability(database_of, *(corpus / "kineto" / name for name in names))
    assert found.against == "GPU model, world size, compute in common"
    models = [(one.base, one.new) for one in found.facts if one.fact == "GPU model"]
    assert models == [("Tesla V100-PCIE-32GB", "NVIDIA A100-SXM4-80GB")]


def test_a_step_that_does_more_arithmetic_is_said_to() -> None:
    # what was wrong: 'nothing speaks against it', of twice the batch
    one = replace(RUN, step_flops=570e6)
    found = compare_facts(one, replace(RUN, step_flops=1140e6))
    assert found.sentences[0].startswith("Comparable with care: a step of new does 2x base's")
    more = compare_facts(one, replace(RUN, step_flops=600e6)), compare_facts(one, RUN)
    assert [each.verdict for each in more] == ["comparable"] * 2


@nightly
def test_one_job_with_another_bucket_size_ran_on_another_host(
    database_of: DatabaseOf, corpus: Path
) -> None:
    names = ("ddp_4gpu_baseline", "ddp_4gpu_bucketcap100mb")
    reports = [next((corpus / "nsys").glob(f"{name}*")) for name in names]
    found = traceweave.compare(*map(database_of, reports))

    assert [one.fact for one in found.comparability.facts if one.verdict != "comparable"] == [
        "hosts"
    ]
    # what was wrong: 'cannot tell', as one step of 57 takes 69.6 ms in place of 30
    assert (found.verdict, found.time.undecided) == ("faster", "")
    said = "-2.8% at the median, significantly faster (mean 30.5 ms instead of 30.7 ms, -0.6%)."
    assert f"Step time: {said}" in found.words
    assert "Collectives per step and rank: 5 all_reduce instead of 8." in found.words
    # what was wrong: ncclGroupEnd was called faster, and two kernels had one name
    words = " ".join(found.words)
    assert "ncclGroupEnd (-34.2%, -46.3 us, 5 instead of 8 calls)" in words
    assert all(f"tilesize128x{tile}_stage" in words for tile in ("128x32", "64x32"))


@nightly
def test_one_job_recorded_twice_is_comparable(database_of: DatabaseOf, corpus: Path) -> None:
    folder = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    runs = [sorted(folder.glob(f"*_{process}*")) for process in ("240", "26")]
    found = traceweave.compare(*[database_of(*files) for files in runs])

    assert len(runs[0]) == len(runs[1]) == 4
    assert found.words[0] == "Comparable: nothing that was recorded speaks against it."
    # ranks of the first began their recording seconds apart; both compute the same
    budget = {row["part"]: row for row in found.table("budget").to_pylist()}
    compute = budget["compute"]
    assert -0.02 < compute["difference_ns"] / compute["base_ns"] < -0.01
    assert compute["change"] == "not significant"
    assert budget["exposed waiting"]["change"] == "shorter"


def test_a_run_without_work_cannot_be_compared() -> None:
    with run_of() as run, run_of(change=lambda b: b.con.execute("DELETE FROM base.gpu_ops")) as no:
        found = can_be_compared(run, no)
    assert found.against == "work"
    assert found.reasons == "the run: no work was recorded that could be compared"


STEADY = (1500, 1001, 999, 1000, 700)
"""Steps that count: mean 1000 ns, deviation 1."""

Steady = Callable[[int], duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def steady() -> Iterator[Steady]:
    """Runs whose steps are longer than STEADY by some ns; what one was asked once it knows."""
    with ExitStack() as stack:
        yield cache(lambda more: stack.enter_context(run_of([length + more for length in STEADY])))


@cases
def test_a_change_counts_from_the_smallest_one_on(
    steady: Steady, more: int, smallest_change: float, verdict: str
) -> None:
    found = compare_runs(steady(0), steady(more), smallest_change=smallest_change)
    assert found.verdict == verdict
    [mean, _] = found.table("step").to_pylist()
    assert mean["difference_ns"] == more
    if more:
        assert mean["welch_p"] < 0.002


@nightly
def test_of_an_item_a_tenth_counts(steady: Steady) -> None:
    # 2% of 1000 ns are 20; of a kernel 2 count. gemm takes 2 ns more in every step
    def change(least: float) -> str:
        rows = compare_runs(steady(0), new, smallest_change=least).table("kernels").to_pylist()
        [found] = [row["change"] for row in rows if row["item"] == "gemm"]
        return str(found)

    with run_of(STEADY, gemm=402) as new:
        # it never varies, so there is no spread to test against
        assert change(0.02) == "not testable"
        assert change(0.021) == "same"


def comparability(database_of: DatabaseOf, base: Path, new: Path) -> Comparability:
    with traceweave.open(database_of(base)) as one, traceweave.open(database_of(new)) as other:
        return can_be_compared(one.con, other.con)


def test_versions_and_switches_that_differ_are_named() -> None:
    other = replace(RUN, settings=(("NCCL_ALGO", "Tree"), ("torch", "2.11")))
    found = compare_facts(RUN, other)
    assert "NCCL_ALGO Ring in base only; NCCL_ALGO Tree in new only" in found.sentences[0]
    [fact] = [one for one in found.facts if one.fact == "versions and switches"]
    assert (fact.base, fact.new) == ("NCCL_ALGO Ring", "NCCL_ALGO Tree")
