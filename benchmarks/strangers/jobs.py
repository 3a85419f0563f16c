"""The jobs: what is trained how, on which hosts, recorded by which profiler, by which clocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .clocks import Weather
from .program import Collective, Compute, Group, HostSync, Message, Messages, Op, StepBegin, Wait
from .timeline import Habits, Network

MEGA = 1 << 20


@dataclass(frozen=True)
class Capture:
    """How a rank was recorded.

    kineto: 'seq', 'keys', 'sizes', 'shapes', 'bare' (which NCCL keys it writes), nsys:
    'payload', 'late' (payloads, but begun after NCCL was set up), 'default' (no payloads).
    """

    styles: tuple[str, ...] = ("keys",)
    """Those of the hosts in turn."""
    late_us: float = 20e3
    lost: float = 0.0
    named_hosts: bool = True
    shared_names: bool = False
    """Groups of one kind have one name, as `split_group` makes them."""


@dataclass(frozen=True)
class Job:
    """One training run. `workload` makes the program of one rank."""

    name: str
    workload: Callable[[Job, int], list[Op]]
    hosts: int = 4
    per_host: int = 4
    steps: int = 30
    layers: int = 6
    layer_us: float = 4000.0
    message: int = 8 * MEGA
    world_calls: bool = True
    weather: Weather = field(default_factory=Weather)
    capture: Capture = field(default_factory=Capture)
    network: Network = field(default_factory=Network)
    habits: Habits = field(default_factory=Habits)
    evaluate_every: int = 0
    save_every: int = 0
    sync_every: int = 1
    batched: bool = True
    stages: int = 0
    tensor: int = 1
    two_streams: bool = False

    @property
    def ranks(self) -> int:
        """How many there are."""
        return self.hosts * self.per_host

    @property
    def world(self) -> Group:
        """The default group."""
        return Group("0", "default_pg", tuple(range(self.ranks)))

    def host(self, rank: int) -> int:
        """Which host a rank is on."""
        return rank // self.per_host

    def group(self, kind: str, rank: int, members: Callable[[int], object]) -> Group:
        """Return the group of this rank: all that `members` says the same of."""
        kinds = [members(r) for r in range(self.ranks)]
        place = list(dict.fromkeys(kinds)).index(kinds[rank])
        ranks = tuple(r for r in range(self.ranks) if kinds[r] == kinds[rank])
        number = (
            1 + 100 * (1 + sum(map(ord, kind)) % 89) + (0 if self.capture.shared_names else place)
        )
        return Group(str(number), kind, ranks)


def _framed(job: Job, rank: int, step: Callable[[int], list[Op]], forward: list[Op]) -> list[Op]:
    """Repeat steps; between them evaluations, checkpoints and reading of the loss."""
    ops: list[Op] = [Collective(job.world, "barrier", 1, "Float")] if job.world_calls else []
    for n in range(job.steps):
        ops += [StepBegin(n), *step(n)]
        if job.world_calls:
            ops.append(Collective(job.world, "all_reduce", 1, "Float"))
        if n % job.sync_every == 0:
            ops.append(HostSync())
        if job.evaluate_every and n % job.evaluate_every == job.evaluate_every - 1:
            for _ in range(3):
                ops += [*forward, Collective(job.world, "all_reduce", 2, "Float"), HostSync()]
        if job.save_every and n % job.save_every == job.save_every - 1:
            ops.append(HostSync(pause_us=4e5 if rank == 0 else 2e4))
            ops.append(Collective(job.world, "barrier", 1, "Float"))
    return ops


def _reduced(group: Group, layers: int, tag: str, elements: int = 12 * MEGA) -> list[list[Op]]:
    """Gradients in buckets, one after every second layer; the first and the last are small."""
    buckets: list[list[Op]] = []
    for layer in range(layers):
        size = elements // 12 if layer == 1 else elements + 4096 * layer
        if layer == layers - 1:
            size = elements // 3 + 768
        due = layer % 2 == 1 or layer == layers - 1
        call = Collective(group, "all_reduce", size, "Float", tag=f"{tag}{layer}", backward=True)
        buckets.append([call] if due else [])
    return buckets


def _waits(buckets: list[list[Op]]) -> list[Op]:
    return [Wait(op.tag) for bucket in buckets for op in bucket if isinstance(op, Collective)]


def ddp(job: Job, rank: int) -> list[Op]:
    """Replicas: gradients are averaged bucket by bucket while the backward pass runs."""
    forward: list[Op] = [Compute(job.layer_us, 2) for _ in range(job.layers)]
    buckets = _reduced(job.world, job.layers, "b")
    backward: list[Op] = []
    for bucket in buckets:
        backward += [Compute(2 * job.layer_us, 3, backward=True), *bucket]
    step = [*forward, *backward, *_waits(buckets), Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, forward)


def fsdp(job: Job, rank: int) -> list[Op]:
    """Sharded: parameters are gathered a layer ahead, gradients scattered a layer behind.

    Where the shards are of one host (`tensor` ranks), replicas average theirs between hosts.
    """
    shard = job.world
    replicas: Group | None = None
    if job.tensor > 1:
        shard = job.group("mesh_shard", rank, lambda r: r // job.tensor)
        replicas = job.group("mesh_replicate", rank, lambda r: r % job.tensor)
    streams = ("gather", "scatter") if job.two_streams else ("", "")
    size = [9 * MEGA + 65536 * len(shard.ranks) * layer for layer in range(job.layers)]

    def gather(layer: int, backward: bool) -> Op:
        return Collective(
            shard, "all_gather", size[layer], tag=f"g{layer}", stream=streams[0], backward=backward
        )

    forward: list[Op] = [gather(0, False)]
    for layer in range(job.layers):
        forward += [gather(layer + 1, False)] if layer + 1 < job.layers else []
        forward += [Wait(f"g{layer}"), Compute(job.layer_us, 2)]
    backward: list[Op] = [gather(job.layers - 1, True)]
    behind: list[Op] = []
    for layer in reversed(range(job.layers)):
        backward += [gather(layer - 1, True)] if layer else []
        backward += [Wait(f"g{layer}"), Compute(2 * job.layer_us, 3, backward=True)]
        tag = f"s{layer}"
        backward.append(
            Collective(
                shard, "reduce_scatter", size[layer], "Float", tag, streams[1], backward=True
            )
        )
        if replicas:
            each = size[layer] // len(shard.ranks)
            backward.append(Wait(tag))
            tag = f"r{layer}"
            backward.append(Collective(replicas, "all_reduce", each, "Float", tag, backward=True))
        behind.append(Wait(tag))
    norm: list[Op] = [Collective(shard, "all_reduce", 1, "Float")]
    if replicas and not job.world_calls:
        norm.append(Collective(replicas, "all_reduce", 1, "Float"))
    step = [*forward, *backward, *behind, *norm, Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, forward)


def tensor_parallel(job: Job, rank: int) -> list[Op]:
    """Layers split inside a host, two sums each way in each; replicas between hosts."""
    tp = job.group("tensor", rank, lambda r: r // job.tensor)
    dp = job.group("data", rank, lambda r: r % job.tensor)
    activations = Collective(tp, "all_reduce", job.message)
    half, whole = Compute(job.layer_us / 2, 2), Compute(job.layer_us, 2, backward=True)
    layer: list[Op] = [half, activations, half, activations]
    forward = layer * job.layers
    buckets = _reduced(dp, job.layers, "b")
    backward: list[Op] = []
    back = replace(activations, backward=True)
    for bucket in buckets:
        backward += [whole, back, whole, back, *bucket]
    norm: list[Op] = [Collective(tp, "all_reduce", 1, "Float")]
    step = [*forward, *backward, *_waits(buckets), *norm, Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, forward)


def experts(job: Job, rank: int) -> list[Op]:
    """Experts over `tensor` ranks: tokens go out and come back, as many as the router says."""
    ep = job.group("expert", rank, lambda r: r // job.tensor)
    dp = job.group("data", rank, lambda r: r % job.tensor)
    counts = Collective(ep, "all_to_all", 2 * len(ep.ranks), "Long")
    tokens = Collective(ep, "all_to_all", job.message, ragged=True)
    third = Compute(job.layer_us / 3, 2)
    forward: list[Op] = [third, counts, HostSync(), tokens, third, tokens, third] * job.layers
    buckets = _reduced(dp, job.layers, "b")
    backward: list[Op] = []
    back = replace(tokens, backward=True)
    for bucket in buckets:
        compute = replace(third, backward=True)
        backward += [compute, back, compute, back, *bucket]
    step = [*forward, *backward, *_waits(buckets), Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, forward)


def context(job: Job, rank: int) -> list[Op]:
    """Sequences over `tensor` ranks in a ring: keys go round while attention is computed."""
    cp = job.group("context", rank, lambda r: r // job.tensor)
    size = len(cp.ranks)
    me = cp.ranks.index(rank)
    after, before = cp.ranks[(me + 1) % size], cp.ranks[(me - 1) % size]
    turn = Messages(
        (Message(cp, after, True, job.message), Message(cp, before, False, job.message)), True
    )
    part = Compute(job.layer_us / size, 2)
    there: list[Op] = [part, turn] * (size - 1)
    back: list[Op] = [replace(part, backward=True), replace(turn, backward=True)]
    forward = [*there, part] * job.layers
    buckets = _reduced(job.world, job.layers, "b")
    backward: list[Op] = []
    for bucket in buckets:
        backward += back * (size - 1) + bucket
    step = [*forward, *backward, *_waits(buckets), Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, forward)


def pipeline(job: Job, rank: int) -> list[Op]:
    """Stages in turn, one forward one backward; replicas beside them, layers split inside."""
    stages, width = job.stages, job.ranks // job.stages
    stage = rank // width
    pp = job.group("pipeline", rank, lambda r: r % width)
    down, up = pp, pp
    if not job.batched:
        down, up = replace(pp, name=f"{pp.name}8"), replace(pp, name=f"{pp.name}9")
    tp = job.group("tensor", rank, lambda r: r // job.tensor)
    dp = job.group("data", rank, lambda r: (r // width, r % job.tensor))
    each: list[Op] = [Collective(tp, "all_reduce", job.message)] if job.tensor > 1 else []
    forward: list[Op] = [Compute(job.layer_us, 2), *each] * 2
    backward: list[Op] = [Compute(2 * job.layer_us, 2, backward=True), *each] * 2

    def move(*ways: str) -> list[Op]:
        """Messages of the kinds given, as far as this stage has such a neighbour."""
        parts = []
        for way in ways:
            other = stage + (1 if way in ("send act", "recv grad") else -1)
            if 0 <= other < stages:
                peer = rank + (other - stage) * width
                group = down if way.endswith("act") else up
                parts.append(Message(group, peer, way.startswith("send"), job.message))
        return [Messages(tuple(parts), job.batched)] if parts else []

    micro = 2 * stages
    warm = min(stages - stage - 1, micro)
    turns: list[Op] = []
    for _ in range(warm):
        turns += [*move("recv act"), *forward, *move("send act")]
    turns += move("recv act")
    for n in range(micro - warm):
        turns += [*forward, *move("send act", "recv grad"), *backward]
        turns += move("send grad") if n == micro - warm - 1 else move("send grad", "recv act")
    for _ in range(warm):
        turns += [*move("recv grad"), *backward, *move("send grad")]
    grads: list[Op] = []
    if len(dp.ranks) > 1:
        buckets = _reduced(dp, 4, "b")
        grads = [op for bucket in buckets for op in bucket] + _waits(buckets)
    step = [*turns, *grads, Compute(job.layer_us, 4)]
    return _framed(job, rank, lambda n: step, [Compute(job.layer_us, 2)])


STEPPING = Weather(steps=1)
WANDER = Weather(wander_us=40)
ALL = Weather(steps=1, wander_us=40)


def _cut(*styles: str, lost: float = 0.0, late_us: float = 20e3) -> Capture:
    return Capture(styles, late_us, lost)


def _tpdp(name: str, **more: object) -> Job:
    base = Job(name, tensor_parallel, tensor=4, world_calls=False, steps=25)
    return replace(base, **more)  # type: ignore[arg-type]


def _pp(name: str, **more: object) -> Job:
    base = Job(name, pipeline, stages=4, steps=15, layer_us=1500, world_calls=False, layers=4)
    return replace(base, **more)  # type: ignore[arg-type]


BARE, SHAPES, DEFAULT = _cut("bare"), _cut("shapes"), _cut("default")
JOBS: Sequence[Job] = (
    Job("ddp/seq/steady", ddp, hosts=2, capture=_cut("seq", lost=0.005)),
    Job("ddp/keys/steady", ddp, hosts=2, capture=_cut("keys", lost=0.01)),
    Job("ddp/keys/steps", ddp, weather=STEPPING, per_host=2, steps=40),
    Job("ddp/keys/wander", ddp, weather=WANDER, per_host=2, steps=60, layer_us=8000),
    Job("ddp/keys/all", ddp, weather=ALL, steps=60, layer_us=6000,
        capture=_cut("keys", lost=0.005)),
    Job("ddp/keys/clock per rank", ddp, weather=Weather(per_rank=True), per_host=2,
        capture=Capture(named_hosts=False)),
    Job("ddp/keys/10 steps", ddp, weather=STEPPING, hosts=2, steps=10),
    Job("ddp/keys/eval+save", ddp, weather=ALL, hosts=2, evaluate_every=8, save_every=10,
        steps=40, capture=_cut("keys", lost=0.005)),
    Job("ddp/sizes/steady", ddp, hosts=2, capture=_cut("sizes")),
    Job("ddp/shapes/steps", ddp, hosts=2, capture=SHAPES, weather=STEPPING),
    Job("ddp/bare/all", ddp, hosts=2, capture=BARE, weather=ALL, steps=40),
    Job("ddp/bare/4 ranks", ddp, hosts=2, per_host=2, capture=BARE),
    Job("fsdp/seq/steady", fsdp, hosts=2, per_host=8, capture=_cut("seq")),
    Job("fsdp/keys/all", fsdp, hosts=2, weather=ALL, steps=40, capture=_cut("keys", lost=0.005)),
    Job("fsdp/keys/2 streams inline", fsdp, weather=STEPPING, two_streams=True, per_host=2,
        habits=Habits(inline=True)),
    Job("fsdp/sizes/steady", fsdp, hosts=2, capture=_cut("sizes", lost=0.005)),
    Job("fsdp/bare/2 streams", fsdp, hosts=2, capture=BARE, two_streams=True),
    Job("hsdp/keys/steps", fsdp, tensor=4, weather=STEPPING, world_calls=False),
    Job("hsdp/keys/names shared", fsdp, tensor=4, capture=Capture(shared_names=True)),
    Job("hsdp/shapes/steady", fsdp, tensor=4, world_calls=False, capture=SHAPES),
    _tpdp("tpdp/keys/steps", weather=STEPPING),
    _tpdp("tpdp/keys/wander", weather=WANDER, steps=40, layer_us=10000),
    _tpdp("tpdp/keys/all, world", weather=ALL, world_calls=True),
    _tpdp("tpdp/keys/inline", weather=STEPPING, habits=Habits(inline=True)),
    _tpdp("tpdp/sizes/steady", capture=_cut("sizes")),
    _tpdp("tpdp/shapes/steady", capture=SHAPES),
    _tpdp("tpdp/bare/steady", capture=_cut("bare", lost=0.005)),
    _tpdp("tpdp/bare/inline, world", capture=BARE, habits=Habits(inline=True), world_calls=True),
    _tpdp("tpdp/keys/32 ranks", hosts=4, per_host=8, tensor=8, steps=12, weather=WANDER),
    _pp("pp/keys/steady"),
    _pp("pp/keys/unbatched all", batched=False, weather=ALL, capture=_cut("keys", lost=0.005)),
    _pp("pp/seq/small messages", batched=False, capture=_cut("seq"), message=24 << 10),
    _pp("pp/shapes/steady", capture=SHAPES),
    _pp("pp/bare/unbatched", batched=False, capture=BARE),
    _pp("pp/bare/batched steps", capture=BARE, weather=STEPPING),
    _pp("3d/keys/all", tensor=2, weather=ALL, steps=10),
    _pp("3d/bare/steady", tensor=2, capture=BARE, steps=10),
    Job("moe/seq/steady", experts, tensor=8, hosts=2, per_host=8, steps=25, capture=_cut("seq")),
    Job("moe/keys/wander", experts, tensor=4, weather=WANDER, steps=40, layer_us=9000),
    Job("moe/bare/steady", experts, tensor=4, steps=30, capture=BARE),
    Job("cp/keys/steps", context, tensor=4, weather=STEPPING, steps=40),
    Job("cp/bare/steady", context, tensor=4, steps=40, capture=BARE),
    Job("ddp/nsys default/all", ddp, hosts=2, capture=DEFAULT, weather=ALL),
    _tpdp("tpdp/nsys payload/steps", capture=_cut("payload"), weather=STEPPING),
    _tpdp("tpdp/nsys late/steady", capture=_cut("late", lost=0.005)),
    _tpdp("tpdp/nsys default/steady", capture=DEFAULT),
    _pp("pp/nsys payload/steady", capture=_cut("payload")),
    _pp("pp/nsys default/steady", capture=DEFAULT),
    Job("fsdp/mixed payload/steps", fsdp, weather=STEPPING, capture=_cut("payload", "keys"),
        per_host=2),
    _tpdp("tpdp/mixed payload/steady", capture=_cut("late", "keys")),
    _tpdp("tpdp/mixed default/steady", capture=_cut("default", "keys"), world_calls=True),
)  # fmt: skip
