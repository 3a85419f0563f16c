"""How far apart the ranks of real runs end one collective.

The ranks of these runs share a host, so their clocks are one. A rank's own median is taken away:
what is always there is the same as a clock that is wrong, and nobody can tell the two apart.
Rings end in a V around whoever began last, so a row is drawn with that rank first, and laid around
whoever begins last in the simulated one.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "kineto"
RUNS = ("megatron_tp8", "nanogpt_8xh100")
NEAREST = 24
"""Instances among which one is drawn: those that took about as long."""


class Skews:
    """Rows of ends of real instances, each with the time that the transfer took, in us."""

    def __init__(self, corpus: Path = CORPUS) -> None:
        runs = [_of_run(corpus / name) for name in RUNS if (corpus / name).is_dir()]
        if not runs:
            raise FileNotFoundError(f"no recorded runs in {corpus}")
        self.transfers = np.concatenate([transfer for transfer, _ in runs])
        self.rows = np.concatenate([rows for _, rows in runs])

    def draw(self, rng: np.random.Generator, transfer: float, members: int, latest: int) -> Array:
        """Return how much later than the common end each of the members ends, us."""
        near = np.argsort(np.abs(np.log(self.transfers / transfer)))[:NEAREST]
        width = self.rows.shape[1]
        hops = np.arange(members) - latest
        hops = (hops + members // 2) % members - members // 2
        if members <= width:
            return np.asarray(self.rows[rng.choice(near), hops % width])
        rows = self.rows[rng.choice(near, members)]
        return np.asarray(rows[np.arange(members), hops * width // members % width])


def _of_run(folder: Path) -> tuple[Array, Array]:
    """Read starts and ends of the NCCL kernels that all ranks have last."""
    ranks = []
    for path in sorted(folder.glob("*.json.gz")):
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
        nccl = [e for e in events if e.get("cat") == "kernel" and e["name"].startswith("nccl")]
        ranks.append(sorted((e["ts"], e["ts"] + e["dur"]) for e in nccl))
    shared = min(map(len, ranks))
    origin = ranks[0][0][0]
    times = np.array([rank[-shared:] for rank in ranks], np.float64) - origin
    starts, ends = times[:, :, 0], times[:, :, 1]
    rest = ends - np.median(ends, axis=0)
    rest -= np.median(rest, axis=1, keepdims=True)
    rows = np.stack(
        [np.roll(row, -last) for row, last in zip(rest.T, starts.argmax(0), strict=True)]
    )
    return ends.max(axis=0) - starts.max(axis=0), rows
