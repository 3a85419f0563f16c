"""Can two runs be compared? What is known of both, side by side, and what it means for the rest.

Every rule is said here, once. What differs either makes differences of times unreadable as the
effect of a change (NOT_COMPARABLE), or limits what they say (WITH_CARE).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import pyarrow as pa

from traceweave.comparison.facts import Facts
from traceweave.words import MISSING, count, duration, folded, name_ranks, percent, ratio, work

COMPARABLE, WITH_CARE, NOT_COMPARABLE, NOT_KNOWN = (
    "comparable", "with care", "not comparable", "not known",
)  # fmt: skip
"""Verdicts on a fact, and on the whole (never NOT_KNOWN)."""

SAME_PROGRAM = 0.5
"""Least share of compute time, the mean of both runs, in what both runs run, by name.

The mean, so that a regression which brings a costly new kernel is still one: the new run has nearly
all kernels of the base then. Programs of one framework share its small kernels: of 188 pairs of
unlike runs on a GPU in the corpus of the tests the closest have 47%, the two pairs of one program
have all. On the CPU operators are few and general, and the rule tells little.
"""

SAME_OPERATORS = 0.5
"""Least share of the operators of either run, by name, that both have where kernels are others.

The same model in another precision or with another library runs other kernels under the same
operators. Of those 188 pairs, the two with more than half are a program on two kinds of GPU.
"""

MOSTLY = 0.9
"""Least share in common, in either run, below which tables by name leave out much."""


ALIKE_MATCHED = 0.1
"""Most by which the matched shares of collectives may differ for sums over them to compare."""


@dataclass(frozen=True)
class Fact:
    """Something that is known of both runs, as text, and what it means for the comparison."""

    fact: str
    verdict: str
    base: str
    new: str
    difference: str = ""
    """What differs, in words; '' if nothing does."""
    limits: str = ""
    """What that means for the numbers."""


@dataclass(frozen=True)
class Comparability:
    """Whether two runs can be compared, and what that rests on."""

    facts: tuple[Fact, ...]
    same: bool = False
    """Whether both are the same recording."""

    @property
    def verdict(self) -> str:
        """'comparable', 'with care' or 'not comparable': that of the worst fact."""
        found = {fact.verdict for fact in self.facts}
        return next((v for v in (NOT_COMPARABLE, WITH_CARE) if v in found), COMPARABLE)

    @property
    def reasons(self) -> str:
        """Why they are not comparable; '' if they are."""
        return "; ".join(fact.difference for fact in self._like(NOT_COMPARABLE))

    @property
    def against(self) -> str:
        """The names of what makes them not comparable; '' if they are."""
        return ", ".join(fact.fact for fact in self._like(NOT_COMPARABLE))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict with its reasons, then what else limits the comparison."""
        care = "; ".join(f"{fact.difference} ({fact.limits})" for fact in self._like(WITH_CARE))
        unknown = ", ".join(fact.fact for fact in self._like(NOT_KNOWN))
        if self.reasons:
            first = (
                f"Not comparable: {self.reasons}."
                " Differences cannot be read as the effect of a change."
            )
        elif care:
            first = f"Comparable with care: {care}."
        else:
            first = "Comparable: nothing that was recorded speaks against it."
        more = f"With care: {care}." if self.reasons and care else ""
        unsaid = f"Not known of both runs: {unknown}." if unknown else ""
        return tuple(text for text in (_SAME * self.same, first, more, unsaid) if text)

    def table(self) -> pa.Table:
        """Return one row per fact."""
        return pa.Table.from_pylist([asdict(fact) for fact in self.facts], schema=_SCHEMA)

    def _like(self, verdict: str) -> list[Fact]:
        return [fact for fact in self.facts if fact.verdict == verdict]


_SAME = "Both are the same recording: what differs can only come from how it was read."

_SCHEMA = pa.schema([(name, pa.string()) for name in Fact.__dataclass_fields__])


def compare_facts(base: Facts, new: Facts) -> Comparability:
    """Judge whether the run that `new` is about can be compared with that of `base`."""
    facts = (rule(base, new) for rule in _RULES)
    same = bool(base.moments) and base.moments == new.moments
    return Comparability(tuple(fact for fact in facts if fact is not None), same)


