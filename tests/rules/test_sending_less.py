"""By what a run can send less: advice leaves out what it does already."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, Interval, found_by
from tests.analyses.kernels_of_groups import ACCUMULATE, Issuer
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from traceweave.analyses import shared_rows

US = 1_000


@first_at_once()
@pytest.mark.parametrize(
    ("name", "use", "ways"),
    [
        ("uneven_experts_gloo", "ddp", "more micro-batches per step, gradients in lower precision"),
        ("closure_gloo", "ddp", "gradient accumulation with no_sync, gradients in lower precision"),
        ("fsdp2_gloo", "fsdp", "shards within a node only, fewer gathers, lower precision, larger"),
        ("fsdp_accumulates_gloo", "fsdp", "gradients reduced in the last of 2 backward passes"),
    ],
)
def test_recorded(recorded: Recorded, name: str, use: str, ways: str) -> None:
    found = dict(shared_rows(recorded(name).con, "sending_less").select("use", "ways").fetchall())
    assert found[use].startswith(ways)


def test_what_has_16_bits_is_in_lower_precision(recorded: Recorded) -> None:
    found = dict(
        shared_rows(recorded("kineto/nanogpt_8xh100").con, "sending_less")
        .select("use", "ways")
        .fetchall()
    )
    assert found["sharded"] == "shards within a node only, fewer gathers"


# an update is a word, a backward pass a letter: s where DDP reduces its gradients, capital where
# they are added to some; '.' and '-' the same without; t of two parameters, h adds to one of them
@first_at_once()
@pytest.mark.parametrize(
    ("updates", "passes"),
    [
        pytest.param("sSS sSS", 3, id="in every pass"),
        pytest.param("sS S", 2, id="of a discriminator, which the generator's pass reduces too"),
        pytest.param(".-S .-S", None, id="no_sync"),
        pytest.param("s s s", None, id="no accumulation"),
        pytest.param("tS tS", None, id="of two networks: the last pass reduces one"),
        pytest.param("ss ss", None, id="of two networks that are updated together"),
        pytest.param("SS SS", None, id="zeroed in place: no telling"),
        pytest.param("th th", None, id="of two networks that share parameters"),
        pytest.param("s-S s-S", None, id="no_sync in some"),
        pytest.param("s s s sS", None, id="in few updates"),
    ],
)
def test_gradients_are_reduced_in_several_passes_of_an_update(
    empty_run: duckdb.DuckDBPyConnection, updates: str, passes: int | None
) -> None:
    build = Builder(empty_run)
    _train(build, updates)
    ((again, gone),) = shared_rows(build.con, "sending_less").select("again", "gone").fetchall()
    # without the calls nobody waits in them: transfers alone would gain less
    assert gone == ("op=all_reduce group=0 wait=none; kind=transfer times=0" if passes else None)
    told = (
        "DDP reduces gradients in each of {} backward passes of an update, where the last is enough"
    )
    assert again == (told.format(passes) if passes else None)


# an update is a word, a backward pass a letter: r where FSDP reduces its gradients, R where it adds
# them to some, '.' where it keeps them whole
@first_at_once()
@pytest.mark.parametrize(
    ("updates", "passes"),
    [("rRR rRR", 3), ("..r ..r", None), (".rR .rR", None), ("r r", None), ("rr rr", None)],
)
def test_fsdp_reduces_in_several_passes_of_an_update(
    empty_run: duckdb.DuckDBPyConnection, updates: str, passes: int | None
) -> None:
    build = Builder(empty_run)
    build.world(2)
    issue, at = Issuer(build), 0
    for update in updates.split():
        for kind in update:
            begin = at * US
            build.host(0, (begin, begin + US), "FSDP::root_pre_forward", "annotation")
            name = "FSDP::post_backward_{} (layers.0)"
            build.host(
                0, (begin + 30 * US, begin + 31 * US), name.format("accumulate"), "annotation"
            )
            if kind != ".":
                span = (begin + 40 * US, begin + 60 * US)
                reduce = build.host(0, span, name.format("reduce"), "annotation")
                if kind == "R":
                    build.host(0, (span[1] - US, span[1]), "aten::add_", depth=1, parent_id=reduce)
            spans = dict.fromkeys(range(2), (begin + 42 * US, begin + 50 * US))
            issue.collective("all_gather", spans, begin + 41 * US, bytes_=1_000_000)
            at += 100
        build.host(0, ((at - 10) * US, (at - 5) * US), "Optimizer.step#SGD.step", "annotation")
    for rank in range(2):
        build.step(rank, 1, (0, at * US), (0, at * US))
    found = shared_rows(build.con, "sending_less").filter("use = 'fsdp'").select("again").fetchall()
    told = (
        f"FSDP reduces gradients in each of {passes} backward passes of an update, where the last"
    )
    assert found == [(told + " is enough" if passes else None,)]


def _train(build: Builder, updates: str) -> int:
    """Record updates, a pass in 100 us, 30 of which DDP transfers, 14 of them without compute.

    Return when they end, us.
    """
    build.world(2)
    issue, at = Issuer(build), 0

    def span(begin: int, end: int) -> Interval:
        return (at + begin) * US, (at + end) * US

    for update in updates.split():
        for kind in update:
            build.host(0, span(0, 20), "DistributedDataParallel.forward")
            issue.compute(0, span(10, 66))
            issue.compute(1, span(10, 66))
            build.host(0, span(30, 70), ACCUMULATE)
            for n in range(2 if kind in "th" else 1):
                one = build.host(
                    0, span(31 + 5 * n, 35 + 5 * n), "torch::autograd::AccumulateGrad", depth=1
                )
                if n == 0 and kind in "S-h":
                    build.host(0, span(32, 34), "aten::add_", depth=2, parent_id=one)
            if kind in "Ssth":
                spans = {rank: span(50, 80) for rank in range(2)}
                issue.collective("all_reduce", spans, span(45, 50)[0], bytes_=1_000_000)
            at += 100
        build.host(0, span(-10, -5), "Optimizer.step#SGD.step", "annotation")
    for rank in range(2):
        build.step(rank, 1, (0, at * US), (0, at * US))
    return at


# what was wrong: no word of tensor parallelism, which has most of the transfers
def test_what_has_most_of_the_transfers_is_advised_on_too(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    build = Builder(empty_run)
    end = _train(build, "sSS")
    build.group(1, [0, 1], role="tp", role_source="name")
    issue = Issuer(build, 10_000)
    for at in range(0, end, 100):
        span = ((at + 80) * US, (at + 98) * US)
        issue.collective("all_reduce", {0: span, 1: span}, group_id=1, bytes_=1_000_000)
    row = found_by(build.con, "communication_bound", replay_ops=0)["communication_bound"]
    assert row["advice"].startswith("Tensor parallelism: fewer ranks per group")
    assert "DDP: send less (no_sync in all but the last of 3 backward passes" in row["advice"]


# what was wrong: "fewer gathers" of replicate and NO_SHARD, which run FSDP and gather nothing
@nightly
@pytest.mark.parametrize(("op", "use"), [("all_gather", "fsdp"), ("all_reduce", "gradients")])
def test_what_shards_nothing_is_not_fsdp(
    empty_run: duckdb.DuckDBPyConnection, op: str, use: str
) -> None:
    build = Builder(empty_run)
    build.world(2)
    for rank in range(2):
        build.step(rank, 1, (0, 20_000), (0, 20_000))
    issue = Issuer(build)
    for rank in range(2):
        issue.compute(rank, (100, 150))
        build.host(rank, (110, 180), "FSDP::all_gather (3)")
        build.host(rank, (300, 380), "FSDP::post_backward_reduce (3)")
    issue.collective(op, {0: (160, 200), 1: (160, 200)}, 120)
    issue.collective("all_reduce", {0: (350, 400), 1: (350, 400)}, 310)
    assert shared_rows(build.con, "sending_less").select("use").fetchall() == [(use,)]


@nightly
@pytest.mark.parametrize(
    ("sums_of", "uses"),
    # messages are less than a third of the transfers, and more where one step lacks its sums
    [((3, 4, 5), "data-parallel"), ((3, 4), "data-parallel and pipeline")],
)
def test_all_uses_of_a_third_or_more_are_named(
    fixtures: Path,
    database_of: Callable[..., Path],
    tmp_path: Path,
    sums_of: tuple[int, ...],
    uses: str,
) -> None:
    """Sends from stage to stage, and gradients."""
    path = tmp_path / "run.duckdb"
    shutil.copy(database_of(fixtures / "messages_mesh_gloo"), path)
    with duckdb.connect(str(path)) as con:
        con.execute(
            "DELETE FROM base.collective_calls WHERE op = 'all_reduce'"
            " AND NOT list_contains(?, step)",
            [list(sums_of)],
        )
    with traceweave.open(path) as run:
        rows = run.stream_analysis("findings", replay_ops=0).read_all().to_pylist()
    (title,) = (row["title"] for row in rows if row["rule"] == "communication_bound")
    assert title == f"Each step has {uses} transfers that no compute hides"
