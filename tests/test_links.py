"""Whether a group's bytes stay in a node, what they go over, and that nobody guesses."""

import shutil
from functools import partial
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import nightly
from tests.nccl_lines import Writer
from traceweave.links import write_links
from traceweave.weave import weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import TP_DP, Job
from traceweave_simulator.traffic_tables import store_traffic

Found = tuple[str | None, str | None, float | None]


@pytest.fixture
def build(empty_run: duckdb.DuckDBPyConnection) -> Builder:
    return Builder(empty_run)


def link(build: Builder, hosts: list[str | None], gpu: str | None = None, size: int = 0) -> Found:
    """The link of a group of ranks on these hosts; `size`: more members than are recorded."""
    build.group(0, list(range(max(size, len(hosts)))))
    for rank, host in enumerate(hosts):
        build.rank(rank)
        build.con.execute(
            "UPDATE base.rank_sources SET host = ?, gpu_name = ? WHERE rank = ?", [host, gpu, rank]
        )
    write_links(build.con)
    return found_in(build.con)


def found_in(con: duckdb.DuckDBPyConnection) -> Found:
    [found] = con.execute("SELECT link, via, link_gbps FROM groups").fetchall()
    return found


@cases
def test_hosts_of_the_members_tell(
    build: Builder, hosts: list[str | None], size: int, expected: str | None
) -> None:
    assert link(build, hosts, size=size) == (expected, None, None)


@cases
def test_the_gpu_tells_what_a_node_has(
    build: Builder, gpu: str, ranks: int, expected: tuple[str | None, float | None]
) -> None:
    assert link(build, ["a"] * ranks, gpu) == ("intra-node", *expected)


def log_of(hosts: list[str], nodes: int, rings: int, gbps: float, paths: str) -> str:
    """What the ranks of nanogpt_8xh100 (process ids 75 to 82) may have logged."""
    found = []
    for place, host in enumerate(hosts):
        writer, pointer = Writer(75 + place, host, place), f"0x{place + 16:x}"
        found += [
            writer.made(pointer, place, 8).replace("COMPLETE", "START"),
            writer.says("Using network IB"),
            writer.says(
                f"Pattern 4, crossNic 0, nChannels {rings}, bw 45.000000/{gbps:.6f},"
                f" type {paths}, sameChannels 1"
            ),
            writer.says(
                f"comm {pointer} rank {place} nRanks 8 nNodes {nodes} localRanks {8 // nodes}"
                f" localRank {place % (8 // nodes)} MNNVL 0"
            ),
            writer.made(pointer, place, 8),
        ]
    return "".join(found)


later = partial(pytest.param, marks=nightly)
ONE, TWO, EACH = ["a"] * 8, ["a"] * 4 + ["b"] * 4, list("abcdefgh")


@nightly
@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # its trace names no host: nothing is known
        (None, (None, None, None)),
        later(log_of(ONE, 1, 12, 20.6, "NVL/PIX"), ("intra-node", "NVLink 4", 450)),
        (log_of(TWO, 2, 8, 24.0, "NVL/PXB"), ("mixed", "IB", 192)),
        later(log_of(EACH, 8, 2, 24.0, "LOC/PHB"), ("inter-node", "IB", 48)),
        # NVLink over hosts
        later(log_of(EACH, 1, 12, 20.6, "NVL/PIX"), ("intra-node", "NVLink 4", 450)),
        # NVLink is switched off: what an H100 of this kind has over PCIe is not listed
        later(log_of(ONE, 1, 2, 12.0, "SYS/PIX"), ("intra-node", "SYS", 24)),
    ],
    ids=["no log", "one node", "two nodes", "a node each", "NVLink over hosts", "no NVLink"],
)
def test_nccl_tells_where_traces_of_eight_h100_do_not(
    corpus: Path, tmp_path: Path, log: str | None, expected: Found
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 5):
        [trace] = (corpus / "kineto" / "nanogpt_8xh100").glob(f"*rank{rank}*")
        shutil.copy(trace, folder)
    if log is not None:
        (folder / "nccl.log").write_text(log)
    traceweave.ingest(folder, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        assert found_in(run.con) == expected
        reached = run.bandwidth().query("op == 'all_gather' and bytes == 77266944").iloc[0]
    if expected[2]:
        assert reached["peak_share"] == pytest.approx(reached["busbw_p50_gbps"] / expected[2])


@cases
def test_real_runs(recorded: Recorded, name: str, expected: Found) -> None:
    assert found_in(recorded(f"kineto/{name}").con) == expected


def test_tensor_parallel_groups_of_a_job_stay_in_nodes_and_the_others_do_not(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    job = Job(hosts=2, per_host=4, program=TP_DP, steps=2, with_hosts=True)
    store_traffic(empty_run, simulate_traffic(job))
    weave(empty_run)
    found = empty_run.execute("SELECT DISTINCT size, link FROM groups ORDER BY ALL").fetchall()
    assert found == [(2, "inter-node"), (4, "intra-node")]
