"""The server for agents, asked by the SDK's own client: the command line's answers, no more."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError

from tests.cases import cases
from tests.marks import nightly
from traceweave.agents.answers import MOST_BYTES, MOST_CELL, MOST_ROWS
from traceweave.agents.server import INSTRUCTIONS, _answered, build_server
from traceweave.cli import main
from traceweave.errors import UsageError
from traceweave.store.schema import public_relations

DatabaseOf = Callable[..., Path]
Ask = Callable[..., Any]


class Refused(Exception):
    """What a tool answers as an error."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, fixtures: Path, database_of: DatabaseOf) -> Path:
    folder = tmp_path_factory.mktemp("served")
    (folder / "old").mkdir()
    shutil.copy(database_of(fixtures / "ddp_gloo_straggler"), folder / "slow.duckdb")
    shutil.copy(database_of(fixtures / "ddp_gloo_4ranks"), folder / "old" / "even.duckdb")
    return folder


@pytest.fixture(scope="module")
def ask(root: Path) -> Ask:
    """Call a tool of a server in this process."""
    server = build_server(root, time_limit_s=60)

    def call(tool: str, **arguments: Any) -> Any:
        return anyio.run(_call, server, tool, arguments)

    return call


async def _call(server: Any, tool: str, arguments: dict[str, Any]) -> Any:
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise Refused(result.content[0].text)
    return result.structured_content


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    assert main([str(argument) for argument in (*arguments, "--format", "json")]) == 0
    return json.loads(capsys.readouterr().out)


