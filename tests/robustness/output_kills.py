"""Kill what writes an output at random moments and look at what is left.

    python -m tests.robustness.output_kills --rounds 20 DATABASE

Each round lets a command write over an old output in a process of its own, and kills it: after a
random time, or as soon as something lies beside the output. What must hold afterwards: the output
is the old one or the whole new one, or, for a folder, absent; and the next run of the command
leaves nothing beside it."""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import duckdb

MANY_ROWS = "SELECT a, a * 7 AS b, 'row ' || a AS c FROM range(400000) AS t(a)"
RULES = '[[rule]]\nname = "steps"\nsql = "SELECT count(*) FROM steps"\nmin = 1\n'

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "csv": ("query", "{run}", MANY_ROWS, "-f", "csv", "-o", "{out}"),
    "json": ("query", "{run}", MANY_ROWS, "-f", "json", "-o", "{out}"),
    "markdown": ("analyze", "kernels", "{run}", "-f", "markdown", "-o", "{out}"),
    "parquet": ("query", "{run}", MANY_ROWS, "-f", "parquet", "-o", "{out}"),
    "page": ("report", "{run}", "-o", "{out}"),
    "comparison": ("compare", "{run}", "{run}", "-o", "{out}.html"),
    "junit": ("check", "{run}", "--rules", "{rules}", "--junit", "{out}"),
    "perfetto": ("export", "{run}", "-o", "{out}"),
    "folder": ("export", "{run}", "--to", "parquet", "-o", "{out}"),
}

State = dict[str, bytes]


class Outputs:
    """Rounds of one command over the same output."""

    def __init__(self, folder: Path, run: Path, kind: str, seed: int) -> None:
        self.beside = folder / kind
        self.beside.mkdir()
        rules = folder / "rules.toml"
        rules.write_text(RULES)
        self.target = self.beside / ("out.html" if kind == "comparison" else "out")
        stem = str(self.beside / "out")
        self._arguments = [a.format(run=run, out=stem, rules=rules) for a in COMMANDS[kind]]
        self._random = random.Random(seed)
        began = time.monotonic()
        assert self._start().wait() == 0
        self._seconds = time.monotonic() - began
        self._new = self._state()
        assert self._new
        # of the same kind, or it would not be written over
        self._old = {name: path.read_bytes() + b"\n" for name, path in self._files().items()}
        assert self._left() == []

    def round(self, *, at_once: bool = False) -> str:
        """Kill the command once; return 'old', 'new' or 'absent'. Raises AssertionError."""
        self._put_old()
        old = self._state()
        child = self._start()
        if at_once:
            while not self._left() and child.poll() is None:
                time.sleep(0.0005)
        else:
            time.sleep(self._random.uniform(0, self._seconds * 1.1))
        child.kill()
        child.wait()
        found, left = self._state(), self._left()
        assert found in (old, self._new) or (not found and len(self._new) > 1), sorted(found)
        kind = {True: "old", False: "new" if found else "absent"}[found == old]
        return f"{kind}, a draft left" if left else kind

    def clean(self) -> None:
        """Check that the next run writes the whole and removes what killed ones left."""
        assert self._start().wait() == 0
        assert self._state() == self._new
        assert self._left() == []

    def _start(self) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        command = [sys.executable, "-m", "traceweave", *self._arguments]
        return subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def _put_old(self) -> None:
        if self.target.is_dir():
            shutil.rmtree(self.target)
        if len(self._old) > 1:
            self.target.mkdir()
        for name, data in self._old.items():
            (self.target / name if name else self.target).write_bytes(data)

    def _state(self) -> State:
        return {name: _content(path) for name, path in self._files().items()}

    def _files(self) -> dict[str, Path]:
        if self.target.is_dir():
            return {entry.name: entry for entry in self.target.iterdir()}
        return {"": self.target} if self.target.exists() else {}

    def _left(self) -> list[str]:
        return [name for name in os.listdir(self.beside) if name != self.target.name]


def _content(path: Path) -> bytes:
    """Return what a file holds; of whole Parquet its rows, whose order is that of threads."""
    data = path.read_bytes()
    if not data.endswith(b"PAR1"):
        return data
    with duckdb.connect() as con:
        rows = con.execute(
            "SELECT count(*), bit_xor(hash(t)) FROM read_parquet(?) AS t", [str(path)]
        )
        return repr(rows.fetchall()).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=os.getpid())
    options = parser.parse_args()
    for kind in COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            outputs = Outputs(Path(folder), options.database, kind, options.seed)
            found = Counter(outputs.round(at_once=bool(i % 2)) for i in range(options.rounds))
            outputs.clean()
        print(f"{kind}: {options.rounds} kills, seed {options.seed}: {dict(found)}", flush=True)


if __name__ == "__main__":
    main()
