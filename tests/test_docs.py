"""What is written is true: reference pages are fresh, the README's commands print what it shows."""

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import duckdb
import pandas as pd
import pytest

import traceweave
from tests.conftest import ROOT, DatabaseOf
from tests.marks import nightly
from traceweave import analyses
from traceweave.analyses.causes import IDLE, LATE, cause_words
from traceweave.cli.main import cli, main

README = (ROOT / "README.md").read_text(encoding="utf-8")
START = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
QUESTIONS = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> list[Path]:
    """Every page that is committed: what `make docs` makes may lie beside them."""
    made = {ROOT / "docs" / name for name in generator().reference()}
    return [page for page in sorted((ROOT / "docs").rglob("*.md")) if page not in made]


def test_generated_texts_are_fresh() -> None:
    for name, text in generator().committed().items():
        written = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert written == text, f"run 'python docs/generate.py': {name} is stale"


@nightly
def test_what_make_docs_makes_is_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    for name in generator().reference():
        assert f"/docs/{name}" in ignored
    assert "generate.py --reference" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_analysis_and_command_is_in_the_list_of_questions_and_the_reference() -> None:
    reference = generator().reference()
    for name, command in cli.commands.items():
        assert f"## {name}\n" in reference["cli.md"]
        assert command.help
        assert "Example:" in (command.epilog or "") + command.help
    for analysis in analyses.catalog():
        assert f"### {analysis.name}\n" in reference["analyses.md"]
        assert f"`{analysis.name}`" in QUESTIONS


def test_links_lead_to_what_a_clone_has() -> None:
    """Only the front page links to what `make docs` makes, and says so."""
    made = generator().reference()
    for page in [*sorted(ROOT.glob("*.md")), *pages()]:
        prose = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            front = page == ROOT / "docs" / "index.md" and target in made
            there = (page.parent / target).exists() and target.split("/")[-1] not in made
            assert front or there, f"{page.name} links to {target}"


def test_what_the_code_says_of_docs_is_in_a_clone() -> None:
    kinds = ("src/**/*.py", "src/**/*.sql", "tests/**/*.py", "fuzz/*")
    for path in [found for kind in kinds for found in ROOT.glob(kind)]:
        for page in re.findall(r"(?<![/\w])docs/[\w/-]+\.md", path.read_text(encoding="utf-8")):
            assert ROOT / page in pages(), f"{path.name} names {page}"


def test_the_front_page_leads_to_the_terms_which_have_every_name_in_findings() -> None:
    terms = (ROOT / "docs" / "terms.md").read_text(encoding="utf-8")
    with duckdb.connect() as con:
        causes = [*cause_words(con, IDLE), *cause_words(con, LATE)]
    columns = [
        re.sub("^(cost|bound)_ns$", r"\1", column.name)
        for column in analyses.find("findings").columns
    ]
    names = {*(rule.name for rule in analyses.rules()), *causes, *columns}
    assert "](terms.md)" in QUESTIONS
    assert [name for name in sorted(names) if not re.search(rf"\b{name}s?\b", terms)] == []


def test_tables_have_a_head() -> None:
    for page in [*ROOT.glob("*.md"), *pages()]:
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for table in re.findall(r"(?m)(?:^\|.*\n)+", prose):
            assert re.fullmatch(r"[| :-]+", [*table.splitlines(), ""][1]), f"{page.name}: {table}"


def test_as_many_attacks_are_tried_as_is_said() -> None:
    trust = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")

    def rows(name: str) -> list[list[str]]:
        text = (ROOT / "tests" / "attacks" / name).read_text(encoding="utf-8")
        return [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]

    hostile = sum(row[1] != "ordinary" for row in rows("statements.tsv")[1:])
    for said, there in (
        (r"(\d+) rows of `tests/attacks/files", len(rows("files.tsv")) - 1),
        (r"(\d+) hostile statements", hostile),
        (r"(\d+) hostile databases", len(rows("foreign.tsv")) - 1),
        (r"\((\d+)\s+commands, 20 to 30 files", len(rows("outputs.tsv"))),
    ):
        assert re.findall(said, trust) == [str(there)]


def test_pages_are_short() -> None:
    """What one can read: 170 kB in all, at most 40 decisions of eight lines."""
    every = [*ROOT.glob("*.md"), *pages()]
    assert sum(page.stat().st_size for page in every) <= 170_000
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(decisions) <= 40
    for decision in decisions:
        title, *lines = decision.split("\n## ")[0].splitlines()
        assert len([line for line in lines if line]) <= 8, title


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
        "ingest", "analyze", "report", "what-if", "query",
    ]  # fmt: skip
    for command, shown in pairs:
        code = main(shlex.split(command)[1:])
        said = capsys.readouterr()
        printed = said.out or said.err
        assert code == 0, said.err
        assert timeless(printed) == timeless(shown), command


def queries() -> list[tuple[str, str]]:
    """The page and the text of every query of the README and the guides: blocks of SQL, arguments
    of `run.sql` and `traceweave query`. Those of sql.md are run by generate.py."""
    found = []
    for page in [ROOT / "README.md", *pages()]:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"```sql\n(.*?)```", text, re.S) if page.stem != "sql" else []
        said = re.findall(r'(?:run\.sql\(|traceweave query \S+ )"([^"]+)"', text)
        found += [(page.name, query) for query in [*blocks, *said]]
    return found


def test_queries_of_the_guides_can_be_asked(fixtures: Path, database_of: DatabaseOf) -> None:
    # no placeholder, nor what another client attaches a folder with
    others = ("SELECT ...", "SET VARIABLE")
    asked = [(page, sql) for page, sql in queries() if not sql.startswith(others)]
    some = {"README.md", "api.md", "start.md", "record.md", "fsdp-before-after.md"}
    assert some <= {page for page, _ in asked}
    with traceweave.open(database_of(fixtures / "ddp_gloo_straggler")) as run:
        run.register("nodes", pd.DataFrame({"rank": range(4), "node": [0, 0, 1, 1]}))
        for page, query in asked:
            assert len(run.sql(query).columns) > 0, page


@nightly
def test_the_worked_example_shows_what_is_printed(
    corpus: Path, database_of: DatabaseOf, capsys: pytest.CaptureFixture[str]
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
