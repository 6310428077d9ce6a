"""What a policy is asked, what it answers, and what it is.

A policy decides on the whole cluster: it is asked once for all pools, with the capacity of each
kind of nodes and an account of every job (its weight, what it has received and holds, its progress,
its forecast on each kind). It answers with a grant, a pause or a refusal for each job, each with
its reason. It keeps nothing between two questions: its memory is plain data that goes in and comes
out,

    (problem, memory, seed) -> (allocation, memory')

so that the caller can store it before it acts, and the same question has the same answer. Traits
say what a caller has to be able to do for it. ``per_pool`` makes a policy of a rule that only
chooses the counts of one pool.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from optimus.allocation.problem import Allocation, AllocationProblem
from optimus.jobs import Counts
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.resources import NONE, Resources

if TYPE_CHECKING:  # loaded where something is fitted
    from optimus.models.forecast import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTraits:
    """What a policy is, for whoever runs it."""

    placed_by: str
    """The placement rule that goes with it where no other is asked for, by its name."""

    reads_forecasts: bool = True
    """Whether it looks at forecasts; without them it needs nothing measured."""

    reads_kinds: bool = False
    """Whether it tells kinds of nodes apart: jobs are measured on each of them."""

    resizes: bool = True
    """Whether counts may differ from those that users asked for."""

    preempts: bool = False
    """Whether it pauses running jobs so that others run, not only where room is lost."""

    time_shared: bool = False
    """Whether jobs take turns: it has to be asked anew every round, and remembers the last. Asked
    again within a round it goes on with that one."""

    weighs_restarts: bool = False
    """Whether each change is weighed against its restart. The others decide all counts anew in
    every round, as published."""

    refuses: bool = False
    """Whether waiting jobs may be left out although they would fit; the others refuse for lack of
    capacity alone."""

    weighs_jobs: bool = False
    """Whether the weights of PriorityClasses, and the degree of fairness, count."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a job has received since it was submitted."""

    seconds: float = 0.0
    """For which it held nodes."""
    by_kind: Mapping[str, float] = field(default_factory=dict)
    """The seconds on each kind of nodes, divided by its workers where they are on several."""

    def since(self, mark: Mapping[str, float], kind: str) -> float:
        """Seconds on one kind since it had received ``mark``."""
        return self.by_kind.get(kind, 0.0) - mark.get(kind, 0.0)


@dataclass(frozen=True, slots=True)
class Holding:
    """What a job holds now; ``kind`` is that of its workers' nodes, "" where these have none, or
    are of several."""

    counts: Counts
    kind: str = ""


@dataclass(frozen=True, slots=True)
class JobAccount:
    """What is known of one job beside its candidate."""

    weight: float = 1.0
    received: Service = field(default_factory=Service)
    holds: Holding | None = None
    progress: TrainingProgress = NOTHING
    forecasts: Mapping[str, "Forecast"] = field(default_factory=dict)
    """By kind of nodes, where it is known what the kind means for the job."""


NO_ACCOUNT: Final = JobAccount()