def no_facts(reason: str) -> Comparability:
    """Return the verdict where one of the runs has nothing that could be compared."""
    return Comparability((Fact("work", NOT_COMPARABLE, MISSING, MISSING, reason),))


def _device(base: Facts, new: Facts) -> Fact:
    names = {"gpu": "GPU", "cpu": "CPU"}
    return _judge(
        "device",
        names[base.timeline],
        names[new.timeline],
        NOT_COMPARABLE,
        "times of the GPU's work stand beside those of operators on the CPU",
    )


def _gpu_model(base: Facts, new: Facts) -> Fact | None:
    if "gpu" not in (base.timeline, new.timeline):
        return None
    same = _plain_models(base) == _plain_models(new)
    return _judge(
        "GPU model",
        ", ".join(base.gpu_models),
        ", ".join(new.gpu_models),
        NOT_COMPARABLE,
        "kernels take the time of other hardware",
        same=same,
    )


def _plain_models(run: Facts) -> set[str]:
    """Return names without the maker's, which drivers before 2021 left out."""
    return {model.removeprefix("NVIDIA ") for model in run.gpu_models}


def _world_size(base: Facts, new: Facts) -> Fact:
    return _judge(
        "world size",
        "" if base.world_size is None else count(base.world_size),
        "" if new.world_size is None else count(new.world_size),
        NOT_COMPARABLE,
        "a rank's share of the work and the cost of communication depend on it",
    )


def _ranks(base: Facts, new: Facts) -> Fact:
    all_of_both = base.is_whole and new.is_whole
    other_work = base.roles != new.roles and not all_of_both
    fact = _judge(
        "ranks recorded",
        _ranks_text(base),
        _ranks_text(new),
        NOT_COMPARABLE if other_work else WITH_CARE,
        "other stages of a pipeline do other work"
        if other_work
        else "means are over other ranks, and waiting is seen among other ranks",
        same=base.ranks == new.ranks and not other_work,
    )
    if fact.verdict != WITH_CARE:
        return fact
    names = name_ranks(new.ranks), name_ranks(base.ranks)
    return replace(fact, difference="{} recorded instead of {}".format(*names))


def _ranks_text(run: Facts) -> str:
    stages = [role for role in run.roles if role.startswith("stage")]
    return folded(run.ranks) + (f" ({_list(stages)})" if stages else "")


def _in_part(base: Facts, new: Facts) -> Fact | None:
    sides = [(name, run.in_part) for name, run in (("base", base), ("new", new)) if run.in_part]
    if not sides:
        return None
    named = "; ".join(
        f"the file of {name_ranks(ranks)} ends early in {name}"
        if len(ranks) == 1
        else f"files of {name_ranks(ranks)} end early in {name}"
        for name, ranks in sides
    )
    base_text, new_text = (
        f"{name_ranks(run.in_part)} in part" if run.in_part else "whole" for run in (base, new)
    )
    limits = "how much is missing is not known; the steps that files end in do not count for them"
    return Fact("files read", WITH_CARE, base_text, new_text, named, limits)


def _recording(base: Facts, new: Facts) -> Fact:
    sides = [(name, run.doubts) for name, run in (("base", base), ("new", new)) if run.doubts]
    return Fact(
        "recording",
        WITH_CARE if sides else COMPARABLE,
        _list(base.doubts) or "fit to judge",
        _list(new.doubts) or "fit to judge",
        "; ".join(f"records of {name} are not all fit to judge: {_list(of)}" for name, of in sides),
        "what is unknown counts in no number; see recording of that run" if sides else "",
    )


_INFERRED = frozenset({"inferred", "module"})
"""Sources of steps that no range marks."""


