"""Files of object storage as DuckDB sees them."""

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from traceweave.locations import shown, without_secrets
from traceweave.places import place_of
from traceweave.store.elsewhere import _Positioned


def test_every_thread_has_its_own_position_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(100)))
    file = _Positioned(pa.OSFile(str(tmp_path / "file")))
    file.seek(10)

    def elsewhere() -> None:
        file.seek(-1, os.SEEK_END)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert file.read(2) == bytes([10, 11])
    assert file.tell() == 12
    assert file.read() == bytes(range(12, 100))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("s3:/bucket/run.tw", "s3://bucket/run.tw"),
        ("https://user:secret@host/a.json?X-Amz-Signature=1", "https://host/a.json"),
        ("runs/run.tw", "runs/run.tw"),
        ("what?.json", "what?.json"),
    ],
)
def test_names_are_shown_without_what_is_secret(name: str, expected: str) -> None:
    assert shown(name) == expected


def test_errors_are_told_without_what_is_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", "planted+key==")
    text = "GET https://host/a?sig=planted 'https://host/b?sig=planted' with planted+key== failed"
    assert without_secrets(text) == (
        "GET https://host/a 'https://host/b' with (AZURE_STORAGE_KEY) failed"
    )


def test_a_place_names_no_secret(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    place = place_of("https://host/a.json?X-Amz-Signature=planted")
    assert "planted" not in f"{place} {place!r} {place / 'b'}"
