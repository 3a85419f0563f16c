import importlib

import pytest

from tests.cases import cases
from traceweave.vocabulary.gpus import find_links, find_peak, links, peaks

OTHERS = (
    "NVIDIA A10G", "NVIDIA A100X", "NVIDIA H100 64GB", "NVIDIA H20-3e", "NVIDIA L40", "RTX A4000",
    "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 3060 Ti", "NVIDIA GeForce RTX 3060 Laptop GPU", "NVIDIA RTX 6000D",
    "NVIDIA GeForce RTX 2080", "Quadro RTX 6000", "AMD Radeon Graphics", "AMD Instinct MI300A", "",
)  # fmt: skip


@cases
def test_a_gpu_is_found_by_the_name_its_driver_gives(
    name: str, listed: str, fp16: float, gbps: float | None
) -> None:
    peak = find_peak(name)
    assert peak is not None
    assert (peak.name, dict(peak.tflops)["fp16"], peak.gbps) == (listed, fp16, gbps)


@pytest.mark.parametrize("name", OTHERS)
def test_a_gpu_that_is_not_listed_is_not_taken_for_another(name: str) -> None:
    assert find_peak(name) is None


def test_every_gpu_of_the_list_has_a_source_and_is_found_by_some_name() -> None:
    assert all(peak.source for peak in peaks())
    (rows,) = test_a_gpu_is_found_by_the_name_its_driver_gives.pytestmark  # type: ignore[attr-defined]
    assert {listed for _, listed, *_ in rows.args[1]} == {peak.name for peak in peaks()}


def test_narrower_numbers_are_never_slower() -> None:
    order = ("fp64", "fp32", "tf32", "bf16", "fp8", "fp4")
    for peak in peaks():
        rates = [rate for dtype in order if (rate := dict(peak.tflops).get(dtype))]
        assert rates == sorted(rates), peak.name


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("NVIDIA H100", "NVIDIA H100 80GB HBM3"), ("NVIDIA A100", "NVIDIA A100-SXM4-80GB"),
     ("NVIDIA L4", "NVIDIA L4"), ("AMD MI300X", "AMD Instinct MI300X"),
     ("AMD MI210X", "AMD Instinct MI210")],
)  # fmt: skip
def test_peaks_are_those_that_torch_lists(theirs: str, ours: str) -> None:
    """torch.compile has a small list of its own; its L4 and H100 are given with sparsity."""
    torch = pytest.importorskip("torch", reason="torch is not installed: it has the second source")
    info = importlib.import_module("torch._inductor.analysis.device_info").lookup_device_info(
        theirs
    )
    peak = find_peak(ours)
    assert peak is not None
    rates = dict(peak.tflops)
    sparse = 2 if theirs == "NVIDIA L4" else info.tops_sparsity_factor
    assert rates["bf16"] == pytest.approx(info.tops[torch.bfloat16] / sparse, rel=0.005)
    assert rates["fp32"] == pytest.approx(info.tops[torch.float32], rel=0.005)
    if theirs != "NVIDIA L4":  # theirs has the H100's bandwidth
        assert peak.gbps == pytest.approx(info.dram_bw_gbs, rel=0.025)


@cases
def test_what_connects_gpus_is_known_by_their_name(name: str, connected: dict[str, float]) -> None:
    assert {link.name: link.gbps for link in find_links(name)} == connected


def test_every_link_has_a_source_and_is_of_gpus_that_are_listed() -> None:
    assert all(link.source for link in links())
    assert {gpu for link in links() for gpu in link.gpus} <= {peak.name for peak in peaks()}