def _steps(base: Facts, new: Facts) -> Fact:
    verdict, difference, limits = COMPARABLE, "", ""
    marked = [bool(run.step_sources) for run in (base, new)]
    inferred = [bool(_INFERRED & {*run.step_sources}) for run in (base, new)]
    if not all(marked):
        verdict, difference = WITH_CARE, "steps are marked in neither run"
        limits = (
            "whole recordings stand side by side; their lengths say when the profiler was stopped,"
            " not how fast the run is: compare shares and times per call"
        )
        if any(marked):
            verdict, difference = NOT_COMPARABLE, f"steps are marked in {_where(marked)} only"
            limits = "times per step stand beside those of a whole recording"
    elif any(inferred):
        verdict, difference = WITH_CARE, "steps are inferred"
        limits = "what repeats may be a part of a step"
        if not all(inferred):
            verdict = NOT_COMPARABLE
            difference = f"steps are marked in one run and inferred in {_where(inferred)}"
    return Fact(
        "steps that count", verdict, _steps_text(base), _steps_text(new), difference, limits
    )


def _steps_text(run: Facts) -> str:
    if not run.step_sources:
        return "not marked"
    return f"{count(run.steps_counted)} of {count(run.steps_marked)} ({_list(run.step_sources)})"


def _compute(base: Facts, new: Facts) -> Fact | None:
    what = "kernels" if "gpu" in (base.timeline, new.timeline) else "operators"
    shares = _shares(base.compute, new.compute)
    if shares is None:
        return None
    verdict, limits = COMPARABLE, ""
    if sum(shares) / 2 < SAME_PROGRAM and not _same_operators(base, new):
        verdict, limits = NOT_COMPARABLE, "this looks like another program"
    elif min(shares) < MOSTLY:
        verdict, limits = WITH_CARE, f"other {what} are in the tables as added or removed"
    return _common("compute", f"compute time is in {what} of both", shares, verdict, limits)


def _same_operators(base: Facts, new: Facts) -> bool:
    every = {*base.operators, *new.operators}
    both = base.operators.keys() & new.operators.keys()
    return len(both) > SAME_OPERATORS * len(every)


def _arithmetic(base: Facts, new: Facts) -> Fact | None:
    limits = "kernels and their times are those of another precision"
    return _if_known("arithmetic", base.arithmetic, new.arithmetic, limits)


def _amount(base: Facts, new: Facts) -> Fact | None:
    was, now = base.step_flops, new.step_flops
    if not was or not now:
        return None
    verdict, difference, limits = COMPARABLE, "", ""
    if min(was, now) < MOSTLY * max(was, now):
        verdict = WITH_CARE
        difference = f"a step of new does {ratio(now / was)} base's arithmetic"
        limits = "another batch, number of passes or model: times are those of other work"
    return Fact("arithmetic per step", verdict, work(was), work(now), difference, limits)


def _messages(base: Facts, new: Facts) -> Fact | None:
    limits = "messages have the size of another type"
    return _if_known("numbers sent", base.messages, new.messages, limits)


def _collectives(base: Facts, new: Facts) -> Fact | None:
    shares = _shares(base.collectives, new.collectives)
    if shares is None:
        return None
    verdict, limits = COMPARABLE, ""
    if min(shares) < MOSTLY:
        verdict, limits = WITH_CARE, "ranks communicate in another way"
    what = "collectives are operations of both"
    fact = _common("collectives", what, shares, verdict, limits)
    has = [bool(base.collectives), bool(new.collectives)]
    return fact if all(has) else replace(fact, difference=f"collectives in {_where(has)} only")


def _shares(base: dict[str, float], new: dict[str, float]) -> tuple[float, float] | None:
    """Return the share of either that both have, 0 to 1; None if neither has any."""
    if not base and not new:
        return None
    return _share(base, new), _share(new, base)


def _share(mine: dict[str, float], other: dict[str, float]) -> float:
    common = sum(amount for name, amount in mine.items() if name in other)
    return common / (sum(mine.values()) or 1)


def _common(name: str, what: str, shares: tuple[float, float], verdict: str, limits: str) -> Fact:
    base, new = map(percent, shares)
    difference = f"{base} of base's and {new} of new's {what}" if limits else ""
    return Fact(f"{name} in common", verdict, base, new, difference, limits)


