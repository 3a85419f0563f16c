"""A database or a run folder that somebody else made: it reads no file of whoever opens it."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import anyio
import duckdb
import pytest

import traceweave
from tests.marks import at_once, first_at_once, nightly
from traceweave.cli.main import main
from traceweave.errors import TraceweaveError
from traceweave.store.manifest import MANIFEST, is_database

DatabaseOf = Callable[..., Path]

SECRET = "sesame-4711"

MOST_SAID = 2_000
"""Characters of all that a command says of what cannot be read."""

with Path(__file__).with_name("foreign.tsv").open(newline="") as file:
    ATTACKS = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]

AT_ONCE = {"a public view over the environment"}


@pytest.fixture(scope="module")
def traces(fixtures: Path) -> Path:
    return fixtures / "ddp_gloo_4ranks"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, traces: Path, database_of: DatabaseOf) -> Path:
    """A run, to copy, and a file with a secret beside it."""
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "secret.csv").write_text(f"rank,token\n0,{SECRET}\n")
    return Path(shutil.copy(database_of(traces), folder / "run.duckdb"))


def changed(database: Path, run: Path, sql: str) -> None:
    with duckdb.connect(database) as con:
        con.execute(sql.format(secret=run.parent / "secret.csv", folder=run.parent))


def said(*arguments: str | Path) -> tuple[int, str]:
    """Return the exit code of a command, and all that it says."""
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue()


@pytest.mark.parametrize(
    ("what", "sql", "words"),
    [
        pytest.param(*attack, marks=() if attack[0] in AT_ONCE else nightly, id=attack[0])
        for attack in ATTACKS
    ],
)
def test_a_foreign_database_reads_no_other_file(
    run: Path,
    traces: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    sql: str,
    words: str,
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    database = tmp_path / "run.duckdb"
    shutil.copy(run, database)
    changed(database, run, sql)
    commands: list[list[str | Path]] = [
        ["info", database],
        ["query", database, "FROM ranks"],
        ["analyze", "health", database],
        ["export", database, "-o", tmp_path / "run.pftrace"],
        ["sql", database, "--install"],
        ["align", database],
        ["ingest", "--no-verdict", traces / "rank0.json.gz", "-o", database, "-q"],
    ]

    answers = [said(*command) for command in commands]

    for code, text in answers:
        assert SECRET not in text
        assert "Traceback" not in text
        assert code == 0 or len(text) < MOST_SAID, text
    code, text = answers[0]
    assert re.search(words, text), text
    assert code != 0 or not words


@first_at_once()
@pytest.mark.parametrize("number", [0, 1, 10])
def test_neither_an_agent_nor_the_explorer_is_told_of_a_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    from mcp.server.mcpserver.exceptions import ToolError

    from traceweave.agents.server import build_server
    from traceweave.explorer.explorer import explore

    _, sql, _ = ATTACKS[number]
    monkeypatch.setenv("TOKEN", SECRET)
    database = tmp_path / "run.duckdb"
    shutil.copy(run, database)
    changed(database, run, sql)

    server = build_server(tmp_path, 60)
    for tool in ("open_run", "health"):
        with pytest.raises(ToolError) as told:
            anyio.run(server.call_tool, tool, {"run": "run.duckdb"}, None)
        assert SECRET not in str(told.value)
    with pytest.raises((TraceweaveError, duckdb.Error)) as refused, explore(database) as explorer:
        explorer.question("page", "FROM ranks").answer()
    assert SECRET not in str(refused.value)


def folder_of(run: Path, traces: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "served" / "run.tw"
    folder.parent.mkdir()
    assert traceweave.ingest(traces / "rank0.json.gz", folder).ok
    return folder


def in_manifest(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Change the first shard in the manifest of a run folder."""
    said = json.loads((folder / MANIFEST).read_text())
    change(next(part for part in said["files"] if not is_database(part["path"])))
    (folder / MANIFEST).write_text(json.dumps(said))


def first_shard(folder: Path) -> Path:
    return next(iter(sorted((folder / "host_ops").iterdir())))


def linked(folder: Path, outside: Path) -> None:
    """Put a link out of the folder in place of a shard, as long as the manifest says it is."""
    shard = first_shard(folder)
    shutil.move(shard, outside)
    shard.symlink_to(outside)
    size = shard.lstat().st_size

    def change(part: dict[str, object]) -> None:
        part["path"], part["size_bytes"] = f"host_ops/{shard.name}", size

    in_manifest(folder, change)


