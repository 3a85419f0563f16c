"""Many cases of steps by themselves take as long as the graph replayed one case at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest

from tests.marks import first_at_once
from traceweave.replay.engine import replay
from traceweave.replay.graph import graph_of
from traceweave.replay.nodes import Sort
from traceweave.replay.slowdown import Steps, apart, steps_of


@first_at_once()
@pytest.mark.parametrize(
    "name", ["ddp_gloo_straggler", "kineto/torchrec_4", "pipeline_1f1b", "kineto/megatron_tp8"]
)
def test_runs_by_their_lengths_replay_as_nodes_do(
    name: str, corpus: Path, fixtures: Path, database_of: Callable[..., Path]
) -> None:
    database = database_of(corpus / name if "/" in name else fixtures / name)
    with duckdb.connect(database, read_only=True) as con:
        graph = graph_of(con)
    steps, step = Steps(graph), steps_of(graph)
    nodes, edges = apart(graph, step)
    zeros = np.zeros(len(nodes), np.int64)
    on_device = nodes.sort < Sort.CALL
    random = np.random.default_rng(1)
    cases = [random.integers(0, 1 << 20, len(steps.ops)) for _ in range(3)]
    for case, found in zip(cases, steps.times(map(steps.takes, cases)), strict=True):
        length = zeros.copy()
        length[steps.ops] = case
        alone = nodes.with_(length=length, delay=zeros, held=zeros, launch_lag=zeros)
        end = replay(alone, edges) + length
        latest = [end[on_device & (step == one)].max() for one in steps.steps.tolist()]
        assert found.tolist() == latest
        assert found.min() > 0
