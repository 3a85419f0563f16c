"""Fixtures shared by all tests."""

import fcntl
import gc
import hashlib
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import hypothesis
import pytest

import traceweave
from tests import marks
from tests.chromium import Chromium, find_chromium, launch
from tests.comparison.runs import run_of
from tests.tables import empty_database
from traceweave.store.empty import create_tables
from traceweave_simulator import Config, simulate, write_kineto

# a busy machine takes longer now and then, which is no fault of what is tested
hypothesis.settings.register_profile("any machine", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("any machine")

# thousands of imported functions are no garbage: to look for some took a quarter of the collection
gc.set_threshold(50_000)

# as `make test` has it: where it is set, every process compiles what it imports, creates its tables
sys.dont_write_bytecode = False

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the tests marked nightly too")
    parser.addoption("--part", metavar="N/OF", help="run one part of the tests, such as 2/3")


def pytest_configure(config: pytest.Config) -> None:
    """Let slow properties know how many examples there is time for."""
    marks.by_night = _nights(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the nightly tests, whatever else -m asks for, and those of other parts.

    Properties are tested at both times: by night slow ones on more examples."""
    nights, part = _nights(config), config.getoption("part")
    number, of = (int(text) for text in part.split("/")) if part else (1, 1)

    def is_left_out(item: pytest.Item) -> bool:
        other = zlib.crc32(item.nodeid.encode()) % of != number - 1
        return other or not (nights or item.get_closest_marker("nightly") is None)

    if nights:
        for item in items:
            if hasattr(getattr(item, "obj", None), "hypothesis"):
                item.add_marker("nightly")
    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


def pytest_collection_finish() -> None:
    """What the collection made stays: to look for garbage in it again and again takes longer than
    many a test."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let modules clear up what they made."""
    gc.unfreeze()


def _nights(config: pytest.Config) -> bool:
    """Tell whether nightly tests are asked for: by --nightly, or by name in -m."""
    return bool(config.option.nightly) or "nightly" in config.option.markexpr


def _shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the folder of real traces is not here: {name} beside the checkout")
    return folder


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real traces of real runs, outside the repository."""
    return _shared("corpus")


@pytest.fixture(scope="session")
def expected() -> Path:
    """What other tools answer for the corpus, outside the repository."""
    return _shared("expected")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Traces that ship with the project."""
    return Path(__file__).parent / "fixtures"


ASKED = ("ddp_gloo_straggler",)
"""Of whose runs many tests ask for findings: they keep them, as `traceweave ingest` has it."""

MakeOnce = Callable[[str, str, Callable[[Path], object]], Path]
DatabaseOf = Callable[..., Path]
MonkeyPatch = pytest.MonkeyPatch
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> MakeOnce:
    """Return a function that has a file written, given what it holds, its suffix, and the writer.

    Each is written once per test session, whatever the number of processes that run tests, so
    nobody may change it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def make(holds: str, suffix: str, write: Callable[[Path], object]) -> Path:
        name = hashlib.sha256(holds.encode()).hexdigest()[:16]
        path, part = folder / f"{name}{suffix}", folder / f"{name}.part{suffix}"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                write(part)
                part.rename(path)
        return path

    return make


@pytest.fixture(scope="session")
def database_of(once: MakeOnce) -> DatabaseOf:
    """Return a function from traces to their database, to which nobody may write."""

    def database(*traces: Path) -> Path:
        def write(path: Path) -> None:
            assert traceweave.ingest(traces, path).ok
            if traces[0].name in ASKED:
                traceweave.keep_answers(path)

        return once("\0".join(map(str, traces)), ".duckdb", write)

    return database


Recorded = Callable[..., traceweave.Run]
Simulated = Callable[[Config], traceweave.Run]
MOST_OPEN = 6
"""So many runs stay open at once: the answers that they keep take memory."""


@pytest.fixture(scope="session")
def opened() -> Iterator[Callable[[Path], traceweave.Run]]:
    """Return a function from databases to their runs, of which nobody may close one.

    They stay open for some time: what one test has asked, others need not compute."""
    runs: dict[Path, traceweave.Run] = {}

    def run(path: Path) -> traceweave.Run:
        found = runs.pop(path, None) or traceweave.open(path)
        runs[path] = found  # as the last one asked for
        if len(runs) > MOST_OPEN:
            runs.pop(next(iter(runs))).close()
        return found

    yield run
    for each in runs.values():
        each.close()


@pytest.fixture(scope="session")
def recorded(
    opened: Callable[[Path], traceweave.Run],
    database_of: DatabaseOf,
    fixtures: Path,
    request: pytest.FixtureRequest,
) -> Recorded:
    """Return a function from traces, by path or by name in `fixtures` or `corpus`, to their run."""

    def trace(name: str | Path) -> Path:
        shipped = fixtures / name
        return shipped if shipped.exists() else Path(request.getfixturevalue("corpus")) / name

    return lambda *names: opened(database_of(*map(trace, names)))


@pytest.fixture(scope="session")
def simulated_database(once: MakeOnce) -> Callable[[Config], Path]:
    """Return a function from a simulated run to the database of its Kineto traces."""

    def database(config: Config) -> Path:
        def write(path: Path) -> None:
            traces = path.with_suffix(".traces")
            write_kineto(simulate(config), traces)
            assert traceweave.ingest(traces, path).ok
            shutil.rmtree(traces)

        return once(repr(config), ".duckdb", write)

    return database


@pytest.fixture(scope="session")
def simulated(
    opened: Callable[[Path], traceweave.Run], simulated_database: Callable[[Config], Path]
) -> Simulated:
    """Return a function from a simulated run to what was ingested of its Kineto traces."""
    return lambda config: opened(simulated_database(config))


@pytest.fixture
def empty_run() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with all tables and no rows."""
    with empty_database() as con:
        create_tables(con)
        yield con


@pytest.fixture(scope="session")
def base_run() -> Iterator[duckdb.DuckDBPyConnection]:
    """The run of comparison.runs as it is, read-only; what it was asked once it knows."""
    with run_of() as con:
        yield con


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """A headless Chromium. While it is open no other event loop can run in this thread."""
    binary = find_chromium()
    if binary is None:
        pytest.skip("no Chromium on PATH: apt-get install chromium")
    with launch(binary) as chromium:
        yield chromium
