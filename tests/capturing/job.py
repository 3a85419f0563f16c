"""A job of 4 ranks on CPU (gloo), each a fork of one process, that captures again and again.

    python -m tests.capturing.job FOLDER

Every scenario is a training loop of 8 steps, steps 3 to 5 of which are captured into
FOLDER/<scenario>; ranks 0 and 1 say that they are one host, 2 and 3 another. Every rank writes what
happened as FOLDER/rank<R>.json: per scenario how long it took, what it logged, and what it raised.
"""

import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._inductor.config  # slow, and torch.profiler wants it: once for all ranks
import torch.distributed as dist

import traceweave
from traceweave.capturing import session
from traceweave.capturing.meeting import Meeting
from traceweave.capturing.recorders import TorchRecorder

RANKS = 4
STEPS = range(3, 6)
LIMIT_S = 2.0


class Broken(Exception):
    """What a training raises."""


def broken() -> None:
    raise Broken


def train(
    folder: Path,
    ends_at: int | None = None,
    end: Callable[[], object] = broken,
    together: bool = True,
    **options: object,
) -> None:
    """Train, and let something happen at the beginning of a step."""
    with traceweave.capture(folder, STEPS, warmup=1, time_limit=LIMIT_S, **options) as capture:
        for step in range(8):
            if step == ends_at:
                end()
            rows = torch.randn(16, 16) @ torch.randn(16, 16)
            if together:
                dist.all_reduce(rows)
            capture.step()


def raising(at: int) -> Callable[[Path], None]:
    def scenario(folder: Path) -> None:
        train(folder, at if dist.get_rank() == 2 else None, together=False)

    return scenario


def helper_fails(folder: Path) -> None:
    """The profiler of rank 1 does not start; its training goes on."""
    if dist.get_rank() == 1:
        TorchRecorder.start = lambda self: 1 / 0
    train(folder)


def store_fails(folder: Path) -> None:
    """Rank 1 cannot meet the others at the window's end."""
    whole = Meeting.barrier

    def barrier(self: Meeting, name: str) -> bool:
        if name == "end":
            raise ConnectionError("gone")
        return whole(self, name)

    if dist.get_rank() == 1:
        Meeting.barrier = barrier
    try:
        train(folder, together=False)
    finally:
        Meeting.barrier = whole


def no_room(folder: Path) -> None:
    """Rank 3 cannot write."""
    if dist.get_rank() == 3:
        folder = folder.parent / "rank0.txt" / "below a file"
    train(folder)


def absent(all_ranks: bool) -> Callable[[Path], None]:
    """Rank 0, on whose host the store is, does not come: it is where the scenario ends already."""

    def scenario(folder: Path) -> None:
        train(folder, together=False, all_ranks=all_ranks)

    return scenario


def killed(folder: Path) -> None:
    """Rank 3 is gone in the middle of the window, without a word."""
    train(folder, 4 if dist.get_rank() == 3 else None, lambda: os._exit(0), together=False)


SCENARIOS: dict[str, Callable[[Path], None]] = {
    "all_well": lambda folder: train(folder, flight_recorder=True, roles={"dp": dist.group.WORLD}),
    "before": raising(1),
    "inside": raising(4),
    "after": raising(7),
    "helper_fails": helper_fails,
    "store_fails": store_fails,
    "no_room": no_room,
}
ABSENT = {"absent": True, "absent_recorded": False}


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def run(rank: int, folder: Path) -> None:
    os.environ |= {"RANK": str(rank), "TRACEWEAVE_HOST": f"node{rank // 2}"}
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    log = Lines()
    logging.getLogger("traceweave.capture").addHandler(log)
    told = {}
    start = TorchRecorder.start
    for name, scenario in SCENARIOS.items():
        dist.barrier()
        told[name] = measure(log, lambda s=scenario, n=name: s(folder / n))
        TorchRecorder.start = start
    for name, all_ranks in ABSENT.items():
        dist.barrier()
        if rank == 0:
            next(session._numbers)
        else:
            told[name] = measure(log, lambda n=name, a=all_ranks: absent(a)(folder / n))
    (folder / f"rank{rank}.json").write_text(json.dumps(told))
    dist.barrier()
    told["killed"] = measure(log, lambda: killed(folder / "killed"))
    (folder / f"rank{rank}.json").write_text(json.dumps(told))
    store = dist.distributed_c10d._get_default_store()
    store.set(f"over/{rank}", "")
    if rank == 0:  # with which the store ends
        store.wait([f"over/{other}" for other in (1, 2)])


def measure(log: Lines, scenario: Callable[[], None]) -> dict[str, object]:
    log.lines.clear()
    begun, raised = time.monotonic(), None
    try:
        scenario()
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    return {
        "s": time.monotonic() - begun, "log": list(log.lines), "raised": raised,
        "profiling": torch._C._autograd._profiler_enabled(),
    }  # fmt: skip


def main(folder: Path) -> None:
    (folder / "rank0.txt").touch()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {
        "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    children = []
    for rank in range(RANKS):
        child = os.fork()
        if not child:
            run(rank, folder)
            os._exit(0)
        children.append(child)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
