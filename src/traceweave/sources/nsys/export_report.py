"""Turning a binary report (.nsys-rep) into a SQLite export, with the user's own nsys."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from traceweave.errors import InputError

REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
"""What nsys calls its reports since 2021.4, and before."""

_OPTIONS = ("--type=sqlite", "--force-overwrite=true")
_PAYLOADS = "--include-blobs=true"
"""Brings NCCL's payloads along; nsys before 2024 does not know it."""


def is_report(path: Path) -> bool:
    """Tell by its suffix whether the file is a binary nsys report (no magic is documented)."""
    return path.name.endswith(REPORT_SUFFIXES)


def export_command(report: Path, output: Path, *, payloads: bool = True) -> list[str]:
    """Return the command that exports `report` to the SQLite file `output`."""
    options = [*_OPTIONS, _PAYLOADS] if payloads else [*_OPTIONS]
    return ["nsys", "export", *options, f"--output={output}", str(report)]


def export_report(report: Path, folder: Path) -> Path:
    """Export a report into `folder` and return the SQLite file.

    Raises InputError with the command to run if there is no nsys on PATH or it fails.
    """
    output = folder / (report.name.removesuffix(".nsys-rep").removesuffix(".qdrep") + ".sqlite")
    beside = shlex.join(export_command(report, report.with_suffix(".sqlite")))
    nsys = shutil.which("nsys")
    if nsys is None:
        raise InputError(
            f"{report}: a binary nsys report, and nsys is not on PATH to export it;"
            f" run `{beside}` where nsys is installed and ingest the .sqlite"
        )
    failure = ""
    for payloads in (True, False):
        command = [nsys, *export_command(report, output, payloads=payloads)[1:]]
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if result.returncode == 0 and output.is_file():
            return output
        failure = _last_line(result.stderr) or _last_line(result.stdout) or failure
    raise InputError(f"{report}: nsys could not export it ({failure}); try `{beside}` by hand")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
