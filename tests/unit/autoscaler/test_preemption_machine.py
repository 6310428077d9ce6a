"""Random histories of preemption: whatever happens, no job is paused for one of its own priority,
and in the end no job stays paused."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.autoscaler.fake_job import tf_job
from tests.unit.autoscaler.preempting_cluster import CONFIG, PreemptingCluster, ProcessEnded
from tests.unit.properties import examples

SECONDS = 30.0
"""The time of one preemption."""


class PreemptionHistories(RuleBasedStateMachine):
    """Two nodes of four CPUs; jobs of up to four replicas, in priorities 0 to 2."""

    def __init__(self) -> None:
        super().__init__()
        config = CONFIG._replace(seconds=SECONDS)
        self.made = PreemptingCluster({"a": 4, "b": 4}, config)
        self.count = 0

    @precondition(lambda self: len(self.made.cluster.jobs) < 7)
    @rule(
        ps=st.integers(1, 2),
        workers=st.integers(1, 2),
        priority=st.integers(0, 2),
        is_managed=st.booleans(),
    )
    def submit(self, ps: int, workers: int, priority: int, is_managed: bool) -> None:
        name, self.count = f"j{self.count}", self.count + 1
        counts = {"min_ps": str(ps), "max_ps": str(ps)}
        counts |= {"min_workers": str(workers), "max_workers": str(workers)}
        options = {"target_loss": "0.001", "rescale": "any", **counts} if is_managed else {}
        self.made.submit_job(tf_job(name, ps, workers, **options), priority=priority)

    @precondition(lambda self: self.made.cluster.jobs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.made.end(data.draw(st.sampled_from(sorted(self.made.cluster.jobs))))

    @precondition(lambda self: self.made.preempted())
    @rule(data=st.data())
    def user_resumes(self, data: st.DataObject) -> None:
        job = self.made.job(data.draw(st.sampled_from(sorted(self.made.preempted()))))
        job.manifest["spec"]["runPolicy"]["suspend"] = False
        job.changed()

    @rule(times=st.integers(1, 4))
    def time_passes(self, times: int) -> None:
        self.made.step(times)

    @rule(seconds=st.integers(0, 20))
    def pods_linger(self, seconds: int) -> None:
        self.made.cluster.lingering_seconds = seconds

    @precondition(lambda self: self.made.cluster.jobs)
    @rule(data=st.data())
    def refuse_suspensions(self, data: st.DataObject) -> None:
        self.made.cluster.refuses = {data.draw(st.sampled_from(sorted(self.made.cluster.jobs)))}

    @rule(writes=st.integers(0, 5))
    def process_ends(self, writes: int) -> None:
        """The process ends at some write, or now, and another leads."""
        self.made.cluster.ends_at_write = self.made.cluster.writes + writes
        try:
            self.made.step(2)
        except ProcessEnded:
            pass
        finally:
            self.made.cluster.ends_at_write = None
        self.made.restart()

    @invariant()
    def only_lower_jobs_are_paused(self) -> None:
        priority_of = self.made.cluster.priority_of
        for name in self.made.preempted():
            preemption = self.made.paused_for(name)
            assert preemption is not None
            assert priority_of(name) < priority_of(preemption.job.removeprefix("team/"))

    def teardown(self) -> None:
        """Left alone, everything is resumed."""
        self.made.cluster.refuses, self.made.cluster.lingering_seconds = set(), 0
        self.made.step(50)
        assert not [name for name in self.made.cluster.jobs if self.made.mark_of(name)]
        assert not any(job.suspended for job in self.made.cluster.jobs.values())


TestPreemption = PreemptionHistories.TestCase
TestPreemption.settings = examples(20, stateful_step_count=30)
