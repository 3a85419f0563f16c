"""overlap_of: two selections by hand; on real runs it counts as breakdown does (one_partition)."""

import pytest

from tests.analyses.builders import Builder, rows
from tests.cases import cases
from tests.marks import first_at_once
from traceweave.errors import UsageError
from traceweave.replay.model import Model

US = 1000
PARTS = ("only_a_ns", "only_b_ns", "both_ns", "neither_ns")


@pytest.fixture
def run(build: Builder) -> Builder:
    """One step of 100 us: matmul 0-30, norm 30-50, matmul 60-80; all_reduce 20-70, a copy 75-90."""
    build.rank(0)
    build.group(0, [0])
    build.step(0, 1, (0, 100 * US), (0, 100 * US))
    build.host(0, (0, 10 * US), "nn.Module: MLP_0", "python_function", 0)
    first = build.launch(0, (2 * US, 3 * US))
    later = build.launch(0, (12 * US, 13 * US))
    build.gpu(0, (0, 30 * US), name="mm<1>", step=1, launch=first, **{"class": "gemm"})
    build.gpu(0, (30 * US, 50 * US), name="norm", step=1, **{"class": "norm"})
    build.gpu(0, (60 * US, 80 * US), name="mm<2>", step=1, launch=later, **{"class": "gemm"})
    op = build.gpu(0, (20 * US, 70 * US), "communication", "nccl", 20, step=1)
    build.collective({0: (20 * US, 70 * US)}, step=1, each={0: {"gpu_op_id": op}})
    build.gpu(0, (75 * US, 90 * US), "memory", "Memcpy HtoD", 21, step=1)
    return build


@first_at_once(3)
@cases
def test_parts_by_hand(run: Builder, a: str, b: str, parts: tuple[int, ...]) -> None:
    [row] = rows(run.con, "overlap_of", a=a, b=b)
    assert tuple(row[part] / US for part in PARTS) == parts
    assert sum(row[part] for part in PARTS) == row["window_ns"] == 100 * US


@cases
def test_what_makes_no_sense_is_refused(run: Builder, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        rows(run.con, "overlap_of", a=text)


def test_scenarios_know_streams_too(run: Builder) -> None:
    model = Model(run.con)
    gone = model.changed(*model.parsed("stream=21 times=0")).nodes
    changed = model.graph.nodes.length - gone.length
    assert sorted(changed[changed > 0].tolist()) == [15 * US]
    with pytest.raises(UsageError, match="this run has no stream 5"):
        model.step("stream=5 times=0")
