"""Every rule of `findings` on a real trace where it is true, and on one where it must be silent.

A rule that no real trace at hand shows is tried on events of a real file that were changed by hand.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, found_by
from tests.analyses.flops_run import gpu_named
from tests.conftest import MakeOnce, Recorded
from tests.marks import at_once, first_at_once, nightly
from tests.rewritten import unlisted
from traceweave.analyses import rules

Database = Callable[..., Path]


class True_(NamedTuple):
    """Where a rule applies, and what it says there."""

    trace: str
    ranks: list[int] | None
    evidence: str
    """A regular expression that the evidence matches from its beginning."""
    advice: str = ""
    """The same for the advice."""


class Rule(NamedTuple):
    """What is known of one rule."""

    true: tuple[True_, ...]
    silent: tuple[str, ...]


REAL: dict[str, Rule] = {
    # ranks of one host beside each other on two cores: no link is slow
    "slow_link": Rule((), ("slow_rank_2x2_gloo", "tp2_dp2_gloo", "pairs_gloo")),
    "straggler": Rule(
        (
            # shipped: rank 2 sleeps 40 ms in every step, in its data loader
            True_("ddp_gloo_straggler", [2], "Rank 2 keeps 3 ranks waiting 43.5 ms.*for data"),
            # INDEX of the corpus: rank 0 is host bound and holds everybody up
            True_("kineto/megatron_tp8", [0], "Rank 0 keeps 7 ranks .* Rank 0's host is late"),
            # 8 times the rows before the first of two sums in every step, 512 of 64; in the second,
            # the others have 192 on average: 576 and 256
            True_(
                "slow_and_uneven_gloo",
                [2],
                "Rank 2 keeps 2 ranks waiting 23.5 ms per step, last in 4 of 8 .*computes longer."
                " By the input sizes of aten::mm, rank 2 gets 1.59 times the mean",
                "Divide the work evenly: sizes of batches",
            ),
            # three of four rows of both micro-batches
            True_(
                "uneven_experts_gloo",
                [0],
                "Rank 0 keeps 1 rank waiting .*computes longer. By the split sizes of all_to_all,"
                " rank 0 gets 1.5 times the mean. Rank 0 runs aten::mm 6 times",
                "Divide the work evenly: sizes of batches",
            ),
            # 30 ms in a range of its own in every step, beside one of 3 ms that all ranks have
            True_(
                "range_named_gloo",
                [1],
                "Rank 1 keeps 2 ranks waiting 30.2 ms.* 4 of 4 .* longer. Rank 1 is in 'augment'",
                "See what rank 1 does in 'augment'",
            ),
            # others wait for what it scatters, which it works on for 6 ms: that cannot be divided
            True_(
                "root_scatters_nccl",
                [0],
                "Rank 0 keeps 1 rank waiting 5.86 ms per step, last in 20 of 40 .* 20 times",
                "The others wait for what rank 0 sends",
            ),
            # before a reduce to rank 0 it runs 20 kernels of 0.5 ms, rank 0 eight
            True_(
                "root_waits_nccl",
                [1],
                "Rank 1 keeps 1 rank waiting 6.05 ms per step, last in 20 of 40 .* 20 times",
                "Divide the work evenly, or leave out",
            ),
            # it computes longer in every step, and in one of them by far
            True_(
                "evaluates_once_gloo",
                [0],
                "Rank 0 keeps 2 ranks waiting 126 ms per step, last in 4 of 4 collectives. Most"
                " of the waiting is in step 6. Rank 0 computes longer",
                "See what rank 0 does in step 6 and the one before",
            ),
            # late in every step: 62 % of it in step 7, which is no matter of that step
            True_(
                "captured_gloo",
                [5],
                "Rank 5 keeps 7 ranks waiting 15.6 ms per step, last in 8 of 8 .* waits for data",
                "More loader workers",
            ),
            # 20 ms in its loader in every step; DDP launches from the thread of the backward pass
            True_(
                "slow_rank_nccl",
                [2],
                "Rank 2 keeps 3 ranks waiting 19.6 ms .* Rank 2 waits for data",
                "More loader workers",
            ),
            # before a barrier that the other waits in, and a sum that both ask for after it
            True_(
                "closure_gloo",
                [1],
                "Rank 1 keeps 1 rank waiting 41.0 ms .* Rank 1 waits for data",
                "More loader workers",
            ),
            # no range tells where it sleeps
            True_(
                "odd_groups_gloo",
                [1],
                r"Rank 1 keeps .*\. Rank 1 idles longer, no cause recorded\.",
            ),
            # its GPU is in the hands of another process
            True_(
                "kineto/megatron_tp2",
                [0],
                "Rank 0 keeps 1 rank .* Rank 0's GPU starts launched work late",
            ),
        ),
        # rank 1 began to record late, and is as fast as rank 0; ranks take turns; one rank; all are
        # as fast, and one comes last in the only collective whose last rank the clocks resolve
        (
            "uneven_start_gloo",
            "uneven_work_gloo",
            "kineto/diff_control",
            "idle_by_turns_gloo",
            "ddp_gloo_4ranks",
            "two_groups_gloo",
        ),
    ),
    "read_sum": Rule(
        (
            # 4 bytes and .item() in every step, beside gradients of 1 MB
            True_(
                "metric_read_gloo",
                None,
                r"The host reads the result of all_reduce \(4 B\) at once in every step, by aten",
                "Sum it up and read it every",
            ),
            # has no result: in the first a rank comes 41 ms late to it
            True_(
                "closure_gloo",
                None,
                "Hosts wait in a barrier per step. Compute does not hide 20.6 ms .* 20.3 ms of it",
                "No barrier in the loop",
            ),
            True_("broadcasts_gloo", None, "Hosts wait in a barrier per step", "No barrier"),
        ),
        # 4 bytes that nobody reads; that one rank of four reads; .item() of what is not summed up
        ("two_groups_gloo", "ddp_gloo_4ranks", "fsdp2_gloo"),
    ),
    "small_collectives": Rule(
        (
            # 24 layers of 16 kB, each reduced by itself, and asked for long before its turn
            True_(
                "many_buckets_gloo",
                None,
                "Each rank calls all_reduce 24 times per step, 16.4 kB on average",
            ),
            # gradients summed one by one, each waited for and divided before the next
            True_(
                "ring_gloo",
                None,
                "Each rank calls all_reduce 12 times per step, 132 kB on average",
            ),
        ),
        # four buckets of 300 kB; gathers and scatters of a layer each; sums that the host reads
        ("ddp_gloo_4ranks", "fsdp2_gloo", "metric_read_gloo"),
    ),
    "imbalance": Rule(
        (
            # 40 times the rows, by turns
            True_(
                "uneven_work_gloo",
                None,
                r"Ranks wait .* Their compute is uneven \(load balance 5\d",
                "Balance the work",
            ),
            # it sleeps 150 ms in one of four steps
            True_(
                "checkpoint_once_gloo",
                [0],
                "Ranks wait .*. Most of it is for rank 0 in step 6. Rank 0 is in"
                " 'save_checkpoint' for 150 ms in step 5$",
                "See what rank 0 does in step 6 and the one before",
            ),
            # beside a rank that computes longer in every step
            True_(
                "slow_and_uneven_gloo",
                None,
                "Apart .* Their compute is uneven",
                "Balance the work",
            ),
            # who sleeps comes last, and has less to compute
            True_(
                "idle_by_turns_gloo",
                None,
                r"Ranks wait .* does not explain it \(load balance 52.5%\). In .* the late"
                " rank idles longer",
                "Not the amount of work",
            ),
            True_(
                "tp2_dp2_gloo",
                None,
                # most of it is in step 5, of which unsteady_steps tells
                "Ranks wait .* 27.9 ms .*, most for rank 3, which may be chance. .* In 59.3% .*,"
                " the late rank idles longer",
                "Record more steps to be sure. See what rank 3 does more",
            ),
        ),
        # of the last launch_bound tells: hosts are late by turns
        ("kineto/diff_control", "nsys/jacobi__2023.4.sqlite", "kineto/megatron_tp8"),
    ),
    "pipeline_wait": Rule(
        (
            # by breakdown, the means over steps and ranks of communication that nothing hides
            True_("pipeline_1f1b", None, "Sends and receives take 314 ms per step"),
            True_("pipeline_gpipe", None, "Sends and receives take 395 ms per step"),
            # 4.13 ms for equal micro-batches, of which each stage computes 1.97
            True_("messages_mesh_gloo", None, ".* would need 2.16 ms of it"),
        ),
        # in a ring of two both send before they have received anything
        ("kineto/megatron_tp8", "ddp_gloo_straggler", "ring_gloo"),
    ),
    "uneven_work": Rule(
        (True_("kineto/sampled_2of128", [1], "Rank 1 computes 30.8 ms longer .*split_embedding"),),
        ("kineto/megatron_tp8", "kineto/nanogpt_8xh100"),
    ),
    "unsteady_steps": Rule(
        (
            # the others wait 130 ms in all for rank 3 there
            True_(
                "tp2_dp2_gloo",
                None,
                ".*step 5, takes 127 ms, mean over the ranks. Communication that no compute hides"
                " grew there by 48.8 ms on ranks 0-2, all of it waiting for rank 3",
                "See what rank 3 does in step 5 and the one before",
            ),
            # on one rank by more than the mean step is longer
            True_(
                "uneven_work_gloo",
                None,
                ".*step 3, takes 163 ms, mean .*. Compute grew there by 138 ms on rank 1, most in"
                r" aten::copy_ \(49.5 ms\)$",
                "Look for evaluation, longer inputs, other load",
            ),
        ),
        # steady; its host waits for the GPU in every third step, all of which launch kernels of 148
        # to 155 ms; of the others another finding says why a step is long
        (
            "kineto/torchrec_4",
            "dataloader_late_once",
            "recompile_once",
            "checkpoint_once_gloo",
            "nsys/fsdp_2rank_after__2026.2.sqlite",
            "kineto/ns_resolution",
            "kineto/diff_control",
            "kineto/diff_test",
            "late_loader_nccl",
            "host_pause_nccl",
        ),
    ),
    "contention": Rule(
        (
            # by a sweep over its events: aten::mul of [1024, 512] takes 6 us alone, 12 beside NCCL
            True_(
                "kineto/diff_control",
                None,
                "The same kernels take 1.46 times as long .* 1.17 ms longer per step",
                "Fewer SMs for all_to_all",
            ),
        ),
        # nothing overlaps; too little can be compared, and of equal shapes some is faster
        ("kineto/megatron_tp8", "kineto/nanogpt_8xh100", "kineto/sampled_2of128"),
    ),
    "communication_bound": Rule(
        (
            True_("kineto/megatron_tp8", None, "50.1 ms .* is transfer", "Tensor parallelism"),
            True_("kineto/diff_control", None, ".* as only one rank was recorded", "all_to_all"),
            # kernels that run during its all-reduces start 1 us after their launches
            True_(
                "kineto/hta_pair_nccl2",
                None,
                ".* For 84.3% of it, the host has not launched the compute that follows",
                "The host is late, not the network",
            ),
            # two ranks of 128
            True_("kineto/sampled_2of128", None, ".* its calls could not be matched with those of"),
            # every call is on all ranks, and some could not be matched
            True_(
                "unlisted/tp2_dp2_gloo",
                None,
                ".* may include waiting for ranks whose calls were not matched",
            ),
            # 58 of 60 calls are matched; most of it is in operations that make some ranks wait
            True_(
                "broadcasts_gloo",
                None,
                ".* is communication .* include waiting for other ranks in broadcast, scatter",
            ),
            # 4 kB to 16 kB
            True_("two_groups_gloo", None, ".*", "Most of it is in calls of less than 65.5 kB"),
        ),
        # sends and receives without their other sides
        ("kineto/ns_resolution", "kineto/mtia_accelerator", "pipeline_1f1b", "pipeline_gpipe"),
    ),
    "long_tail": Rule(
        # gloo: threads of four processes on two cores
        (True_("tp2_dp2_gloo", None, "5 of 20 all_reduce .* 41.1 ms", "Look for .* CPU cores"),),
        ("kineto/nanogpt_8xh100", "kineto/torchrec_4"),
    ),
    "uneven_exchange": Rule(
        (
            # rank 3 gets and returns 37,683,200 of 52,019,200 bytes, 13,004,800 if it were even:
            # 4.0 ms would be 1.38, twice a step
            True_(
                "cases/moe",
                [3],
                "Rank 3 sends 2.9 times the mean of all ranks in 10 uneven all_to_alls. Each takes"
                " 4.00 ms, and 1.38 ms at the same rate if all had the same",
            ),
        ),
        # one rank of two; exchanges whose splits nobody recorded; and in halves
        ("kineto/ep_moe_b200_seq", "kineto/torchrec_4", "kineto/torchrec_a2a", "kineto/deepep8"),
    ),
    "poor_overlap": Rule(
        (
            # INDEX of the corpus: 15 ms are exposed, as communication and compute share a stream
            True_(
                "cases/samestream",
                None,
                ".*15.0 ms more per step could be hidden. 100.0% of it is on the same stream as"
                r" compute that is queued before or behind it \(stream 7\)",
                "Give it a stream of its own",
            ),
            # the optimizer gathers and scatters; there is no FSDP
            True_(
                "kineto/nanogpt_8xh100", None, "Compute hides 22", "Issued inside Optimizer.step"
            ),
            # gloo: what transfers takes cores from what computes
            True_(
                "ddp_gloo_4ranks", None, "Compute hides 11", "DDP: smaller buckets are not known"
            ),
            # issued inside Optimizer.step, whose closure runs the backward pass
            True_("closure_gloo", None, "Compute hides 13", "DDP: smaller buckets are not known"),
            # every rank was recorded, and some calls could not be matched
            True_(
                "unlisted/tp2_dp2_gloo",
                None,
                ".*, including waiting for ranks whose calls were not matched",
            ),
        ),
        ("kineto/megatron_tp8", "kineto/ns_resolution", "pipeline_1f1b", "pipeline_gpipe"),
    ),
    "launch_bound": Rule(
        (
            True_(
                "kineto/hta_pair_nccl2", None, "The GPU idles 166 ms .*late", "CUDA graphs, torch"
            ),
            # 61.9 ms of CPU operators in a range after a wait of 16 in each step but the last
            True_(
                "host_work_nccl",
                None,
                "The GPU idles 49.3 ms .* late .50 gaps.. The host is then mostly in augment$",
                "Most of it is one gap without launches. .*Move it to loader workers or another",
            ),
            # a plain CUDA program
            True_(
                "nsys/mordred__pre2021.sqlite",
                None,
                "The GPU idles",
                "CUDA graphs, fewer and larger",
            ),
            # no CUDA device
            True_("kineto/mtia_accelerator", None, "The GPU idles", "Fewer and larger kernels"),
            # hosts that are late by turns: 99% of the waiting there is for ranks 0, 6 and 2
            True_(
                "kineto/megatron_tp8",
                None,
                "The GPU idles .*. Ranks take turns launching late, and the others wait 341 ms",
            ),
            True_(
                "kineto/nanogpt_8xh100",
                None,
                "The GPU idles .*. Ranks launch late, rank 1 most, and the others wait 7.55 ms",
                # the code is compiled
                "CUDA graphs, fewer graph breaks",
            ),
        ),
        # its host frees and allocates; its GPU starts late
        ("kineto/torchrec_4", "kineto/negative_queue_1of16"),
    ),
    "host_stalls": Rule(
        # in every rank, in calls as light as aten::view and aten::empty
        (
            True_(
                "kineto/megatron_tp8",
                None,
                "121 times one of 35 operators took over 2.00 ms, .* stood still 276 ms per step",
                "Bind ranks",
            ),
        ),
        # one copy; a backward that waits at the same place in every step; copies that wait; none
        (
            "kineto/nanogpt_8xh100",
            "kineto/torchrec_4",
            "kineto/mtia",
            "kineto/diff_control",
            "kineto/hta_pair_nccl2",
            "kineto/sampled_2of128",
        ),
    ),
    "host_pauses": Rule(
        # 3 ms in every step and rank, in one of them 30 ms more
        (
            True_(
                "range_named_gloo",
                None,
                "In most steps most hosts .* 3.20 ms at .*For 67.8% of such time .* in 'augment'",
                "See what hosts do in 'augment'",
            ),
            True_("idle_by_turns_gloo", None, "In most steps .* 4.95 ms at a stretch$", "See gaps"),
        ),
        # 2 ms of 46; few ranks; few steps; one step; a GPU
        (
            "ddp_gloo_4ranks",
            "ddp_gloo_straggler",
            "checkpoint_once_gloo",
            "kineto/no_rank",
            "kineto/megatron_tp8",
        ),
    ),
    # 15 operators of two blocks in steps 6 and 7, and none where a gradient is differentiated
    "recomputation": Rule(
        (True_("flops_cpu", None, "Forward operators run again inside backward: 2.14 ms"),),
        # an exchange runs in its backward; gathers do
        ("kineto/torchrec_4", "fsdp2_gloo", "kineto/nanogpt_8xh100"),
    ),
    "sync_bound": Rule(
        (
            True_(
                "nsys/power_iteration__2025.3.sqlite",
                None,
                # what it does then has a number in its name, another one each time
                r"The GPU idles 14.6 ms per step after the host waited for it \(2 gaps\). The host"
                " is then mostly in ranges like IO 190$",
                "Synchronize less.*. Do less on the host between a wait and the next launch",
            ),
            True_("kineto/ep_moe_b200_seq", None, "The GPU idles 1.57 ms", r"Remove .item\(\)"),
        ),
        ("kineto/hta_pair_nccl2", "kineto/megatron_tp8", "host_work_nccl"),
    ),
    "data_bound": Rule(
        (
            True_("kineto/megatron_tp2", None, "The GPU idles 4.73 ms .*DataLoader"),
            True_("dataloader_late_once", None, "The host idles 1.57 ms .*DataLoader"),
        ),
        # FSDP prefetches parameters, not data
        ("kineto/megatron_tp8", "kineto/nanogpt_8xh100", "fsdp1_gloo", "fsdp2_gloo"),
    ),
    "compilation": Rule(
        # the third step has another shape: torch.compile compiles anew, forward and backward
        (
            True_(
                "recompile_once",
                None,
                r"Code is compiled for 9\d\d ms per step, all of it in step 5 \(1 of 4\)$",
                "Record after",
            ),
        ),
        # what is compiled, and was before
        ("kineto/nanogpt_8xh100", "kineto/megatron_tp8", "kineto/triton", "kineto/diff_test"),
    ),
    "allocator": Rule(
        # what the other steps have of it
        (True_("kineto/torchrec_4", None, "The GPU idles 2.68 ms .*allocates or frees"),),
        ("kineto/hta_pair_nccl2", "kineto/megatron_tp8"),
    ),
    "graph_capture": Rule(
        (
            # 544 launches between hipStreamBeginCapture and hipStreamEndCapture, 30.6 ms apart
            True_(
                "kineto/graph_capture_mi300x",
                None,
                "The GPU idles 32.7 ms per step while a graph is captured",
                "Record after the capture",
            ),
        ),
        ("kineto/vllm_step_mi300x", "kineto/megatron_tp8"),
    ),
    "device_delay": Rule(
        (
            # 17 ms more lie before ops that were launched before the recording began
            True_("kineto/negative_queue_1of16", None, "The GPU idles 134 ms", "Not the host"),
        ),
        # of rank 0 of megatron_tp2 the straggler says it
        (
            "kineto/megatron_tp2",
            "kineto/megatron_tp8",
            "kineto/hta_pair_nccl2",
            "kineto/torchrec_4",
        ),
    ),
    "unexplained_idle": Rule(
        (
            True_(
                "kineto/mtia",
                None,
                "The GPU idles 4.62 s per step, and no recorded launch explains it",
                # CPU activity was recorded
                "See gaps for the ops that end them",
            ),
            # the previous batch of the engine, which was not recorded
            True_(
                "kineto/sglang_prefill_mi300x",
                None,
                "The GPU idles 493 ms per step for work that waits for what began before the rec",
                "Record more steps",
            ),
        ),
        # in the last one another process has the GPU
        ("kineto/megatron_tp8", "kineto/hta_pair_nccl2", "kineto/megatron_tp2"),
    ),
    "short_gaps": Rule(
        (True_("kineto/ep_moe_b200_seq", None, "The GPU idles 1.98 ms"),),
        # whole microseconds, and gaps of one
        ("kineto/megatron_tp8", "kineto/ns_resolution"),
    ),
    "hang": Rule(
        (
            True_(
                "flight_recorder/megatron_gpu_error_1st",
                [12],
                "The job stands still: Rank 12 did not come to all_to_all 20537 .* issued last: a",
                "See what these ranks do instead",
            ),
            True_(
                "flight_recorder/megatron_lock_gil_1st",
                [9, 14],
                "The job stands still: Rank 9 did not come to all_to_all 45265 .*Rank 14",
            ),
        ),
        ("kineto/torchrec_4", "ddp_gloo_straggler"),
    ),
    "one_off_stall": Rule(
        (
            True_(
                "kineto/torchrec_4",
                None,
                r"In step 4 \(1 of 3, the first recorded\) the GPU idles 233 ms longer .*frees",
                "Memory was freed and allocated again",
            ),
            True_(
                "dataloader_late_once", None, r"In step 5 \(1 of 4\) the host idles 111 ms longer"
            ),
            # 40 ms in every fourth batch, before the first op of the step after
            True_(
                "late_loader_nccl",
                None,
                r"In every 4th step \(5 of 20\) the GPU idles 40.8 ms longer .* waits for data",
            ),
            True_(
                "nsys/fsdp_2rank_after__2026.2.sqlite",
                [0],
                r"In step 9 \(1 of 14\) the GPU of rank 0 idles 6.71 ms longer .*profiler writes",
            ),
        ),
        # in the last two the others wait for the rank that stalls, which is told of it
        ("kineto/hta_pair_nccl2", "ddp_gloo_straggler", "host_pause_nccl", "host_stops_nccl"),
    ),
    "pageable_copies": Rule(
        (
            True_(
                "nsys/perlmutter_saxpy_mpi__2022.2.sqlite",
                None,
                "Copies .* take 285 ms",
                "Copy from",
            ),
            # the call returns some us before the last piece is copied
            True_("pageable_copy_nccl", None, "Copies .* take 6.72 ms .* 50.3 MB", "pin_memory"),
        ),
        ("kineto/megatron_tp8", "kineto/diff_test"),
    ),
    "exposed_copies": Rule(
        (
            # by a sweep over the six steps: 86.7 of 101.6 ms are copies within the GPU
            True_(
                "kineto/diff_test",
                None,
                "Copies and memsets run alone for 16.0 ms per step, most of it copies within",
                "Avoid them",
            ),
            # no copy within the device
            True_("kineto/mtia", None, "Copies .* 393 ms per step, most of it copies to", "Move"),
        ),
        ("kineto/megatron_tp8", "kineto/torchrec_4"),
    ),
    "compute_bound": Rule(
        (
            True_("kineto/ns_resolution", None, "Compute runs for 97.5%", "Faster kernels: lower"),
            True_("nsys/jacobi__2023.4.sqlite", None, "Compute", "Faster kernels: see kernels"),
            # nsys has no operators: that it is PyTorch, its kernels say
            True_(
                "nsys/ddp_4gpu_baseline__nersc.sqlite.gz",
                None,
                "Compute runs for 91.6%",
                # in 16 bits, as its products' names say
                r"Faster kernels: torch\.compile; see kernels$",
            ),
            # compiled, with fused attention, in graphs; inference updates nothing
            True_("kineto/vllm_step_mi300x", None, "Compute", "Faster kernels: see kernels$"),
        ),
        # the compiler works for 905 of 910 ms per step, on the thread of the operators
        ("kineto/megatron_tp8", "kineto/hta_pair_nccl2", "recompile_once"),
    ),
    "fp32_products": Rule(
        (
            # H200: 494.5 of 67; 12.2 of 23.1 ms of compute in 16 windows are such kernels
            True_(
                "slow_rank_nccl",
                None,
                "Matrix products in fp32 .* run for 761 us per step. .* TF32 is 7.38 times",
                r"torch.set_float32_matmul_precision\('high'\) for TF32",
            ),
            # V100, which has no TF32: 125 of 15.7
            True_("kineto/torchrec_4", None, ".* 66.2 ms .* fp16 is 7.96 times", "fp16 autocast"),
        ),
        # TF32 beside it: 1.8 ms; in 16 bits; 0.2 of 240 ms; convolutions
        ("kineto/diff_control", "kineto/megatron_tp8", "late_loader_nccl", "kineto/ns_resolution"),
    ),
    "weak_clocks": Rule(
        (True_("ddp_gloo_4ranks", None, "Clocks tell ranks apart by 6.04 ms"),),
        ("kineto/megatron_tp8", "kineto/diff_control"),
    ),
    "uneven_start": Rule(
        (True_("kineto/megatron_tp8", None, "Ranks began recording at different times"),),
        ("ddp_gloo_straggler", "kineto/nanogpt_8xh100", "kineto/torchrec_4"),
    ),
    "recording": Rule(
        (
            # rank 1 slept 250 ms before it began to record
            True_(
                "uneven_start_gloo",
                [0, 1],
                "Ranks began to record, or to work, 267 ms apart: step 3 ",
                "Start the profiler at the same step",
            ),
            True_("cases/dropped_all", [0, 1], "66 of 66 launches in steps 2-7", "Record fewer"),
            True_("cases/overrun", [0], "2 of 144 GPU ops in steps 2, 3", "Their durations"),
            True_("kineto/megatron_tp8", None, "Only one step was recorded"),
            True_("nsys/jacobi__2023.4.sqlite", None, "No steps are marked"),
            # 85 % idle, of which nothing was said
            True_("nsys/vector__2022.4.sqlite", None, "The recording lasts 262 us: too short"),
        ),
        (
            "cases/overrun_ref",
            "kineto/nanogpt_8xh100",
            "kineto/torchrec_4",
            "ddp_gloo_straggler",
            # rank 0 pauses in the first recorded step as in every fourth after it
            "host_pause_nccl",
        ),
    ),
    "missing_ranks": Rule(
        (True_("kineto/sampled_2of128", None, "2 of 128 ranks recorded"),),
        ("kineto/megatron_tp8", "kineto/torchrec_4"),
    ),
    "nothing_to_measure": Rule(
        (
            # what the report has to say about it
            True_(
                "nsys/profiling__2024.6.sqlite",
                [0],
                "No rank has GPU work or operators",
                "CUDA was to be recorded, and the profiler says: Installed CUDA driver version",
            ),
            # 192 launches are recorded, and no kernel
            True_(
                "nsys/sgemm__2023.2.sqlite", [0], "192 calls launched GPU work", "CUDA calls were"
            ),
            # a job of gloo
            True_("ddp_gloo_nsys", [0, 1, 2, 3], "No rank", "Record CUDA .*not by nsys"),
            # no rank at all, of which health had no row
            True_(
                "nccl_logs/all_subsystems_2.27.7_2xA100.log",
                None,
                "NCCL's logs tell what was called, not when",
                "Give the traces of the ranks beside them",
            ),
        ),
        ("kineto/megatron_tp8", "ddp_gloo_straggler"),
    ),
}

CHANGED: dict[str, tuple[str, str, str, str]] = {
    # events of a real file changed by hand: trace, SQL, evidence, advice
    "slow_kernels": (
        "kineto/nanogpt_8xh100",
        "UPDATE base.gpu_ops SET duration_ns = duration_ns * 11 // 10"
        " WHERE rank = 1 AND category = 'compute'",
        "The same kernels take 9.9% longer on rank 1",
        "Compare clock rates",
    ),
    "module_loading": (
        # what hta_pair's host does before each launch is loading code instead
        "kineto/hta_pair_nccl2",
        "INSERT INTO base.other_events BY NAME"
        " SELECT rank, op_id + 500_000_000 AS op_id, source_id,"
        " 'X' AS phase, 'overhead' AS category, 'Lazy Function Loading' AS name, '-1' AS pid,"
        " '0' AS tid, start_local_ns - 5_000_000 AS start_local_ns, 5_000_000 AS duration_ns"
        " FROM base.host_ops WHERE name = 'cudaLaunchKernel'",
        "The GPU idles .* per step while code is loaded onto it",
        "Find what loads new code",
    ),
    "compilation": (
        # and what it does for 5 ms before them is compiling
        "kineto/hta_pair_nccl2",
        "INSERT INTO base.host_ops BY NAME"
        " SELECT * REPLACE (op_id + 500_000_000 AS op_id, 'op' AS kind,"
        " 'compile_fx_inner (dynamo_timed)' AS name, NULL AS correlation,"
        " start_local_ns - 5_000_000 AS start_local_ns, 5_000_000 AS duration_ns)"
        " FROM base.host_ops WHERE name = 'cudaLaunchKernel'",
        "Code is compiled for .* per step. The GPU idles meanwhile for ",
        "Inputs change in every step",
    ),
    "profiler_overhead": (
        "kineto/hta_pair_nccl2",
        "INSERT INTO base.other_events BY NAME"
        " SELECT rank, op_id + 500_000_000 AS op_id, source_id,"
        " 'X' AS phase, 'overhead' AS category, 'Buffer Flush' AS name, '-1' AS pid, '0' AS tid,"
        " start_local_ns - 5_000_000 AS start_local_ns, 5_000_000 AS duration_ns"
        " FROM base.host_ops WHERE name = 'cudaLaunchKernel'",
        "The GPU idles .* per step while the profiler writes out",
        "It only occurs with the profiler",
    ),
    "unified_memory": (
        "nsys/perf_sandbox__2025.5.sqlite",
        "UPDATE base.gpu_ops SET copy_kind = 'UVM ' || copy_kind, args = NULL"
        " WHERE kind = 'memcpy'",
        "Pages of managed memory migrate for 3.04 ms per recording: 12.6 MB in 3 migrations",
        "Prefetch data before its use",
    ),
    "unexplained_idle": (
        "nsys/perf_sandbox__2025.5.sqlite",
        "UPDATE base.gpu_ops SET copy_kind = 'UVM ' || copy_kind, launch_op_id = NULL,"
        " launch_start_local_ns = NULL, launch_duration_ns = NULL WHERE kind = 'memcpy'",
        ".* no recorded launch explains it.*Pages of managed memory move as they are touched",
        "Between its pages the host works",
    ),
    "lost_events": (
        "kineto/megatron_tp2",
        "UPDATE sources SET status = 'partial', events_skipped = 7 WHERE source_id = 0",
        "1 of 2 files read in part or not at all; 7 events are not here",
        "See traceweave info",
    ),
}


def _path(corpus: Path, fixtures: Path, trace: str) -> Path:
    return corpus / trace if "/" in trace else fixtures / trace


Found = Callable[[str], list[dict[str, Any]]]


def _findings(path: Path) -> list[dict[str, Any]]:
    with traceweave.open(path) as run:
        # what they find does not depend on what it is worth
        rows: list[dict[str, Any]] = (
            run.stream_analysis("findings", replay_ops=0).read_all().to_pylist()
        )
    return rows


@pytest.fixture(scope="session")
def found_in(corpus: Path, fixtures: Path, database_of: Database, once: MakeOnce) -> Found:
    """Return a function from a trace to its findings, asked once for all processes."""

    @cache
    def found(trace: str) -> list[dict[str, Any]]:
        name = trace.removeprefix("unlisted/")
        path = _path(corpus, fixtures, name)
        if name != trace:
            path = once(f"unlisted {path}", ".traces", partial(unlisted, path))
        database = database_of(path)
        rows = once(
            f"findings of {database}",
            ".json",
            lambda path: path.write_text(json.dumps(_findings(database))),
        )
        return list(json.loads(rows.read_text()))

    return found


TRUE = {
    f"{name}-{wanted.trace}": (name, wanted) for name, rule in REAL.items() for wanted in rule.true
}
SILENT = {f"{name}-{trace}": (name, trace) for name, rule in REAL.items() for trace in rule.silent}


@pytest.mark.parametrize(
    "case",
    at_once(
        TRUE, "straggler-ddp_gloo_straggler",
    ),
)  # fmt: skip
def test_a_rule_speaks_where_it_is_true(found_in: Found, case: str) -> None:
    name, wanted = TRUE[case]
    found = [row for row in found_in(wanted.trace) if row["rule"] == name]
    ranks = [row["ranks"] for row in found]
    assert wanted.ranks in ranks
    row = found[ranks.index(wanted.ranks)]
    assert re.match(wanted.evidence, row["evidence"]), row["evidence"]
    assert re.match(wanted.advice, row["advice"]), row["advice"]


@pytest.mark.parametrize(
    "case",
    at_once(SILENT, "nothing_to_measure-ddp_gloo_straggler"),
)
def test_a_rule_is_silent_where_it_is_not_true(found_in: Found, case: str) -> None:
    name, trace = SILENT[case]
    assert [row for row in found_in(trace) if row["rule"] == name] == []


@nightly
def test_a_rank_that_nobody_waits_for_is_not_held_up(
    fixtures: Path, database_of: Database, tmp_path: Path
) -> None:
    # as if rank 0 had begun to record a step later; rank 2 is never last
    folder = tmp_path / "traces"
    shutil.copytree(fixtures / "range_named_gloo", folder)
    trace = json.loads(gzip.decompress((folder / "rank0.json.gz").read_bytes()))
    [begin] = [e["ts"] for e in trace["traceEvents"] if e["name"] == "ProfilerStep#4"]
    trace["traceEvents"] = [
        event for event in trace["traceEvents"] if event["ph"] == "M" or event["ts"] >= begin
    ]
    (folder / "rank0.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))
    with traceweave.open(database_of(folder)) as run:
        late = run.stragglers().set_index("rank")
        said = {row["rule"]: row["evidence"] for row in _findings(run.path)}
    assert late.loc[2, "times_last"] == 0
    assert late.loc[2, "origin_rank"] == 1
    assert said["straggler"].endswith(
        ". Rank 1 idles longer. Rank 1 is in 'augment' for 30.2 ms in every step;"
        " most others do not"
    )


@nightly
def test_waiting_for_a_rank_that_is_not_seen_is_no_tail(
    fixtures: Path, database_of: Database
) -> None:
    # rank 2, whose file is left out, comes late to every second sum, to two of them by far
    files = [fixtures / "slow_and_uneven_gloo" / f"rank{rank}.json.gz" for rank in (0, 1)]
    with traceweave.open(database_of(*files)) as run:
        lengths = "FROM collective_instances SELECT transfer_min_ns / 1e6, complete ORDER BY ALL"
        found = run.con.execute(lengths).fetchall()
        assert [round(ms) for ms, _ in found] == [3, 4, 11, 15, 29, 29, 31, 34]
        assert not any(complete for _, complete in found)
        said = run.stream_analysis("findings", replay_ops=0).read_all()["rule"].to_pylist()
    assert "missing_ranks" in said
    assert "long_tail" not in said


@pytest.mark.parametrize("name", at_once(CHANGED))
def test_a_rule_speaks_of_what_was_put_into_a_real_trace(
    corpus: Path,
    fixtures: Path,
    database_of: Database,
    found_in: Found,
    tmp_path: Path,
    name: str,
) -> None:
    trace, change, evidence, advice = CHANGED[name]
    assert name not in [row["rule"] for row in found_in(trace)]
    path = tmp_path / "changed.duckdb"
    shutil.copy(database_of(_path(corpus, fixtures, trace)), path)
    with duckdb.connect(path) as con:
        con.execute(change)
    found = {row["rule"]: row for row in _findings(path)}
    assert re.match(evidence, found[name]["evidence"]), found[name]["evidence"]
    assert re.match(advice, found[name]["advice"]), found[name]["advice"]
    # a GPU that is slower has no more work
    assert "uneven_work" not in (found if name == "slow_kernels" else {})
    # a stream of its own is no advice for pages, which move as they are touched
    assert "exposed_copies" not in (found if "UVM" in change else {})


@nightly
def test_what_is_pageable_in_nsys_is_replayed(corpus: Path, database_of: Database) -> None:
    """Its names of copies do not say so; here all copies of both names are."""
    trace = corpus / "nsys" / "perlmutter_cloverleaf_mpi__2024.5.sqlite"
    with traceweave.open(database_of(trace)) as run:
        rows = run.stream_analysis("findings", min_share=0).read_all().to_pylist()
    [row] = [row for row in rows if row["rule"] == "pageable_copies"]
    assert row["scenario"] == (
        "kind=copy name=Memcpy*DtoH times=0; kind=copy name=Memcpy*HtoD times=0"
    )
    assert row["cost_is"] == "replayed"
    assert 0 < row["cost_ns"] < row["bound_ns"]


@nightly
def test_a_cost_above_the_time_itself_says_why(recorded: Recorded) -> None:
    rows = recorded("kineto/diff_control").stream_analysis("findings").read_all().to_pylist()
    found = {row["rule"]: row for row in rows}
    row = found["sync_bound"]
    assert (row["bound_ns"], row["cost_ns"]) == (1_078_000, 11_771_166)
    assert row["evidence"].endswith(". Without it a step is 11.8 ms shorter by replay")
    # the gaps after the waits are times of the host too, and its scenario takes them away
    assert found["launch_bound"]["evidence"].endswith(
        ". Without it and what the host does after it waited for the GPU a step is 11.9 ms shorter"
        " by replay"
    )


BY_HAND = {"slow_link", "long_tail", "fragmentation", "unequal_stages"}
"""Rules that test_findings.py and test_unequal_stages.py try on arithmetic by hand."""


def test_every_rule_is_tried() -> None:
    assert {rule.name for rule in rules()} == {*REAL, *CHANGED, *BY_HAND}


@first_at_once()
@pytest.mark.parametrize(
    ("beside", "advice"),
    [
        # as an OpenMP program on a T4: 50 kernels of one stream, each 4.4 ms after its launch
        (7, "Not the host nor another stream: look for another process on the GPU (nvidia-smi)"),
        (None, "Not the host: look for another process on the GPU (nvidia-smi), work that waits for"
         " events, or more streams than CUDA_DEVICE_MAX_CONNECTIONS"),
        (8, "Not the host: look for another process on the GPU (nvidia-smi), work that waits for"
         " events, or more streams than CUDA_DEVICE_MAX_CONNECTIONS"),
    ],
)  # fmt: skip
def test_streams_are_suspected_where_there_are_several(
    empty_run: duckdb.DuckDBPyConnection, beside: int | None, advice: str
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 1_000_000), (80_000, 1_000_000))
    for at in range(0, 1_000_000, 100_000):
        launch = build.launch(0, (at, at + 5_000))
        op = (at + 80_000, at + 100_000)
        build.gpu(0, op, launch=launch, stream=beside if at else 7, step=0)
    assert found_by(build.con, "device_delay")["device_delay"]["advice"] == advice


# what was wrong: 'look for another process on the GPU'
@nightly
def test_no_process_is_looked_for_where_a_queue_began_before_the_recording(found_in: Found) -> None:
    # all but 62 us of 50 ms in the first recorded step end with ops launched before the recording
    found = {row["rule"]: row for row in found_in("kineto/torchrec_4")}
    assert "device_delay" not in found
    before = found["unexplained_idle"]
    assert before["cost_ns"] is None
    assert "waits for what began before" in before["evidence"]
    assert before["advice"].startswith("Record more steps: what this work waited for was not")


@first_at_once()
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "pin_memory=True"),
        # 4,097 calls of .cpu() read 8 bytes each in a real trace: no loader pins what they read
        ("Memcpy DtoH (Device -> Pageable)", "Keep the data on the GPU, and read it less often"),
    ],
)
def test_what_is_read_from_the_gpu_is_not_told_to_pin_its_batches(
    empty_run: duckdb.DuckDBPyConnection, name: str, advice: str
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.host(0, (0, 30_000), "aten::copy_")
    build.gpu(0, (0, 40_000), "memory", name, copy_kind=name.split()[1])
    build.gpu(0, (50_000, 100_000))
    row = found_by(build.con, "pageable_copies")["pageable_copies"]
    assert row["advice"].startswith(advice)


@nightly
def test_arguments_of_copies_are_not_read_where_names_say_which_memory(
    empty_run: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are long: of a million copies, reading them took 0.3 s, and their names 0.03 s."""
    # as in a run that is too large to be held in memory
    monkeypatch.setattr("traceweave.analyses.common.MOST_EVENTS", -1)
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.gpu(0, (0, 40_000), "memory", "Memcpy HtoD (Pageable -> Device)", copy_kind="HtoD")
    build.gpu(0, (50_000, 100_000))
    (view,) = empty_run.execute(
        "SELECT sql FROM duckdb_views() WHERE view_name = 'gpu_ops' AND NOT internal"
    ).fetchone() or ("",)
    build.con.execute(view.replace("VIEW gpu_ops", "VIEW whole_gpu_ops"))
    build.con.execute(
        "CREATE OR REPLACE VIEW gpu_ops AS SELECT * REPLACE (CASE WHEN kind = 'memcpy'"
        " THEN error('arguments were read')::JSON ELSE args END AS args) FROM whole_gpu_ops"
    )
    row = found_by(build.con, "pageable_copies")["pageable_copies"]
    assert row["bound_ns"] == 40_000