@dataclass(frozen=True, slots=True)
class KindCapacity:
    """All nodes of one kind in a pool."""

    kind: str
    nodes: int
    capacity: Resources = NONE
    """Of those that take new pods."""
    price: float = 1.0
    """What a node costs in an hour, by ``NODE_PRICE_LABEL``; 1 where that is not known."""
    sizes: Mapping[Resources, int] = field(default_factory=dict)
    """By what one of those has, their number; none where only the sum is known."""

    def holds(self, replica: Resources, count: int) -> bool:
        """Return whether so many equal replicas fit on its nodes, with nothing else there."""
        if not (replica * count).fits_in(self.capacity):
            return False
        if not (self.sizes and replica):
            return True
        most = (
            nodes * min(size[name] // amount for name, amount in replica.items())
            for size, nodes in self.sizes.items()
        )
        return sum(most) >= count


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """The jobs that compete for the same nodes, and these by their kind."""

    allocation: AllocationProblem
    kinds: tuple[KindCapacity, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterProblem:
    """One question: all pools, no job in two of them, and the jobs' accounts by UID."""

    at: float
    pools: tuple[PoolProblem, ...]
    accounts: Mapping[str, JobAccount] = field(default_factory=dict)
    round_seconds: float = 360.0
    """From one question to the next. Default: the rounds of Gavel."""

    def account(self, uid: str) -> JobAccount:
        """Of one job; an empty one where nothing is known of it."""
        return self.accounts.get(uid, NO_ACCOUNT)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a job gets until the next question.

    ``kind`` are the nodes that its workers are bound to, ``None`` for any. ``time_share`` is the
    part of the time that it is meant to get in the long run."""

    counts: Counts
    kind: str | None = None
    time_share: float = 1.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A job that runs stops until it is granted something again; ``time_share`` as of a grant."""

    reason: str
    time_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job that does not run gets nothing; ``time_share`` as of a grant."""

    reason: str
    time_share: float = 0.0


ClusterAllocation = Mapping[str, Grant | Pause | Refusal]
"""The answer: one entry for each candidate, by job UID."""


def grants(allocation: ClusterAllocation) -> dict[str, Grant]:
    """Return what is granted, by job UID."""
    return {uid: each for uid, each in allocation.items() if isinstance(each, Grant)}


@dataclass(frozen=True, slots=True)
class PolicyMemory:
    """What a policy wants to know again: ``data`` is JSON (objects, lists, strings, numbers).

    Policies that remember anything split it in two: ``{"jobs": {UID: {...}}, "cluster": {...}}``.
    The part of a job is small (some 250 bytes) and may be stored with the job, and that of the
    cluster (a few numbers) elsewhere. A part of a job that is lost is taken for a new job's.

    A policy that is handed the memory of another policy, or of a version that it does not know,
    begins anew."""

    policy: str = ""
    version: int = 0
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """The memory as text; raises ``TypeError`` or ``ValueError`` where it is no plain data."""
        value = {"policy": self.policy, "version": self.version, "data": dict(self.data)}
        return json.dumps(value, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what ``as_json`` has written; raises ``ValueError`` where it has not."""
        try:
            value = json.loads(text)
            return cls(str(value["policy"]), int(value["version"]), dict(value["data"]))
        except (KeyError, TypeError) as problem:
            raise ValueError(f"no memory of a policy: {problem!r}") from None

    def of(self, policy: str, version: int) -> Mapping[str, Any]:
        """The data if they are this policy's in this version, else none."""
        return self.data if (self.policy, self.version) == (policy, version) else {}

    def of_cluster(self) -> Self:
        """The part that is of the whole cluster."""
        return replace(self, data={key: self.data[key] for key in self.data if key != "jobs"})

    def of_job(self, uid: str) -> Self:
        """The part of one job."""
        return replace(self, data=self.data.get("jobs", {}).get(uid, {}))

    def beside(self, before: Self, uids: Iterable[str]) -> Self:
        """The memory with what was remembered ``before`` of jobs that it was not asked about."""
        known = before.of(self.policy, self.version).get("jobs", {})
        kept = {uid: known[uid] for uid in uids if uid in known}
        if not kept:
            return self
        return replace(self, data={**self.data, "jobs": {**self.data.get("jobs", {}), **kept}})

    @classmethod
    def joined(cls, policy: str, of_cluster: str, of_jobs: Mapping[str, Self]) -> Self:
        """A policy's memory from its parts as they were stored, that of the cluster as text; those
        of other policies, and a text that cannot be read, are left out."""
        try:
            whole = cls.from_json(of_cluster)
        except ValueError:
            whole = cls()
        if whole.policy != policy:
            versions = [each.version for each in of_jobs.values() if each.policy == policy]
            whole = cls(policy, max(versions, default=0))
        own = {uid: each.of(policy, whole.version) for uid, each in of_jobs.items()}
        jobs = {uid: dict(data) for uid, data in own.items() if data}
        return replace(whole, data={**whole.data, "jobs": jobs})


NO_MEMORY: Final = PolicyMemory()


class Policy(Protocol):
    """A rule that allocates the cluster."""

    @property
    def name(self) -> str:
        """Its name in the literature, which is the value of ``--policy``."""

    @property
    def traits(self) -> PolicyTraits:
        """Return what it is."""

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, seed: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        """The answer, and what to hand in with the next question; a pure function."""


class PoolRule(Protocol):
    """A rule that chooses the counts of the jobs of one pool."""

    @property
    def name(self) -> str:
        """The policy's name."""

    @property
    def traits(self) -> PolicyTraits:
        """Return what the policy is."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Choose counts within each job's bounds, together within ``problem.available``."""


def answer_of(
    problem: AllocationProblem, allocation: Allocation
) -> dict[str, Grant | Pause | Refusal]:
    """The answer for one pool: a running job without counts is paused."""
    answer = dict[str, Grant | Pause | Refusal]()
    for each in problem.candidates:
        uid = each.job.uid
        reason, counts = allocation.reasons.get(uid, ""), allocation.counts.get(uid)
        if counts is not None:
            answer[uid] = Grant(counts, reason=reason)
        else:
            answer[uid] = Pause(reason) if each.running else Refusal(reason)
    return answer


@dataclass(frozen=True, slots=True)
class _PerPool:
    """A rule that is asked for each pool; it remembers nothing and knows no kinds."""

    rule: PoolRule

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def traits(self) -> PolicyTraits:
        return self.rule.traits

    def decide(
        self, problem: ClusterProblem, memory: PolicyMemory, _: int
    ) -> tuple[ClusterAllocation, PolicyMemory]:
        answer = dict[str, Grant | Pause | Refusal]()
        for pool in problem.pools:
            answer |= answer_of(pool.allocation, self.rule.allocate(pool.allocation))
        return answer, memory


def per_pool(rule: PoolRule) -> Policy:
    """The policy that asks a rule for each pool."""
    return _PerPool(rule)
