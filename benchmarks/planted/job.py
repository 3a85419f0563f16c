"""A small training job with a defect in it and without: what `benchmarks/planted` records.

    python -m torch.distributed.run --nproc-per-node 2 job.py --defect NAME --out OUT

Every rank writes rank<R>.json.gz to OUT/before, OUT/with and OUT/after: one job three times in one
process, without the defect before and after it, so that a machine that gets slower by and by takes
nothing from the difference. A defect is a function that returns what one step does, with it and
without; its docstring says what is true of the difference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset

Step = Callable[[int], None]

BEFORE, RECORDED = 4, 48
"""Steps before the profiler begins and with it: ProfilerStep#4 to #51."""
FIRST_SLOW = BEFORE + 5
EVERY = 4
WIDTH = 384


def products(count: int) -> torch.Tensor:
    """Matrix products of about 2.5 ms each."""
    square = torch.ones(WIDTH, WIDTH)
    for _ in range(count):
        result = square @ square
    return result


def slow_rank(planted: bool) -> Step:
    """Rank 1 makes 24 products in place of 12 in each step from the sixth recorded one on."""
    gradients = torch.ones(1 << 16)

    def step(number: int) -> None:
        with record_function("forward"):
            slow = planted and dist.get_rank() == 1 and number >= FIRST_SLOW
            products(24 if slow else 12)
        dist.all_reduce(gradients)
        gradients.div_(2)

    return step


class Rows(Dataset[torch.Tensor]):
    """Every fourth batch takes 80 ms to read, where that is planted."""

    def __init__(self, planted: bool) -> None:
        self.planted = planted

    def __len__(self) -> int:
        return BEFORE + RECORDED

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.planted and index % EVERY == EVERY - 1:
            time.sleep(0.08)
        return torch.full((32, WIDTH), float(index))


def late_loader(planted: bool) -> Step:
    """Batch 3 of every four takes 80 ms to read, on all ranks: 20 ms per step."""
    batches = iter(DataLoader(Rows(planted), batch_size=None))
    weights, gradients = torch.ones(WIDTH, WIDTH), torch.ones(1 << 16)

    def step(_: int) -> None:
        next(batches) @ weights
        products(12)
        dist.all_reduce(gradients)
        gradients.div_(2)

    return step


def tiny_buckets(planted: bool) -> Step:
    """DDP reduces 96 layers in buckets of one layer in place of one bucket."""
    layers = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(96)))
    model = DistributedDataParallel(layers, bucket_cap_mb=0.01 if planted else 25)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(_: int) -> None:
        model(torch.ones(32, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def metric_read(planted: bool) -> Step:
    """The mean of the loss is summed up over ranks and read after each of 8 parts of a step.

    By turns a rank has three times the rows of the other one in a part: as many in the step.
    """
    rank, gradients = dist.get_rank(), torch.ones(1 << 16)

    def step(_: int) -> None:
        for part in range(8):
            loss = products(3 if part % 2 == rank else 1).mean()
            if planted:
                dist.all_reduce(loss)
                loss.item()
        dist.all_reduce(gradients)
        gradients.div_(2)

    return step


def uneven_work(planted: bool) -> Step:
    """Rank 0 has 18 of 24 products in place of 12, and rank 1 the other 6."""
    mine = ({0: 18, 1: 6} if planted else {0: 12, 1: 12})[dist.get_rank()]
    gradients = torch.ones(1 << 16)

    def step(_: int) -> None:
        products(mine)
        dist.all_reduce(gradients)
        gradients.div_(2)

    return step


@torch.library.custom_op("planted::sleep", mutates_args=())
def sleep(rows: torch.Tensor) -> torch.Tensor:
    """An operator of 4 ms that leaves the cores to gloo."""
    time.sleep(0.004)
    return rows.clone()


def no_prefetch(planted: bool) -> Step:
    """Each of 6 units of 12 ms gathers its 8 MB when it needs them in place of a unit earlier."""
    shard = torch.ones(1 << 20)
    parameters = [torch.empty(1 << 21) for _ in range(6)]

    def gather(unit: int) -> Any:
        return dist.all_gather_into_tensor(parameters[unit], shard, async_op=True)

    def step(_: int) -> None:
        work = gather(0)
        for unit in range(6):
            work.wait()
            if unit < 5 and not planted:
                work = gather(unit + 1)
            for _ in range(3):
                sleep(parameters[unit][:8])
            if unit < 5 and planted:
                work = gather(unit + 1)
        dist.barrier()

    return step


def shallow_prefetch(planted: bool) -> Step:
    """Of 6 units, by turns 32 and 4 ms long, each gathers its 16 MB one unit earlier, not two: what
    is gathered beside a short one does not fit there.
    """
    shard = torch.ones(1 << 21)
    parameters = [torch.empty(1 << 22) for _ in range(6)]
    depth = 1 if planted else 2

    def gather(unit: int) -> Any:
        return dist.all_gather_into_tensor(parameters[unit], shard, async_op=True)

    def step(_: int) -> None:
        works = [gather(unit) for unit in range(depth)]
        for unit in range(6):
            works[unit].wait()
            if unit + depth < 6:
                works.append(gather(unit + depth))
            for _ in range(1 if unit % 2 else 8):
                sleep(parameters[unit][:8])
        dist.barrier()

    return step


DEFECTS: dict[str, Callable[[bool], Step]] = {
    defect.__name__: defect
    for defect in (
        slow_rank,
        late_loader,
        tiny_buckets,
        metric_read,
        uneven_work,
        no_prefetch,
        shallow_prefetch,
    )
}


def record(
    step: Step,
    file: Path,
    recorded: int = RECORDED,
    activities: Iterable[ProfilerActivity] = (ProfilerActivity.CPU,),
) -> None:
    """Run the steps of a job, of which the profiler writes the last `recorded` to `file`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=activities,
        schedule=schedule(wait=1, warmup=BEFORE - 1, active=recorded, repeat=1),
        record_shapes=True,
        on_trace_ready=lambda prof: prof.export_chrome_trace(str(file)),
    ) as prof:
        for number in range(BEFORE + recorded):
            step(number)
            prof.step()
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--defect", choices=DEFECTS, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    dist.init_process_group("gloo")
    for folder in ("before", "with", "after"):
        file = given.out / folder / f"rank{dist.get_rank()}.json.gz"
        record(DEFECTS[given.defect](folder == "with"), file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
