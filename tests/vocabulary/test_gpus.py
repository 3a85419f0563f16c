import importlib

import pytest

from tests.cases import cases
from traceweave.vocabulary.gpus import find_links, find_peak, links, peaks

NAMES = {
    "Tesla V100-SXM2-16GB": ("V100 SXM2", 125, 900),
    "Tesla V100-SXM2-32GB": ("V100 SXM2", 125, 900),
    "Tesla V100-PCIE-16GB": ("V100 PCIe", 112, 900),
    "Tesla V100S-PCIE-32GB": ("V100S PCIe", 130, 1134),
    "Tesla T4": ("T4", 65, 320),
    "NVIDIA A100-SXM4-40GB": ("A100 40 GB SXM", 312, 1555),
    "NVIDIA A100-PCIE-40GB": ("A100 40 GB PCIe", 312, 1555),
    "A100-SXM4-40GB": ("A100 40 GB SXM", 312, 1555),
    "NVIDIA A100-SXM4-80GB": ("A100 80 GB SXM", 312, 2039),
    "NVIDIA A100-SXM-80GB": ("A100 80 GB SXM", 312, 2039),
    "NVIDIA A100 80GB PCIe": ("A100 80 GB PCIe", 312, 1935),
    "NVIDIA A100-PG509-200": ("A100, memory not named", 312, None),
    "NVIDIA A10": ("A10", 125, 600),
    "NVIDIA A30": ("A30", 165, 933),
    "NVIDIA A40": ("A40", 149.7, 696),
    "NVIDIA L4": ("L4", 121, 300),
    "NVIDIA L40S": ("L40S", 362.05, 864),
    "NVIDIA GeForce RTX 3090": ("GeForce RTX 3090", 71, 936),
    "NVIDIA GeForce RTX 4090": ("GeForce RTX 4090", 165.2, 1008),
    "NVIDIA RTX A6000": ("RTX A6000", 154.8, 768),
    "NVIDIA RTX 6000 Ada Generation": ("RTX 6000 Ada", 364.2, 960),
    "NVIDIA H100 80GB HBM3": ("H100 SXM", 989.5, 3350),
    "NVIDIA H100 SXM5 80GB": ("H100 SXM", 989.5, 3350),
    "NVIDIA H100 PCIe": ("H100 PCIe", 756.5, 2000),
    "NVIDIA H100 NVL": ("H100 NVL", 835.5, 3900),
    "NVIDIA H200": ("H200 SXM", 989.5, 4800),
    "NVIDIA H200 NVL": ("H200 NVL", 835.5, 4800),
    "NVIDIA H20": ("H20", 148, 4000),
    "NVIDIA GH200 480GB": ("GH200 96 GB", 989.5, 4000),
    "NVIDIA GH200 144G HBM3e": ("GH200 144 GB", 989.5, 4900),
    "NVIDIA B200": ("B200", 2250, 8000),
    "NVIDIA GB200": ("GB200", 2500, 8000),
    "AMD Instinct MI210": ("Instinct MI210", 181, 1638.4),
    "AMD Instinct MI250": ("Instinct MI250, one die", 181.05, 1638.4),
    "AMD Instinct MI250X": ("Instinct MI250X, one die", 191.5, 1638.4),
    "AMD Instinct MI300X": ("Instinct MI300X", 1307.4, 5300),
    "AMD Instinct MI325X": ("Instinct MI325X", 1307.4, 6000),
}
OTHERS = (
    "NVIDIA A10G", "NVIDIA A100X", "NVIDIA H100 64GB", "NVIDIA H20-3e", "NVIDIA L40", "RTX A4000",
    "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA RTX 6000D", "Quadro RTX 6000", "AMD Radeon Graphics", "AMD Instinct MI300A", "",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_gpu_is_found_by_the_name_its_driver_gives(name: str) -> None:
    peak = find_peak(name)
    assert peak is not None
    assert (peak.name, dict(peak.tflops)["fp16"], peak.gbps) == NAMES[name]


@pytest.mark.parametrize("name", OTHERS)
def test_a_gpu_that_is_not_listed_is_not_taken_for_another(name: str) -> None:
    assert find_peak(name) is None


def test_every_gpu_of_the_list_has_a_source_and_is_found_by_some_name() -> None:
    assert all(peak.source for peak in peaks())
    assert {found.name for name in NAMES if (found := find_peak(name))} == {p.name for p in peaks()}


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
