"""What a person sees at a terminal and nobody else: colours, progress, notes said once."""

import io
import sys
import time

import pyarrow as pa
import pytest

from traceweave.cli import progress
from traceweave.cli.colour import painter
from traceweave.cli.layout import lay_out
from traceweave.cli.options import Printing
from traceweave.cli.output import print_rows


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_colours_are_for_terminals_and_leave_the_columns_where_they_are(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["critical", "1.5"], ["info", "-"]]
    bare = lay_out(["severity", "cost"], rows, [False, True])[0]

    def drawn(stream: io.StringIO) -> list[str]:
        return lay_out(["severity", "cost"], rows, [False, True], paint=painter(stream))[0]

    assert drawn(terminal) == [
        "\x1b[1mseverity\x1b[0m  \x1b[1mcost\x1b[0m", "\x1b[1m────────  ────\x1b[0m",
        "\x1b[31mcritical\x1b[0m   1.5", "\x1b[36minfo\x1b[0m         \x1b[2m-\x1b[0m",
    ]  # fmt: skip
    assert drawn(io.StringIO()) == bare
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(terminal) == bare
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert drawn(terminal) == bare


def test_what_takes_long_is_said_on_a_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.waiting("asking"):
        pass
    assert terminal.getvalue() == "", "nobody waited"

    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    begin = time.monotonic()
    with progress.waiting("asking [bold]gaps") as say:
        while "asking" not in terminal.getvalue() and time.monotonic() < begin + 20:
            time.sleep(0.01)
        say("asking [bold]steps")
        while "steps" not in terminal.getvalue() and time.monotonic() < begin + 20:
            time.sleep(0.01)
    assert "asking [bold]gaps" in terminal.getvalue()
    assert "asking [bold]steps" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K"), "the line is gone afterwards"

    monkeypatch.setattr(sys, "stderr", quiet := io.StringIO())
    with progress.waiting("asking"):
        time.sleep(0.01)
    assert quiet.getvalue() == ""


def test_a_note_that_rows_share_is_said_once() -> None:
    head, numeric = ["rank", "note"], [True, False]
    torch = "torch is not installed"

    def drawn(*notes: str) -> list[str]:
        return lay_out(head, [[str(n), note] for n, note in enumerate(notes)], numeric)[0][2:]

    assert drawn(torch, torch) == ["   0", "   1", "", f"In every row above: note = {torch}"]
    assert drawn(torch, "-", "other", torch) == [
        "   0  [1]", "   1  -", "   2  [2]", "   3  [1]", "", f"[1] {torch}", "[2] other",
    ]  # fmt: skip
    assert drawn(torch, "other") == [f"   0  {torch}", "   1  other"]


def test_csv_at_a_terminal_has_no_control_characters(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"na\x1bme": ["\x1b[2J", "a\x07b"], "n": [1, 2]})
    piped = io.StringIO()
    for stream in (terminal, piped):
        monkeypatch.setattr(sys, "stdout", stream)
        print_rows(rows.to_reader(), Printing("csv"))
    assert terminal.getvalue() == "na\\x1bme,n\n\\x1b[2J,1\na\\x07b,2\n"
    assert piped.getvalue() == "na\x1bme,n\n\x1b[2J,1\na\x07b,2\n"