# what was wrong: cuDNN timing its algorithms was "remove .item()", one round of kernels CUDA graphs
@first_at_once(2)
@pytest.mark.parametrize(
    ("inside", "runs", "sync", "launch"),
    [
        ("aten::cudnn_convolution", 1, "Most of the waiting is in aten::cudnn_", "Launch sooner:"),
        ("aten::_local_scalar_dense", 3, "Remove .item()", "CUDA graphs,"),
        ("aten::copy_", 3, "Remove .item(), .cpu()", "CUDA graphs,"),
        # what was wrong: "remove .item()" of a loop that only copies its batches, in a real trace
        ("to the GPU", 3, "Most of the waiting is in copies to the GPU: pin_", "CUDA graphs,"),
        # what was wrong: so was cuDNN's search, which copies 112 bytes first, in a real trace
        ("to the GPU, then kernels", 1, "Most of the waiting is in aten::cudnn_", "Launch sooner:"),
        ("c10d::barrier", 3, "Most of the waiting is in c10d::barrier", "CUDA graphs,"),
    ],
)
def test_advice_fits_what_waits_and_what_repeats(
    empty_run: duckdb.DuckDBPyConnection, inside: str, runs: int, sync: str, launch: str
) -> None:
    """Rounds of 100 us: a wait in an operator until 40.5 of them, launches at 60 and at 90."""
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, runs * 100_000), (0, runs * 100_000))
    for begin in range(0, runs * 100_000, 100_000):
        name = {
            "to the GPU": "aten::copy_",
            "to the GPU, then kernels": "aten::cudnn_convolution",
        }.get(inside, inside)
        around = build.host(0, (begin, begin + 41_000), name)
        if inside.startswith("c10d::"):
            name = "record_param_comms"
            around = build.host(0, (begin, begin + 41_000), name, depth=1, parent_id=around)
        within = (begin + 1_000, begin + 40_500)
        build.host(0, within, "cudaEventSynchronize", "runtime", 1, parent_id=around, step=0)
        for at, name in ((0, "a"), (60_000, "b"), (90_000, "c")):
            is_copy = inside.startswith("to the GPU") and at == 0
            own = around if at == 0 or inside.endswith("kernels") else None
            call = build.launch(0, (begin + at, begin + at + 500), parent_id=own)
            op = (begin + at + 500, begin + at + (40_000 if at == 0 else 9_000))
            kind, of = ("memory", {"copy_kind": "HtoD"}) if is_copy else ("compute", {})
            build.gpu(0, op, kind, name, launch=call, **of)
    # waits outside of the steps are not what made the host launch late in them
    outside = build.host(0, (-900_000, -100_000), "aten::nonzero")
    build.host(0, (-800_000, -200_000), "cudaEventSynchronize", "runtime", 1, parent_id=outside)
    found = found_by(build.con, "sync_bound", "launch_bound")
    assert found["sync_bound"]["advice"].startswith(sync)
    assert found["launch_bound"]["advice"].startswith(launch)
    assert ("warm up before recording" in found["sync_bound"]["advice"]) == (runs == 1)


