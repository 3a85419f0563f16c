"""Small jobs of two ranks that share one GPU (NCCL), with a defect and without: see job.py.

    python -m torch.distributed.run --nproc-per-node 2 gpu_job.py --out OUT [DEFECT ...]

Every rank writes rank<R>.json.gz to OUT/<DEFECT>/before, with and after. NCCL refuses two ranks on
one GPU unless they say that they are on two hosts (NCCL_HOSTID): what they send goes over sockets.
Most kernels only wait (`spin`): they take one of the GPU's processors, and so both ranks fit.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from job import BEFORE, EVERY, FIRST_SLOW, Step, record
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, record_function
from torch.utils.data import DataLoader, Dataset

RECORDED = 20
CYCLES_PER_MS = 0.0


def calibrate() -> None:
    """Learn how many cycles the GPU makes in a millisecond."""
    global CYCLES_PER_MS
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for cycles in (200_000_000, 100_000_000):
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        end.synchronize()
        CYCLES_PER_MS = cycles / begin.elapsed_time(end)


def spin(ms: float) -> None:
    torch.cuda._sleep(int(ms * CYCLES_PER_MS))


def host(ms: float) -> None:
    """Work of the host that leaves nothing in the trace."""
    until = time.perf_counter() + ms / 1000
    while time.perf_counter() < until:
        pass


def gpu(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def finish(loss: torch.Tensor, gradients: torch.Tensor) -> None:
    """What ends every step here: gradients summed up, and the loss read."""
    dist.all_reduce(gradients, async_op=True).wait()
    gradients.div_(2)
    loss.item()


def training(layers: list[nn.Linear], bucket_mb: float) -> Step:
    """A step of DistributedDataParallel over 32 rows."""
    model = DistributedDataParallel(nn.Sequential(*layers).cuda(), bucket_cap_mb=bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    rows = gpu(32, layers[0].in_features)

    def step(_: int) -> None:
        loss = model(rows).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()

    return step


def slow_rank(planted: bool) -> Step:
    """Rank 1 makes 24 kernels of 0.5 ms in place of 12 in each step from the sixth recorded on."""
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(number: int) -> None:
        slow = planted and dist.get_rank() == 1 and number >= FIRST_SLOW
        with record_function("forward"):
            for _ in range(24 if slow else 12):
                spin(0.5)
        finish(loss, gradients)

    return step


class Rows(Dataset[torch.Tensor]):
    """Every fourth batch takes 40 ms to read, where that is planted."""

    def __init__(self, planted: bool) -> None:
        self.planted = planted

    def __len__(self) -> int:
        return BEFORE + RECORDED + 1

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.planted and index % EVERY == EVERY - 1:
            time.sleep(0.04)
        return torch.full((32, 512), float(index))


def late_loader(planted: bool) -> Step:
    """Batch 3 of every four takes 40 ms to read, on all ranks: 10 ms per step."""
    batches = iter(DataLoader(Rows(planted), batch_size=None, pin_memory=False))
    weights, loss, gradients = gpu(512, 512), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        rows = next(batches).cuda()
        rows @ weights
        for _ in range(12):
            spin(0.5)
        finish(loss, gradients)

    return step


def late_batches(planted: bool) -> Step:
    """Rank 1 gets each batch 8 ms late; DDP launches from another thread than the one waiting."""
    train = training([nn.Linear(128, 128, bias=False) for _ in range(8)], 25)

    def step(number: int) -> None:
        with record_function("data_loading"):
            time.sleep(0.008 if planted and dist.get_rank() == 1 else 0)
        for _ in range(4):
            spin(0.5)
        train(number)

    return step


class Spin(torch.autograd.Function):
    """Takes 3 ms of the backward pass."""

    @staticmethod
    def forward(_: Any, rows: torch.Tensor) -> torch.Tensor:
        return rows.clone()

    @staticmethod
    def backward(_: Any, gradients: torch.Tensor) -> torch.Tensor:
        spin(3)
        return gradients.clone()


class Slow(nn.Linear):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return Spin.apply(super().forward(rows))


def one_bucket(planted: bool) -> Step:
    """DDP reduces 6 layers of 4 MB, 3 ms each, in one bucket at the end in place of one each."""
    return training([Slow(1024, 1024, bias=False) for _ in range(6)], 1000 if planted else 4)


def tiny_buckets(planted: bool) -> Step:
    """DDP reduces 64 layers in buckets of one layer in place of one bucket."""
    layers = [nn.Linear(128, 128, bias=False) for _ in range(64)]
    return training(layers, 0.01 if planted else 25)


def metric_read(planted: bool) -> Step:
    """The loss is summed up over ranks and read after each of 8 parts, uneven by turns."""
    rank, loss, gradients = dist.get_rank(), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for part in range(8):
            spin(3 if part % 2 == rank else 1)
            if planted:
                dist.all_reduce(loss, async_op=True).wait()
                loss.item()
        finish(loss, gradients)

    return step


def uneven_work(planted: bool) -> Step:
    """Rank 0 has 18 of 24 kernels in place of 12, and rank 1 the other 6."""
    mine = ({0: 18, 1: 6} if planted else {0: 12, 1: 12})[dist.get_rank()]
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for _ in range(mine):
            spin(0.5)
        finish(loss, gradients)

    return step


def no_prefetch(planted: bool) -> Step:
    """Each of 6 units of 6 ms gathers its 8 MB when it needs them in place of a unit earlier."""
    shard, loss, gradients = gpu(1 << 20), gpu(1), gpu(1 << 16)
    parameters = [gpu(1 << 21) for _ in range(6)]

    def gather(unit: int) -> Any:
        return dist.all_gather_into_tensor(parameters[unit], shard, async_op=True)

    def step(_: int) -> None:
        work = gather(0)
        for unit in range(6):
            if unit and planted:
                work = gather(unit)
            work.wait()
            if unit < 5 and not planted:
                work = gather(unit + 1)
            for _ in range(6):
                spin(1)
            parameters[unit].mul_(1)
        finish(loss, gradients)

    return step


def inline_reduce(planted: bool) -> Step:
    """8 layers reduce 2 MB each on the stream that computes, in place of one of their own."""
    loss, gradients = gpu(1), gpu(1 << 16)
    buckets = [gpu(1 << 19) for _ in range(8)]

    def step(_: int) -> None:
        works = []
        for bucket in buckets:
            for _ in range(3):
                spin(1)
            bucket.mul_(1)
            if planted:
                dist.all_reduce(bucket)
            else:
                works.append(dist.all_reduce(bucket, async_op=True))
        for work in works:
            work.wait()
        for bucket in buckets:
            bucket.div_(2)
        finish(loss, gradients)

    return step


def item_sync(planted: bool) -> Step:
    """The loss is read after each of 12 parts, whose host works for 0.5 ms before it launches."""
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for _ in range(12):
            host(0.5)
            for _ in range(2):
                spin(0.5)
            if planted:
                loss.item()
        finish(loss, gradients)

    return step


def launches(planted: bool) -> Step:
    """1,000 additions of some microseconds are launched one by one in place of as a CUDA graph."""
    tensors, loss, gradients = [gpu(1 << 12) for _ in range(10)], gpu(1), gpu(1 << 16)

    def work() -> None:
        for tensor in tensors:
            for _ in range(100):
                tensor.add_(1)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()

    def step(_: int) -> None:
        work() if planted else graph.replay()
        finish(loss, gradients)

    return step


def full_queue(planted: bool) -> Step:
    """1,500 kernels of 30 us in place of 15 us: the host waits for room to launch."""
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for _ in range(1500):
            spin(0.03 if planted else 0.015)
        finish(loss, gradients)

    return step


def pageable_copy(planted: bool) -> Step:
    """48 MB come from pageable memory at once, in place of from pinned memory a step earlier."""
    rows = torch.ones(12 << 20)
    pinned, beside = rows.pin_memory(), torch.cuda.Stream()
    places, loss, gradients = cycle([gpu(12 << 20), gpu(12 << 20)]), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        if planted:
            next(places).copy_(rows)
        else:
            with torch.cuda.stream(beside):
                next(places).copy_(pinned, non_blocking=True)
        for _ in range(12):
            spin(1)
        torch.cuda.current_stream().wait_stream(beside)
        finish(loss, gradients)

    return step


def no_cache(planted: bool) -> Step:
    """The allocator's cache is emptied in every step, which then allocates 16 times 64 MB."""
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        if planted:
            torch.cuda.empty_cache()
        kept = []
        for _ in range(16):
            kept.append(torch.empty(16 << 20, device="cuda"))
            spin(0.4)
        finish(loss, gradients)

    return step


