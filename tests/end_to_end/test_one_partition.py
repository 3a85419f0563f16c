"""The time of every step is divided once: all who tell states, causes and origins tell the same.

What ran and what did not is measured in few files, named here with what each asks. Where two of
them can be held against each other, they are: on CPUs and GPUs, each kind of parallelism, format
and fault once."""

import re
from collections.abc import Callable, Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import pandas as pd
import pytest

import traceweave
from tests.marks import at_once
from traceweave.api import Run

MEASURES = re.compile(
    r"\b(tw_window_times|tw_gaps|tw_busy_until|tw_computed_until|tw_collective_exposure|tw_progress"
    r"|sweep_gaps|sweep_busy_until|sweep_union_until)\(|\btw_(exposed|copy)_pieces\b"
)
"""What measures for how long something, or nothing, ran."""

MEASURED = {
    "macros/intervals.sql": "defines them",
    "macros/windows.sql": "what ran in each window: the states of breakdown and partition",
    "macros/idle_lanes.sql": "when a device or stream ran nothing",
    "macros/held_up.sql": "what the host did meanwhile",
    "macros/parallelism.sql": "how much of one call no compute hides, and how it blocks compute",
    "breakdown.sql": "the states of each window",
    "kernel_types.sql": "the same windows by what ran at once",
    "shared/partition.sql": "idle time by its cause",
    "gaps.sql": "the gaps one by one",
    "exposed_comm.sql": "how much of the waiting and transfer of one call no compute hides",
    "shared/exposed_stretches.sql": "why no compute hides a call, each moment once",
    "shared/exposed_copies.sql": "and why it does not run while copies run alone",
    "overlap_of.sql": "the same windows by any two selections",
    "ddp_buckets.sql": "the same of whole calls, where they are buckets",
    "fsdp.sql": "of gathers and scatters",
    "tp.sql": "of calls that block",
    "groups.sql": "how far compute had come when each call began, which tells what a group is for",
    "data_loading.sql": "which gaps the loader is behind",
    "shared/pipeline_traffic.sql": "how long receives of a pipeline block compute",
    "pipeline.sql": "bubbles: whatever a stage of a pipeline does but compute",
    "shared/worked_until.sql": "what a rank did between two collectives",
    "shared/late_launches.sql": "what held up the thread that launched the second of them",
    "shared/wait_origins.sql": "how long it had waited without compute before it came late",
    "copies.sql": "how much of copies compute hides",
}
"""The files that do, and what they ask. A further one needs a question that none of these has."""

RUNS = (
    *("fixtures/" + name for name in (
        "captured_gloo", "dataloader_late_once", "ddp_gloo_nsys", "ddp_gloo_straggler",
        "flops_cpu", "fsdp2_gloo", "messages_mesh_gloo", "odd_groups_gloo", "pipeline_1f1b",
        "recompile_once", "tp2_dp2_gloo", "uneven_start_gloo",
    )),
    *("corpus/kineto/" + name for name in (
        "amd_mi250", "cpu_gloo_1of300", "cuda_sync", "deepep8", "deepseek_train", "diff_control",
        "ep_moe_b200_seq", "graph_capture_mi300x", "hta_pair_nccl2", "megatron_tp2",
        "megatron_tp8", "mtia", "nanogpt_8xh100", "negative_queue_1of16", "no_rank",
        "ns_resolution", "old_inference", "resnet_hipfree_mi300x", "sampled_2of128",
        "sglang_prefill_mi300x", "tb_resnet50_torch1.9", "torchrec_4", "triton",
        "vllm_step_mi300x",
    )),
    "corpus/nsys/fsdp_2rank_before__2026.2.sqlite",
)  # fmt: skip

STATES = {
    "compute": "compute_ns", "transfer": "exposed_transfer_ns", "waiting": "exposed_wait_ns",
    "communication": "exposed_unsplit_ns", "copy": "exposed_memory_ns", "idle": "idle_ns",
}  # fmt: skip
"""The columns of breakdown, of which kernel_types has combinations."""
WINDOW = ["rank", "step"]


@pytest.fixture(scope="module", params=at_once(RUNS, "fixtures/ddp_gloo_straggler"))
def run(request: pytest.FixtureRequest, database_of: Callable[..., Path]) -> Iterator[Run]:
    where, name = request.param.split("/", 1)
    with traceweave.open(database_of(request.getfixturevalue(where) / name)) as opened:
        yield opened


def _sums(rows: pd.DataFrame, by: list[str], column: str) -> dict[object, int]:
    """Return what adds up to something, NULL as a step of its own."""
    known = rows.fillna({"step": -1})
    sums = known.groupby(by, observed=True)[column].sum()
    return {key: int(ns) for key, ns in sums.items() if ns}


def test_the_rows_of_a_step_add_up_to_it(run: Run) -> None:
    whole = run.breakdown()
    assert _sums(run.accounting(), WINDOW, "time_ns") == _sums(whole, WINDOW, "window_ns")
    assert _sums(run.kernel_types(), WINDOW, "time_ns") == _sums(whole, WINDOW, "window_ns")


