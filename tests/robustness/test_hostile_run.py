"""A run whose every name is hostile, from its files to the page in a real Chromium."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Chromium
from tests.marks import nightly
from traceweave import api
from traceweave.cli.main import main

PROBE = "http://127.0.0.1:9/stolen"
HOSTILE = [
    f"</script><script>document.title='taken';fetch('{PROBE}')</script>",
    f"<img src='{PROBE}' onerror=\"document.title='taken'\">",
    "\"><svg onload=document.title='taken'>",
    "{{7*7}}{% for x in [1] %}${7*7}#{7*7}<%= 7*7 %>",
    "'; DROP TABLE base.gpu_ops; --",
    "javascript:document.title='taken'//\u2028\u202e</style><!--",
    f'x" style="background:url({PROBE})',
    "]]>\x00\x1b[31m&lt;b&gt;",
]


def hostile_rank(rank: int) -> dict[str, Any]:
    """Return a trace with steps, operators, launches, kernels and collectives of such names."""
    events: list[dict[str, Any]] = []

    def span(cat: str, name: str, ts: int, dur: int, tid: int | str, **args: object) -> None:
        pid = 0 if cat == "kernel" else 7
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
             "args": args}
        )  # fmt: skip

    correlation = 0
    for step in range(3):
        at = step * 10_000
        span("user_annotation", f"ProfilerStep#{step}", at, 9_900, 7)
        for i, name in enumerate(HOSTILE):
            correlation += 1
            begin = at + i * 1_000
            span("cpu_op", f"aten::{name}", begin, 900, 7, **{name: name})
            span("user_annotation", name, begin, 950, 7)
            span("cuda_runtime", "cudaLaunchKernel", begin + 100, 50, 7, correlation=correlation)
            kernel = f"ncclDevKernel_AllReduce_{name}" if i % 2 else name
            span(
                "kernel", kernel, begin + 300 + 40 * rank, 400, 7,
                device=0, stream=7, correlation=correlation,
                **({"Collective name": "allreduce", "Process Group Name": name, "Seq": correlation,
                    "Process Group Description": name, "Group size": 2, "dtype": name,
                    "Process Group Ranks": "[0, 1]", "In msg nelems": 1000} if i % 2 else {}),
            )  # fmt: skip
    for name in HOSTILE:
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "args": {"name": name}}
        )
        events.append({"ph": "i", "cat": name, "name": name, "ts": 5, "pid": name, "tid": name})
        events.append({"ph": "C", "name": name, "ts": 5, "pid": name, "args": {name: 1, "b": 2}})
        events.append({"ph": name, "cat": name, "name": name, "ts": 5})
    events.append({"ph": "X", "name": HOSTILE[0], "ts": 1, "dur": -1})
    return {
        "deviceProperties": [{"id": 0, "name": HOSTILE[0]}],
        "host_name": HOSTILE[1],
        "distributedInfo": {
            "rank": rank, "world_size": 2, "backend": HOSTILE[2], "nccl_version": HOSTILE[3],
            "pg_config": [{"pg_name": n, "pg_desc": n, "pg_size": 2, "ranks": [0, 1]} for n in HOSTILE],  # noqa: E501
        },
        "traceEvents": events,
    }  # fmt: skip


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    traces = folder / "<img src=x onerror=alert(1)>{{7*7}}"
    traces.mkdir()
    for rank in range(2):
        (traces / f"rank{rank};<b>'.json").write_text(json.dumps(hostile_rank(rank)))
    (traces / "<script>alert(1)<.json").write_bytes(b"<script>alert(2)</script>")
    assert (
        main(["ingest", "--no-verdict", str(traces), "-o", str(folder / "run.duckdb"), "-q"]) == 3
    )
    return folder / "run.duckdb"


def test_every_name_arrives_as_it_was(database: Path) -> None:
    with api.open(database) as run:
        kernels = set(run.sql("SELECT DISTINCT name FROM gpu_ops")["name"])
        groups = set(run.sql("SELECT DISTINCT name FROM groups")["name"])
        paths = run.sql("SELECT path FROM sources")["path"]
        unbalanced = run.sql(
            "SELECT 1 FROM sources WHERE events_read <> events_stored + events_skipped"
        )
    assert kernels == {
        f"ncclDevKernel_AllReduce_{n}" if i % 2 else n for i, n in enumerate(HOSTILE)
    }
    assert set(HOSTILE[1::2]) <= groups
    assert all("<img src=x onerror=alert(1)>{{7*7}}" in path for path in paths)
    assert unbalanced.empty


def test_every_command_prints_it_without_control_characters(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(database)
    for arguments in (
        ["info", path], ["analyze", "breakdown", path], ["analyze", "kernels", path],
        ["analyze", "gaps", path], ["analyze", "stragglers", path],
        ["query", path, "SELECT name, args FROM gpu_ops"], ["query", path, "FROM groups"],
    ):  # fmt: skip
        assert main(arguments) == 0
        said = capsys.readouterr()
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", said.out + said.err)


@pytest.fixture(scope="module")
def page(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("page") / "run.html"
    assert main(["report", str(database), "-o", str(page)]) == 0
    return page


@nightly
def test_nothing_is_written_but_the_output(database: Path, page: Path, tmp_path: Path) -> None:
    assert main(["export", str(database), "-o", str(tmp_path / "out"), "--to", "parquet"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert all(re.fullmatch(r"[a-z_]+\.parquet", p.name) for p in (tmp_path / "out").iterdir())
    assert [path.name for path in page.parent.iterdir()] == ["run.html"]
    assert sorted(path.name for path in database.parent.iterdir())[1:] == ["run.duckdb"]


def test_the_page_forbids_everything_that_it_does_not_need(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    policies = re.findall(
        r'<meta http-equiv="Content-Security-Policy" content="([^"]*)"', html, re.IGNORECASE
    )
    assert len(policies) == 1
    policy = dict(
        rule.strip().split(" ", 1) for rule in unescape(policies[0]).split(";") if rule.strip()
    )
    assert policy["default-src"] == "'none'"
    assert html.index("Content-Security-Policy") < html.index("<script")
    scripts = policy["script-src"].split()
    assert scripts
    assert all(re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", source) for source in scripts)
    for name, value in policy.items():
        assert name in {
            "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
        }  # fmt: skip
        assert "http" not in value
        assert "*" not in value
        assert "unsafe-eval" not in value


@nightly
@pytest.mark.browser
def test_in_a_browser_no_script_runs_and_no_request_leaves(page: Path, chromium: Chromium) -> None:
    with chromium.open(page) as visit:
        assert "taken" not in visit.page.title()
        assert (visit.console, visit.requested) == ([], [])
        dom = visit.dom
    body = re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL)
    assert not re.search(r"<(img|iframe|object|embed)\b|<link\b(?![^>]*href=\"data:)", body)
    # without the values of attributes, in which names may say what they like
    assert not re.search(r"<[^>]*\son\w+\s*=", re.sub(r'="[^"]*"', '=""', body))
    assert "49" not in re.findall(r"\{\{.*?\}\}", body)
    assert "{{7*7}}" in body
