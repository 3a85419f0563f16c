"""What CI sees: the command and its exit code, JUnit, annotations."""

import gzip
import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.checks.asking import COMPUTE, EXAMPLE, HEAD, checked, rules_file
from tests.marks import nightly
from traceweave.checks import junit_xml
from traceweave.checks.annotations import github, gitlab
from traceweave.cli.main import main


def test_junit_has_a_case_per_limit(run: Connection, tmp_path: Path) -> None:
    text = '[[rule]]\nname = "a <b> \\u0007"\nsql = "SELECT 5"\nmax = 4\nmin = 1\n'
    document = ET.fromstring(junit_xml(checked(run, tmp_path, text), "run & co"))
    [suite] = document
    assert suite.attrib == {
        "name": "traceweave check run & co", "tests": "2", "failures": "1", "errors": "0",
        "skipped": "0",
    }  # fmt: skip
    cases = {case.attrib["name"]: [child.tag for child in case] for case in suite}
    assert cases == {"a <b> �: max 4": ["failure"], "a <b> �: min 1": ["system-out"]}
    assert suite[0][0].attrib == {"message": "a <b> � = 5; limit: max 4", "type": "crossed"}


def test_the_example_stops_the_straggler(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base, new = databases
    junit = tmp_path / "check.xml"
    arguments = ["check", str(new), "--rules", str(EXAMPLE), "--baseline", str(base)]

    code = main([*arguments, "--junit", str(junit)])

    out, err = capsys.readouterr()
    assert code == 1
    assert err == (
        "step time: rank 1: 88.05 ms, was 43.67 ms (+101.6%); rank 2: 86.89 ms, was 44.47 ms"
        " (+95.4%); rank 3: 86.71 ms, was 46.57 ms (+86.2%)\n"
        "exposed communication: rank 1: 73.25 ms, was 24.62 ms (+197.5%); rank 0: 73.23 ms, was"
        " 26.57 ms (+175.6%); rank 3: 69.71 ms, was 26.19 ms (+166.2%)\n"
        "peak memory: no value: no rows; memory needs memory events: profile_memory=True of the"
        " PyTorch profiler, or --cuda-memory-usage=true of nsys\n"
        "6 limits: 3 ok, 2 failed (step time, exposed communication), 1 skipped\n"
        f"what changed: traceweave compare {base} {new}\n"
        f"wrote {junit}\n"
    )
    assert out.startswith("Comparable with care: memory events recorded in base only")
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "crossed" in lines["step time"]
    assert "ok" in lines["nothing was lost at ingest"]
    assert ET.parse(junit).getroot().attrib["failures"] != "0"


@nightly
def test_a_run_beside_itself_passes(
    databases: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    base, _ = databases
    code = main(["check", str(base), "--rules", str(EXAMPLE), "--baseline", str(base)])
    assert code == 0
    assert "crossed" not in capsys.readouterr().out


def test_failures_are_annotated_for_github_and_gitlab(run: Connection, tmp_path: Path) -> None:
    hostile = (
        HEAD.replace('"r"', '"r 100 %"')
        + """sql = '''
    SELECT 1
    '''
    max = 0
    """
    )
    found = checked(run, tmp_path, hostile + COMPUTE + "max_increase = 1\n")

    lines = github(found, Path("rules.toml")).splitlines()
    assert lines == [
        "::error file=rules.toml,line=1,title=traceweave check%3A r 100 %25::r 100 %25 = 1;"
        " limit: max 0",
        "::notice file=rules.toml,line=7,title=traceweave check%3A compute::mean of"
        " breakdown.compute_ns: skipped, there is no baseline to compare with; limit:"
        " max_increase 1",
        "::notice title=traceweave check::2 limits: 0 ok, 1 failed (r 100 %25), 1 skipped",
    ]
    [issue] = json.loads(gitlab(found, Path("rules.toml")))
    assert issue["description"] == "r 100 % = 1; limit: max 0"
    assert issue["location"] == {"path": "rules.toml", "lines": {"begin": 1}}
    assert issue["severity"] == "major"


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_annotations_are_written_where_they_are_wanted(
    databases: tuple[Path, Path], tmp_path: Path, service: str
) -> None:
    target = tmp_path / "remarks"
    code = main(
        ["check", str(databases[1]), "--rules", str(EXAMPLE), "--annotations", service, str(target)]
    )
    assert code == 0
    text = target.read_text()
    assert text == "[]\n" if service == "gitlab" else text.count("::notice") > 1


@nightly
def test_what_two_limits_of_a_rule_say_is_said_once_and_stdout_is_no_file(
    databases: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    base, run = map(str, databases)
    longest = HEAD + 'analysis = "steps"\ncolumn = "length_ns"\naggregate = "p95"\n'
    rules = str(rules_file(tmp_path, longest + "max = 1\nmax_increase = 0\n"))
    command = ["check", run, "--rules", rules, "--baseline", base, "--annotations", "github", "-"]
    assert main(command) == 1
    out, err = capfd.readouterr()
    assert out.count("::error ") == 2
    assert err.count("r: step ") == 1
    assert "wrote" not in err


def test_nothing_checked_is_a_failure(
    databases: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = rules_file(tmp_path, COMPUTE + "max_increase = 1\n")
    assert main(["check", str(databases[0]), "--rules", str(rules)]) == 1
    err = capsys.readouterr().err
    assert "1 limit: 0 ok, 0 failed, 1 skipped; nothing was checked, which is a failure" in err
    found = traceweave.check(databases[0], rules)
    assert github(found, rules).splitlines()[-1].startswith("::error title=traceweave check::")


@nightly
def test_a_truncated_file_is_named_and_the_good_ones_are_not(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    first, second, *_ = sorted((corpus / "kineto" / "torchrec_4").glob("*.gz"))
    folder = tmp_path / "cut"
    folder.mkdir()
    shutil.copy(first, folder)
    whole = gzip.decompress(second.read_bytes())
    (folder / second.name).write_bytes(gzip.compress(whole[: len(whole) // 2]))
    rule = 'sql = "SELECT coalesce(sum(events_skipped), 0) FROM sources"\nmax = 0\n'

    database = tmp_path / "cut.duckdb"
    traceweave.ingest([folder], database)
    found = traceweave.check(database, rules_file(tmp_path, HEAD + rule))

    assert found.outcomes[0].where == f"{second.name}: 1"


def test_annotations_name_the_line_of_their_rule(run: Connection, tmp_path: Path) -> None:
    found = checked(run, tmp_path, HEAD + 'sql = "SELECT 1"\nmax = 1\n\n' + COMPUTE + "max = 0\n")
    assert "rules.toml,line=6,title" in github(found, Path("rules.toml"))
    [issue] = json.loads(gitlab(found, Path("rules.toml")))
    assert issue["location"]["lines"] == {"begin": 6}


def test_annotations_of_both_services_are_written(
    databases: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    quality = tmp_path / "quality.json"
    arguments = ["check", str(databases[1]), "--rules", str(EXAMPLE)]
    arguments += ["--annotations", "gitlab", str(quality), "--annotations", "github"]
    assert main([*arguments, "/dev/stderr"]) == 0
    assert "::notice title=traceweave check::" in capfd.readouterr().err
    assert json.loads(quality.read_text()) == []
    assert main([*arguments, "-"]) == 0
    assert "::notice title=traceweave check::" in capfd.readouterr().out
    assert not Path("-").exists()


@nightly
def test_annotations_on_stderr_leave_the_log_as_it_is(
    databases: tuple[Path, Path], tmp_path: Path
) -> None:
    log = tmp_path / "job.log"
    log.write_text("before\n")
    command = [sys.executable, "-m", "traceweave", "check", str(databases[1])]
    command += ["--rules", str(EXAMPLE), "--annotations", "github", "/dev/stderr"]
    with log.open("a") as file:
        subprocess.run(command, stdout=file, stderr=file, check=True)
    lines = log.read_text().splitlines()
    assert lines[0] == "before"
    assert any(line.startswith("::notice title=traceweave check::") for line in lines)
    assert any(line.startswith("6 limits: ") for line in lines)
