"""The equations solved block by block, against all of them written out."""

from __future__ import annotations

import numpy as np

from traceweave.clocks.elimination import Elimination
from traceweave.clocks.equations import Layout, equations_of, lay_out, right_side
from traceweave.clocks.transfer_classes import Cell

RNG = np.random.default_rng(1)


def cell(number: int, block: int, ranks: list[int], rows: int, transfer: float, wave: int) -> Cell:
    ends = RNG.normal(size=(rows, len(ranks)))
    return Cell(
        number, block, np.arange(rows), np.array(ranks), ends, ends, transfer,
        RNG.normal(size=rows), True, False, (False, len(ranks), wave),
    )  # fmt: skip


def row_by_row(
    layout: Layout, cell: Cell, at: np.ndarray, wave: np.ndarray, row: int
) -> np.ndarray:
    """What every unknown adds to the ends of one instance."""
    design = np.zeros((len(cell.ranks), layout.size + 1))
    for column, rank in enumerate(cell.ranks):
        design[column, layout.offset[rank]] += 1
        design[column, layout.drift[rank]] += at[row, column]
        design[column, layout.slope[cell.block] + column] -= cell.transfer
        design[column, layout.own[cell.number] + column] -= 1
        design[column, layout.wave[cell.wave]] -= wave[row, column]
        design[column, layout.wave[cell.wave] + 1] -= wave[row, column] * cell.excess[row]
    return design


def test_elimination_solves_what_the_whole_system_says() -> None:
    cells = [
        cell(0, 0, [0, 1, 2, 3], 30, 4.0, 1),
        cell(1, 0, [0, 1, 2, 3], 20, 2.0, 2),
        cell(2, 1, [3, 4], 40, 3.0, 3),
    ]
    unit = np.array([0, 1, 1, 2, 3])  # ranks 1 and 2 share a clock
    fixed = np.array([True, False, False, False, False])
    layout = lay_out(cells, unit, fixed, ~fixed)
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
    assert np.allclose(right_side(layout, cells, parts), right)
    factor = Elimination(layout, cells, parts, prior)
    several = np.c_[right, RNG.normal(size=(layout.size, 3))]
    assert np.allclose(factor.solve(several), np.linalg.solve(normal, several), atol=1e-7)
    errors = np.sqrt(np.linalg.inv(normal).diagonal()[: layout.clocks])
    assert np.allclose(factor.standard_errors(layout.clocks), errors, atol=1e-7)
