from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

import traceweave
from tests import simulated_runs
from tests.analyses.builders import Builder, check
from tests.marks import nightly
from tests.told import Case, told
from traceweave_simulator import Config, simulate, write_kineto

PEAK = {"link": "intra-node", "via": "NVLink 4", "link_gbps": 450.0}


class Run(Builder):
    """Operations one after the other."""

    def transfers(self, lengths: list[int], **values: Any) -> None:
        """Rank 0 waits 1000 ns for rank 1; the transfer begins when rank 1 does."""
        for number, length in enumerate(lengths):
            at = number * 100_000
            end = at + 1000 + length
            self.collective({0: (at, end), 1: (at + 1000, end)}, **values)

    def switched(self, algorithm: str) -> None:
        """A transfer of which NCCL's log of rank 0 names the communicator and what it ran."""
        self.ranks(2)
        self.group(0, [0, 1], **PEAK)
        self.transfers([400], bytes_=400_000)
        for place in (0, 1):
            self.con.execute(
                "INSERT INTO base.nccl_communicators BY NAME"
                " SELECT 9 AS source_id, $1 AS number, 1 AS pid, $1 AS rank, 'a' AS identity,"
                " $1 AS place, 2 AS size",
                [place],
            )
        self.con.execute(
            "INSERT INTO base.nccl_choices BY NAME SELECT 9 AS source_id, 1 AS pid, [0] AS numbers,"
            " $1 AS op, $2 AS bytes, FALSE AS per_rank, $3 AS algorithm, 1 AS chosen, 1 AS line",
            ["all_reduce", 400_000, algorithm],
        )


@told
def test_bandwidth(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case, **globals())


@nightly
def test_a_straggler_that_was_not_recorded_makes_transfers_look_slow(
    simulated_database: Callable[[Config], Path], tmp_path: Path
) -> None:
    config = simulated_runs.SLOW_GPU
    write_kineto(simulate(config), tmp_path)
    assert set(config.straggler) == {2}
    traceweave.ingest([tmp_path / f"rank{n}.json.gz" for n in (0, 1)], tmp_path / "two.duckdb")
    found = {}
    for name, path in (("all", simulated_database(config)), ("two", tmp_path / "two.duckdb")):
        with traceweave.open(path) as run:
            found[name] = [run.analyze(asked) for asked in ("bandwidth", "alpha_beta", "tails")]
            instances = run.sql("SELECT transfer_ns, algbw_gbps FROM collective_instances")
        assert instances.notna().all(axis=None)
    whole, part = found["all"][0].set_index("bytes"), found["two"][0].set_index("bytes")
    largest = int(whole.index.max())
    want = config.alpha_ns + largest * 1.5 / config.beta_gbps
    assert abs(whole["transfer_p50_ns"][largest] - want) <= 2
    assert part["transfer_p50_ns"][largest] > 2 * want
    notes = [set(rows_["note"].dropna()) for rows_ in found["two"]]
    waiting = "2 of 4 ranks not seen: waiting for them counts as transfer"
    assert notes == [
        {"2 of 4 ranks not seen: transfer is an upper bound, bandwidth a lower bound"},
        {waiting},
        {waiting, f"fewer than 5 operations: no tail is told; {waiting}"},
    ]
    assert not any(rows_["note"].str.contains("not seen").any() for rows_ in found["all"])
