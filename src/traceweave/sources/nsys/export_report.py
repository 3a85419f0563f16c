"""Turning a binary report (.nsys-rep) into an export, with the user's own nsys."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from traceweave.errors import InputError
from traceweave.sources.elsewhere import copied, place_at
from traceweave.sources.nsys.recognize import is_export_folder

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""What nsys calls its reports since 2021.4, and before."""

ENDINGS = {"parquetdir": "_pqtdir", "arrowdir": "_arwdir", "sqlite": ".sqlite"}
"""The types of export that are read, and how nsys ends the names of what it writes."""

_PAYLOADS = "--include-blobs=true"
"""Brings NCCL's payloads along; nsys before 2024 does not know it."""


def is_report(path: Path) -> bool:
    """Tell by its suffix whether the file is a binary nsys report (no magic is documented)."""
    return path.name.lower().endswith(REPORT_SUFFIXES)


def export_command(
    report: Path, output: Path, *, kind: str = "sqlite", payloads: bool = True
) -> list[str]:
    """Return the command that exports `report` to `output`, a file or folder as `kind` says."""
    options = [f"--type={kind}", "--force-overwrite=true", *([_PAYLOADS] if payloads else [])]
    return ["nsys", "export", *options, f"--output={output}", str(report)]


def export_report(report: Path, folder: Path) -> Path:
    """Export a report into `folder` and return what was written there: a folder of Parquet tables
    where the user's nsys can, since that is read and written several times as fast, else SQLite.

    Raises InputError with the command to run if there is no nsys on PATH or it fails.
    """
    stem = report.name.removesuffix(".nsys-rep").removesuffix(".qdrep")
    by_hand = report if place_at(report) is None else Path(report.name)
    beside = shlex.join(export_command(by_hand, by_hand.with_suffix(".sqlite")))
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{report}: a binary nsys report, and nsys is not on PATH to export it;"
            f" run `{beside}` where nsys is installed and ingest the .sqlite"
        )
    failure = ""
    here = copied(report, folder)
    for kind in ("parquetdir", "sqlite") if _writes_parquet(nsys) else ("sqlite",):
        output = folder / (stem + ENDINGS[kind])
        for payloads in (True, False):
            result = _run(export_command(here, output, kind=kind, payloads=payloads), nsys)
            written = output.is_file() if kind == "sqlite" else is_export_folder(output)
            if result.returncode == 0 and written:
                return output
            failure = _last_line(result.stderr) or _last_line(result.stdout) or failure
    raise InputError(f"{report}: nsys could not export it ({failure}); try `{beside}` by hand")


def _writes_parquet(nsys: str) -> bool:
    return "parquetdir" in _run(["nsys", "export", "--help"], nsys).stdout


def _run(command: list[str], nsys: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [nsys, *command[1:]], capture_output=True, text=True, errors="replace", check=False
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
