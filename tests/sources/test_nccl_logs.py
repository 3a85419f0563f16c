"""NCCL's logs as a source: every line of the kinds that are read is stored or counted."""

import gzip
import io
import random
import re
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.nccl_lines import HASH, Writer
from traceweave.sources.nccl_logs import recognize
from traceweave.sources.nccl_logs.lines import LONGEST_LINE, word_end
from traceweave.sources.nccl_logs.log import Log
from traceweave.sources.nccl_logs.records import Begun, Choice, read
from traceweave.sources.unpack import ByteStream

ZERO, ONE = Writer(100), Writer(101, device=1)

SMALL = (
    ZERO.made("0xa", 0, 2) + ONE.made("0xb", 1, 2)
    + ZERO.called("AllReduce", 1000, "0xa", 2) + ONE.called("AllReduce", 1000, "0xb", 2)
    + ZERO.chose("AllReduce", 4000) + ZERO.chose("AllReduce", 64, "TREE", "LL")
)  # fmt: skip


def fed(data: bytes, piece: int = 1 << 22) -> Log:
    log = Log()
    log.feed(ByteStream(io.BytesIO(data), None, piece).lines(LONGEST_LINE, word_end))
    return log


def calls_and_choices(log: Log) -> int:
    return len(log.calls) + len(log.choices)


def begun_in(data: bytes) -> int:
    """How many calls, choices and communicators a log has, by another count than the reader's."""
    return len(re.findall(rb"opCount |Bytes ->|- Init ", data))


def accounted(log: Log) -> int:
    return calls_and_choices(log) + len(log.communicators) + sum(log.lost.values())


@pytest.fixture
def real_log(corpus: Path) -> Path:
    [found] = (corpus / "nccl_logs").glob("*.log")
    return found


def test_every_line_of_a_real_log_is_read(real_log: Path) -> None:
    data = real_log.read_bytes()
    log = fed(data)
    assert (data.count(b"opCount"), data.count(b"Bytes -> Algo")) == (990, 495)
    assert len(log.calls) == 990
    assert len(log.choices) == 495
    assert not log.lost
    # nccl-tests' own table cuts into 22 of the lines, their host is that of the process
    assert {(call["host"], call["pid"]) for call in log.calls} == {("host0", 64904)}
    assert {choice["algorithm"] for choice in log.choices} == {"RING"}
    assert [choice["numbers"] for choice in log.choices] == [[0]] * 495
    rank0, rank1 = log.communicators
    assert rank0.identity == rank1.identity == HASH
    assert rank0.facts == {
        "nodes": 1, "local_ranks": 2, "network": "IB", "channels": 24, "nvls_channels": 0,
        "p2p_channels": 32, "ring_gbps": 240.0, "paths": "NVL/PIX",
    }  # fmt: skip


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("piece", [1 << 22, 997])
def test_pieces_and_ends_of_lines_change_nothing(real_log: Path, ending: bytes, piece: int) -> None:
    data = real_log.read_bytes()
    whole, other = fed(data), fed(data.replace(b"\n", ending), piece)
    assert (other.calls, other.choices, other.stored) == (whole.calls, whole.choices, whole.stored)
    assert not other.lost


def test_a_log_cut_at_every_point_is_read_or_counted() -> None:
    data = SMALL.encode()
    for at in range(len(data)):
        for part in (data[:at], data[at:]):
            log = fed(part)
            assert accounted(log) == begun_in(part)
            # no number is taken from a line that was cut
            assert {call["count"] for call in log.calls} <= {1000}
            assert {(c["bytes"], c["channels"]) for c in log.choices} <= {(4000, 16), (64, 16)}
    assert calls_and_choices(fed(data)) == 4


@pytest.mark.parametrize("seed", range(20))
def test_lines_that_cut_into_each_other_are_read_or_counted(seed: int) -> None:
    made = random.Random(seed)
    ours = SMALL.encode() * 5
    other = Writer(200, "node1").called("AllGather", 77, "0xc", 2).encode()
    for at in sorted(made.sample(range(len(ours)), 40), reverse=True):
        ours = ours[:at] + other + ours[at:]
    log = fed(ours)
    assert accounted(log) == begun_in(ours)
    whole = sum(call["name"] == "AllGather" for call in log.calls)
    assert whole == 40  # they were written at once, only what they cut is lost
    assert sum(log.lost.values()) > 0


def test_bytes_that_are_no_text_stay_apart() -> None:
    data = b"\xff\xfe\x00 \x80" + SMALL.encode().replace(b"\n", b"\n\xc3\x28 junk\n")
    log = fed(data)
    assert calls_and_choices(log) == 4
    assert not log.lost


