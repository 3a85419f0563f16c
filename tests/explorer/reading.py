"""The bytes of wire.py, read as the page reads them."""

from typing import Any

import numpy as np
import orjson


def decode(data: bytes) -> dict[str, Any]:
    """Return the head with its columns as arrays."""
    end = data.index(b"\n") + 1
    assert end % 8 == 0
    found: dict[str, Any] = orjson.loads(data[:end])
    for name, kind, length in found.pop("columns"):
        column = np.frombuffer(data, np.dtype(f"<{kind}"), length, end)
        end += -(-column.nbytes // 8) * 8
        found[name] = column
    assert end == len(data)
    return found
