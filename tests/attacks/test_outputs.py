"""No command writes over what it reads, nor over what is not of the kind that it writes."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.conftest import Captured
from tests.marks import at_once, nightly
from traceweave.cli.main import main
from traceweave.errors import UsageError
from traceweave.places import place_of
from traceweave.targets import FileKind, check_target, kind_of

TABLE = Path(__file__).with_name("outputs.tsv").read_text(encoding="utf-8").splitlines()
AT_ONCE = ("check {run} --rules {rules} --baseline", "ingest {trace}")
COMMANDS = [
    pytest.param(*row, id=row[0], marks=() if row[0].startswith(AT_ONCE) else nightly)
    for row in ([*line.split("\t"), ""][:2] for line in TABLE if not line.startswith("#"))
]

RULES = '[[rule]]\nname = "steps"\nsql = "SELECT count(*) FROM steps"\nmin = 1\n'
SQL = """-- analysis: own | ranks
-- answers: Which ranks are there?
-- topic: overview
-- grain: one row per rank
-- reads: ranks
-- order: rank
-- column: rank | the rank
SELECT rank FROM ranks ORDER BY rank
"""


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, fixtures: Path, database_of: Callable[..., Path]
) -> dict[str, Path]:
    """All that commands read, and what lies beside it, by what it is called in the table."""
    at = tmp_path_factory.mktemp("outputs")
    traces = at / "traces"
    traces.mkdir()
    shutil.copy(fixtures / "ddp_gloo_straggler" / "rank0.json.gz", traces)
    traceweave.ingest(traces, at / "run.duckdb")
    traceweave.ingest(traces, at / "run.tw")
    export = Path(shutil.copytree(fixtures / "mpi_nsys" / "all_ranks__2023.4_pqtdir", at / "pqt"))
    traceweave.ingest(export, at / "reports.duckdb")
    for name in ("copy.duckdb", "run.html"):
        shutil.copy(at / "run.duckdb", at / name)
    shutil.copytree(at / "run.tw", at / "other.tw")
    (at / "alias").symlink_to(at / "run.duckdb")
    os.link(at / "run.duckdb", at / "twin")
    (at / "rules.toml").write_text(RULES)
    (at / "own.sql").write_text(SQL)
    (at / "foreign.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    (at / "foreign.html").write_text("<!doctype html><title>mine</title>")
    (at / "nccl.log").write_text("host:12:34 [0] NCCL INFO Bootstrap\n")
    with duckdb.connect(at / "foreign.duckdb") as con:
        con.execute("CREATE TABLE notes (text VARCHAR)")
    (database,) = (at / "run.tw").glob("*.duckdb")
    shard = next((at / "run.tw" / "host_ops").iterdir())
    os.link(at / "run.tw" / "manifest.json", at / "twin_manifest")
    os.link(shard, at / "twin_shard")
    names = {
        "run": "run.duckdb", "alias": "alias", "twin": "twin", "copy": "copy.duckdb",
        "database_named_as_a_page": "run.html", "reports": "reports.duckdb", "traces": "traces",
        "trace": f"traces/{min(os.listdir(traces))}", "export": "pqt",
        "export_table": f"pqt/{min(os.listdir(export))}", "folder": "run.tw",
        "manifest": "run.tw/manifest.json", "twin_manifest": "twin_manifest",
        "in_folder": "run.tw/new.html", "other": "other.tw",
        "other_manifest": "other.tw/manifest.json", "foreign_trace": "foreign.json",
        "foreign_page": "foreign.html", "foreign_database": "foreign.duckdb", "log": "nccl.log",
        "rules": "rules.toml", "sql": "own.sql",
    }  # fmt: skip
    places = {name: at / path for name, path in names.items()}
    return {**places, "database": database, "shard": shard, "twin_shard": at / "twin_shard"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


ONLY_IF_READ = {"rules": "{rules}", "sql": "{sql}"}
"""Files of kinds that some commands write: refused where they are read."""


@pytest.mark.parametrize(("command", "may"), COMMANDS)
def test_no_input_is_written_over(
    command: str, may: str, made: dict[str, Path], capsys: Captured
) -> None:
    before = contents(made["run"].parent)
    words = command.split()
    for name, output in made.items():
        if name in may.split(", ") or ONLY_IF_READ.get(name, "") not in command:
            continue
        named = {**made, "out": output}
        code = main([word.replace("\\s", " ").format(**named) for word in words])
        said = capsys.readouterr()
        assert (code, said.out) == (2, ""), (name, said)
        assert said.err.count("\n") == 1, (name, said.err)
        assert str(output) in said.err, said.err
    assert contents(made["run"].parent) == before


def test_no_default_name_is_an_input(made: dict[str, Path], capsys: Captured) -> None:
    page = made["database_named_as_a_page"]
    before = page.read_bytes()
    assert main(["report", str(page)]) == 2
    assert "is read by this command; name another file" in capsys.readouterr().err
    assert page.read_bytes() == before


def test_python_writes_over_no_input_either(made: dict[str, Path], tmp_path: Path) -> None:
    before = contents(made["run"].parent)
    with traceweave.open(made["run"]) as run:
        for name in ("run", "twin", "trace", "copy", "foreign_trace", "manifest"):
            with pytest.raises(UsageError):
                run.report(made[name])
            for to in ("perfetto", "perfetto-manifest", "parquet"):
                with pytest.raises(UsageError):
                    run.export(made[name], to)
        for name in ("run", "rules", "trace"):
            with pytest.raises(UsageError):
                traceweave.check(run, made["rules"], junit=made[name])
            with pytest.raises(UsageError):
                traceweave.check(run, made["rules"], annotations=("github", made[name]))
    assert contents(made["run"].parent) == before


OUTPUTS = {
    FileKind.PAGE: "report {run} -o {out}.html",
    FileKind.TEXT: "query {run} FROM\\sranks -f csv -o {out}",
    FileKind.JSON: "query {run} FROM\\sranks -f json -o {out}",
    FileKind.PARQUET: "query {run} FROM\\sranks -f parquet -o {out}",
    FileKind.JUNIT: "check {run} --rules {rules} --junit {out}",
    FileKind.TIMELINE: "export {run} -o {out}",
    FileKind.ARCHIVE: "export {run} --to perfetto-manifest -o {out}",
}


@nightly
@pytest.mark.parametrize("kind", at_once(OUTPUTS, FileKind.TEXT, FileKind.JUNIT))
def test_what_a_command_wrote_it_writes_again(
    kind: FileKind, made: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = OUTPUTS[kind].split()
    for _ in range(2):
        named = {**made, "out": out}
        assert main([word.replace("\\s", " ").format(**named) for word in words]) == 0
    (written,) = tmp_path.iterdir()
    assert kind_of(place_of(written)) == kind
    written.write_bytes(b"")
    check_target(written, kind)


@pytest.mark.parametrize("arguments", [
    "query {run} FROM\\sranks\\sLIMIT\\s0 -f json -o {out}",
    pytest.param("compare {run} {copy} -f json -o {out}", marks=nightly),
    pytest.param("compare {run} {copy} -o {out}.html", marks=nightly),
    "check {run} --rules {rules} --annotations gitlab {out}",
    "check {run} --rules {rules} --annotations github {out}",
    "export {run} --to parquet -o {out}",
])  # fmt: skip
def test_and_so_do_the_others(arguments: str, made: dict[str, Path], tmp_path: Path) -> None:
    named = {**made, "out": tmp_path / "out"}
    for _ in range(2):
        assert main([w.replace("\\s", " ").format(**named) for w in arguments.split()]) == 0


def test_the_demo_takes_no_trace_for_its_own(tmp_path: Path, capsys: Captured) -> None:
    mine = tmp_path / "traces" / "rank0.json.gz"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    assert main(["demo", "--folder", str(tmp_path)]) == 2
    assert "exists and is not of the demo" in capsys.readouterr().err
    assert mine.read_bytes() == b"mine"
