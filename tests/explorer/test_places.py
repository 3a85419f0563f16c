"""Findings of recorded runs are shown at something that they are about, or not at all.

What is there is read from the public relations: which operation ran when on which rank."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import traceweave
from tests.marks import nightly
from traceweave.explorer.explorer import explore


class Shown(NamedTuple):
    """Where one finding is shown."""

    trace: str
    title: str
    """Its beginning."""
    there: str | None
    """A condition on what is there; None: it is not offered."""


SHOWN = (
    # the step that it names: 5 is as long
    Shown("cases/ts0", "Step 6 idles 7.80 ms longer", "step = 6"),
    Shown(
        "two_groups_gloo", "Rank 0 keeps the others waiting in step 5", "step = 5 AND last_rank = 0"
    ),
    Shown("fsdp2_gloo", "Rank 1 keeps the others waiting in step 5", "step = 5 AND last_rank = 1"),
    Shown("flops_cpu", "3 of 8 steps take", "step = 6"),
    # the copies that it is about, and not the longest of all
    Shown("cases/rocm72", "Memsets run without compute", "name = 'Memset (Device)'"),
    Shown(
        "cases/rocm72", "Copies between the GPU and pageable", "name LIKE 'Memcpy DtoH%Pageable%'"
    ),
    Shown("kineto/negative_queue_1of16", "Copies within the GPU", "name LIKE 'Memcpy DtoD%'"),
    Shown("nsys/perf_sandbox__2025.5.sqlite", "Copies between the GPU", "name = 'Memcpy HtoD'"),
    Shown("kineto/diff_test", "Each step multiplies in fp32", "name LIKE '%sgemm%'"),
    # the longest tail of this operation and group, as long as it says
    Shown(
        "fsdp1_gloo", "all_gather takes up to 6.05 ms", "op = 'all_gather' AND transfer_ms = 6.05"
    ),
    Shown(
        "two_groups_gloo", "all_to_all takes up to 5.87", "op = 'all_to_all' AND transfer_ms = 5.87"
    ),
    Shown(
        "two_groups_gloo", "all_to_all takes up to 3.37", "op = 'all_to_all' AND transfer_ms = 3.37"
    ),
    Shown("two_groups_gloo", "Each step has all_to_all transfers", "op = 'all_to_all'"),
    # a rank alone, or the other side of a message unknown: how much of it is transfer is not known
    Shown("kineto/hta_pair_nccl2", "Each step has DDP communication", "op = 'all_reduce'"),
    Shown("pipeline_1f1b", "Sends and receives run without compute", None),
    Shown("messages_mesh_gloo", "Ranks of pipeline stages wait", "op IN ('send', 'recv')"),
    # what others wait for rank 2 for has a finding of its own
    Shown("slow_and_uneven_gloo", "Ranks wait for each other", "last_rank <> 2"),
    # of hosts, gaps have no such cause; of operators, no selector says which are run again
    Shown("recompile_once", "Rank 0 compiles code in step 5", None),
    Shown("flops_cpu", "Each step computes activations again", None),
    Shown(
        "kineto/sglang_prefill_mi300x",
        "Rank 0 waits for work from before",
        "cause = 'began_before'",
    ),
)

THERE = {
    "steps": "SELECT step FROM steps GROUP BY step"
    " HAVING $at BETWEEN min(coalesce(device_start_ns, start_ns)) - 1"
    " AND min(coalesce(device_start_ns, start_ns)) + 1",
    "ops": "SELECT name FROM device_ops WHERE rank = $rank AND abs(start_ns - $at) <= 1"
    " AND abs(duration_ns - $long) <= 1",
    "gaps": "SELECT cause FROM gaps() WHERE rank = $rank AND abs(start_ns - $at) <= 1"
    " AND duration_ns = $long",
    # from when it began, or when the last had come, until it ended
    "transfers": "SELECT k.op, round(i.transfer_min_ns / 1e6, 2) AS transfer_ms"
    " FROM collectives AS k LEFT JOIN collective_instances AS i USING (collective_id)"
    " WHERE k.rank = $rank AND $at >= k.start_ns - 1 AND abs(k.end_ns - $at - $long) <= 1000",
    "waits": "SELECT k.op, k.step, i.last_rank"
    " FROM collectives AS k JOIN collective_instances AS i USING (collective_id)"
    " WHERE k.rank = $rank AND abs(k.start_ns - $at) <= 1 AND $long <= k.duration_ns",
}


@nightly
@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: f"{one.trace}: {one.title}")
def test_a_finding_is_shown_at_something_that_it_is_about(
    shown: Shown, database_of: Callable[..., Path], fixtures: Path, corpus: Path
) -> None:
    trace, title, there = shown
    database = database_of((corpus if "/" in trace else fixtures) / trace)
    kind, place = _place(database, title)
    assert (place is None) == (there is None)
    if place is None:
        return
    with traceweave.open(database) as run:
        values = {"rank": place["rank"], "at": place["start_ns"], "long": place["duration_ns"]}
        used = {name: value for name, value in values.items() if f"${name}" in THERE[kind]}
        rows = run.sql(f"SELECT *, {there} AS agrees FROM ({THERE[kind]})", used)
    assert rows["agrees"].any(), rows


def _place(database: Path, title: str) -> tuple[str, dict[str, Any] | None]:
    """Return what of a timeline a finding is about, and where on the common clock it is shown."""
    with explore(database) as explorer, explorer.run.asking() as asking:
        told = explorer.findings(asking)
        [number] = [i for i, one in enumerate(told) if one["title"].startswith(title)]
        place = explorer.finding_place(asking, number)["place"]
        subject = told[number]["subject"]
        assert (subject is None) == (place is None)  # offered where there is something
        if place is None:
            return "", None
        return subject["kind"], {**place, "start_ns": place["start_ns"] + explorer.run.origin_ns}