def test_a_line_of_100_mb_takes_no_more_memory_than_a_short_one() -> None:
    call = ZERO.called("AllReduce", 1000, "0xa", 2).encode().rstrip(b"\n")
    filler = b"x" * 4_000_000
    data = filler * 24 + call + filler + b" " + call * 3 + filler + b"\n" + call
    longest = 0
    log = Log()

    def watched() -> object:
        nonlocal longest
        for line in ByteStream(io.BytesIO(data), None, 4_000_000).lines(LONGEST_LINE, word_end):
            longest = max(longest, len(line))
            yield line

    log.feed(watched())  # type: ignore[arg-type]
    assert len(data) > 100_000_000
    assert longest <= LONGEST_LINE + len(filler) + 400
    assert calls_and_choices(log) + sum(log.lost.values()) == 5


VERSIONS = {
    "comm 0x7f rank 3 nranks 8 cudaDev 3 busId 4d000 - Init COMPLETE":  # up to 2.16
        Begun("0x7f", 3, 8, 3, None, None, None, True),
    "comm 0x7f rank 3 nranks 8 cudaDev 3 busId 4d000 commId 0x1b - Init COMPLETE":  # 2.17
        Begun("0x7f", 3, 8, 3, None, None, "0x1b", True),
    "comm 0x7f rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4d000 commId 0x1b - Init START":  # 2.18
        Begun("0x7f", 3, 8, 3, None, None, "0x1b", False),
    "ncclCommSplit comm 0x7f rank 1 nranks 4 cudaDev 3 nvmlDev 3 busId 4d000 parent 0x6a color 1"
    " key 3 commId 0x2c - Init COMPLETE":  # 2.21
        Begun("0x7f", 1, 4, 3, "0x6a", None, None, True),
    "ncclCommSplit comm 0x7f rank 1 nranks 4 cudaDev 3 nvmlDev 3 busId 4d000 parent 0x6a"
    " splitCount 2 color 1 key 3- Init START":  # 2.24
        Begun("0x7f", 1, 4, 3, "0x6a", "split 2 color 1", None, False),
    "[Rank 3] ncclCommInitRank comm 0x7f rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 4d000"
    " commId 0x1b - Init START":  # 2.29
        Begun("0x7f", 3, 8, 3, None, None, "0x1b", False),
    "ncclCommSplit comm 0x7f rank 1 nranks 4 cudaDev 3 nvmlDev 3 busId 4d000 parent 0x6a"
    " childCount 2 color 1 key 3 - Init COMPLETE":  # 2.29
        Begun("0x7f", 1, 4, 3, "0x6a", "split 2 color 1", None, True),
    "4096 Bytes -> Algo 1 proto 2 time 12.345678":  # 2.20
        Choice(None, 4096, False, "RING", "SIMPLE", None),
    "ReduceScatter: 4096 Bytes -> Algo 6 proto 0 time 12.345678":  # 2.23
        Choice("ReduceScatter", 4096, False, "PAT", "LL", None),
    "AllGather: 4096 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={4..19}":  # 2.24
        Choice("AllGather", 4096, True, "NVLS", "SIMPLE", 16),
    "AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 5":  # 2.27
        Choice("AllReduce", 4096, True, "SYMMETRIC AllReduce_AGxLL_R", None, 8),
    "AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpy; CE synchronization with NVLS":  # 2.29
        Choice("AllGather", 4096, True, "COPY_ENGINE", None, None),
    "AllGather [Hierarchical CE]: 4096 Bytes -> RMA proxy + CE":  # 2.30
        Choice("AllGather", 4096, True, "HIERARCHICAL_COPY_ENGINE", None, None),
}  # fmt: skip


@pytest.mark.parametrize("text", VERSIONS)
def test_each_version_says_it_in_its_own_way(text: str) -> None:
    assert read(text.encode()) == VERSIONS[text]


def test_rccl_says_more_at_the_end() -> None:
    text = ZERO.called("AllReduce", 10, "0xa", 2).rstrip() + " task 0 globalrank 1\n"
    log = fed(text.encode())
    assert log.calls == [
        {"host": "node0", "pid": 100, "number": None, "name": "AllReduce", "count": 10,
         "dtype": "float32", "bytes": 40, "line": 1}
    ]  # fmt: skip
    assert not log.lost


def test_splits_are_known_by_parent_number_and_color() -> None:
    split = ZERO.made("0xc", 0, 1, split="0xa splitCount 1 color 7 key 0")
    unnumbered = ZERO.made("0xd", 0, 1, split="0xa color 7 key 0")
    log = fed((ZERO.made("0xa", 0, 2) + split + unnumbered).encode())
    assert [c.identity for c in log.communicators] == [HASH, f"{HASH} split 1 color 7", None]


