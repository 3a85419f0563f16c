"""Hand-made operators that carry their own FLOPs, so that no formula and no torch is needed."""

import json
from typing import Any

from tests.analyses.builders import Builder, Interval

TYPES = {"bf16": "c10::BFloat16", "fp32": "float"}


def gpu_named(build: Builder, rank: int, gpu_name: str) -> None:
    """Give the GPU of a rank its product name."""
    build.con.execute("UPDATE base.rank_sources SET gpu_name = ? WHERE rank = ?", [gpu_name, rank])


def counted(
    build: Builder,
    at: Interval,
    flops: int,
    *,
    rank: int = 0,
    name: str = "triton_tem_mm",
    gigabytes: float | None = None,
    dtype: str = "bf16",
    dims: str = "[[2,2],[2,2]]",
    **more: Any,
) -> int:
    """An operator that the trace says the FLOPs of, as torch.compile does."""
    args: dict[str, Any] = {
        "kernel_flop": flops, "Input Dims": json.loads(dims), "Input type": [TYPES[dtype]] * 2,
    }  # fmt: skip
    if gigabytes is not None:
        args["kernel_num_gb"] = gigabytes
    return build.host(rank, at, name, args=json.dumps(args), **more)


def kernel(
    build: Builder,
    called_ns: int,
    at: Interval,
    *,
    rank: int = 0,
    step: int | None = None,
    tid: int = 1,
    class_: str = "gemm",
    **more: Any,
) -> int:
    """A kernel with the call that launched it."""
    launch = build.launch(rank, (called_ns, called_ns + 1), tid, step=step)
    return build.gpu(rank, at, launch=launch, step=step, **({"class": class_} | more))
