"""What a GPU op knows of its launching call is what host_ops says of it, whatever the format."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.marks import first_at_once, nightly
from tests.simulated_runs import SKEWED
from traceweave_simulator import Config, simulate, write_nsys

DIFFERENT = """
    SELECT count(*), count(g.launch_op_id)
    FROM gpu_ops AS g LEFT JOIN host_ops AS h ON h.op_id = g.launch_op_id
    WHERE (
        g.launch_start_ns, g.launch_end_ns, g.launch_duration_ns, g.launch_start_local_ns,
        g.launch_pid, g.launch_tid, g.launch_call
    ) IS DISTINCT FROM (
        h.start_ns, h.end_ns, h.duration_ns, h.start_local_ns, h.pid, h.tid, h.name
    )
"""
LAUNCHED = "SELECT count(*), count(launch_op_id), count(launch_start_ns) FROM gpu_ops"
"""Of all ops, those with a launch and those with its times."""


def _counts(database: Path) -> tuple[int, ...]:
    with duckdb.connect(database, read_only=True) as con:
        assert con.execute(DIFFERENT).fetchall() == [(0, 0)]
        (counts,) = con.execute(LAUNCHED).fetchall()
        same = (
            "SELECT count(*) FROM device_ops AS d JOIN gpu_ops AS g USING (op_id)"
            " WHERE d.launch_start_local_ns IS NOT DISTINCT FROM g.launch_start_local_ns"
            " AND d.launch_duration_ns IS NOT DISTINCT FROM g.launch_duration_ns"
        )
        assert con.execute(same).fetchall() == [(counts[0],)]
        return tuple(counts)


@nightly
def test_every_op_of_a_simulated_run_has_its_call(
    simulated_database: Callable[[Config], Path], database_of: Callable[..., Path], tmp_path: Path
) -> None:
    write_nsys(simulate(SKEWED), tmp_path / "traces", ranks_per_report=2)
    for database in (simulated_database(SKEWED), database_of(tmp_path / "traces")):
        ops, launched, timed = _counts(database)
        assert ops == launched == timed > 0


@first_at_once()
@pytest.mark.parametrize(
    "name", ["kineto/amd_mi250", "nsys/fsdp_2rank_after__2026.2.sqlite", "kineto/nanogpt_8xh100"]
)
def test_real_ops_have_their_calls(
    name: str, corpus: Path, database_of: Callable[..., Path]
) -> None:
    """The second of a cut window: the calls of some ops are not in it."""
    ops, launched, timed = _counts(database_of(corpus / name))
    assert 0 < launched == timed <= ops


def test_a_collective_that_no_operation_names_was_issued_by_its_call(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    """80 kernels of NCCL, 65 of which a record_param_comms names, and 10 more a launch."""
    with duckdb.connect(database_of(corpus / "kineto/negative_queue_1of16"), read_only=True) as con:
        rows = con.execute(
            "SELECT h.kind, count(*) FROM collectives AS k"
            " LEFT JOIN host_ops AS h ON h.op_id = k.host_op_id GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert rows == [("op", 65), ("runtime", 10), (None, 5)]
