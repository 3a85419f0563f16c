"""By what a run can send less: advice leaves out what it does already."""

from __future__ import annotations

import pytest

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
def test_all_uses_of_a_third_or_more_are_named(recorded: Recorded) -> None:
    """Sends from stage to stage, and gradients."""
    rows = (
        recorded("messages_mesh_gloo")
        .stream_analysis("findings", replay_ops=0)
        .read_all()
        .to_pylist()
    )
    (title,) = (row["title"] for row in rows if row["rule"] == "communication_bound")
    assert title == "Each step has pipeline and data-parallel transfers that no compute hides"
