"""contention: what kernels lose to what runs beside them, by hand and against a real trace."""

import gzip
import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from traceweave.errors import UsageError
from traceweave.replay.model import Model

US = 1000
NOT_RECORDED = "neither shapes nor steps tell which calls do the same work"


def _step(build: Builder, step: int, kernel_us: int, beside: tuple[int, int] | None) -> None:
    """A step of 100 us: the kernel K from 10 us on, then L for 20, and an all-reduce beside K."""
    at = 100 * US * (step - 1)
    build.step(0, step, (at, at + 100 * US), (at + 10 * US, at + 110 * US))
    end = at + (10 + kernel_us) * US
    build.gpu(0, (at + 10 * US, end), name="K", step=step, args='{"grid":[64,1,1]}')
    build.gpu(0, (end, end + 20 * US), name="L", step=step)
    if beside:
        span = (at + beside[0] * US, at + beside[1] * US)
        op = build.gpu(0, span, "communication", "R", stream=9, step=step)
        build.collective({0: span}, step=step, each={0: {"gpu_op_id": op}})


def _seven_steps(build: Builder) -> None:
    """K takes 10 us alone, 16 beside an all-reduce, and 13 where that runs for 8 of them."""
    build.rank(0)
    build.group(0, [0])
    for step in (1, 2, 3):
        _step(build, step, 10, None)
    for step in (4, 5, 6):
        _step(build, step, 16, (10, 26))
    _step(build, 7, 13, (15, 23))
    # so that the last step lasts as long as the others
    build.gpu(0, (700 * US, 710 * US), name="end", step=7)