def _matched(base: Facts, new: Facts) -> Fact | None:
    if base.matched is None or new.matched is None:
        return None
    shares = base.matched, new.matched
    texts = percent(shares[0]), percent(shares[1])
    name = "collectives matched"
    if alike_matched(*shares):
        return Fact(name, COMPARABLE, *texts)
    return Fact(
        name,
        WITH_CARE,
        *texts,
        f"{texts[1]} of new's collective calls were matched over the ranks, {texts[0]} of base's",
        "the waiting in the others is not known, and not compared",
    )


def alike_matched(base: float, new: float) -> bool:
    """Say whether so much was matched in both runs that sums over it compare."""
    return abs(base - new) <= ALIKE_MATCHED and (base > 0) == (new > 0)


def _hosts(base: Facts, new: Facts) -> Fact | None:
    return _if_known(
        "hosts", base.hosts, new.hosts, "CPU, network and cooling are those of other machines"
    )


def _backend(base: Facts, new: Facts) -> Fact | None:
    return _if_known(
        "communication", base.backends, new.backends, "collectives run by another library"
    )


def _nccl(base: Facts, new: Facts) -> Fact | None:
    limits = "it chooses other algorithms and kernels"
    return _if_known("NCCL version", base.nccl_versions, new.nccl_versions, limits)


def _settings(base: Facts, new: Facts) -> Fact | None:
    if not base.settings or not new.settings:
        return None
    mine, other = set(base.settings), set(new.settings)
    only = [
        ", ".join(f"{name} {value}" for name, value in sorted(found))
        for found in (mine - other, other - mine)
    ]
    sides = zip(only, ("base", "new"), strict=True)
    return Fact(
        "versions and switches",
        WITH_CARE if any(only) else COMPARABLE,
        only[0] or "as in the other run",
        only[1] or "as in the other run",
        "; ".join(f"{text} in {side} only" for text, side in sides if text),
        "what differs may come from them" if any(only) else "",
    )


def _profiler(base: Facts, new: Facts) -> Fact:
    return _judge(
        "profiler",
        _list(base.profilers),
        _list(new.profilers),
        WITH_CARE,
        "what they record and what they slow down differs",
        same=base.formats == new.formats,
    )


def _extras(base: Facts, new: Facts) -> Fact:
    only = [
        f"{_list(mine)} recorded in {name} only"
        for name, mine in (
            ("base", [extra for extra in base.extras if extra not in new.extras]),
            ("new", [extra for extra in new.extras if extra not in base.extras]),
        )
        if mine
    ]
    return Fact(
        "recorded besides",
        WITH_CARE if only else COMPARABLE,
        _list(base.extras) or "nothing",
        _list(new.extras) or "nothing",
        ", ".join(only),
        "recording it takes time of the host" if only else "",
    )


def _resolution(base: Facts, new: Facts) -> Fact:
    coarse = duration(max(base.tick_ns, new.tick_ns))
    return _judge(
        "resolution of times",
        duration(base.tick_ns),
        duration(new.tick_ns),
        WITH_CARE,
        f"a call's time may be off by up to {coarse} in one of the runs",
    )


_RULES = (
    _device,
    _gpu_model,
    _world_size,
    _ranks,
    _in_part,
    _recording,
    _steps,
    _compute,
    _arithmetic,
    _amount,
    _collectives,
    _messages,
    _matched,
    _hosts,
    _backend,
    _nccl,
    _settings,
    _profiler,
    _extras,
    _resolution,
)


def _judge(
    name: str, base: str, new: str, otherwise: str, limits: str, *, same: bool | None = None
) -> Fact:
    """Return a fact that is `otherwise` where it is not the `same`; '' is what is not known."""
    texts = base or MISSING, new or MISSING
    if not base or not new:
        return Fact(name, NOT_KNOWN, *texts)
    if base == new if same is None else same:
        return Fact(name, COMPARABLE, *texts)
    return Fact(name, otherwise, *texts, f"{name} {new} instead of {base}", limits)


def _if_known(name: str, base: tuple[str, ...], new: tuple[str, ...], limits: str) -> Fact | None:
    """Return a fact that asks for care where it differs; None if it is not known of both runs."""
    return _judge(name, _list(base), _list(new), WITH_CARE, limits) if base and new else None


def _where(found: Iterable[bool]) -> str:
    return next(name for name, has in zip(("base", "new"), found, strict=True) if has)


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)
