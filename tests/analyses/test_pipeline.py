"""pipeline: stages, micro-batches and bubbles by hand; times in pipeline.cases are ns."""

import duckdb

from tests.analyses.builders import Builder, Interval, check
from tests.told import Case, told

BLIND = (
    "not computable: which ranks are the other sides of its messages is not known: issues says why;"
    " some messages were seen on one side only"
)
RING = ((0, 1), (1, 2), (2, 0))
STAGES = ((0, 0), (0, 20), (1, 20), (1, 40))
"""Stages, and when they begin with a micro-batch."""


class Run(Builder):
    """Messages and compute in step 1."""

    def stages(self, ranks: int = 2) -> None:
        """Ranks, the first two of which are stages."""
        self.ranks(ranks)
        self.group(1, [0, 1], role="pp", role_source="name")

    def message(self, source: int, sent: Interval, target: int, received: Interval) -> None:
        each = {source: {"op": "send"}, target: {"op": "recv"}}
        self.collective({source: sent, target: received}, group_id=1, step=1, each=each)

    def compute(self, rank: int, *at: Interval) -> None:
        for interval in at:
            self.gpu(rank, interval, step=1)

    def one_forward_one_backward(self) -> None:
        """Two stages, three micro-batches, 10 ns forward, 20 ns backward, messages take no time."""
        self.stages()
        for rank in (0, 1):
            self.host(rank, (125, 140), "Optimizer.step#AdamW.step", "annotation", step=1)
            self.compute(rank, (130, 150))
        self.compute(0, (0, 10), (10, 20), (40, 60), (60, 70), (70, 90), (100, 120))
        self.compute(1, (10, 20), (20, 40), (40, 50), (50, 70), (70, 80), (80, 100))
        self.message(0, (10, 10), 1, (0, 10))
        self.message(0, (20, 20), 1, (20, 20))
        self.message(0, (70, 70), 1, (50, 70))
        self.message(1, (40, 40), 0, (20, 40))
        self.message(1, (70, 70), 0, (60, 70))
        self.message(1, (100, 100), 0, (90, 100))

    def sent(self, microbatches: int, before: int) -> None:
        """So many micro-batches, of which so many before the first gradient; 0: without any."""
        self.ranks(2)
        for rank in (0, 1):
            self.compute(rank, (0, 500))
        for n in range(microbatches):
            at = 10 * n if n < before or not before else 200 + 10 * n
            self.compute(0, (at - 2, at))
            self.message(0, (at, at + 5), 1, (at, at + 5))
        if before:
            self.message(1, (150, 160), 0, (150, 160))


@told
def test_pipeline(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case, **globals())
