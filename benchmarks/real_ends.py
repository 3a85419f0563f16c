"""How far apart the ranks of real runs end one collective: what simulated clocks are tried on.

The ranks of these runs shared a host, so what their ends differ by is not the clocks' doing. Rows
are what is left of the ends of one instance after its own median and every rank's median distance,
us.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

import traceweave

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "kineto"
RUNS = ("megatron_tp8", "nanogpt_8xh100", "torchrec_4")


def real_skews(corpus: Path = CORPUS) -> npt.NDArray[np.float64]:
    """Return one row of eight per instance that all ranks recorded; two instances of the run of
    four stand side by side."""
    rows = [_of_run(corpus / name) for name in RUNS]
    wide = [r if r.shape[1] == 8 else np.hstack([r, np.roll(r, 1, axis=0)]) for r in rows]
    return np.concatenate(wide)


def _of_run(source: Path) -> npt.NDArray[np.float64]:
    with tempfile.TemporaryDirectory() as folder:
        traceweave.ingest(source, Path(folder) / "run.duckdb")
        with traceweave.open(Path(folder) / "run.duckdb") as run:
            ends = run.sql(
                "SELECT collective_id, rank, start_local_ns + duration_ns AS e FROM collectives"
                " WHERE collective_id IS NOT NULL"
            )
    table = ends.pivot(index="collective_id", columns="rank", values="e").dropna()
    values = (table - ends.e.min()).to_numpy(np.float64)
    rest = values - np.median(values, axis=1, keepdims=True)
    return np.asarray(rest - np.median(rest, axis=0)) / 1e3
