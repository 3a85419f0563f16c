"""Secrets that recordings hold never reach the database, the report or an export.

nsys stores the environment, arguments and output of what it launches and the environment of the
machine. Tokens were found in public exports in each of the places planted here."""

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import traceweave
from tests.marks import at_once
from tests.sources.nsys_export import (
    NCCL_SCHEMAS,
    call,
    collective_payload,
    init_payload,
    kernel,
    nccl,
    nvtx,
    process,
    thread,
    write_export,
)

SECRET = "hf_NeverToBeSeen_"
"""Every planted secret begins so and ends with a number of its own."""
PLACES = 18


def secret(number: int) -> str:
    assert number < PLACES
    return f"{SECRET}{number:02d}"


def planted(path: Path) -> Path:
    """An export of one rank with kernels, ranges, NCCL payloads, and secrets all over."""
    return write_export(
        path,
        StringIds=[{"id": 1, "value": f"TOKEN={secret(0)}"}, {"id": 2, "value": secret(1)}],
        META_DATA_CAPTURE=[
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'HF_TOKEN="{secret(2)}"'},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f'WORLD_SIZE="{secret(3)}"'},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": 'RANK="1"'},
            {"name": "PROCESS_0:ARGUMENT_1", "value": f"--token={secret(4)}"},
            {"name": "PROCESS_0:COMMAND", "value": secret(5)},
            {"name": "PROCESS_0:WORKING_DIR", "value": f"/home/{secret(6)}"},
        ],
        META_DATA_EXPORT=[
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2"},
            {"name": "EXPORT_USER", "value": secret(7)},
            {"name": "EXPORT_PARAM_INPUT_PATH_ABS", "value": f"/home/{secret(8)}/r.nsys-rep"},
        ],
        TARGET_INFO_SYSTEM_ENV=[
            {"name": "DeviceEnvironment", "value": f"HOME=/;AWS_KEY={secret(9)};SLURM_X={SECRET}"},
            {"name": "TargetInstallDir", "value": secret(10)},
        ],
        ProcessStreams=[
            {"globalPid": process(11), "filenameId": secret(11), "contentId": secret(12)}
        ],
        ANALYSIS_FILE=[
            {"id": 1, "filename": secret(13), "contentId": 1, "globalPid": process(11)}
        ],
        PROCESSES=[{"globalPid": process(11), "pid": 11, "name": secret(14)}],
        OSRT_API=[
            {"start": 20, "end": 30, "eventClass": 27, "globalTid": thread(11), "nameId": "read",
             "returnValue": 0, "nestingLevel": 0, "callchainId": 3, "argumentsId": secret(15)},
        ],
        OSRT_FILE_ACCESS_DESCRIPTORS=[{"id": 1, "pathId": secret(16), "start": 20}],
        OSRT_CALLCHAINS=[{"id": 3, "symbol": secret(17), "module": secret(17), "stackDepth": 0}],
        NVTX_PAYLOAD_SCHEMA_ENTRIES=NCCL_SCHEMAS,
        NVTX_EVENTS=[
            {"start": -9, "eventType": 75, "text": "NCCL", "domainId": 1, "globalTid": thread(11)},
            nvtx(11, 0, 5000, "step 0"),
            nccl(11, 0, 9, "ncclCommInitRankConfig", init_payload(7, 2, 1, 0)),
            nccl(11, 100, 200, "ncclAllReduce", collective_payload(16777221, 7, 4096, 0)),
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call(11, 110, 120, 1, "cudaLaunchKernelExC_v11060")],
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(11, 1000, 2000, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ],
    )  # fmt: skip


def as_folder(export: Path, folder: Path) -> Path:
    """The same export as a folder of Parquet tables."""
    folder.mkdir()
    with closing(sqlite3.connect(export)) as con:
        tables = [r[0] for r in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            rows = con.execute(f"SELECT * FROM {table}")
            names = [d[0] for d in rows.description or ()]
            columns = list(zip(*rows.fetchall(), strict=True)) or [()] * len(names)
            pq.write_table(
                pa.Table.from_arrays([pa.array(c) for c in columns], names=names),
                folder / f"{table}.parquet",
            )
    return folder


def texts(folder: Path) -> Iterator[tuple[str, bytes]]:
    """All that the files of a folder hold, unpacked."""
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".parquet":
            yield file.name, str(pq.read_table(file).to_pylist()).encode()
        elif file.is_file():
            data = file.read_bytes()
            yield file.name, gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


@pytest.mark.parametrize("form", at_once(["sqlite", "folder"], "folder"))
def test_planted_secrets_are_nowhere_in_what_comes_out(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    export = planted(tmp_path / "report.sqlite")
    planted_texts = b"".join(text for _, text in texts(tmp_path))
    assert all(secret(n).encode() in planted_texts for n in range(PLACES))
    source = as_folder(export, tmp_path / "report_pqtdir") if form == "folder" else export
    out = tmp_path / "out"
    out.mkdir()
    result = traceweave.ingest(source, out / "run.duckdb")
    assert (result.ok, result.sources[0].ranks) == (True, (1,))
    with traceweave.open(out / "run.duckdb") as run:
        assert run.sql("SELECT op, bytes FROM collectives").values.tolist() == [
            ["all_reduce", 4096]
        ]
        run.report(out / "report.html")
        run.export(out / "run.pftrace", to="perfetto")
        run.export(out / "parquet", to="parquet")
        # the database packs its texts: read every one of them as well
        tables = run.con.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE NOT internal"
        ).fetchall()
        rows = [str(run.con.execute(f"SELECT * FROM {t}").fetchall()) for (t,) in tables]
    written = dict(texts(out))
    assert {"run.duckdb", "report.html", "run.pftrace", "collectives.parquet"} <= written.keys()
    assert any("ncclDevKernel_AllReduce" in row for row in rows)
    assert [name for name, data in written.items() if SECRET.encode() in data] == []
    assert [t for t, row in zip(tables, rows, strict=True) if SECRET in row] == []
    assert SECRET not in repr(result)
    assert SECRET not in "".join(capfd.readouterr())