def _of(found: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    (row,) = [row for row in found if all(row[key] == value for key, value in values.items())]
    return row


def test_what_is_lost_by_hand(build: Builder) -> None:
    _seven_steps(build)
    row = _of(rows(build.con, "contention"), beside="communication", **{"class": None})
    # of 16, 16 and 16 us beside it 6 are lost each, of the 8 of step 7 also three eighths
    assert (row["calls"], row["compared"]) == (4, 4)
    assert row["beside_ns"] == pytest.approx(56 * US / 7)
    assert row["lost_ns"] == pytest.approx(21 * US / 7)
    assert row["slowdown"] == pytest.approx(56 / 35)
    assert (row["slower_share"], row["note"]) == (1, None)
    # hidden: 56 us over 7 steps, of which 21 are lost
    assert row["overlap_ns"] == pytest.approx(8 * US)
    assert row["effective_overlap_ns"] == pytest.approx(5 * US)
    by_kernel = _of(rows(build.con, "contention", per="kernel"), beside="all_reduce", kernel="K")
    assert by_kernel["lost_ns"] == pytest.approx(3 * US)


@nightly
def test_replay_gains_what_is_lost(build: Builder) -> None:
    _seven_steps(build)
    model = Model(build.con)
    # gaps between kernels stay as they are: each step ends earlier by what its kernel loses
    for asked, us in (("kind=compute contention=none", 21), ("contention=none name=K step=7", 3)):
        assert model.measured - model.step(asked)[0] == pytest.approx(us * US / 7)
    with pytest.raises(UsageError, match="no kernel's work is known both alone and beside"):
        model.answers(["name=L contention=none"])


@first_at_once()
@pytest.mark.parametrize(
    ("alone", "beside", "why"),
    [
        ((), (16, 16, 16), "the same work never runs alone"),
        ((10, 10, 10, 20), (16, 16, 16), "calls of equal shapes differ when alone too"),
        ((10, 10), (16, 16, 16), "fewer than 3 calls of the same work"),
        ((10, 10, 10), (16, 16), "fewer than 3 calls of the same work"),
    ],
)
def test_too_little_to_compare_is_no_number(
    build: Builder, alone: tuple[int, ...], beside: tuple[int, ...], why: str
) -> None:
    build.rank(0)
    build.group(0, [0])
    for step, kernel_us in enumerate((*alone, *beside), 1):
        _step(build, step, kernel_us, (10, 10 + kernel_us) if step > len(alone) else None)
    row = _of(rows(build.con, "contention"), beside="communication", **{"class": None})
    assert (row["compared"], row["slowdown"], row["lost_ns"]) == (0, None, None)
    assert row["effective_overlap_ns"] is None
    assert f"100.0% of the time beside it is not compared, mostly since {why}" in row["note"]


def _launched(build: Builder, at: int, length: int, dims: str, **more: Any) -> tuple[int, int]:
    """A kernel of 64 blocks launched by aten::mm, without any step; returns its span in ns."""
    args = json.dumps({"Input Dims": dims, "Input type": "['float']"})
    operator = build.host(0, (at, at + 2 * US), "aten::mm", args=args)
    call = build.launch(0, (at, at + US), parent_id=operator)
    span = (at + 2 * US, at + (2 + length) * US)
    build.gpu(0, span, name="K", launch=call, args='{"grid":[64,1,1]}', **more)
    return span


def test_shapes_decide_what_is_the_same_work(build: Builder) -> None:
    build.rank(0)
    build.group(0, [0])
    for number in range(3):
        at = 1000 * US * number
        _launched(build, at, 10, "[[64,64]]")
        _launched(build, at + 50 * US, 40, "[[256,256]]")
        span = _launched(build, at + 100 * US, 15, "[[64,64]]")
        op = build.gpu(0, span, "communication", "R", stream=9)
        build.collective({0: span}, each={0: {"gpu_op_id": op}})
        build.gpu(0, (span[1], span[1] + 100), name="end")
    row = _of(rows(build.con, "contention"), beside="communication", **{"class": None})
    # 15 beside against 10 alone; the 40 are another product
    assert (row["compared"], row["slowdown"]) == (3, pytest.approx(1.5))


def test_without_shapes_and_steps_nothing_is_compared(build: Builder) -> None:
    build.rank(0)
    build.group(0, [0])
    for number in range(6):
        span = _launched(build, 1000 * US * number, 10 + number, "[[], []]")
        if number % 2:
            op = build.gpu(0, span, "communication", "R", stream=9)
            build.collective({0: span}, each={0: {"gpu_op_id": op}})
    row = _of(rows(build.con, "contention"), beside="communication", **{"class": None})
    assert row["lost_ns"] is None
    assert NOT_RECORDED in row["note"]


@nightly
def test_other_compute_at_the_same_time_is_no_contention_with_communication(build: Builder) -> None:
    _seven_steps(build)
    # in step 4, 5 and 6 a kernel on another stream explains it as well
    for step in (4, 5, 6):
        at = 100 * US * (step - 1)
        build.gpu(0, (at + 10 * US, at + 26 * US), name="other", stream=8, step=step)
    row = _of(rows(build.con, "contention"), beside="communication", **{"class": None})
    assert (row["calls"], row["compared"]) == (7, 0)
    assert "other compute ran at the same time" in row["note"]


@nightly
def test_copies_are_apart(build: Builder) -> None:
    build.rank(0)
    for step in range(1, 7):
        _step(build, step, 10 if step < 4 else 12, None)
        if step >= 4:
            at = 100 * US * (step - 1)
            build.gpu(0, (at + 10 * US, at + 22 * US), "memory", "Memcpy HtoD", 9, step=step)
    (every, by_class) = rows(build.con, "contention")
    assert (every["beside"], every["class"], by_class["class"]) == ("copy", None, "other")
    assert every["slowdown"] == pytest.approx(1.2)
    assert every["overlap_ns"] is None


def _by_sweep(events: list[dict[str, Any]], dims: list[list[int]]) -> tuple[list[int], list[int]]:
    """Return how long aten::mul of these shapes takes alone, and where NCCL runs all the time."""
    kernels = [e for e in events if e.get("cat") == "kernel"]
    busy = [e for e in events if e.get("cat") in ("gpu_memcpy", "gpu_memset")] + kernels
    nccl = [(e["ts"], e["ts"] + e["dur"]) for e in kernels if "nccl" in e["name"]]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    products = [
        (e["tid"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e.get("name") == "aten::mul" and e["args"].get("Input Dims") == dims
    ]
    alone, beside = [], []
    for kernel in (k for k in kernels if "MulFunctor" in k["name"]):
        call = calls[kernel["args"]["correlation"]]
        if not any(t == call["tid"] and a <= call["ts"] <= b for t, a, b in products):
            continue
        start, end = kernel["ts"], kernel["ts"] + kernel["dur"]
        met = [o for o in busy if o is not kernel and o["ts"] < end and o["ts"] + o["dur"] > start]
        if not met:
            alone.append(kernel["dur"])
        elif any(begin <= start and end <= until for begin, until in nccl) and all(
            "nccl" in other["name"] for other in met
        ):
            beside.append(kernel["dur"])
    return alone, beside


@nightly
def test_a_real_kernel_takes_twice_as_long_beside_all_to_all(
    corpus: Path, recorded: Recorded
) -> None:
    with gzip.open(corpus / "kineto/diff_control/control.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    alone, beside = _by_sweep(events, [[1024, 512], [1024, 512]])
    assert (median(alone), median(beside)) == (6, 12)
    found = recorded("kineto/diff_control").contention(per="kernel")
    kernel = found[found["kernel"].str.contains("MulFunctor", na=False)]
    worst = kernel[kernel["beside"] == "communication"].nlargest(1, "lost_ns").iloc[0]
    assert worst["compared"] > 200
    assert 1.8 < worst["slowdown"] < 2.4
    whole = found[found["kernel"].isna() & (found["beside"] == "communication")].iloc[0]
    # all that is hidden is beside compute, by another way of counting
    assert whole["beside_ns"] == pytest.approx(whole["overlap_ns"], rel=0.01)