def host_pause(planted: bool) -> Step:
    """In every fourth step the host of rank 0 does something else for 12 ms, and the GPU idles."""
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(number: int) -> None:
        for part in range(4):
            spin(1.5)
            loss.item()
            if planted and part == 1 and number % EVERY == 0 and dist.get_rank() == 0:
                with record_function("write_log"):
                    host(12)
        finish(loss, gradients)

    return step


def root_loads(planted: bool) -> Step:
    """Rank 0 alone reads what it then broadcasts, which takes 8 ms."""
    rows, loss, gradients = gpu(1 << 18), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        if dist.get_rank() == 0:
            with record_function("load_batch"):
                time.sleep(0.008 if planted else 0)
            rows.copy_(torch.ones(1 << 18))
        dist.broadcast(rows, src=0)
        for _ in range(8):
            spin(0.5)
        finish(loss, gradients)

    return step


def root_scatters(planted: bool) -> Step:
    """Rank 0 runs 12 kernels of 0.5 ms before it scatters what both work on."""
    parts, mine = [gpu(1 << 16) for _ in range(2)], gpu(1 << 16)
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for _ in range(12 if planted and dist.get_rank() == 0 else 0):
            spin(0.5)
        dist.scatter(mine, parts if dist.get_rank() == 0 else None, src=0)
        for _ in range(8):
            spin(0.5)
        finish(loss, gradients)

    return step