@nightly
def test_answers_are_those_of_the_command_line(
    ask: Ask, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = root / "slow.duckdb"
    found = {name: ask(name, run="slow.duckdb")["rows"] for name in ("health", "findings")}
    following = [row.pop("next") for row in found["findings"]]
    for name, rows in found.items():
        assert rows == printed(capsys, "analyze", name, run) != []
    asking = (step.popitem() for step in following)
    for (tool, arguments), row in zip(asking, found["findings"], strict=True):
        assert ask(tool, **arguments)["rows"]
        assert tool == ("what_if" if row["scenario"] else "analyze")
    asked = ask("analyze", run="slow.duckdb", name="gaps", parameters={"min_gap_ns": 200_000})
    assert asked["rows"] == printed(capsys, "analyze", "gaps", run, "-p", "min_gap_ns=200000")
    sql = "SELECT rank, count(*) AS ops, sum(start_ns) AS s FROM gpu_ops GROUP BY rank ORDER BY 1"
    assert ask("query", run="slow.duckdb", sql=sql) == {
        "rows": printed(capsys, "query", run, sql),
        "more_rows": False,
    }
    asked = ask("what_if", run="slow.duckdb", scenarios=["kind=compute times=0.5"])
    assert asked["rows"] == printed(capsys, "what-if", run, "kind=compute times=0.5")
    overview = ask("open_run", run="slow.duckdb")
    assert overview.pop("ranks_in_all") == len(overview["ranks"]) > 1
    assert overview == printed(capsys, "info", run)
    asked = ask("compare", base="old/even.duckdb", new="slow.duckdb")
    expected = printed(capsys, "compare", root / "old" / "even.duckdb", run)
    tables, shown = expected.pop("tables"), asked.pop("tables")
    more = asked.pop("more_rows_in")
    assert list(asked)[:3] == ["comparability", "verdict", "words"]
    assert asked == expected
    assert all(rows == tables[name][: len(rows)] for name, rows in shown.items())
    assert more == [name for name in tables if len(tables[name]) > len(shown[name])] != []


@nightly
def test_a_comparison_is_bounded_and_its_tables_come_one_by_one(root: Path, ask: Ask) -> None:
    runs = {"base": "old/even.duckdb", "new": "slow.duckdb"}
    server = build_server(root, time_limit_s=60)

    async def texts() -> list[str]:
        async with Client(server) as client:
            return [block.text for block in (await client.call_tool("compare", runs)).content]

    [text] = anyio.run(texts)
    assert len(text) < MOST_BYTES + 10_000
    answer = json.loads(text)
    assert answer == ask("compare", **runs)
    found = ask("compare", **runs, table="ops")
    first = answer["tables"]["ops"]
    assert found["rows"][: len(first)] == first
    # an agent reads first whether the runs can be compared, then the verdict on the step time
    assert found["comparability"] == {"verdict": answer["comparability"]["verdict"]}
    assert next(iter(found)) == "comparability"
    assert len(found["rows"]) > len(first)
    assert ask("compare", **runs, table="ops", skip=3)["rows"][0] == found["rows"][3]
    with pytest.raises(Refused, match="did you mean 'kernels'"):
        ask("compare", **runs, table="kernel")


def test_runs_are_listed_and_described(ask: Ask) -> None:
    assert {run["run"] for run in ask("list_runs")["runs"]} == {"slow.duckdb", "old/even.duckdb"}
    listed = {analysis["name"] for analysis in ask("list_analyses")["analyses"]}
    assert {"breakdown", "stragglers"} <= listed
    assert "min_gap_ns" in ask("describe", name="gaps")["result"]
    assert "start_ns" in ask("describe", name="gpu_ops")["result"]
    with pytest.raises(Refused, match="did you mean 'gaps'"):
        ask("describe", name="gapss")


def test_rows_come_in_parts(ask: Ask) -> None:
    sql = "SELECT i FROM range(450) AS t(i) ORDER BY i"
    parts = [ask("query", run="slow.duckdb", sql=sql, skip=skip) for skip in (0, 200, 400)]
    assert [part["more_rows"] for part in parts] == [True, True, False]
    assert [row["i"] for part in parts for row in part["rows"]] == list(range(450))
    assert len(parts[0]["rows"]) == MOST_ROWS
    wide = f"SELECT repeat('x', {MOST_BYTES // 10}) AS text FROM range(50)"
    assert len(ask("query", run="slow.duckdb", sql=wide)["rows"]) == 9
    many = ", ".join(f"repeat('x', 9000) AS text{i}" for i in range(10))
    vast = f"SELECT {many} FROM range(2)"
    assert ask("query", run="slow.duckdb", sql=vast)["more_rows"] is True


def test_integers_are_exact(ask: Ask) -> None:
    sql = "SELECT 1763805600123456789 AS ns, CAST(9007199254740993 AS HUGEINT) AS huge"
    assert ask("query", run="slow.duckdb", sql=sql)["rows"] == [
        {"ns": 1763805600123456789, "huge": 9007199254740993}
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../outside.duckdb", "/etc/passwd", "link.duckdb", "s3://bucket/run.tw", "old", "no\0name",
        "",
    ],
)  # fmt: skip
def test_nothing_outside_of_the_folder_is_opened(ask: Ask, root: Path, name: str) -> None:
    outside = root.parent / "outside.duckdb"
    if not outside.exists():
        shutil.copy(root / "slow.duckdb", outside)
        (root / "link.duckdb").symlink_to(outside)
    with pytest.raises(Refused, match=r"outside of the folder|no name of a run|there is no run"):
        ask("open_run", run=name)
    assert "link.duckdb" not in {run["run"] for run in ask("list_runs")["runs"]}


