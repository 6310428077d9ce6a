"""Random histories of preemption: whatever happens, no node is overcommitted, no job is suspended
for one of its own priority, and in the end no job stays suspended."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.settings import Settings
from tests.unit.extender.preempting_cluster import PreemptingCluster, ProcessEnded
from tests.unit.properties import examples

SECONDS = 30.0
"""The time of one preemption."""


class Preemption(RuleBasedStateMachine):
    """Two nodes of four CPUs; jobs of up to four replicas, in priorities 0 to 2."""

    def __init__(self) -> None:
        super().__init__()
        limits = Settings(preempt=True, preempt_seconds=SECONDS, preempt_shrink_seconds=5.0)
        self.made = PreemptingCluster({"a": 4, "b": 4}, limits)
        self.count = 0
        self.priorities: dict[str, int] = {}

    @precondition(lambda self: len(self.made.jobs) < 7)
    @rule(
        ps=st.integers(1, 2),
        workers=st.integers(1, 2),
        priority=st.integers(0, 2),
        elastic=st.booleans(),
    )
    def submit(self, ps: int, workers: int, priority: int, elastic: bool) -> None:
        name, self.count = f"j{self.count}", self.count + 1
        self.priorities[name] = priority
        goal = self.made.goal if elastic else None
        self.made.submit(name, ps, workers, goal=goal, priority=priority)

    @precondition(lambda self: self.made.jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.made.delete_job(data.draw(st.sampled_from(sorted(self.made.jobs))))

    @precondition(lambda self: self.made.preempted())
    @rule(data=st.data(), mark=st.booleans())
    def user_takes_over(self, data: st.DataObject, mark: bool) -> None:
        """A preempted job is resumed by its user, or its annotation removed."""
        name = data.draw(st.sampled_from(sorted(self.made.preempted())))
        if mark:
            self.made.change_job(name, preempted_for=None)
            self.made.delete_job(name)  # its user keeps it suspended: it says no more here
        else:
            self.made.change_job(name, suspended=False)

    @rule(cpu=st.integers(2, 4))
    def resize_node(self, cpu: int) -> None:
        """Never to less than its pods have: that would be the kubelet's to end."""
        used = self.made.cluster.used("b")["cpu"]
        self.made.cluster.node("b", max(cpu, used))

    @rule(times=st.integers(1, 3), seconds=st.sampled_from([1.0, 4.0, 15.0]))
    def time_passes(self, times: int, seconds: float) -> None:
        self.made.step(times, seconds)

    @rule()
    def operator(self) -> None:
        self.made.operator()

    @rule()
    def bind(self) -> None:
        self.made.place_planned()

    @precondition(lambda self: self.made.jobs)
    @rule(data=st.data())
    def refuse_patches(self, data: st.DataObject) -> None:
        self.made.refuses = {data.draw(st.sampled_from(sorted(self.made.jobs)))}

    @rule()
    def allow_patches(self) -> None:
        self.made.refuses.clear()

    @rule()
    def restart(self) -> None:
        self.made.restart()

    @precondition(lambda self: self.made.jobs)
    @rule(data=st.data(), seconds=st.sampled_from([1.0, 15.0]))
    def end_before_a_suspension(self, data: st.DataObject, seconds: float) -> None:
        """The process ends if it is about to suspend this job, and another leads."""
        self.made.ends_before = {data.draw(st.sampled_from(sorted(self.made.jobs)))}
        try:
            self.made.step(2, seconds)
        except ProcessEnded:
            self.made.restart()
        finally:
            self.made.ends_before.clear()

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        self.made.cluster.assert_not_overcommitted()
        for name, cpu in self.made.nodes.items():
            assert self.made.cluster.used(name)["cpu"] <= cpu

    @invariant()
    def only_lower_jobs_are_suspended(self) -> None:
        for job in self.made.jobs.values():
            if job.preempted_for is not None:
                name = job.preempted_for.split(" ")[0].removeprefix("ns/")
                assert self.priorities[job.name] < self.priorities[name]

    def teardown(self) -> None:
        """Left alone, everything is resumed, and what fits runs."""
        self.made.refuses.clear()
        for _ in range(int(SECONDS) + 40):
            self.made.settle(1)
        assert not [job for job in self.made.jobs.values() if job.preempted_for is not None]
        assert not any(job.suspended for job in self.made.jobs.values())
        waiting = sorted(self.made.jobs.keys() - self.made.running())
        for name in waiting:
            assert self.made.state.refusals.get(f"uid-{name}") is not None, name


TestPreemption = Preemption.TestCase
TestPreemption.settings = examples(30, stateful_step_count=40)
