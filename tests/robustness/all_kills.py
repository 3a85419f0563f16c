"""Kill every command that writes at random moments, here and in object storage.

    python -m tests.robustness.all_kills --rounds 300 [--seed N] [--only align]

Each round puts the old target in its place, lets a command write over it in a process of its own,
and kills that after a random time, or as soon as something lies beside the target. What must hold
afterwards: the target is the old one or the whole new one, or, for a folder, absent, runs can be
opened, and what lies beside it is gone after the next run of the command. One line is printed for
each round. Object storage is moto's server on this machine."""

import argparse
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
from pyarrow import fs

from traceweave.ingestion import ingest
from traceweave.places import Place, place_of
from traceweave.store.database import open_database
from traceweave.store.manifest import MANIFEST, is_run_folder, read_manifest

FIXTURES = Path(__file__).parent.parent / "fixtures" / "ddp_gloo_straggler"
MANY_ROWS = "SELECT a, a * 7 AS b, 'row ' || a AS c FROM range(400000) AS t(a)"
RULES = '[[rule]]\nname = "steps"\nsql = "SELECT count(*) FROM steps"\nmin = 1\n'

_STATE = """
SELECT (SELECT sum(events_stored) FROM sources), (SELECT count(*) FROM host_ops),
    (SELECT min(reference_rank) FROM clocks),
    (SELECT count(*) FROM collective_instances),
    (SELECT count(*) FROM duckdb_functions()
     WHERE database_name = current_database() AND function_type = 'table_macro')
"""
"""What the commands change of a run."""


@dataclass(frozen=True)
class Attack:
    """A command that is killed, and what it writes."""

    command: tuple[str, ...]
    target: str
    """Its name; of a run it tells whether it is a folder."""
    before: tuple[str, ...] | None = None
    """What makes the old target; None: the command itself, whose output is then made a byte longer,
    so that it is another one of the same kind."""

    @property
    def is_run(self) -> bool:
        """Whether it is opened as one."""
        return self.before is not None


_INGEST = ("ingest", "--replace", "{traces}", "-o", "{out}", "-q")
_ONE = ("ingest", "--replace", "{one}", "-o", "{out}", "-q")

HERE: Mapping[str, Attack] = {
    "ingest": Attack(_INGEST, "run.duckdb", _ONE),
    "ingest folder": Attack(_INGEST, "run.tw", _ONE),
    "add": Attack((*_INGEST, "--add"), "run.tw", _ONE),
    "align": Attack(("align", "{out}", "--reference-rank", "2"), "run.duckdb", _INGEST),
    "align folder": Attack(("align", "{out}", "--reference-rank", "2"), "run.tw", _INGEST),
    "sql": Attack(("sql", "{out}", "--install"), "run.duckdb", _INGEST),
    "sql folder": Attack(("sql", "{out}", "--install"), "run.tw", _INGEST),
    "report": Attack(("report", "{run}", "-o", "{out}"), "run.html"),
    "export": Attack(("export", "{run}", "-o", "{out}"), "run.pftrace"),
    "archive": Attack(("export", "{run}", "--to", "perfetto-manifest", "-o", "{out}"), "run.zip"),
    "compare": Attack(("compare", "{run}", "{run}", "-o", "{out}"), "both.html"),
    "csv": Attack(("query", "{run}", MANY_ROWS, "-o", "{out}"), "rows.csv"),
    "json": Attack(("query", "{run}", MANY_ROWS, "-o", "{out}"), "rows.json"),
    "parquet": Attack(("query", "{run}", MANY_ROWS, "-o", "{out}"), "rows.parquet"),
    "junit": Attack(("check", "{run}", "--rules", "{rules}", "--junit", "{out}"), "check.xml"),
    "folder": Attack(("export", "{run}", "--to", "parquet", "-o", "{out}"), "tables"),
}
ELSEWHERE = {name: a for name, a in HERE.items() if not a.target.endswith(".duckdb")} | {
    "report of a run there": Attack(("report", "{there}", "-o", "{out}"), "run.html")
}
del ELSEWHERE["junit"], ELSEWHERE["folder"]


