"""The equations solved part by part, against all of them written out."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.clocks import clock_system, elimination, positive
from traceweave.clocks.elimination import Elimination
from traceweave.clocks.equations import Layout, equations_of, lay_out, right_side
from traceweave.clocks.transfer_classes import Cell

RNG = np.random.default_rng(1)


def cell(
    number: int, blocks: list[int], ranks: list[list[int]], rows: int, transfer: float, wave: int
) -> Cell:
    """Return a cell whose groups have ever fewer rows."""
    group = np.repeat(np.arange(len(blocks)), rows - np.arange(len(blocks)))
    ends = RNG.normal(size=(len(group), len(ranks[0])))
    return Cell(
        number, np.array(blocks), np.array(ranks), group, np.arange(len(group)), ends, ends,
        transfer + RNG.uniform(0, 0.1, len(blocks)), RNG.normal(size=len(group)),
        np.ones(len(blocks), np.bool_), False, (False, len(ranks[0]), wave),
    )  # fmt: skip


def row_by_row(
    layout: Layout, cell: Cell, at: np.ndarray, wave: np.ndarray, row: int
) -> np.ndarray:
    """What every unknown adds to the ends of one instance."""
    ranks = cell.ranks[cell.group[row]]
    design = np.zeros((len(ranks), layout.size + 1))
    for column, rank in enumerate(ranks):
        design[column, layout.offset[rank]] += 1
        design[column, layout.gpu[rank]] += 1
        design[column, layout.drift[rank]] += at[row, column]
        slope = layout.slopes(cell)[cell.group[row], column]
        design[column, slope] -= cell.transfer[cell.group[row]]
        design[column, layout.owns(cell)[cell.group[row], column]] -= 1
        design[column, layout.wave[cell.number]] -= wave[row, column]
        design[column, layout.wave[cell.number] + 1] -= wave[row, column] * cell.excess[row]
    return design


def three_sorts() -> list[Cell]:
    """Two groups of four with two sorts of calls (one has them all), two of three, one of nine."""
    fours = [[0, 1, 2, 3], [4, 5, 6, 7]]
    return [
        cell(0, [0, 1], fours, 30, 4.0, 1),
        cell(1, [1], fours[1:], 20, 2.0, 2),
        cell(2, [2, 3], [[3, 4, 8], [0, 5, 8]], 40, 3.0, 3),
        cell(3, [4], [list(range(9))], 5, 2.5, 4),
        cell(4, [4], [list(range(9))], 3, 3.5, 5),
    ]


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("few", [0, positive.FEW], ids=["SciPy", "NumPy"])
def test_elimination_solves_what_the_whole_system_says(
    thin: bool, direct: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positive, "FEW", few)
    monkeypatch.setattr(elimination, "THIN", 0 if thin else 1000)
    monkeypatch.setattr(clock_system, "DIRECT", 1000 if direct else 0)
    cells = three_sorts()
    unit = np.array([0, 1, 1, 2, 3, 4, 5, 6, 7])  # ranks 1 and 2 share a clock
    fixed = np.arange(9) == 0
    layout = lay_out(cells, unit, fixed, ~fixed, np.isin(np.arange(9), [1, 2]))
    prior = RNG.uniform(0.5, 2, layout.size)
    normal, right = np.zeros((layout.size + 1,) * 2), np.zeros(layout.size + 1)
    parts = []
    for one in cells:
        at, rest, wave = RNG.normal(size=(3, *one.end.shape))
        weight = RNG.uniform(0.5, 1, one.end.shape)
        rest[::7, 0] = np.nan
        weight[::7, 0] = 0.0
        parts.append(equations_of(one, at, rest, wave, weight))
        for row in range(len(one.rows)):
            design = row_by_row(layout, one, at, wave, row)
            w = weight[row]
            # the instance's common end eliminated
            metric = np.diag(w) - np.outer(w, w) / w.sum()
            normal += design.T @ metric @ design
            right -= design.T @ metric @ np.nan_to_num(rest[row])
    normal, right = normal[:-1, :-1] + np.diag(prior), right[:-1]
    assert np.allclose(right_side(layout, parts), right)
    factor = Elimination(layout, parts, prior)
    several = np.c_[right, RNG.normal(size=(layout.size, 3))]
    assert np.allclose(factor.solve(several, 1e-12), np.linalg.solve(normal, several), atol=1e-7)


def test_a_thinned_cell_keeps_instances_of_every_group() -> None:
    few = three_sorts()[0].thinned(10)
    assert np.bincount(few.group).tolist() == [10, 10]
    assert np.diff(few.rows[few.group == 0]).tolist() == [3] * 9
