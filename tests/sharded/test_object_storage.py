"""Traces, runs and pages in object storage: a real S3 server on this machine, and the web."""

import functools
import http.server
import logging
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pyarrow import fs

import traceweave
from tests.marks import nightly
from tests.sharded.blob_storage import blob_storage
from tests.sharded.equal import differing_tables
from tests.sources.test_nsys_trust import EXPORTS, fake_nsys
from traceweave import places
from traceweave.cli import main
from traceweave.errors import DatabaseError, InputError, QueryError
from traceweave.places import place_of
from traceweave.sources import discover, elsewhere
from traceweave.store.manifest import read_manifest

moto_server = pytest.importorskip("moto.server", reason="moto is not installed")

DatabaseOf = Callable[..., Path]

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAPLANTEDKEYID4711",
    "AWS_SECRET_ACCESS_KEY": "planted/secret+access+key+0815",
    "AWS_SESSION_TOKEN": "planted-session-token-1234567890",
}
SIGNATURE = "planted0signature0abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = moto_server.ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        yield f"http://{host}:{port}"
        running.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """The URL of a bucket of the test's own."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    name = re.sub(r"[\W_]+", "-", request.node.name)[-60:].strip("-")
    system = fs.S3FileSystem(allow_bucket_creation=True, endpoint_override=server)
    system.create_dir(name)
    return f"s3://{name}"


def upload(traces: Path, url: str) -> None:
    """Put a file there, or the files of a folder below it."""
    for trace in [traces] if traces.is_file() else traces.iterdir():
        with place_of(url if trace == traces else f"{url}/{trace.name}").writing() as stream:
            stream.write(trace.read_bytes())


def contents(url: str) -> dict[str, bytes]:
    found = {}
    for path in place_of(url).files():
        with place_of(f"{url}/{path}").reading() as stream:
            found[path] = stream.read()
    return found


def assert_nothing_secret(*texts: bytes | str) -> None:
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        for secret in (*SECRETS.values(), SIGNATURE):
            assert secret.encode() not in data


@nightly
def test_a_run_goes_from_bucket_to_bucket(
    bucket: str,
    traces: Path,
    tmp_path: Path,
    database_of: DatabaseOf,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    upload(traces, f"{bucket}/traces")
    assert main(["ingest", "--no-verdict", f"{bucket}/traces", "-o", f"{bucket}/run.tw"]) == 0
    with traceweave.open(database_of(traces)) as one, traceweave.open(f"{bucket}/run.tw") as other:
        assert [name for name in differing_tables(one, other) if name != "sources"] == []
        paths = other.sql("SELECT path FROM sources ORDER BY path")["path"].tolist()
        assert paths == sorted(f"{bucket}/traces/{trace.name}" for trace in traces.iterdir())
        assert len(other.breakdown()) == len(one.breakdown())
        with pytest.raises(QueryError, match="only read this database"):
            other.sql("FROM read_text('/etc/hostname')")
    assert main(["report", f"{bucket}/run.tw", "-o", f"{bucket}/run.html"]) == 0
    assert main(["info", f"{bucket}/run.tw", "--verify"]) == 0
    assert main(["align", f"{bucket}/run.tw", "--reference-rank", "1"]) == 0
    assert main(["analyze", "health", f"{bucket}/run.tw", "-o", f"{bucket}/health.csv"]) == 0
    stored = contents(bucket)
    assert {"run.html", "health.csv", "run.tw/manifest.json"} <= stored.keys()
    said = capfdbinary.readouterr()
    assert b"replaced" not in said.err
    assert_nothing_secret(*stored.values(), said.out, said.err)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket of a Google Cloud Storage server, to which nobody has to log in."""
    pytest.importorskip("gcp_storage_emulator", reason="gcp-storage-emulator is not installed")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    # a process of its own: pyarrow keeps the GIL while it asks for a file's size
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--in-memory"]
    command += [f"--port={port}", "--default-bucket=bucket"]
    options = f"scheme=http&endpoint_override=127.0.0.1:{port}&retry_limit_seconds=20"

    def system(rest: str) -> tuple[fs.FileSystem, str]:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
            f"gs://anonymous@{rest}?{options}"
        )
        return found

    monkeypatch.setitem(places._SYSTEMS, "gs", system)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        while server.poll() is None and not answers(port):
            time.sleep(0.05)
        yield "gs://bucket"
        server.terminate()


