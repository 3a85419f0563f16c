"""A real run of 8 ranks that was recorded by traceweave.capture on what it took for two hosts: the
true offset of every clock is 0, and what is added to the clocks of a host comes out again."""

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import traceweave
from tests.clocks.injecting import BASE, TIMES, _ns, _us
from tests.marks import nightly
from traceweave.sources.captured import parse_captured

RUN = Path(__file__).parents[1] / "fixtures" / "captured_gloo"
PROBES = re.compile(rb'"probes":(\[\{.*?\}\])')
TRUE_NS = 1_000
"""Half of the shortest round trip is 10 us; this is what the estimate promises."""


@dataclass(frozen=True)
class HostClock:
    offset_ns: int = 0
    drift_ppm: int = 0

    def shows(self, time: int, since: int) -> int:
        return time + self.offset_ns + (time - since) * self.drift_ppm // 1_000_000


AS_IT_WAS = (HostClock(), HostClock())


def copied(folder: Path, change: Callable[[bytes, int], bytes]) -> Path:
    """The run with every file changed, which is told its rank."""
    folder.mkdir()
    for path in RUN.iterdir():
        rank = int(path.name[4])
        (folder / path.name[:-3]).write_bytes(change(gzip.decompress(path.read_bytes()), rank))
    return folder


@cache
def begun() -> int:
    """When the first probe left."""
    found = PROBES.search(gzip.decompress((RUN / "rank0_step4-7.json.gz").read_bytes()))
    assert found is not None
    return int(json.loads(found[1])[0]["times"][0][0])


