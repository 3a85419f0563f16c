"""Damaged, locked and foreign SQLite: loaded as far as it goes, the loss counted, or refused."""

import gzip
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import traceweave
from tests.marks import at_once, first_at_once, nightly
from tests.robustness.conftest import Load
from tests.robustness.loading import Outcome
from traceweave.cli.main import main

PAGE = 4096


@pytest.fixture
def export(fixtures: Path) -> bytes:
    return (fixtures / "ddp_gloo_nsys" / "ddp_4ranks.sqlite").read_bytes()


def accounted(outcome: Outcome) -> bool:
    skipped = outcome.read - outcome.stored
    return skipped == sum(i.count for i in outcome.issues if i.kind.startswith("skipped: "))


@pytest.mark.parametrize("share", at_once([0.0001, 0.001, 0.1, 0.5, 0.9, 0.99, 0.9999], 0.9999))
@first_at_once()
@pytest.mark.parametrize("packed", [False, True])
def test_a_cut_export(load: Load, export: bytes, share: float, packed: bool) -> None:
    data = gzip.compress(export, 1) if packed else export
    outcome = load(data[: int(len(data) * share)], "report.sqlite")
    assert outcome.refused or outcome.damaged
    assert accounted(outcome)
    if share > 0.6:
        assert 2000 < outcome.stored <= 3157


@first_at_once()
@pytest.mark.parametrize("seed", range(6))
def test_an_export_with_wrong_bytes(load: Load, export: bytes, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(export)
    if seed % 2:
        page = chance.randrange(1, len(data) // PAGE) * PAGE
        data[page : page + PAGE] = bytes(PAGE)
    else:
        for _ in range(40):
            data[chance.randrange(100, len(data))] = chance.randrange(256)

    outcome = load(bytes(data), "report.sqlite")

    assert accounted(outcome)
    assert outcome.stored <= 3157
    if outcome.refused is not None:
        assert "export the report again" in outcome.refused or "SQLite" in outcome.refused


@nightly
def test_an_export_with_any_page_gone_is_partial_or_refused(load: Load, export: bytes) -> None:
    """Every fifth page after the first: of all 106, 99 leave an export that is partial."""
    found = [
        load(export[:page] + bytes(PAGE) + export[page + PAGE :], "report.sqlite")
        for page in range(PAGE, len(export), 5 * PAGE)
    ]
    assert all(accounted(outcome) for outcome in found)
    assert all(outcome.refused or outcome.damaged for outcome in found)
    assert sum(outcome.refused is not None for outcome in found) <= 3


def write_ahead(data: bytes) -> bytes:
    return data[:18] + b"\x02\x02" + data[20:]


@first_at_once()
@pytest.mark.parametrize("change", [bytes, write_ahead])
def test_an_export_that_another_program_holds_open(
    load: Load, export: bytes, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "report.sqlite"
    path.write_bytes(export)
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        outcome = load(change(export), "report.sqlite")
    assert (outcome.kind, outcome.stored) == ("fully", 3157)


FOREIGN = [
    ("bookmarks", "CREATE TABLE moz_bookmarks (id INTEGER, title TEXT)"),
    ("half an export", "CREATE TABLE StringIds (id INTEGER, value TEXT)"),
    ("other columns", "CREATE TABLE StringIds (a); CREATE TABLE NVTX_EVENTS (b)"),
    ("a view", "CREATE VIEW NVTX_EVENTS AS SELECT 1; CREATE TABLE StringIds (id, value)"),
    ("hostile names", 'CREATE TABLE StringIds (id, value); CREATE TABLE "x""; DROP TABLE y; --" (start, "end"); CREATE TABLE NVTX_EVENTS ("a""b", start TEXT)'),  # noqa: E501
]  # fmt: skip


@first_at_once(2)
@pytest.mark.parametrize(("name", "script"), FOREIGN)
def test_foreign_databases_are_refused_or_give_nothing(
    load: Load, tmp_path: Path, name: str, script: str
) -> None:
    path = tmp_path / "foreign.sqlite"
    with closing(sqlite3.connect(path)) as con:
        con.executescript(script)
    outcome = load(path.read_bytes(), "copy.sqlite")
    assert outcome.refused is not None or outcome.stored == 0
    assert accounted(outcome)


def without_first_page(path: Path, table: str) -> bytes:
    """Return a database with the first page of a table zeroed."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    with closing(sqlite3.connect(path)) as con:
        ((page,),) = con.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [table])
    data[(page - 1) * size : page * size] = bytes(size)
    return bytes(data)


@first_at_once()
@pytest.mark.parametrize(
    "table",
    ["PROCESSES", "StringIds", "OSRT_API", "ENUM_NSYS_EVENT_CLASS", "META_DATA_CAPTURE",
         "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV", "ThreadNames"],
)  # fmt: skip
def test_the_table_of_a_damaged_page_is_named(load: Load, fixtures: Path, table: str) -> None:
    damaged = without_first_page(fixtures / "ddp_gloo_nsys" / "ddp_4ranks.sqlite", table)
    outcome = load(damaged, "report.sqlite")
    assert outcome.damaged == f"{table}: database disk image is malformed"
    assert accounted(outcome)
    assert outcome.stored == 3157 or table == "OSRT_API"


@nightly
def test_a_real_export_with_a_damaged_page_is_partial(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = corpus / "nsys" / "fsdp_2rank_before__2026.2.sqlite"
    (tmp_path / "report.sqlite").write_bytes(without_first_page(real, "ENUM_NSYS_EVENT_CLASS"))

    code = main(
        [
            "ingest", "--no-verdict", str(tmp_path / "report.sqlite"), "-o",
            str(tmp_path / "run.duckdb"),
        ]
    )  # fmt: skip

    assert code == 3
    reason = "ENUM_NSYS_EVENT_CLASS: database disk image is malformed"
    assert capsys.readouterr().err.startswith(f"partial: {tmp_path}/report.sqlite: {reason}\n")


@first_at_once()
@pytest.mark.parametrize(("table", "lacks_events"), [("OSRT_API", True), ("ThreadNames", False)])
def test_what_a_damaged_page_held_is_not_known_if_it_held_events(
    fixtures: Path, tmp_path: Path, table: str, lacks_events: bool
) -> None:
    damaged = without_first_page(fixtures / "ddp_gloo_nsys" / "ddp_4ranks.sqlite", table)
    (tmp_path / "report.sqlite").write_bytes(damaged)
    [source] = traceweave.ingest(tmp_path / "report.sqlite", tmp_path / "run.duckdb").sources
    assert (source.status, source.cut_short) == ("partial", lacks_events)
    assert (source.message or "").endswith("is not known") == lacks_events
