"""Results as frames of pandas or polars, or as Arrow: in none is an integer ever rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

from traceweave.errors import UsageError, suggest

if TYPE_CHECKING:
    import pandas as pd


Frames: TypeAlias = Literal["pandas", "polars", "arrow"]
"""What results can come as."""

FRAMES: tuple[Frames, ...] = ("pandas", "polars", "arrow")


def check_frames(frames: str) -> None:
    """Raise UsageError unless results can come as `frames`, here and now."""
    if frames not in FRAMES:
        hint = suggest(frames, FRAMES) or f"; it is one of: {', '.join(FRAMES)}"
        raise UsageError(f"frames cannot be {frames!r}{hint}")
    if frames == "polars":
        _polars()


def to_frames(table: pa.Table, frames: Frames) -> Any:
    """Return a table as a frame of pandas or polars, or as it is."""
    if frames == "pandas":
        return to_frame(table)
    return _narrow(table) if frames == "arrow" else _polars().from_arrow(_narrow(table))


def _polars() -> Any:
    try:
        import polars
    except ModuleNotFoundError as error:
        raise UsageError("frames of polars need it: pip install polars") from error
    return polars


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas, integers exact: Int64 where there are NULLs, HUGEINT as int64."""
    import pandas as pd

    nullable = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.uint8(): pd.UInt8Dtype(),
        pa.uint16(): pd.UInt16Dtype(),
        pa.uint32(): pd.UInt32Dtype(),
        pa.uint64(): pd.UInt64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    frame: pd.DataFrame = _narrow(table).to_pandas(types_mapper=nullable.get)
    for position, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, position]
        if hasattr(dtype, "numpy_dtype") and not column.hasnans:
            frame.isetitem(position, column.to_numpy(dtype.numpy_dtype))
    return frame


def _narrow(table: pa.Table) -> pa.Table:
    """Cast HUGEINT columns (decimals without decimals) to int64 where the values fit."""
    for position, column in enumerate(table.schema):
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            try:
                narrow = table.column(position).cast(pa.int64())
            except pa.ArrowInvalid:
                continue
            table = table.set_column(position, column.name, narrow)
    return table