class Rounds:
    """Rounds of one attack on the same target."""

    def __init__(self, attack: Attack, folder: Place, named: Mapping[str, object], seed: str):
        self._attack, self._folder = attack, folder
        self._target = folder / attack.target
        self._named = {**named, "out": self._target.shown}
        self._random = random.Random(seed)
        put(folder, {})
        if attack.before is not None:
            self._finish(attack.before)
            self._old = files_of(folder)
            self._old_state = self._state()
        began = time.monotonic()
        self._finish(attack.command)
        self._seconds = time.monotonic() - began
        self._new_state = self._state()
        if attack.before is None:
            self._old = {path: data + b"\n" for path, data in files_of(folder).items()}
            put(folder, self._old)
            self._old_state = self._state()
        assert self._old_state != self._new_state

    def round(self, *, clean: bool = True, at_once: bool = False) -> str:
        """Kill the command once, `at_once` if it is to be when it begins to write; return 'old',
        'new' or, of a folder, 'absent', and what it left beside. With `clean` the next run has to
        be whole and leave nothing. Raises AssertionError if a promise is broken."""
        put(self._folder, self._old)
        with self._start(self._attack.command) as child:
            while at_once and child.poll() is None and self._names() <= self._old.keys():
                time.sleep(0.0005)
            with suppress(subprocess.TimeoutExpired):
                child.wait(0 if at_once else self._random.uniform(0.3, 1.1) * self._seconds)
            child.kill()
        left, state = self._left(), self._state()
        absent = state == {} and len(self._old) > 1
        ends = {repr(self._old_state): "old", repr(self._new_state): "new"}
        found = "absent" if absent else ends[repr(state)]
        if clean:
            self._finish(self._attack.command, (0, 3) if "--add" in self._attack.command else (0,))
            assert self._state() == self._new_state
            assert self._left() == [], self._left()
        return f"{found}, a draft left" if left else found

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        words = [word.format(**self._named) if "{" in word else word for word in command]
        quiet = subprocess.DEVNULL
        call = [sys.executable, "-m", "traceweave", *words]
        return subprocess.Popen(call, stdout=quiet, stderr=subprocess.PIPE)

    def _finish(self, command: Sequence[str], codes: Sequence[int] = (0,)) -> None:
        with self._start(command) as child:
            said = child.communicate()[1]
        assert child.returncode in codes, said.decode()

    def _state(self) -> object:
        if self._attack.is_run:
            with open_database(self._target) as con:
                return con.execute(_STATE).fetchall()
        return {
            name: _rows(data) if data.endswith(b"PAR1") else data
            for name, data in files_of(self._folder).items()
            if self._is_target(name)
        }

    def _left(self) -> list[str]:
        """Name what lies beside the target, and in a run folder what does not belong to it."""
        there = self._names()
        if not is_run_folder(self._target):
            return sorted(name for name in there if not self._is_target(name))
        parts = [part.path for part in read_manifest(self._target).parts]
        return sorted(there - {f"{self._attack.target}/{name}" for name in (*parts, MANIFEST)})

    def _names(self) -> set[str]:
        return set(files_of(self._folder, only_names=True))

    def _is_target(self, name: str) -> bool:
        return name.partition("/")[0] == self._attack.target


def _rows(data: bytes) -> object:
    """Return what tells the rows of a Parquet file, whose order is that of threads."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file, duckdb.connect() as con:
        file.write(data)
        file.flush()
        query = "SELECT count(*), bit_xor(hash(t)) FROM read_parquet(?) AS t"
        return con.execute(query, [file.name]).fetchall()


def files_of(folder: Place, *, only_names: bool = False) -> dict[str, bytes]:
    """Return the files below a folder."""
    found = dict.fromkeys(folder.files(), b"")
    for name in () if only_names else found:
        with (folder / name).reading() as stream:
            found[name] = stream.read()
    return found


def put(folder: Place, files: Mapping[str, bytes]) -> None:
    """Make these the files of a folder, and no others."""
    for name in folder.files():
        if name not in files:
            (folder / name).remove()
    for name, data in files.items():
        if folder.local is not None:
            (folder.local / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).writing() as stream:
            stream.write(data)
    if folder.local is not None:
        for path in sorted(folder.local.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


@contextmanager
def bucket() -> Iterator[str]:
    """Yield the URL of a bucket of a server on this machine, which the environment names."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    said = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "anybody", "AWS_SECRET_ACCESS_KEY": "anything at all",
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    try:
        system = fs.S3FileSystem(
            allow_bucket_creation=True, endpoint_override=said["AWS_ENDPOINT_URL"]
        )
        system.create_dir("kills")
        yield "s3://kills"
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def named_inputs(folder: Path, url: str | None) -> dict[str, object]:
    """Make what the commands read; with the URL of a bucket, a run there as well."""
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    run = folder / "read.duckdb"
    ingest(FIXTURES, run)
    there = f"{url}/read.tw"
    if url is not None:
        ingest(FIXTURES, there)
    return {
        "traces": FIXTURES, "one": min(FIXTURES.iterdir()), "run": run, "rules": rules,
        "there": there,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300, help="in all, over all commands")
    parser.add_argument("--seed", type=int, default=os.getpid())
    parser.add_argument("--only", help="commands whose names begin with this")
    options = parser.parse_args()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as at, bucket() as url:
        named = named_inputs(Path(at), url)
        beside = Path(at, "here")
        beside.mkdir()
        wheres = (("here", HERE, str(beside)), ("there", ELSEWHERE, f"{url}/there"))
        attacks = [
            (where, name, attack, folder)
            for where, table, folder in wheres
            for name, attack in table.items()
            if name.startswith(options.only or "")
        ]
        for i, (where, name, attack, folder) in enumerate(attacks):
            count = (options.rounds + len(attacks) - 1 - i) // len(attacks)
            rounds = Rounds(attack, place_of(folder), named, f"{options.seed} {where} {name}")
            for number in range(count):
                try:
                    outcome = rounds.round(at_once=where == "here" and number % 2 == 1)
                except (AssertionError, KeyError, OSError, Exception) as error:
                    outcome = f"BROKEN: {error!r}"[:400]
                found[outcome.partition(":")[0]] += 1
                print(f"{where} {name} {number}: {outcome}", flush=True)
    print(f"{found.total()} kills, seed {options.seed}: {dict(found)}")


if __name__ == "__main__":
    main()
