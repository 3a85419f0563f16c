"""By what a run can send less: advice leaves out what it does already."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder
from tests.analyses.kernels_of_groups import ACCUMULATE, Issuer
from tests.conftest import Recorded
from tests.marks import nightly
from traceweave.analyses import shared_rows


@pytest.mark.parametrize(
    ("name", "use", "ways"),
    [
        ("uneven_experts_gloo", "ddp", "more micro-batches per step, gradients in lower precision"),
        ("closure_gloo", "ddp", "gradient accumulation with no_sync, gradients in lower precision"),
        ("fsdp2_gloo", "fsdp", "shards within a node only, fewer gathers, lower precision, larger"),
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
@pytest.mark.parametrize(
    ("updates", "passes"),
    [
        pytest.param("sSS sSS", 3, id="in every pass"),
        pytest.param("sS S", 2, id="of a discriminator, which the generator's pass reduces too"),
        pytest.param(".-S .-S", None, id="no_sync"),
        pytest.param("s s s", None, id="no accumulation"),
        pytest.param("ss ss", None, id="of two networks that are updated together"),
        pytest.param("SS SS", None, id="zeroed in place: no telling"),
        pytest.param("tS tS", None, id="of two networks: the last pass reduces one"),
        pytest.param("th th", None, id="of two networks that share parameters"),
        pytest.param("s-S s-S", None, id="no_sync in some"),
        pytest.param("s s s sS", None, id="in few updates"),
    ],
)
def test_gradients_are_reduced_in_several_passes_of_an_update(
    empty_run: duckdb.DuckDBPyConnection, updates: str, passes: int | None
) -> None:
    build, at = Builder(empty_run), 0
    build.world(2)
    for rank in range(2):
        build.step(rank, 1, (0, 20_000), (0, 20_000))
    issue = Issuer(build)
    for update in updates.split():
        for kind in update:
            build.host(0, (at, at + 20), "DistributedDataParallel.forward")
            issue.compute(0, (at + 10, at + 60))
            issue.compute(1, (at + 10, at + 60))
            build.host(0, (at + 30, at + 70), ACCUMULATE)
            for n in range(2 if kind in "th" else 1):
                begin = at + 31 + 5 * n
                outer = build.host(
                    0, (begin, begin + 4), "torch::autograd::AccumulateGrad", depth=1
                )
                if n == 0 and kind in "S-h":
                    build.host(0, (begin + 1, begin + 3), "aten::add_", depth=2, parent_id=outer)
            if kind in "Ssth":
                issue.collective("all_reduce", {0: (at + 60, at + 80), 1: (at, at + 80)}, at + 50)
            at += 100
        build.host(0, (at - 10, at - 5), "Optimizer.step#SGD.step", "annotation")
    ((again,),) = shared_rows(build.con, "sending_less").select("again").fetchall()
    told = (
        "DDP reduces gradients in each of {} backward passes of an update, where the last is enough"
    )
    assert again == (told.format(passes) if passes else None)


@nightly
@pytest.mark.parametrize(
    ("sums_of", "uses"),
    # the messages are 22 % of the transfers that show, and more where one step lacks its sums
    [((3, 4, 5), "data-parallel"), ((3, 4), "pipeline and data-parallel")],
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