def root_gathers(planted: bool) -> Step:
    """Outputs are gathered on rank 0, whose host works with them for 7 ms."""
    mine, parts = gpu(1 << 16), [gpu(1 << 16) for _ in range(2)]
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for _ in range(8):
            spin(0.5)
        if planted:
            dist.gather(mine, parts if dist.get_rank() == 0 else None, dst=0)
            if dist.get_rank() == 0:
                with record_function("metrics"):
                    parts[1].sum().item()
                    host(7)
        finish(loss, gradients)

    return step


def root_waits(planted: bool) -> Step:
    """Rank 1 runs 20 kernels in place of 8 before gradients are reduced to rank 0."""
    loss, gradients = gpu(1), gpu(1 << 20)

    def step(_: int) -> None:
        for _ in range(20 if planted and dist.get_rank() == 1 else 8):
            spin(0.5)
        dist.reduce(gradients, dst=0)
        finish(loss, gradients)

    return step


def host_work(planted: bool) -> Step:
    """Both ranks scale up four images on the CPU in each step, before they launch anything."""
    image, loss, gradients = torch.rand(1, 3, 512, 512), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        with record_function("augment"):
            for _ in range(4 if planted else 0):
                nn.functional.interpolate(image, scale_factor=1.5, mode="bilinear").flip(-1).mean()
        for _ in range(24):
            spin(0.5)
        finish(loss, gradients)

    return step


def garbage(planted: bool) -> Step:
    """Rank 1 keeps a million lists, and collects garbage in every second step."""
    kept = [[number] for number in range(1_000_000 if planted and dist.get_rank() == 1 else 0)]
    loss, gradients = gpu(1), gpu(1 << 16)

    def step(number: int) -> None:
        for _ in range(24):
            spin(0.5)
        if kept and number % 2:
            gc.collect()
        finish(loss, gradients)

    return step


def barriers(planted: bool) -> Step:
    """The ranks meet at a barrier after each of 8 parts, uneven by turns."""
    rank, loss, gradients = dist.get_rank(), gpu(1), gpu(1 << 16)

    def step(_: int) -> None:
        for part in range(8):
            spin(2 if part % 2 == rank else 1)
            if planted:
                dist.barrier()
        finish(loss, gradients)

    return step


DEFECTS: dict[str, Callable[[bool], Step]] = {
    defect.__name__: defect
    for defect in (
        slow_rank,
        late_loader,
        late_batches,
        one_bucket,
        tiny_buckets,
        metric_read,
        uneven_work,
        no_prefetch,
        inline_reduce,
        item_sync,
        launches,
        full_queue,
        pageable_copy,
        no_cache,
        host_pause,
        root_loads,
        root_scatters,
        root_gathers,
        root_waits,
        host_work,
        garbage,
        barriers,
    )
}


def watch(step: Step) -> None:
    """Run the steps of a job as NVTX ranges, for `nsys profile`."""
    for number in range(BEFORE + RECORDED):
        torch.cuda.nvtx.range_push(f"step {number}")
        step(number)
        torch.cuda.nvtx.range_pop()
    dist.barrier()


def plant(name: str, out: Path | None) -> None:
    for folder in ("before", "with", "after"):
        if out is None:
            watch(DEFECTS[name](folder == "with"))
            continue
        file = out / name / folder / f"rank{dist.get_rank()}.json.gz"
        every = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
        record(DEFECTS[name](folder == "with"), file, RECORDED, every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("defects", nargs="*", default=[*DEFECTS], metavar="DEFECT")
    parser.add_argument("--out", type=Path, help="without it the profiler stays off: for nsys")
    given = parser.parse_args()

    os.environ |= {"NCCL_HOSTID": os.environ["RANK"], "NCCL_SOCKET_IFNAME": "lo"}
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=timedelta(seconds=60))
    calibrate()
    for name in given.defects:
        plant(name, given.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