# what was wrong: a pause of one rank in every second step was a matter of the beginning
@first_at_once(2)
@pytest.mark.parametrize(
    ("late", "is_out", "found"),
    [((0, 3), False, True), ((0, 3, 5), False, False), ((0, 3, 5), True, True)],
)
def test_a_start_is_uneven_where_that_does_not_come_back(
    empty_run: duckdb.DuckDBPyConnection, late: tuple[int, ...], is_out: bool, found: bool
) -> None:
    """In each of seven steps rank 1 comes to the only sum 1 us after rank 0, or 50. The first may
    be left out of all numbers, as its record says."""
    build = Builder(empty_run)
    build.world(2)
    for step in range(7):
        begin = step * 100_000
        arrival = (begin, begin + (50_000 if step in late else 1_000))
        kernels = {}
        for rank in range(2):
            build.step(rank, step, (begin, begin + 100_000), (begin, begin + 100_000))
            kernels[rank] = (arrival[rank], begin + 60_000)
            build.gpu(rank, (begin + 60_000, begin + 100_000), step=step)
        ops = {r: build.gpu(r, at, "communication", step=step) for r, at in kernels.items()}
        build.collective(kernels, step=step, each={r: {"gpu_op_id": op} for r, op in ops.items()})
    build.write()
    if is_out:
        build.con.execute("DELETE FROM base.steps WHERE step = 0")
    assert ("uneven_start" in found_by(build.con, "uneven_start")) == found


