"""Every row of every table is found by its own example; what only looks alike is not."""

from functools import cache

import duckdb
import pytest

from tests.cases import cases
from tests.marks import first_at_once
from tests.vocabulary.asking import classes
from traceweave.vocabulary import Table, spell, tables, with_names

KERNELS = {"communication": "path", "kernel_families": "whole", "kernel_words": "own"}
LOWER_CASE = {"collective_ops", "element_types"}


def subject(table: Table, name: str) -> str:
    if table.name in KERNELS:
        return str(getattr(spell(name), KERNELS[table.name]))
    return name.lower() if table.name in LOWER_CASE else name


def first_rows(table: Table) -> list[int | None]:
    """Return for the example of each row of a table the number of the first row that matches it."""
    with duckdb.connect() as con:
        matching = [
            f"WHEN regexp_matches(s, $pattern_{number}) THEN {number}"
            for number in range(len(table.rows))
        ]
        patterns = {f"pattern_{number}": row.pattern for number, row in enumerate(table.rows)}
        subjects = [subject(table, row.example) for row in table.rows]
        found = con.execute(
            f"SELECT CASE {' '.join(matching)} END FROM (SELECT unnest($subjects) AS s)",
            {"subjects": subjects, **patterns},
        ).fetchall()
    return [number for (number,) in found]


def ask(table: str, *names: str) -> list[str | None]:
    with duckdb.connect() as con:
        asked = with_names(f"{{{{ names('{table}', 's') }}}}")
        query = f"SELECT {asked} FROM (SELECT unnest($1) AS s)"
        return [class_ for (class_,) in con.execute(query, [list(names)]).fetchall()]


@pytest.mark.parametrize("table", tables(), ids=lambda table: table.name)
def test_an_example_is_matched_by_its_own_row_first(table: Table) -> None:
    assert first_rows(table) == list(range(len(table.rows)))


@cache
def _examples() -> dict[str, tuple[str, str]]:
    rows = [row for table in tables() if table.name in KERNELS for row in table.rows]
    return classes(row.example for row in rows)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_what_its_row_says_whatever_the_other_tables_say(name: str) -> None:
    (table,) = (table for table in tables() if table.name == name)
    for row in table.rows:
        category, class_ = _examples()[row.example]
        communicates = name == "communication" and row.class_ != "no"
        assert (category == "communication") == communicates, row.example
        assert class_ == row.class_ or row.class_ == "no", row.example


def test_rows_are_whole_and_examples_are_not_repeated() -> None:
    for table in tables():
        assert table.meaning
        assert all(row.pattern and row.class_ and row.example for row in table.rows), table.name
        examples = [row.example for row in table.rows]
        assert len(set(examples)) == len(examples), table.name


@first_at_once(4)
@cases
def test_what_only_looks_like_something_is_not(name: str, class_: str) -> None:
    assert classes([name]) == {name: ("compute", class_)}


def test_data_loading_is_a_whole_name_or_a_loader() -> None:
    loading = (
        "## data_load ##",
        "data loading",
        "DataLoader.next",
        "dataloader",
        "TrainLoop.fetch_batch",
        "get_batch",
        "step 3/data_loading",
        "wait for data",
        "data_prefetcher.next()",
    )
    assert set(ask("data_loading", *loading)) == {"yes"}
    others = (
        "prefetch", "FullyShardedDataParallel._pre_backward_prefetch", "FSDP::all_gather_prefetch",
        "get_data_parallel_group", "get_data_parallel_world_size", "upload_data",
        "prefetch_weights", "load_batch_norm", "data copy in 11", "DataParallel.forward",
        "update_data", "aten::batch_norm", "numpy/lib/npyio.py(3): load",
        "somebody/data.py(3): get_data", "[DALI][Executor] Run",
    )  # fmt: skip
    assert "yes" not in ask("data_loading", *others)


def test_what_waits_for_the_device_whatever_its_version_and_what_does_not() -> None:
    waiting = {
        "cudaStreamSynchronize": "stream", "cudaStreamSynchronize_v3020": "stream",
        "cudaStreamSynchronize_ptsz": "stream", "cudaEventSynchronize_v3020": "event",
        "cudaDeviceSynchronize": "device", "cuCtxSynchronize": "device",
        "hipStreamSynchronize": "stream", "hipDeviceSynchronize": "device", "cudaMemcpy": "copy",
        "cudaMemcpy2D_ptds_v7000": "copy", "cudaMemcpyToSymbol_v3020": "copy",
        "cuMemcpyHtoD_v2": "copy", "hipMemcpy": "copy", "aten::item": "operator",
    }  # fmt: skip
    assert ask("synchronizing", *waiting) == list(waiting.values())
    others = (
        "cudaStreamWaitEvent", "cudaEventQuery", "cudaEventRecord", "cudaMemcpyAsync",
        "cudaMemcpyAsync_ptsz_v7000", "cuMemcpyHtoDAsync_v2", "hipMemcpyAsync", "cuMemcpyDtoD_v2",
        "cudaMemset", "cudaLaunchKernel", "aten::nonzero",
    )  # fmt: skip
    assert set(ask("synchronizing", *others)) <= {"no", None}


def test_calls_that_allocate_load_code_or_launch() -> None:
    assert ask("allocating", "cudaMalloc_v3020", "cuMemCreate", "hipMalloc") == ["allocate"] * 3
    assert ask("allocating", "cudaFree_v3020", "cuMemFree_v2", "hipFree") == ["free"] * 3
    assert ask("allocating", "cuMemUnmap", "cudaFreeAsync", "hipFreeAsync") == ["release"] * 3
    assert set(ask("allocating", "cudaMemGetInfo", "cuMemAdvise", "cudaMemset")) == {None}
    assert ask(
        "loading_code", "cuModuleLoadDataEx", "cuModuleGetLoadingMode", "cudaFuncSetAttribute"
    ) == ["module", None, "first"]
    assert ask(
        "launching", "cudaLaunchKernel_ptsz_v7000", "cudaGraphLaunch", "cudaEventRecord"
    ) == [
        "kernel", "graph", None,
    ]  # fmt: skip
    assert ask("overhead", "Lazy Function Loading", "Command Buffer Full") == ["module", "queue"]
