"""The truth about parallelism, where it can be worked out from the configuration alone."""

from dataclasses import replace

import pytest

from traceweave_simulator import Config, simulate, truth_parallel


def test_gradient_buckets_carry_every_gradient_once() -> None:
    config = Config(ranks=2, steps=2, layers=5, bucket_layers=2)
    buckets = truth_parallel.gradient_buckets(simulate(config))
    one = buckets[(buckets["rank"] == 1) & (buckets["step"] == 2)]
    # five layers in buckets of two, from the last one on, then the embedding
    sizes = [2, 2, 1, 1 / 8]
    assert one["bytes"].tolist() == [int(size * config.layer_bytes) for size in sizes]
    assert one["bucket"].tolist() == [1, 2, 3, 4]
    assert (one["ready_ns"] >= one["asked_ns"]).all()
    assert (one["start_ns"] >= one["ready_ns"]).all()
    tail = one["end_ns"].max() - one["ready_ns"].max()
    assert one["tail_ns"].tolist()[-1] == tail
    assert one["tail_ns"].isna().tolist() == [True, True, True, False]


def test_without_overlap_all_communication_is_exposed() -> None:
    config = Config(ranks=2, steps=1, layers=3, overlap=False)
    groups = truth_parallel.group_times(simulate(config))
    assert groups["overlap_ns"].tolist() == [0]
    assert groups["exposed_ns"].tolist() == groups["comm_ns"].tolist()


@pytest.mark.parametrize("microbatches", [2, 4, 16])
def test_the_bubble_of_equal_stages_is_that_of_the_schedule(microbatches: int) -> None:
    # messages that take next to no time, stages of two layers each
    config = Config(
        ranks=4, steps=1, layers=8, parallelism="pp", microbatches=microbatches,
        activation_bytes=2, alpha_ns=1, launch_latency_ns=1, kernel_spacing_ns=0,
    ).quiet()  # fmt: skip
    stages = truth_parallel.pipeline_stages(simulate(config))
    ideal = 3 / (microbatches + 3)
    middle = stages[stages["stage"].isin([1, 2])]
    assert len(middle) == 2
    # the first and the last stage have an operator more than the others
    share = 1 - middle["busy_ns"] / middle["window_ns"]
    assert share.between(ideal, ideal + 0.05).all()


def test_gathers_are_used_when_the_program_says() -> None:
    config = Config(ranks=2, steps=1, layers=3, parallelism="fsdp").quiet()
    ahead = truth_parallel.sharded_units(simulate(config))
    one_by_one = truth_parallel.sharded_units(simulate(replace(config, overlap=False)))
    gathers = ahead[(ahead["op"] == "all_gather") & (ahead["rank"] == 0)]
    slack = (gathers["first_use_ns"] - gathers["end_ns"]).tolist()
    # the first unit is waited for; the others are gathered while the one before computes; in the
    # backward pass each is waited for
    assert [s == 0 for s in slack] == [True, False, False, True, True, True]
    late = one_by_one[one_by_one["op"] == "all_gather"]
    assert (late["first_use_ns"] == late["end_ns"]).all()


def test_tensor_parallel_collectives_block_in_full() -> None:
    config = Config(ranks=2, steps=1, layers=3, parallelism="tp")
    table = truth_parallel.tensor_parallel(simulate(config))
    # two all-reduces forward and two backward per layer
    assert table["calls"].tolist() == [12, 12]
    assert table["blocked_ns"].tolist() == table["exposed_ns"].tolist() == table["comm_ns"].tolist()