def answers(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port))):
        return True
    return False


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a container of Azure's storage."""
    told = "DefaultEndpointsProtocol=http;AccountName=account;AccountKey=cGxhbnRlZCBrZXkgMDgxNQ=="
    with blob_storage() as server:
        endpoint = f"BlobEndpoint=http://{server}/account"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"{told};{endpoint};")
        yield "az://container"


@nightly
@pytest.mark.parametrize("store", ["google", "azure"])
def test_google_and_azure_keep_traces_runs_and_results(
    store: str,
    traces: Path,
    database_of: DatabaseOf,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url = request.getfixturevalue(store)
    upload(traces, f"{url}/traces")
    assert main(["ingest", "--no-verdict", f"{url}/traces", "-o", f"{url}/run.tw"]) == 0
    assert main(["ingest", "--no-verdict", f"{url}/traces", "-o", f"{url}/run.tw"]) == 0
    assert main(["analyze", "health", f"{url}/run.tw", "-o", f"{url}/health.csv"]) == 0
    assert (
        main(["ingest", "--no-verdict", f"{url}/nothing", "-o", f"{url}/run.tw", "--replace"]) == 3
    )
    with traceweave.open(database_of(traces)) as one, traceweave.open(f"{url}/run.tw") as other:
        assert set(differing_tables(one, other)) <= {"sources"}
    stored = contents(url)
    assert b"compute" in stored["health.csv"]
    listed = {part.path for part in read_manifest(place_of(f"{url}/run.tw")).parts}
    assert {name for name in stored if name.startswith("run.tw/")} == {
        f"run.tw/{name}" for name in (*listed, "manifest.json")
    }
    said = capfd.readouterr()
    texts = [*stored.values(), said.out.encode(), said.err.encode()]
    assert not any(b"cGxhbnRlZCBrZXk" in text for text in texts)


@pytest.mark.parametrize("url", ["az://container/traces", "abfss://container@account.host/traces"])
def test_azure_needs_an_account_and_takes_no_signature_in_its_url(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING", raising=False)
    with pytest.raises(InputError, match="from the environment, not from its URL") as raised:
        place_of(f"{url}?sig={SIGNATURE}")
    assert_nothing_secret(str(raised.value))
    if "@" in url:
        assert place_of(url).shown == url
    else:
        with pytest.raises(InputError, match="set AZURE_STORAGE_ACCOUNT"):
            place_of(url)


@nightly
def test_ranks_are_added_and_the_rest_is_left(bucket: str, traces: Path) -> None:
    first, *others = sorted(traces.iterdir())
    run = f"{bucket}/run.tw"
    traceweave.ingest(first, run)
    traceweave.ingest(others, run, add=True)
    with traceweave.open(run) as found:
        assert len(found.sql("SELECT DISTINCT rank FROM gpu_ops")) == 1 + len(others)
    traceweave.ingest(first, run)
    with traceweave.open(run) as found:
        assert len(found.sql("SELECT DISTINCT rank FROM gpu_ops")) == 1
    listed = {part.path for part in read_manifest(place_of(run)).parts}
    assert set(place_of(run).files()) == {*listed, "manifest.json"}


@nightly
@pytest.mark.filterwarnings("default")
def test_workers_write_into_a_bucket(bucket: str, traces: Path, database_of: DatabaseOf) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed")
    traceweave.ingest(traces, f"{bucket}/run.tw", dask="local", jobs=1)
    with traceweave.open(database_of(traces)) as one, traceweave.open(f"{bucket}/run.tw") as other:
        assert differing_tables(one, other) == []
    assert_nothing_secret(*contents(bucket).values())


@nightly
def test_an_ingest_that_fails_leaves_nothing(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"traceEvents": [')
    with pytest.raises(InputError):
        traceweave.ingest(tmp_path / "bad.json", f"{bucket}/run.tw")
    assert place_of(bucket).files() == {}


def test_errors_name_no_secret(
    bucket: str, traces: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DatabaseError, match="no run folder is there"):
        traceweave.open(f"{bucket}/nothing.tw")
    assert main(["analyze", "health", f"{bucket}/nothing.tw"]) == 3
    assert (
        main(
            [
                "ingest", "--no-verdict", "s3://no-such-bucket-here/traces", "-o",
                str(tmp_path / "run.tw"),
            ]
        )
        == 3
    )  # fmt: skip
    given = f"s3://{SIGNATURE}:{SIGNATURE}@bucket/traces"
    assert main(["ingest", "--no-verdict", given, "-o", str(tmp_path / "run.tw")]) == 3
    assert (
        main(
            [
                "ingest", "--no-verdict", str(traces), "-o",
                f"s3://bucket/run.tw?secret_key={SIGNATURE}",
            ]
        )
        == 3
    )  # fmt: skip
    said = capfd.readouterr()
    assert said.err.count("traceweave: error:") == 4
    assert_nothing_secret(said.out, said.err)


@nightly
def test_a_presigned_url_is_read_and_not_kept(
    traces: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiohttp")
    with web(traces) as address:
        urls = [f"{address}/{t.name}?X-Amz-Signature={SIGNATURE}" for t in sorted(traces.iterdir())]
        missing = f"{address}/missing.json?X-Amz-Signature={SIGNATURE}"
        assert main(["ingest", "--no-verdict", *urls, "-o", str(tmp_path / "run.duckdb")]) == 0
        assert (
            main(
                ["ingest", "--no-verdict", missing, "-o", str(tmp_path / "run.duckdb"), "--replace"]
            )
            == 3
        )
    with traceweave.open(tmp_path / "run.duckdb") as run:
        assert len(run.sql("SELECT DISTINCT rank FROM gpu_ops")) == len(urls)
        assert run.sql("SELECT path FROM sources")["path"].tolist() == [
            url.partition("?")[0] for url in urls
        ]
    said = capfd.readouterr()
    assert_nothing_secret((tmp_path / "run.duckdb").read_bytes(), said.out, said.err)


class web:
    """A web server for the files of a folder."""

    def __init__(self, folder: Path) -> None:
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

        handler = functools.partial(Quiet, directory=os.fspath(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


NSYS_FORMS = {
    "parquet": "mpi_nsys/all_ranks__2023.4_pqtdir", "arrow": "mpi_nsys/all_ranks__2023.4_arwdir",
    "sqlite": "ddp_gloo_nsys/ddp_4ranks.sqlite", "packed": "mpi_nsys/all_ranks__2023.4.sqlite.gz",
}  # fmt: skip


@pytest.mark.parametrize(
    "form",
    [
        "sqlite", pytest.param("packed", marks=nightly), pytest.param("parquet", marks=nightly),
        pytest.param("arrow", marks=nightly),
    ],
)  # fmt: skip
@nightly
def test_exports_of_nsys_are_read_there(
    form: str, bucket: str, fixtures: Path, tmp_path: Path, database_of: DatabaseOf
) -> None:
    export = fixtures / NSYS_FORMS[form]
    upload(export, f"{bucket}/traces/{export.name}")
    result = traceweave.ingest(f"{bucket}/traces", tmp_path / "run.duckdb")
    assert result.ok
    with (
        traceweave.open(database_of(export)) as here,
        traceweave.open(tmp_path / "run.duckdb") as there,
    ):
        assert set(differing_tables(here, there)) <= {"sources"}
        assert len(there.sql("FROM host_ops")) > 0


def test_sqlite_is_copied_once_and_only_where_it_is_an_export(
    bucket: str, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages asked for one by one cost five times the size of the file in traffic."""
    export = fixtures / NSYS_FORMS["sqlite"]
    upload(export, f"{bucket}/{export.name}")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as con, con:
        con.execute("CREATE TABLE t (i INTEGER)")
    upload(tmp_path / "other.sqlite", f"{bucket}/other.db")
    copied: list[Path] = []

    def counted(path: Path, folder: Path) -> Path:
        copied.append(elsewhere.copied(path, folder))
        return copied[-1]

    monkeypatch.setattr(discover, "copied", counted)
    result = traceweave.ingest(bucket, tmp_path / "run.duckdb")
    assert [copy.name for copy in copied] == [export.name]
    assert [(source.path.name, source.status) for source in result.sources] == [(export.name, "ok")]
    assert [passed.path.name for passed in result.passed_over] == ["other.db"]
    assert not copied[0].exists()


@nightly
def test_a_report_is_copied_and_exported_here(
    bucket: str, fixtures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place_of(f"{bucket}/one.nsys-rep").writing() as stream:
        stream.write(b"anything")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(InputError, match="nsys is not on PATH") as raised:
        traceweave.ingest(bucket, tmp_path / "run.duckdb")
    assert "--output=one.sqlite one.nsys-rep`" in str(raised.value)
    export = fixtures / NSYS_FORMS["sqlite"]
    writes = EXPORTS.replace("echo sqlite >", f"cp {export}")
    fake_nsys(tmp_path, writes, monkeypatch)
    assert traceweave.ingest(bucket, tmp_path / "run.duckdb").ok
