"""Kernels are what readers said they are: on the corpus, and on names from elsewhere."""

from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import Recorded
from tests.marks import nightly
from tests.vocabulary.asking import Label, classes, read_labels

ELSEWHERE = Path(__file__).with_name("kernel_names.tsv")


def _shares(labels: list[Label], found: dict[str, str]) -> tuple[float, float]:
    """Return the shares of labels met by their own class, and by one that is accepted."""
    exact = sum(found[label.name] == label.class_ for label in labels)
    accepted = sum(label.accepts(found[label.name]) for label in labels)
    return exact / len(labels), accepted / len(labels)


def assert_agree(labels: list[Label], least: tuple[float, float]) -> None:
    found = classes(label.name for label in labels)
    exact, accepted = _shares(labels, {name: class_ for name, (_, class_) in found.items()})
    assert exact >= least[0]
    assert accepted >= least[1]
    wrong = {x.name for x in labels if x.sure and found[x.name][0] != x.category}
    assert wrong == set()


def test_names_of_the_corpus(expected: Path) -> None:
    assert_agree(read_labels(expected / "kernel_classes.tsv"), (0.98, 0.99))


def test_names_from_elsewhere() -> None:
    assert_agree(read_labels(ELSEWHERE), (0.86, 0.97))


@nightly
@pytest.mark.parametrize(
    "folder", ["deepseek_train", "diff_test", "ep_moe_b200_seq", "megatron_tp8", "nanogpt_8xh100"]
)
def test_kernels_of_a_run_are_of_the_class_that_most_launches_have(
    expected: Path, recorded: Recorded, folder: str
) -> None:
    labels = {label.name: label for label in read_labels(expected / "kernel_classes.tsv")}
    votes: dict[str, Counter[str]] = {}
    kernels = recorded(f"kineto/{folder}").sql(
        "SELECT name, category, class FROM gpu_ops WHERE kind = 'kernel'"
    )
    for name, category, class_ in kernels.itertuples(index=False):
        if name in labels:
            assert category == labels[name].category
            votes.setdefault(name, Counter())[class_] += 1
    assert len(votes) >= 5
    found = {name: most_common(counted) for name, counted in votes.items()}
    assert _shares([labels[name] for name in found], found)[1] >= 0.9


def most_common(votes: Counter[str]) -> str:
    return votes.most_common(1)[0][0]
