"""What runs again in a backward, of jobs worked out by hand."""

from __future__ import annotations

import duckdb
import pytest

from tests.analyses.builders import Builder, found_by
from tests.conftest import Recorded
from tests.rules.test_words import TITLE

US = 1000
EVALUATES = "autograd::engine::evaluate_function: "


# what was wrong: an exchange of experts was its own backward, and 142 % of compute, run again
@pytest.mark.parametrize(
    ("node", "inside", "again"),
    [
        # an exchange of tokens is the backward of another
        ("_AlltoAllSingleBackward", [("_AlltoAllSingle", 5, 400)], None),
        # a checkpoint: the number of the function is one of a forward, as those of operators are
        ("CheckpointFunctionBackward", [("_AlltoAllSingle", 5, 400), ("aten::mm", 6, 100)], 500),
    ],
)
def test_a_function_is_recorded_where_operators_are(
    empty_run: duckdb.DuckDBPyConnection,
    node: str,
    inside: list[tuple[str, int, int]],
    again: int | None,
) -> None:
    build = Builder(empty_run)
    build.rank(0)
    build.step(0, 1, (0, 1000 * US))
    around = build.host(0, (100 * US, 900 * US), EVALUATES + node, step=1)
    own = build.host(0, (100 * US, 900 * US), node, depth=1, step=1, parent_id=around, sequence=3)
    at = 110 * US
    for name, sequence, lasts in inside:
        span = (at, at + lasts * US)
        build.host(0, span, name, depth=2, step=1, parent_id=own, sequence=sequence)
        at = span[1]
    found = found_by(build.con, "recomputation", replay_ops=0)
    assert [row["cost_ns"] for row in found.values()] == ([again * US] if again else [])


# what was wrong: of one rank in two half of what it takes, said of each step, and no rank
@pytest.mark.parametrize("ranks", [[1], [0, 2], [0, 1, 2]])
def test_ranks_that_alone_compute_again_are_named(
    empty_run: duckdb.DuckDBPyConnection, ranks: list[int]
) -> None:
    """In a backward of 800 us a product of 300 us runs again, on some ranks of three or on all."""
    build = Builder(empty_run)
    build.world(3)
    for rank in range(3):
        build.step(rank, 1, (0, 1000 * US))
        node = build.host(rank, (100 * US, 900 * US), f"{EVALUATES}MmBackward0", step=1)
        own = build.host(rank, (100 * US, 900 * US), "MmBackward0", depth=1, step=1, parent_id=node)
        if rank in ranks:
            again = (200 * US, 500 * US)
            build.host(rank, again, "aten::mm", depth=2, step=1, parent_id=own, sequence=5)
    found = found_by(build.con, "recomputation", replay_ops=0)["recomputation"]
    assert found["cost_ns"] == 300 * US
    assert found["ranks"] == (ranks if len(ranks) < 3 else None)
    assert len(found["title"].split()) <= TITLE


# what was wrong: kernels, which a run without a GPU has none of
def test_the_proof_has_rows(recorded: Recorded) -> None:
    run = recorded("flops_cpu")
    row = found_by(run.con, "recomputation")["recomputation"]
    assert row["proof"] == "host_ops"
