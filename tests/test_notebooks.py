"""The notebooks run from top to bottom on the data that ships here."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from tests.marks import at_once, nightly

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "1_first_look", "2_hunting_a_straggler", "3_before_and_after",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def kernel() -> Iterator[KernelManager]:
    """One process for all notebooks: it imports pandas and matplotlib once."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(FOLDER))
    yield manager
    manager.shutdown_kernel(now=True)


@nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", at_once(NOTEBOOKS, NOTEBOOKS[0]), ids=lambda path: str(path.stem))
def test_a_notebook_runs_and_draws(path: Path, kernel: KernelManager) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    stored = said(notebook)
    # what another notebook defined
    forget = nbformat.v4.new_code_cell("%reset -f")  # type: ignore[no-untyped-call]
    notebook.cells.insert(0, forget)
    client = NotebookClient(notebook, timeout=240, km=kernel)
    try:
        client.execute()  # raises CellExecutionError if a cell fails
    finally:
        assert client.kc is not None
        client.kc.stop_channels()
    del notebook.cells[0]
    assert said(notebook) == stored, "stale: run 'python docs/generate.py --notebooks'"
    pictures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert pictures


def said(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells print and return, but for pictures."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    streams = "".join(output.text for output in outputs if output.output_type == "stream")
    values = [output.data["text/plain"] for output in outputs if "data" in output]
    return [streams, *(text for text in values if not text.startswith("<Figure"))]