# what was wrong: where the host had other work than launching, CUDA graphs were to help
@first_at_once(3)
@pytest.mark.parametrize(
    ("name", "class_", "advice"),
    [
        ("Optimizer.step#AdamW.step", "gemm", "The optimizer runs on the CPU: keep parameters"),
        ("Optimizer.step#AdamW.step", "optimizer", "See what the host does there"),
        ("augment", "gemm", "See what the host does there"),
        (None, "gemm", None),
        ("short", "gemm", None),
    ],
)
def test_one_gap_is_no_matter_of_launching(
    empty_run: duckdb.DuckDBPyConnection, name: str | None, class_: str, advice: str | None
) -> None:
    """Of three gaps, the last is 70 of 80 us. Nothing is said of one where each is a third, or
    where it takes less than 5 % of the step."""
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    gaps = {None: (26_000, 27_000, 27_000), "short": (400, 400, 4_500)}.get(
        name, (5_000, 5_000, 70_000)
    )
    length, begin = (100_000 - sum(gaps)) // 4, 0
    for gap in (0, *gaps):
        begin += gap
        call = build.launch(0, (begin - 500, begin), step=0)
        build.gpu(0, (begin, begin + length), launch=call, step=0, **{"class": class_})
        begin += length
    if name and name != "short":
        build.host(0, (26_000, 94_000), name, "annotation", step=0)
    found = found_by(build.con, "launch_bound")["launch_bound"]
    one = f"Most of it is one gap without launches. {advice}"
    assert found["advice"].startswith(one if advice else "CUDA graphs")


