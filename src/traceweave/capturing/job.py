"""What this process is in its job, to be written into its trace."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceweave._version import __version__

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

HOST_VARIABLE = "TRACEWEAVE_HOST"
"""Says what host this is, where its name does not."""

_SWITCHES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "RCCL_", "UCX_", "FI_")
"""Beginnings of the variables that tell how a job communicates; others may hold secrets."""
_SINGLE_SWITCHES = (
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_DISTRIBUTED_DEBUG",
)
_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Process:
    """This process among all of its job."""

    rank: int
    world_size: int
    host: str
    boot_id: str

    @property
    def clock(self) -> str:
        """A name that processes share whose clock is one."""
        return f"{self.host} {self.boot_id}"


def this_process() -> Process:
    """Return what this process is; the only one, unless torch.distributed says otherwise."""
    import torch.distributed as dist

    rank, world_size = 0, 1
    if dist.is_available() and dist.is_initialized():
        rank, world_size = dist.get_rank(), dist.get_world_size()
    host = os.environ.get(HOST_VARIABLE) or socket.gethostname()
    return Process(rank, world_size, host, _boot_id())


def describe(process: Process, roles: Mapping[str, ProcessGroup]) -> dict[str, Any]:
    """Return what a trace should say of the process and its job, as plain values."""
    local = os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID"))
    return {
        "version": __version__,
        "rank": process.rank,
        "world_size": process.world_size,
        "local_rank": int(local) if local and local.isdecimal() else None,
        "host": process.host,
        "boot_id": process.boot_id,
        "pid": os.getpid(),
        "groups": _groups(roles),
        "versions": _versions(),
        "switches": _switches(),
    }


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def _groups(roles: Mapping[str, ProcessGroup]) -> list[dict[str, Any]]:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return []
    role_of = {group.group_name: role for role, group in roles.items()}
    return [
        {
            "name": config["pg_name"],
            "description": config["pg_desc"],
            "ranks": list(config["ranks"]),
            "role": role_of.get(config["pg_name"]),
        }
        for config in dist.distributed_c10d._get_all_pg_configs()
    ]


def _versions() -> dict[str, str]:
    import torch

    found = {"python": platform.python_version(), "torch": torch.__version__}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    if torch.cuda.is_available() and torch.distributed.is_nccl_available():
        found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
    return found


def _switches() -> dict[str, str]:
    return {
        name: value[:_MOST_CHARACTERS]
        for name, value in sorted(os.environ.items())
        if name.startswith(_SWITCHES) or name in _SINGLE_SWITCHES
    }
