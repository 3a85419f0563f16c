"""The process groups of a run."""

from __future__ import annotations

import numpy as np

from traceweave_simulator.config import Config, Times
from traceweave_simulator.program import Group


class Groups:
    """The process groups of a run and how ranks are laid out over them.

    Tensor-parallel groups are neighbours; a pipeline's stages are blocks of data-parallel
    neighbours.
    """

    def __init__(self, config: Config) -> None:
        ranks = np.arange(config.ranks, dtype=np.int64)
        model, data = config.model_parallel, config.data_parallel
        if config.parallelism == "pp":
            self.model = ranks.reshape(model, data).T
        else:
            self.model = ranks.reshape(data, model)
        self.data = self.model.T
        self.world = ranks[None, :]
        self.all: list[Group] = []
        self.world_ids = self._add(self.world, "default_pg")
        whole = config.parallelism in ("ddp", "fsdp")
        self.model_ids = () if whole else self._add(self.model, f"mesh_{config.parallelism}")
        self.data_ids = self.world_ids if whole else self._add(self.data, "mesh_dp")
        if whole:
            self.data = self.world

    def _add(self, members: Times, description: str) -> tuple[int, ...]:
        first = len(self.all)
        self.all += [
            Group(str(first + i), description, tuple(int(r) for r in row))
            for i, row in enumerate(members)
        ]
        return tuple(range(first, len(self.all)))
