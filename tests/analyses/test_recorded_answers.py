"""What analyses answer of recorded runs, and of simulated ones whose truth is known."""

import pytest

from tests.cases import cases
from tests.conftest import Recorded, Simulated
from tests.marks import first_at_once, nightly
from tests.simulated_runs import SLOW_GPU
from traceweave_simulator import Config, Gap, Truth, simulate


@nightly
def test_the_real_transfers_of_megatron_are_as_fast_as_its_links(recorded: Recorded) -> None:
    got = recorded("kineto/megatron_tp8").analyze("tp")
    assert got["rank"].tolist() == list(range(8))
    assert (got["calls"] == 84).all()
    assert (got["exposed_ns"] == got["comm_ns"]).all()
    # 8 A100: what is not waiting moves 5.4 GB x 7/4 at 180 to 220 GB/s over the bus
    speed = got["bytes"] * 1.75 / (got["comm_ns"] - got["wait_ns"])
    assert speed.between(180, 220).all()
    # the host-bound rank arrives last, so it waits least of all
    assert got["wait_ns"].idxmin() == 0


def test_gradients_of_a_real_run_are_allocated_in_no_collective(recorded: Recorded) -> None:
    """While backward goes on, gloo's threads reduce the first buckets: their ranges are open."""
    found = recorded("ddp_gloo_4ranks").memory_live()
    gradients = found[found["host_op"] == "aten::mm"]
    assert set(gradients["range"]) == {"backward", "DistributedDataParallel.forward"}
    assert not found["range"].str.startswith("gloo:").any()


@nightly
def test_between_the_steps_of_a_real_run_nothing_is_allocated(recorded: Recorded) -> None:
    """At each end of a step torch 1.9 frees what it allocated in it, and 64 ms follow without."""
    curve = recorded("kineto/tb_resnet50_torch1.9").memory_timeline()
    curve = curve[curve["device"] == "cuda:0"].sort_values("since_ns")
    pauses = curve[curve["since_ns"].shift(-1) - curve["since_ns"] > 60_000_000]
    assert pauses["allocated_bytes"].to_list() == [0] * len(pauses) != []


def test_the_highest_value_of_a_real_run_is_its_peak(recorded: Recorded) -> None:
    opened = recorded("ddp_gloo_4ranks")
    peaks = opened.memory().set_index("rank")["peak_allocated_bytes"]
    found = opened.memory_timeline()
    assert found.groupby("rank")["allocated_bytes"].max().to_dict() == peaks.to_dict()
    assert found.groupby("rank").size().max() <= 401


@nightly
def test_the_split_sizes_of_a_real_expert_parallel_run(recorded: Recorded) -> None:
    run = recorded("kineto/ep_moe_b200_seq")
    (row,) = run.analyze("comm_matrix").to_dict("records")
    # of two ranks, what each call sends to the other one by its own list
    want = run.sql(
        """
        SELECT sum(k.bytes * (args ->> 'In msg nelems')::BIGINT
            / greatest((args ->> 'In msg nelems')::BIGINT, (args ->> 'Out msg nelems')::BIGINT)
            * (args ->> 'In split size' ->> '$[1]')::BIGINT
            / list_sum((args ->> 'In split size')::BIGINT[])) AS bytes
        FROM collectives AS k JOIN gpu_ops AS g ON g.op_id = k.gpu_op_id
        WHERE k.op = 'all_to_all'
        """
    )
    assert (row["from_rank"], row["to_rank"], row["messages"]) == (0, 1, 30)
    assert row["parts"] == "split sizes"
    assert row["bytes"] == want["bytes"].iloc[0]


@nightly
def test_experts_of_rank_3_get_most(recorded: Recorded) -> None:
    found = recorded("cases/moe").exchanges()
    # tokens go to rank 3 (6963200 + 6144000 + 5734400 elements of 2 bytes), and come back from it
    assert len(found) == 10
    assert set(found["peak_rank"]) == {3}
    assert set(found["peak_bytes"]) == {2 * (6963200 + 6144000 + 5734400)}
    assert sorted(found["peak_is"]) == ["receives"] * 5 + ["sends"] * 5
    assert found["peak_to_mean"].to_list() == pytest.approx([37683200 * 4 / 52019200] * 10)


