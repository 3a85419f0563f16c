"""Perfetto's protobuf classes, loaded when they are needed (60 ms)."""

from __future__ import annotations

from typing import Any

from traceweave.errors import TraceweaveError

_MISSING = (
    "perfetto's protobuf classes cannot be loaded ({}); install them with"
    " pip install 'perfetto>=0.57' 'protobuf>=6.31.1'"
)


def load_protos() -> Any:
    """Return the module with Perfetto's messages. Raises TraceweaveError if it is not installed."""
    try:
        from google.protobuf.runtime_version import VersionError

        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        except VersionError as error:
            raise TraceweaveError(_MISSING.format(" ".join(str(error).split()))) from error
    except ImportError as error:
        raise TraceweaveError(_MISSING.format(error)) from error
    if "process_ordering" not in perfetto_trace_pb2.TrackDescriptor.DESCRIPTOR.fields_by_name:
        raise TraceweaveError(_MISSING.format("the package perfetto is too old"))
    return perfetto_trace_pb2
