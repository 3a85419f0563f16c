"""Damaged files: each has its status, loses nothing unsaid, and takes no other file down.

files.tsv names what is done to a file of some format (files.py does it) and the status it then has.
A third of them is looked at each time, the others at night."""

import csv
import json
from pathlib import Path

import pytest

from tests.attacks.files import NAMES, damaged, trace
from tests.marks import at_once
from traceweave.cli.main import main
from traceweave.store.database import open_database

with Path(__file__).with_name("files.tsv").open(encoding="utf-8", newline="") as file:
    TABLE = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
    ROWS = [tuple(row.values()) for row in TABLE]

EVENTS_OF = {
    "kineto lines": 300, "kineto one line": 300, "kineto gz": 300, "nsys": 3157, "dump pickle": 40,
    "dump json": 40, "nccl log": 121,
}  # fmt: skip
"""How many events a file has that nothing is wrong with."""


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """A folder with two traces that nothing is wrong with."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in (4, 5):
        (folder / f"rank{rank}.json").write_text(json.dumps(trace(rank)))
    return folder


@pytest.mark.parametrize("row", at_once(ROWS, *ROWS[::60]), ids=[row[0] for row in ROWS])
def test_a_damaged_file_has_its_status_and_takes_no_other_down(
    others: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], row: tuple[str, str, str, str]
) -> None:
    attack, base, damage, status = row
    path = others / NAMES[base]
    path.write_bytes(damaged(base, damage, attack))

    code = main(
        [
            "ingest", "--no-verdict", str(others), "-o", str(tmp_path / "run.duckdb"), "--one-run",
            "-q",
        ]
    )  # fmt: skip

    # what the verdict on the records says is no matter of the file's status
    said = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "WARNING" not in line and not line.startswith("recording: ")
    ]
    assert code == (0 if status == "ok" else 3), said
    assert [line.split(": ")[:2] for line in said] == (
        [] if status == "ok" else [[status, str(path)]]
    )
    sources = read(tmp_path / "run.duckdb")
    found = sources.pop(path.name)
    assert sources == {f"rank{rank}.json": ("ok", 300, 300, 0) for rank in (4, 5)}
    assert found[0] == status
    _, events, stored, skipped = found
    assert events == stored + skipped
    # nothing is missing then; a log may have any lines, of any program
    if status == "ok" and base != "nccl log":
        assert events >= EVENTS_OF[base]


def read(database: Path) -> dict[str, tuple[str, int, int, int]]:
    """Return by its name the status of each file, and its events: read, stored and skipped."""
    with open_database(database) as con:
        rows = con.execute(
            "SELECT path, status, events_read, events_stored, events_skipped FROM sources"
        ).fetchall()
    return {Path(path).name: (status, *counts) for path, status, *counts in rows}


def test_there_are_as_many_as_promised() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) >= 60
    assert {row[1] for row in ROWS} == NAMES.keys()