def test_states_are_those_of_breakdown(run: Run) -> None:
    rows, parts = run.breakdown(), run.accounting()
    for state, column in STATES.items():
        told = parts[parts["state"] == state]
        assert _sums(told, WINDOW, "time_ns") == _sums(rows, WINDOW, column), state
    kinds = run.kernel_types()
    of = {
        "compute_ns": kinds["kernel_type"].str.contains("compute"),
        "comm_ns": kinds["kernel_type"].str.contains("communication"),
        "memory_ns": kinds["kernel_type"].str.contains("memory"),
        "exposed_memory_ns": kinds["kernel_type"] == "memory",
        "idle_ns": kinds["kernel_type"] == "idle",
    }
    for column, chosen in of.items():
        assert _sums(kinds[chosen], WINDOW, "time_ns") == _sums(rows, WINDOW, column), column


def test_causes_are_those_of_idle_causes_and_no_gap_is_longer(run: Run) -> None:
    parts, causes, by = run.accounting(), run.idle_causes(), [*WINDOW, "cause"]
    idle = parts[parts["state"] == "idle"]
    assert _sums(idle, by, "time_ns") == _sums(causes, by, "idle_ns")
    # devices idle one by one; a rank does when all of them do
    gaps = _sums(run.gaps(per="device"), by, "duration_ns")
    for key, ns in _sums(causes[causes["cause"] != "short"], by, "idle_ns").items():
        assert ns <= gaps[key], key


def test_origins_have_the_waiting_of_exposed_comm(run: Run) -> None:
    calls = run.exposed_comm().rename(columns={"late_rank": "origin_rank"})
    late = _sums(calls.dropna(subset="origin_rank"), [*WINDOW, "origin_rank"], "late_ns")
    told = run.accounting().dropna(subset="origin_rank")
    told = told[told["step"].notna()]
    # a call is of the step that issued it, and may run on into the next: less, never more
    for key, ns in _sums(told, [*WINDOW, "origin_rank"], "time_ns").items():
        assert ns <= late[key], key


def test_causes_of_exposed_communication_add_up_to_it(run: Run) -> None:
    parts = run.accounting()
    exposed = parts[parts["state"].isin(["transfer", "waiting", "communication"])]
    causes, told = run.exposed_causes(), _sums(exposed, WINDOW, "time_ns")
    assert _sums(causes, WINDOW, "time_ns") == {
        key: ns for key, ns in told.items() if not _has_steps(parts) or key[1] >= 0
    }


def test_any_two_selections_are_counted_as_breakdown_counts(run: Run) -> None:
    whole, found = run.breakdown(), run.overlap_of(a="kind=compute", b="kind=transfer")
    assert _sums(found, WINDOW, "both_ns") == _sums(whole, WINDOW, "overlap_ns")
    assert _sums(found, WINDOW, "only_b_ns") == _sums(whole, WINDOW, "exposed_comm_ns")
    rest = whole.assign(rest=whole["idle_ns"] + whole["exposed_memory_ns"])
    assert _sums(found, WINDOW, "neither_ns") == _sums(rest, WINDOW, "rest")


def test_time_without_compute_is_divided_twice(run: Run) -> None:
    """By why no compute ran, and, of communication, by how much of it could have been hidden."""
    whole, found = run.breakdown(), run.overlap(per="step")
    if not len(found):
        return
    lengths = whole.assign(idle=whole["window_ns"] - whole["compute_ns"])
    without = {
        key: ns
        for key, ns in _sums(lengths, WINDOW, "idle").items()
        if not _has_steps(whole) or key[1] >= 0
    }
    every, parts = found[found["op"].isna()], found[found["op"].notna()]
    for rows in (every, parts):
        assert _sums(rows, WINDOW, "exposed_ns") == without
    why = ["launch_starved_ns", "blocked_ns", "dependency_ns", "unknown_ns"]
    assert (found[why].sum(axis=1) == found["exposed_ns"]).all()
    calls = parts[~parts["op"].isin(["copy", "idle"])]
    possible = ["waiting_ns", "movable_ns", "reorder_ns", "never_ns"]
    assert (calls[possible].sum(axis=1) == calls["exposed_ns"]).all()
    free = _sums(whole.assign(free=whole["compute_ns"] - whole["overlap_ns"]), WINDOW, "free")
    for key, ns in _sums(every, WINDOW, "reorder_ns").items():
        assert ns <= free[key]


def _has_steps(rows: pd.DataFrame) -> bool:
    return bool(rows["step"].notna().any())


def test_a_call_is_exposed_for_as_long_wherever_it_is_told(run: Run) -> None:
    known = run.exposed_comm().drop_duplicates(["rank", "start_ns", "op"], keep=False)
    lengths = known.set_index(["rank", "op", "start_ns"])["exposed_ns"].to_dict()
    found = 0
    for rows in (run.ddp_buckets().assign(op="all_reduce"), run.fsdp()):
        for row in rows.dropna(subset="exposed_ns").itertuples():
            if (key := (row.rank, row.op, row.start_ns)) in lengths:
                assert row.exposed_ns == lengths[key], key
                found += 1
    assert found or not len(run.ddp_buckets())


def _files(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".sql"):
            yield f"{path}{entry.name}", entry.read_text(encoding="utf-8")


def test_no_other_file_measures_what_ran() -> None:
    texts = {
        path: re.sub(r"--[^\n]*", "", text) for path, text in _files(resources.files("traceweave"))
    }
    measures = {path for path, text in texts.items() if MEASURES.search(text)}
    assert measures == {f"analyses/{path}" for path in MEASURED}