def test_a_choice_may_be_of_any_communicator_whose_rank_0_wrote_it() -> None:
    made = ZERO.made("0xa", 0, 4) + ZERO.made("0xb", 1, 2, "0x2") + ZERO.made("0xc", 0, 2, "0x3")
    log = fed((made + ZERO.chose("AllGather", 100)).encode())
    assert [choice["numbers"] for choice in log.choices] == [[0, 2]]
    # calls in the log tell which of them it was
    called = ZERO.called("AllGather", 25, "0xc", 2)
    log = fed((made + called + ZERO.chose("AllGather", 100)).encode())
    assert [choice["numbers"] for choice in log.choices] == [[2]]
    # not where one of them was lost
    log = fed((made + called[:-60] + "\n" + called + ZERO.chose("AllGather", 100)).encode())
    assert [choice["numbers"] for choice in log.choices] == [[0, 2]]


def test_a_destroyed_communicator_makes_no_choices() -> None:
    gone = ZERO.says("comm 0xa rank 0 nranks 4 cudaDev 0 busId 17000 - Destroy COMPLETE")
    text = ZERO.made("0xa", 0, 4) + gone + ZERO.made("0xa", 0, 2, "0x5") + ZERO.chose("Reduce", 8)
    assert [choice["numbers"] for choice in fed(text.encode()).choices] == [[1]]


@pytest.mark.parametrize("mark", ["[2026-11-22 10:00:00] ", "[rank0]: ", "[default0]:", "2026 x "])
def test_what_stands_before_a_header_is_no_part_of_the_host(mark: str) -> None:
    text = "".join(mark + line + "\n" for line in SMALL.splitlines())
    log = fed(text.encode())
    assert {c.process for c in log.communicators} == {("node0", 100), ("node0", 101)}
    assert calls_and_choices(log) == 4


def test_a_log_is_found_by_content(tmp_path: Path) -> None:
    path = tmp_path / "anything.txt"
    assert recognize(path, b"starting\nnode1:5:5 [0] NCCL INFO Bootstrap: Using eth0\n")
    assert recognize(path, b"node1:5:5 [0] misc/x.cc:80 NCCL WARN Cuda failure\n")
    assert not recognize(path, b"export NCCL_DEBUG=INFO\n")
    assert not recognize(path, b'{"traceEvents": "node1:5:5 [0] NCCL INFO x"}')


def test_a_packed_log_is_read_and_its_version_told(tmp_path: Path) -> None:
    text = ZERO.says("NCCL version 2.27.7+cuda13.0") + SMALL
    (tmp_path / "nccl.log.gz").write_bytes(gzip.compress(text.encode()))
    result = traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    assert result.ok
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        [row] = con.sql(
            "SELECT format, producer, producer_version, events_read, events_skipped FROM sources"
        ).fetchall()
        assert row == ("nccl_log", "NCCL", "2.27.7", 6, 0)
        assert con.sql("SELECT size, ranks, known FROM communicators").fetchall() == [
            (2, [None, None], 0)
        ]


def test_lost_lines_are_in_issues(tmp_path: Path) -> None:
    (tmp_path / "nccl.log").write_text(SMALL[: SMALL.rindex("SIMPLE")] + "\n 12 Bytes -> Algo RI")
    traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        found = con.sql(
            "SELECT kind, count FROM ingest_issues WHERE source_id = 0 ORDER BY kind"
        ).fetchall()
        assert found == [("line cut off", 1), ("line without a beginning", 1)]
        assert con.sql("SELECT events_read, events_stored FROM sources").fetchall() == [(6, 4)]


@pytest.mark.parametrize(
    ("said", "gbps", "paths"),
    [
        ("crossNic 0, nChannels 8, bw 48.000000/45.000000, type NVL/PXB", 360, "NVL/PXB"),
        # up to 2.11
        ("crossNic 0, nChannels 4, speed 1.200000/1.200000, type SYS/SYS", 4.8, "SYS/SYS"),
    ],
)  # fmt: skip
def test_what_the_rings_carry_is_that_of_their_slowest_part(
    said: str, gbps: float, paths: str
) -> None:
    said = f"Pattern 4, {said}, sameChannels 0"
    assert read(said.encode()) == {"ring_gbps": pytest.approx(gbps), "paths": paths}
    # trees have other patterns
    assert read(said.replace("Pattern 4", "Pattern 1").encode()) is None