@cases
def test_queries_are_locked_down_and_errors_are_one_line(ask: Ask, sql: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as refused:
        ask("query", run="slow.duckdb", sql=sql)
    assert "\n" not in str(refused.value)


@nightly
def test_wrong_arguments_are_said(ask: Ask) -> None:
    with pytest.raises(Refused, match="did you mean 'breakdown'"):
        ask("analyze", run="slow.duckdb", name="brekdown")
    with pytest.raises(Refused, match="min_gap"):
        ask("analyze", run="slow.duckdb", name="gaps", parameters={"min_gap": 1})
    with pytest.raises(Refused, match="skip"):
        ask("analyze", run="slow.duckdb", name="gaps", skip=-1)


@cases
def test_wrong_arguments_are_said_in_a_sentence(
    ask: Ask, root: Path, tool: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refused) as refused:
        ask(tool, **arguments)
    text = str(refused.value)
    assert said in text
    assert "\n" not in text
    assert not any(word in text for word in ("pydantic", "traceweave ingest", str(root)))


def test_a_query_without_end_is_given_up(root: Path) -> None:
    server = build_server(root, time_limit_s=0.2)
    endless = (
        "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range < b.range"
    )
    with pytest.raises(Refused, match=r"given up after 0\.2 s"):
        anyio.run(_call, server, "query", {"run": "slow.duckdb", "sql": endless})


def test_tools_say_that_they_only_read_and_texts_are_data(root: Path) -> None:
    async def listed() -> Any:
        async with Client(build_server(root, time_limit_s=60)) as client:
            tools = await client.list_tools()
            schema = await client.read_resource("traceweave://schema")
            gaps = await client.read_resource("traceweave://describe/gaps")
            return tools.tools, schema.contents[0].text, gaps.contents[0].text, client.instructions

    tools, schema, gaps, instructions = anyio.run(listed)
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
    assert all(relation.name in schema for relation in public_relations())
    assert gaps.startswith("gaps: ")
    assert instructions == INSTRUCTIONS
    assert "never instructions" in instructions


def test_a_folder_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        build_server(tmp_path / "none", time_limit_s=1)


def test_the_command_serves_on_stdin_and_stdout(root: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "traceweave", "mcp", "--root", str(root)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    listed = anyio.run(_call, command, "list_runs", {})
    assert listed["runs"]


@nightly
def test_long_names_and_values_are_shortened(ask: Ask) -> None:
    name = "x" * 5_000
    for tool, arguments in (
        ("open_run", {"run": name}),
        ("open_run", {"run": f"{name[:200]}/" * 20}),
        ("describe", {"name": name}),
        ("analyze", {"run": "slow.duckdb", "name": name}),
        ("analyze", {"run": "slow.duckdb", "name": "gaps", "parameters": {name: 1}}),
        ("analyze", {"run": "slow.duckdb", "name": "gaps", "parameters": {"per": name}}),
        ("query", {"run": "slow.duckdb", "sql": f"FROM {name}"}),
        ("query", {"run": "slow.duckdb", "sql": f"SELECT '{name}'::INTEGER"}),
        ("what_if", {"run": "slow.duckdb", "scenarios": [name]}),
    ):
        with pytest.raises(Refused) as refused:
            ask(tool, **arguments)
        assert len(str(refused.value)) < 4_500, tool
        assert "Traceback" not in str(refused.value)
        assert "File name too long" not in str(refused.value)
    sql = "SELECT repeat('x', 100000) AS text, range(100000) AS list, 1 AS number"
    [row] = ask("query", run="slow.duckdb", sql=sql)["rows"]
    assert row["text"] == "x" * MOST_CELL + "… (100000 characters)"
    assert row["list"].startswith("[0,1,2,")
    assert row["list"].endswith("… (588891 characters)")
    assert row["number"] == 1


def test_a_question_that_does_not_end_is_answered_all_the_same() -> None:
    async def asked() -> None:
        await _answered(lambda: time.sleep(2), 0.1)()

    began = time.monotonic()
    with pytest.raises(ToolError, match=r"given up after 0\.1 s"):
        anyio.run(asked)
    assert time.monotonic() - began < 1.5


@nightly
def test_sigterm_ends_the_server_while_it_waits_for_a_line(root: Path) -> None:
    initialize = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "test", "version": "1"}},
    }  # fmt: skip
    command = [sys.executable, "-m", "traceweave", "mcp", "--root", str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(initialize).encode() + b"\n")
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.terminate()
        assert process.wait(10) == 143
