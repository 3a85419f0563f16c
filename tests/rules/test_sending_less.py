"""By what a run can send less: advice leaves out what it does already."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
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