# what was wrong: products alone were to be compiled, and to use fused attention
@first_at_once()
@pytest.mark.parametrize(
    ("beside", "advice"),
    [
        ("gemm", "Faster kernels: lower precision; see kernels"),
        ("elementwise", "Faster kernels: lower precision, torch.compile; see kernels"),
        (
            "softmax",
            "Faster kernels: lower precision, fused attention, torch.compile; see kernels",
        ),
    ],
)
def test_kernels_are_to_be_fused_where_there_are_some_to_fuse(
    empty_run: duckdb.DuckDBPyConnection, beside: str, advice: str
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.host(0, (0, 5_000), "aten::mm")
    build.gpu(0, (0, 90_000), **{"class": "gemm"})
    build.gpu(0, (90_000, 100_000), **{"class": beside})
    assert found_by(build.con, "compute_bound")["compute_bound"]["advice"] == advice


# what was wrong: 'lower precision' for kernels in 16 bits, 'fused optimizers' for a fused one,
# 'fused attention' for the softmax of a loss, and torch.compile for what it had traced already
@first_at_once()
@pytest.mark.parametrize(
    ("name", "optimizer", "inside", "advice"),
    [
        (
            "sgemm",
            "multi_tensor",
            "aten::add",
            "lower precision, fused optimizers, torch.compile; ",
        ),
        ("ampere_bf16_s16816gemm", "Adam", "aten::add", "torch.compile; "),
        ("nvjet_tst_192x192", "Adam", "CompiledFunction", ""),
    ],
)
def test_what_a_program_has_already_is_not_advised(
    empty_run: duckdb.DuckDBPyConnection, name: str, optimizer: str, inside: str, advice: str
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.host(0, (0, 5_000), inside)
    build.host(0, (0, 5_000), "Optimizer.step#Adam.step", "annotation")
    build.gpu(0, (0, 80_000), name=name, **{"class": "gemm"})
    kind = "optimizer" if optimizer == "Adam" else "elementwise"
    build.gpu(0, (80_000, 99_500), name=optimizer, **{"class": kind})
    # one of the loss, in VGG16: no attention to fuse
    build.gpu(0, (99_500, 100_000), **{"class": "softmax"})
    row = found_by(build.con, "compute_bound")["compute_bound"]
    assert row["advice"] == f"Faster kernels: {advice}see kernels"


@first_at_once(2)
@pytest.mark.parametrize(
    ("gpu", "beside", "found"),
    [
        # 156 against 19.5 TFLOP/s: 70 of 80 us
        ("NVIDIA A100-SXM4-80GB", "ampere_fp16_sgemm_fp16_64x64_nn", (70_000, 0.125, "torch.set_")),
        # no faster in TF32, 71 against 35.6 in fp16: 39.887 of 80 us
        ("NVIDIA GeForce RTX 3090", "gemv", (39_887, 0.5014, "fp16 autocast")),
        ("NVIDIA A100-SXM4-80GB", "cutlass_80_tensorop_s1688gemm_128x64", None),
        ("Abacus 3000", "gemv", None),
    ],
)
def test_fp32_products_gain_what_the_peaks_say(
    empty_run: duckdb.DuckDBPyConnection,
    gpu: str,
    beside: str,
    found: tuple[int, float, str] | None,
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    gpu_named(build, 0, gpu)
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.host(0, (0, 5_000), "aten::mm")
    build.gpu(0, (0, 60_000), name="ampere_sgemm_128x64_nn", step=0, **{"class": "gemm"})
    build.gpu(0, (60_000, 80_000), name="sm80_xmma_gemm_ffma_a4", step=0, **{"class": "gemm"})
    build.gpu(0, (80_000, 99_000), name=beside, step=0, **{"class": "gemm"})
    row = found_by(build.con, "fp32_products").get("fp32_products")
    if found is None:
        assert row is None
        return
    cost, times, advice = found
    assert row is not None
    assert row["bound_ns"] == cost
    parts = [f"class=gemm name={name} times={times}" for name in ("*_ffma_*", "*sgemm_*")]
    assert row["scenario"] == "; ".join(parts)
    assert row["advice"].startswith(advice)


def test_attention_by_its_math_backend_is_said(empty_run: duckdb.DuckDBPyConnection) -> None:
    build = Builder(empty_run)
    build.rank(0)
    gpu_named(build, 0, "NVIDIA H200")
    build.step(0, 0, (0, 100_000), (0, 100_000))
    build.host(0, (0, 5_000), "aten::_scaled_dot_product_attention_math")
    build.gpu(0, (0, 95_000), name="ampere_sgemm_128x64_nn", step=0, **{"class": "gemm"})
    found = found_by(build.con, "fp32_products", "compute_bound")
    assert "by its math backend" in found["fp32_products"]["evidence"]
    assert found["fp32_products"]["advice"].startswith("Fused attention")
    assert "fused attention" in found["compute_bound"]["advice"]