@nightly
def test_where_the_stream_stood_still_the_real_first_use_is_right_after_the_end(
    recorded: Recorded,
) -> None:
    got = recorded("kineto/negative_queue_1of16").analyze("fsdp")
    gathers = got[got["op"] == "all_gather"]
    assert len(gathers) == 10
    # every gather blocks: the next kernel starts 7 to 10 us after its end, in whole us
    assert gathers["slack_ns"].between(7_000, 10_000).all()
    assert (gathers["blocked_ns"] == gathers["duration_ns"]).all()
    assert (gathers["prefetch_ns"] - gathers["slack_ns"] == gathers["duration_ns"]).all()


def test_medians_are_those_of_the_analysis_kernels(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    found, kernels = run.kernel_ranks(), run.kernels().set_index("kernel")
    assert len(found)
    for kernel, medians in found.groupby("kernel")["p50_ns"]:
        row = kernels.loc[kernel]
        assert (medians.min(), medians.max()) == (row["fastest_p50_ns"], row["slowest_p50_ns"])


def test_the_shipped_run_reduces_four_buckets_per_step_in_their_order(recorded: Recorded) -> None:
    got = recorded("ddp_gloo_4ranks").analyze("ddp_buckets")
    # as tests/fixtures/README.md has it: 86016 + 73824 + 73824 + 86208 elements of 4 bytes
    sizes = [4 * n for n in (86016, 73824, 73824, 86208)]
    assert [group["bytes"].tolist() for _, group in got.groupby(["rank", "step"])] == [sizes] * 16
    assert set(got["evidence"]) == {"gradient"}
    assert (got["queue_ns"] > 0).all()
    by_step = got.groupby(["rank", "step"])
    tails = by_step["end_ns"].max() - by_step["asked_ns"].max()
    assert tails.tolist() == got["tail_ns"].dropna().tolist()


@nightly
@pytest.mark.parametrize(("trace", "buckets"), [("baseline", 8), ("bucketcap100mb", 5)])
def test_real_buckets_start_as_soon_as_they_are_ready(
    recorded: Recorded, trace: str, buckets: int
) -> None:
    got = recorded(f"nsys/ddp_4gpu_{trace}__nersc.sqlite.gz").analyze("ddp_buckets")
    assert got["buckets"].unique().tolist() == [buckets]
    # NCCL's kernel cannot start before the gradients are there, and with nothing in front of it
    # needs a few microseconds: that is how the order of launches is known to be right
    assert (got["queue_ns"] >= 0).all()
    first = got[got["bucket"] == 1]["queue_ns"]
    assert first.median() < 5_000
    # the last bucket is reduced when the backward pass has ended
    last = got[got["bucket"] == buckets]
    assert (last["exposed_ns"] == last["duration_ns"]).mean() > 0.9


def test_the_prediction_for_the_shipped_run_is_near_what_was_measured(recorded: Recorded) -> None:
    got = recorded("ddp_gloo_4ranks").analyze("bucket_size", time="shortest")
    assert got["merged"].tolist() == [1, 2, 3, 4]
    today = got.iloc[0]
    # a fit over four sizes on two busy cores: a fifth is what can be asked for
    assert abs(today["tail_ns"] - today["measured_tail_ns"]) < 0.2 * today["measured_tail_ns"]


def test_ranks_that_began_to_record_later_lack_the_first_calls(recorded: Recorded) -> None:
    found = recorded("kineto/nanogpt_8xh100").matching().set_index("op")
    # INDEX.md: 76, 76, 76, 76, 81, 84, 84 and 84 calls; so 76 are on all ranks, 8 on some
    assert found["calls"].sum() == 4 * 76 + 81 + 3 * 84
    assert found["unmatched"].sum() == 0
    assert (found["complete"].sum(), found["incomplete"].sum()) == (76, 8)
    assert found["violations"].sum() == 0


def test_ranks_of_a_real_run(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    found, (whole,) = run.ranks(), run.matching(per="run").to_dict("records")
    # INDEX.md: 84 all-reduces on each of 8 ranks of 8
    assert found["rank"].tolist() == list(range(8))
    assert found["collectives"].tolist() == found["matched"].tolist() == [84] * 8
    assert set(found["timeline"]) == {"gpu"}
    assert (whole["instances"], whole["complete"]) == (84, 84)


@first_at_once()
@pytest.mark.parametrize("window", ["device", "host", "span"])
def test_it_is_what_was_simulated(simulated: Simulated, window: str) -> None:
    got = simulated(SLOW_GPU).pop(window=window)
    truth = Truth(simulate(SLOW_GPU)).breakdown(window)  # type: ignore[arg-type]
    by = truth.groupby("step", dropna=False)
    balance = by["compute_ns"].mean() / by["compute_ns"].max()
    efficiency = by["compute_ns"].mean() / by["window_ns"].max()
    # clocks are fitted, so a window may be a nanosecond or two off
    assert got["load_balance"].tolist() == pytest.approx(balance.tolist(), rel=1e-5)
    assert got["parallel_efficiency"].tolist() == pytest.approx(efficiency.tolist(), rel=1e-5)
    assert set(got["busiest_rank"]) == {2}


@nightly
def test_simulated_stalls_of_single_steps_are_found(simulated: Simulated) -> None:
    stalls = (Gap("sync", 6_000_000, step=1), Gap("data_loading", 8_000_000, step=4))
    config = Config(ranks=2, steps=7, layers=2, gaps=stalls, first_step=10)
    found = simulated(config).analyze("slow_steps", window="host").sort_values(["step", "rank"])
    assert found["step"].tolist() == [11, 11, 14, 14]
    assert found["grew"].tolist() == ["idle: sync"] * 2 + ["idle: data_loading"] * 2
    put_in = [6_000_000] * 2 + [8_000_000] * 2
    assert (found["grew_ns"] - put_in).abs().max() < 600_000
    assert found["slow_ranks"].tolist() == [2] * 4


@nightly
def test_a_simulated_transformer_by_hand(simulated: Simulated) -> None:
    layers = 2
    # tokens x width: products from width to 3, 1 and 4 times it and from 4 times it, each once
    # forward and twice backward; attention of every token with every token, and 5/2 of it backward
    tokens, width, sequences = 4096, 2048, 2
    products = 2 * tokens * width * (3 + 1 + 4 + 4) * width
    attention = 4 * (tokens // sequences) ** 2 * sequences * width
    flops = layers * (3 * products + 7 * attention // 2)
    found = simulated(Config(ranks=1, steps=2, layers=layers)).mfu()
    steps = found[found["step"].notna()]
    assert steps["model_flops"].tolist() == [flops] * 2
    of_peak = flops / (steps["window_ns"] * 1e-9) / (steps["peak_tflops"] * 1e12)
    assert steps["mfu"].tolist() == pytest.approx(of_peak.tolist())
    assert set(steps["gpu_name"]) == {"NVIDIA H100 80GB HBM3"}


Roles = dict[tuple[int, ...], tuple[str | None, str]]


@cases
def test_no_more_is_said_than_recorded_groups_show(
    recorded: Recorded, trace: str, roles: Roles
) -> None:
    found = recorded(trace).stream_analysis("groups").read_all().to_pylist()
    got = {tuple(row["ranks"]): (row["used_for"], row["note"] or "") for row in found}
    assert got.keys() == roles.keys()
    for ranks, (used_for, note) in roles.items():
        assert got[ranks][0] == used_for, ranks
        assert got[ranks][1].startswith(note), ranks


@nightly
def test_on_real_runs_of_one_group_it_is_what_breakdown_says(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    (group,) = run.analyze("groups").to_dict("records")
    whole = run.analyze("breakdown", window="span")
    assert (group["role"], group["used_for"]) == ("world", "tp")
    assert group["comm_ns"] == whole["comm_ns"].sum()
    assert group["overlap_ns"] == whole["overlap_ns"].sum()
    assert group["exposed_ns"] == whole["exposed_comm_ns"].sum()
    assert group["exposed_share"] == group["exposed_ns"] / whole["window_ns"].sum()
