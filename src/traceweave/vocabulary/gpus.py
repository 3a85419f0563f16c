"""What a GPU and its links could do at most: gpus.toml, found by the name in the trace."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Peak:
    """Peak rates of one GPU model."""

    name: str
    pattern: re.Pattern[str]
    """Searched in the name that the trace has."""
    tflops: tuple[tuple[str, float], ...]
    """Dense TFLOP/s by type of number: fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8."""
    gbps: float | None
    """Memory bandwidth, decimal GB/s; None if the name does not tell which memory it is."""
    source: str


@dataclass(frozen=True)
class Link:
    """What connects GPUs of one node."""

    name: str
    gpus: tuple[str, ...]
    """Names of peaks."""
    gbps: float
    """In one direction of one GPU over all of its links, decimal GB/s."""
    peers: int | None
    """GPUs that it has a link of its own to; None if any part of it reaches any."""
    source: str


@cache
def _listed() -> dict[str, list[dict[str, Any]]]:
    text = resources.files(__package__).joinpath("gpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def links() -> tuple[Link, ...]:
    """Return every link of gpus.toml, in the order of the file."""
    return tuple(
        Link(
            name=link["name"],
            gpus=tuple(link["gpu"]),
            gbps=float(link["gbps"]),
            peers=link.get("peers"),
            source=link["source"],
        )
        for link in _listed()["link"]
    )


@cache
def peaks() -> tuple[Peak, ...]:
    """Return every GPU of gpus.toml, in the order of the file."""
    return tuple(
        Peak(
            name=gpu["name"],
            pattern=re.compile(gpu["match"], re.IGNORECASE),
            tflops=tuple((dtype, float(value)) for dtype, value in gpu["tflops"].items()),
            gbps=None if "gbps" not in gpu else float(gpu["gbps"]),
            source=gpu["source"],
        )
        for gpu in _listed()["gpu"]
    )


def find_peak(gpu_name: str) -> Peak | None:
    """Return the first GPU of the list whose pattern is in `gpu_name`, None if there is none."""
    return next((peak for peak in peaks() if peak.pattern.search(gpu_name)), None)


def find_links(gpu_name: str) -> list[Link]:
    """Return what a GPU may be connected by in its node: none, one or several kinds."""
    peak = find_peak(gpu_name)
    return [link for link in links() if peak and peak.name in link.gpus]
