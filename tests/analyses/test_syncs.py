import pytest

from tests.analyses.builders import Builder, rows, told
from tests.marks import first_at_once


def test_a_waiting_call_and_the_code_around_it(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 1000), "train.py(10): step", kind="python", depth=0)
    build.host(0, (10, 900), "optimizer", kind="annotation", depth=1)
    build.host(0, (20, 800), "aten::item", depth=2)
    build.host(0, (30, 700), "aten::_local_scalar_dense", depth=3)
    build.host(0, (40, 45), "aten::empty", depth=4)
    for at in ((50, 150), (200, 500)):
        outer = build.host(0, at, "cudaStreamSynchronize", "runtime", 4, step=3)
        build.host(0, at, "cuStreamSynchronize", "driver", 5, parent_id=outer)
    assert rows(build.con, "syncs") == [
        {
            "rank": 0, "call": "cudaStreamSynchronize", "reason": "synchronize",
            "host_op": "aten::_local_scalar_dense", "annotation": "optimizer",
            "python": "train.py(10): step", "count": 2, "total_ns": 400, "mean_ns": 200.0,
            "min_ns": 100, "p50_ns": 100, "max_ns": 300, "copied_bytes": None, "steps": 1,
        }
    ]  # fmt: skip
    assert [row["count"] for row in rows(build.con, "syncs", min_call_ns=101)] == [1]
    assert rows(build.con, "syncs", step=4) == []


@first_at_once(3)
@pytest.mark.parametrize(
    ("copy", "name", "kind", "stalls"),
    [
        ((20, 90), "Memcpy DtoH (Device -> Pageable)", "DtoH", True),
        ((20, 100), "Memcpy HtoD (Pageable -> Device)", "HtoD", True),
        ((20, 90), "Memcpy DtoH", "DtoH", True),
        ((20, 101), "Memcpy DtoH (Device -> Pageable)", "DtoH", False),
        ((20, 90), "Memcpy DtoH (Device -> Pinned)", "DtoH", False),
        ((20, 90), "Memcpy DtoD (Device -> Device)", "DtoD", False),
    ],
    ids=["to host", "from host", "memory unknown", "ends later", "pinned", "on the device"],
)
def test_a_copy_stalls_the_host_if_its_call_returns_only_when_it_has_ended(
    build: Builder, copy: tuple[int, int], name: str, kind: str, stalls: bool
) -> None:
    build.rank(0)
    call = build.host(0, (0, 100), "cudaMemcpyAsync", "runtime")
    build.gpu(0, copy, "memory", name=name, launch=call, copy_kind=kind, bytes=8)
    got = [
        (row["reason"], row["total_ns"], row["copied_bytes"]) for row in rows(build.con, "syncs")
    ]
    assert got == ([("copy", 100, 8)] if stalls else [])


def test_ranges_of_other_threads_and_over_before_are_not_around_it(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 40), "aten::add")
    build.host(0, (0, 400), "aten::mul", tid=2)
    build.host(0, (50, 100), "cudaDeviceSynchronize", "runtime", 0)
    assert told(build.con, "syncs", "host_op annotation python") == [(None, None, None)]


def test_what_does_not_wait_is_not_there(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 40), "cudaStreamWaitEvent", "runtime")
    build.host(0, (0, 40), "aten::item")
    build.launch(0, (50, 60))
    assert rows(build.con, "syncs") == []