def database_linked(folder: Path, outside: Path) -> None:
    [database] = folder.glob("*.duckdb")
    shutil.move(database, outside)
    database.symlink_to(outside)
    said = json.loads((folder / MANIFEST).read_text())
    for part in said["files"]:
        if is_database(part["path"]):
            part["size_bytes"] = database.lstat().st_size
    (folder / MANIFEST).write_text(json.dumps(said))


def manifest_linked(folder: Path, outside: Path) -> None:
    shutil.move(folder / MANIFEST, outside)
    (folder / MANIFEST).symlink_to(outside)


def named(path: str) -> Callable[[Path, Path], None]:
    def change(folder: Path, outside: Path) -> None:
        in_manifest(folder, lambda part: part.update(path=path.format(outside=outside)))

    return change


FOLDERS = {
    "a shard is a link": (linked, "is a link, which may lead anywhere"),
    "the database is a link": (database_linked, "is a link, which may lead anywhere"),
    "the manifest is a link": (manifest_linked, "is a link, which may lead anywhere"),
    "a path that leads out": (named("host_ops/../../../secret.csv"), "is no file of a run folder"),
    "an absolute path": (named("{outside}"), "is no file of a run folder"),
    "a table's name that ends SQL": (named("x') FROM meta --/0000-00000000.parquet"), "no file of"),
    "a path that is no text": (
        lambda folder, outside: in_manifest(folder, lambda part: part.update(path=5)),
        "cannot be read",
    ),
    "a size of a megabyte": (
        lambda folder, outside: in_manifest(
            folder, lambda part: part.update(size_bytes="9" * 9**6)
        ),
        "is no file of a run folder",
    ),
    "a version of a megabyte": (
        lambda folder, outside: (folder / MANIFEST).write_text(
            json.dumps({"version": "9" * 10**6, "files": []})
        ),
        "manifest version 9{60}…",
    ),
}


@first_at_once()
@pytest.mark.parametrize(
    "what", at_once(FOLDERS, "a shard is a link", "a path that leads out", "a path that is no text")
)
def test_a_foreign_run_folder_leads_nowhere_else(
    run: Path, traces: Path, tmp_path: Path, what: str
) -> None:
    folder = folder_of(run, traces, tmp_path)
    change, words = FOLDERS[what]
    change(folder, tmp_path / "outside.parquet")
    for command in (["info"], ["align"], ["info", "--verify"]):
        code, text = said(*command, folder)
        assert code == 3
        assert re.search(words, text), text
        assert len(text) < MOST_SAID


@nightly
def test_the_database_of_a_foreign_run_folder_reads_no_other_file(
    run: Path, traces: Path, tmp_path: Path
) -> None:
    folder = folder_of(run, traces, tmp_path)
    [database] = folder.glob("*.duckdb")
    changed(
        database,
        run,
        "DROP TABLE base.rank_sources CASCADE;"
        " CREATE VIEW base.rank_sources AS FROM read_csv('{secret}')",
    )
    said_now = json.loads((folder / MANIFEST).read_text())
    for part in said_now["files"]:
        if is_database(part["path"]):
            part["size_bytes"] = database.stat().st_size
    (folder / MANIFEST).write_text(json.dumps(said_now))

    for command in (["query", folder, "FROM base.rank_sources"], ["align", folder]):
        code, text = said(*command)
        assert code in (2, 3)
        assert "file system operations are disabled" in text or "only read this" in text
        assert SECRET not in text


NO_TRACES = {
    "a private key": "-----BEGIN PRIVATE KEY-----\nsesame\n",
    "a JSON of credentials": '{"schemaVersion": 2, "auths": {"token": "sesame"}}',
    "nothing": "",
}


@first_at_once()
@pytest.mark.parametrize("what", NO_TRACES)
def test_only_traces_are_packed_into_an_archive(run: Path, tmp_path: Path, what: str) -> None:
    database, key, archive = tmp_path / "run.duckdb", tmp_path / "id", tmp_path / "run.zip"
    shutil.copy(run, database)
    key.write_text(NO_TRACES[what])
    with duckdb.connect(database) as con:
        con.execute("UPDATE sources SET path = ?, size_bytes = ?", [str(key), key.stat().st_size])
    code, text = said("export", database, "--to", "perfetto-manifest", "-o", archive)
    assert code == 3
    assert f"{key}: is no trace of the PyTorch profiler, whatever the database says" in text
    assert not archive.exists()
