"""Results as pandas frames, in which no integer is ever rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    import pandas as pd


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