def put_off(folder: Path, clocks: tuple[HostClock, HostClock]) -> Path:
    """The run as it were had its two hosts had these clocks."""
    since = begun()

    def change(text: bytes, rank: int) -> bytes:
        mine, base = clocks[rank // 4], _base(text)

        def event(found: re.Match[bytes]) -> bytes:
            begin = base + _ns(found[2])
            shown = mine.shows(begin, since)
            start = found[1] + _us(shown - base - mine.offset_ns)
            if found[3] is None:
                return start
            end = mine.shows(begin + _ns(found[4]), since)
            return start + found[3] + _us(end - shown)

        def meetings(found: re.Match[bytes]) -> bytes:
            told = json.loads(found[1])
            for meeting in told:
                of = (mine, *[clocks[meeting["peer"] // 4]] * 2, mine)
                meeting["times"] = [
                    [clock.shows(time, since) for clock, time in zip(of, times, strict=True)]
                    for times in meeting["times"]
                ]
            return b'"probes":' + json.dumps(told).encode()

        text = PROBES.sub(meetings, TIMES.sub(event, text), count=1)
        return BASE.sub(lambda b: b[1] + b"%d" % (int(b[2]) + mine.offset_ns), text)

    return copied(folder, change)


def _base(text: bytes) -> int:
    found = BASE.search(text)
    assert found is not None
    return int(found[2])


def without_probes(text: bytes, rank: int) -> bytes:
    return PROBES.sub(b'"probes":[]', text, count=1)


def clocks_of(folder: Path, target: Path) -> pd.DataFrame:
    traceweave.ingest(folder, target)
    with traceweave.open(target) as run:
        return run.sql(
            "SELECT c.*, r.first_local_ns, r.last_local_ns"
            " FROM clocks AS c JOIN ranks AS r USING (rank) ORDER BY rank"
        )


def errors(found: pd.DataFrame, clocks: tuple[HostClock, HostClock]) -> np.ndarray:
    """By how much the ranks differ at the beginning and the end, ns, from what is true."""
    wrong = []
    for edge in ("first_local_ns", "last_local_ns"):
        at = int(found[edge][0]) - clocks[0].offset_ns
        aligned = []
        for row in found.itertuples():
            local = clocks[row.rank // 4].shows(at, begun())
            drifted = row.drift_ppm * 1e-6 * (local - row.reference_local_ns)
            aligned.append(local - at + row.offset_ns + drifted)
        wrong.append(np.array(aligned) - aligned[0])
    return np.abs(wrong)


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return clocks_of(RUN, tmp_path_factory.mktemp("probed") / "run.duckdb")


def test_probes_tell_clocks_where_collectives_do_not(probed: pd.DataFrame, tmp_path: Path) -> None:
    assert errors(probed, AS_IT_WAS).max() < TRUE_NS
    assert (probed.bound_ns <= 50_000).all()
    # gloo's collectives alone: their ends scatter by milliseconds
    plain = clocks_of(copied(tmp_path / "plain", without_probes), tmp_path / "run.duckdb")
    assert errors(plain, AS_IT_WAS).max() > 100 * TRUE_NS
    assert (plain.bound_ns[1:] > 1_000_000).all()
    assert not plain.method.str.contains("probes").any()


def test_the_method_says_so_and_collectives_count_beside_them(probed: pd.DataFrame) -> None:
    assert probed.method[0] == "reference"
    assert probed.method[1:].str.startswith("clock probes, ").all()
    with_calls = probed.anchors > 8  # so many collectives has every rank
    assert with_calls.all()
    # differences of less than what is proven are noise, however far ends scatter
    assert (probed.residual_p95_ns <= probed.bound_ns.clip(lower=10_000)).all()


@pytest.mark.parametrize(
    "clocks",
    [
        pytest.param((HostClock(), HostClock(1_000_000, 0)), marks=nightly),
        pytest.param((HostClock(), HostClock(-137_000_321, 30)), marks=nightly),
        (HostClock(5_000_000_000, -20), HostClock(3_000, 25)),
    ],
)
@nightly
def test_what_is_added_to_a_host_comes_out_again(
    clocks: tuple[HostClock, HostClock], tmp_path: Path
) -> None:
    found = clocks_of(put_off(tmp_path / "traces", clocks), tmp_path / "run.duckdb")
    assert errors(found, clocks).max() < TRUE_NS
    assert found.status.isin(["aligned", "same host"]).all()


@nightly
def test_the_table_has_every_exchange_and_what_it_says(tmp_path: Path) -> None:
    clocks = (HostClock(), HostClock(1_000_000))
    traceweave.ingest(put_off(tmp_path / "traces", clocks), tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        found = run.sql("SELECT * FROM clock_probes")
    assert set(found.meeting) == {0, 1}
    assert len(found) == 7 * 2 * 50
    assert (found.round_trip_ns > 0).all()
    ahead = 1_000_000 * (found.peer_rank // 4 - found["rank"] // 4)
    # the proof: clocks lie within half a round trip of what an exchange says
    assert ((found.ahead_ns - ahead).abs() <= found.round_trip_ns / 2).all()


def test_probes_of_ranks_that_are_not_there_say_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in (1, 2):  # both asked rank 0
        (folder / f"rank{rank}.json.gz").symlink_to(RUN / f"rank{rank}_step4-7.json.gz")
    found = clocks_of(folder, tmp_path / "run.duckdb")
    assert not found.method.str.contains("probes").any()


@nightly
def test_a_run_folder_has_the_same_clocks(probed: pd.DataFrame, tmp_path: Path) -> None:
    found = clocks_of(RUN, tmp_path / "run.tw")
    pd.testing.assert_frame_equal(found, probed)


@pytest.mark.parametrize(
    "value",
    [
        None, 3, "text", [], {"probes": 3}, {"probes": [3, None]}, {"probes": [{"peer": 1}]},
        {"probes": [{"peer": -1, "times": [[1, 2, 3, 4]]}]},
        {"probes": [{"peer": 1, "times": [[1, 2, 3], [1, 2, 3, "4"], [1, 2, 3, 2.5], 7]}]},
        {"probes": [{"peer": 1, "times": [[1, 2, 3, 10**30], [1, 2, 3, -4]]}]},
        {"host": 7, "probes": [{"peer": True, "times": [[1, 2, 3, 4]]}]},
    ],
)  # fmt: skip
def test_damaged_metadata_says_nothing(value: object) -> None:
    assert not any(parse_captured(value).values())
