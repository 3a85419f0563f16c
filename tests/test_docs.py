"""What is written is true: reference pages are fresh, the README's commands print what it shows."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import traceweave
from tests.conftest import ROOT
from tests.marks import nightly
from traceweave import analyses
from traceweave.cli.main import cli, main

README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
QUESTIONS = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_fresh() -> None:
    for name, text in generator().pages().items():
        written = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert written == text, f"run 'python docs/generate.py': {name} is stale"


def test_every_analysis_and_command_is_in_the_list_of_questions_or_the_reference() -> None:
    reference = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli.commands.items():
        assert f"## {name}\n" in reference
        assert command.help
        assert "Example:" in (command.epilog or "") + command.help
    for analysis in analyses.catalog():
        assert f"`{analysis.name}`" in QUESTIONS


def test_links_of_the_readme_and_docs_lead_somewhere() -> None:
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        prose = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def console_blocks() -> list[tuple[str, str]]:
    """Return (command, output) for every `$ traceweave ...` of the README and the first guide."""
    text = "\n".join(re.findall(r"```console\n(.*?)```", README + START, re.S))
    pairs = re.findall(
        r"^\$ (traceweave (?:[^\"\n]|\"[^\"]*\")*)\n(.*?)(?=^\$ |\Z)", text, re.S | re.M
    )
    return [(command, output.strip("\n")) for command, output in pairs]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the checkout to the README's commands, but takes their output."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "tests").symlink_to(ROOT / "tests")
    return folder


def test_the_commands_of_the_readme_print_what_it_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    pairs = console_blocks()
    assert [shlex.split(command)[1] for command, _ in pairs] == [
        "ingest",
        "analyze",
        "report",
        "what-if",
        "query",
    ]
    for command, shown in pairs:
        code = main(shlex.split(command)[1:])
        said = capsys.readouterr()
        printed = said.out or said.err
        assert code == 0, said.err
        assert timeless(printed) == timeless(shown), command


def queries() -> list[tuple[str, str]]:
    """The page and the text of every query of the README and the guides: blocks of SQL, arguments
    of `run.sql` and `traceweave query`. The cookbook's are run by generate.py."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"```sql\n(.*?)```", text, re.S) if page.stem != "cookbook" else []
        said = re.findall(r'(?:run\.sql\(|traceweave query \S+ )"([^"]+)"', text)
        found += [(page.name, query) for query in [*blocks, *said]]
    return found


def test_queries_of_the_guides_can_be_asked(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    # no placeholder, no analysis or rule in a file, nor what another client attaches a folder with
    others = ("SELECT ...", "-- analysis", "-- rule", "SET VARIABLE")
    asked = [(page, sql) for page, sql in queries() if not sql.startswith(others)]
    pages = {"README.md", "api.md", "getting-started.md", "nccl-logs.md", "fsdp-before-after.md"}
    assert pages <= {page for page, _ in asked}
    with traceweave.open(database_of(fixtures / "ddp_gloo_straggler")) as run:
        run.register("nodes", pd.DataFrame({"rank": range(4), "node": [0, 0, 1, 1]}))
        for page, query in asked:
            assert len(run.sql(query).columns) > 0, page


@nightly
def test_the_worked_example_shows_what_is_printed(
    corpus: Path, database_of: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "examples" / "fsdp-before-after.md").read_text(encoding="utf-8")
    before, after = (
        str(database_of(corpus / "nsys" / f"fsdp_2rank_{when}__2026.2.sqlite"))
        for when in ("before", "after")
    )
    blocks = re.findall(r"\n```\n(.*?)```", page, re.S)
    for command, block in zip((["info", before], ["compare", before, after]), blocks, strict=True):
        assert main(command) == 0
        printed = " ".join(capsys.readouterr().out.split())
        for shown in re.split(r"\.\.\.|\n(?! )", block):
            assert " ".join(shown.split()) in printed
    late = re.findall(r"\| ([\d.]+) ms \| (\d+) \| [\d.]+ % \|\n", page)
    for database, rows in ((before, late[:2]), (after, late[2:])):
        with traceweave.open(database) as run:
            found = run.sql(
                "SELECT format('{:.1f}', idle_ns / 1e6), gaps::VARCHAR"
                " FROM idle_causes(\"window\" := 'span') WHERE cause = 'launch_bound' ORDER BY rank"
            )
        assert list(found.itertuples(index=False, name=None)) == rows


def timeless(text: str) -> str:
    """Leave out what differs from run to run: seconds taken, size on disk, trailing blanks."""
    text = re.sub(r", [\d.]+ [kMG]?B in [\d.]+ m?s", ", SIZE in SECONDS", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def test_nobody_is_told_to_install_the_other_project_of_this_name() -> None:
    told = re.compile(r"pip install[^\n]*?['\" ]traceweave(?![-/\w])")
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]
    found = {
        path.name: line
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if told.search(line) and "does not install" not in line
    }

    assert len(texts) > 100
    assert told.search("pip install 'traceweave[torch]'")
    assert found == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "traceweave-ranks"
    assert list(project["scripts"]) == ["traceweave"]
