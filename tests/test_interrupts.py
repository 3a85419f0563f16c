"""Ctrl-C, pressed where it must wait."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from traceweave import outputs
from traceweave.interrupts import held_back
from traceweave.outputs import whole_file


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Have Ctrl-C be heard as in a terminal: background jobs of a shell ignore it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_what_is_held_back_is_done_before_ctrl_c_is_heard() -> None:
    done = []

    def clean_up() -> None:
        with held_back():
            press()
            done.append("cleaned up")
        done.append("went on")

    with pytest.raises(KeyboardInterrupt):
        clean_up()

    assert done == ["cleaned up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_failure_is_not_lost_to_ctrl_c() -> None:
    def fail() -> None:
        with held_back():
            press()
            raise OSError

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()

    assert isinstance(raised.value.__context__, OSError)


def test_a_second_ctrl_c_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = outputs.remove

    def slow(path: Path) -> None:
        press()
        remove(path)

    monkeypatch.setattr(outputs, "remove", slow)

    def write() -> None:
        with whole_file(tmp_path / "page.html", None) as page:
            page.write(b"half")
            press()

    with pytest.raises(KeyboardInterrupt):
        write()

    assert list(tmp_path.iterdir()) == []
