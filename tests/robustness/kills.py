"""Kill an ingest at random moments and look at what is left.

    python -m tests.robustness.kills --rounds 100 --signal INT TRACES...

Each round ingests other traces over an existing database in a process of its own and sends it the
signal after a random time. What must hold afterwards: the target opens and holds either the old
run or the whole new one; after SIGINT nothing is left beside it; after SIGKILL the next ingest
leaves nothing beside it."""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from traceweave.ingestion import ingest
from traceweave.places import place_of
from traceweave.store.database import open_database
from traceweave.store.manifest import MANIFEST, read_manifest

_COMMAND = """
import sys
from traceweave.__main__ import run
print("begun", flush=True)  # what comes before is Python's own start, which Ctrl-C may end anyhow
sys.exit(run())
"""


def state(database: Path) -> tuple[object, ...]:
    """Return what tells the runs apart: the events stored, and rows that are counted anew."""
    query = (
        "SELECT (SELECT sum(events_stored) FROM sources), (SELECT count(*) FROM host_ops),"
        " (SELECT count(*) FROM collective_instances), (SELECT count(*) FROM clocks)"
    )
    with open_database(database) as con:
        return con.execute(query).fetchall()[0]


def left_beside(run: Path) -> list[str]:
    """Name what lies beside a run, and in a run folder what does not belong to it."""
    left = [entry.name for entry in run.parent.iterdir() if entry != run]
    if run.is_dir():
        folder = place_of(run)
        left += folder.files().keys() - {part.path for part in read_manifest(folder).parts}
        left.remove(MANIFEST)
    return sorted(left)


def start(traces: list[Path], database: Path) -> subprocess.Popen[bytes]:
    names = [str(path) for path in traces]
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # a shell's background job ignores it, and so would the child, and nothing would be tested
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, "ingest", *names, "-o", str(database), "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


class Rounds:
    """Rounds of one old and one new run over the same target."""

    def __init__(
        self, folder: Path, old: list[Path], new: list[Path], seed: int, name: str = "run.duckdb"
    ) -> None:
        self.database = folder / name
        self._old, self._new = old, new
        self._random = random.Random(seed)
        ingest(new, self.database)
        self._new_state = state(self.database)
        began = time.monotonic()
        with start(old, self.database) as child:
            assert child.wait() == 0
        self._seconds = time.monotonic() - began
        self._old_state = state(self.database)
        assert self._old_state != self._new_state

    def round(self, number: signal.Signals) -> str:
        """Kill one ingest; return 'old' or 'new'. Raises AssertionError if a promise is broken."""
        with start(self._new, self.database) as child:
            assert child.stdout is not None
            child.stdout.readline()
            try:
                child.wait(self._random.uniform(0, self._seconds * 1.1))
            except subprocess.TimeoutExpired:
                child.send_signal(number)
            said = child.communicate()[1]
        status = child.returncode
        found = {self._old_state: "old", self._new_state: "new"}[state(self.database)]
        left = left_beside(self.database)
        if number == signal.SIGINT:
            assert left == [], (left, status)
            assert status in (0, 130, -signal.SIGINT), (status, said)
        if found == "new":
            ingest(self._old, self.database)
            assert left_beside(self.database) == []
        words = [found, "a draft left"] if left else [found]
        return ", ".join([*words, "traceback"] if b"Traceback" in said else words)

    def clean(self) -> None:
        """Check that the next ingest removes what killed ones left."""
        ingest(self._old, self.database)
        assert left_beside(self.database) == [], left_beside(self.database)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--signal", choices=["INT", "KILL"], default="INT")
    parser.add_argument("--target", choices=["run.duckdb", "run.tw"], default="run.duckdb")
    parser.add_argument("--seed", type=int, default=os.getpid())
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    with tempfile.TemporaryDirectory() as folder:
        rounds = Rounds(
            Path(folder), options.traces[:1], options.traces, options.seed, options.target
        )
        outcomes = Counter(rounds.round(number) for _ in range(options.rounds))
        rounds.clean()
    print(f"{options.rounds} rounds of SIG{options.signal}, seed {options.seed}: {dict(outcomes)}")


if __name__ == "__main__":
    main()
