"""What the executor reads, writes and reports for each instruction of the state machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from autoscaler.cluster import Observation
from autoscaler.executor import RescaleAccess, Rescales
from autoscaler.jobs.state import TrackedJob
from autoscaler.logs.poller import JobRun
from autoscaler.metrics import Metrics
from autoscaler.profile.events import EventRecorder
from autoscaler.profile.writer import ProfileRecorder
from optimus.jobs import Counts, JobKey
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.training_jobs import TrainingJob
from optimus.progress.log import ProgressLog
from optimus.rescale.machine import RescaleConfig
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import (
    CountsFound,
    JobGone,
    Observe,
    Observed,
    PatchAnswered,
    PatchResult,
    PauseReason,
    ResizeAndResume,
    Step,
    Suspend,
    Unmark,
)
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, tf_job

AT = START_AT + 60.0


@dataclass
class FakeApi:
    """The API server's answers to reads and writes, and what was asked, in order."""

    stored: TrainingJob
    pods: tuple[Pod, ...] = ()
    unreadable: dict[str, ErrorKind] = field(default_factory=dict)
    outcome: Written | Refused = field(default_factory=Written)
    logs_are_in: bool = True
    asked: list[object] = field(default_factory=list)

    def job(self, kind: str, key: JobKey) -> TrainingJob | Refused:
        self.asked.append("job")
        refused = self.unreadable.get("job")
        return self.stored if refused is None else Refused(refused, "no")

    def pods_of(self, job: TrainingJob) -> tuple[Pod, ...] | Refused:
        self.asked.append("pods")
        refused = self.unreadable.get("pods")
        return self.pods if refused is None else Refused(refused, "no")

    def suspend(
        self,
        job: TrainingJob,
        interval_id: str,
        limits: Mapping[str, int],
        pause: PauseReason | None = None,
    ) -> Written | Refused:
        self.asked.append(("suspend", job.resource_version, interval_id, *limits.items()))
        return self.outcome

    def resize_and_resume(self, job: TrainingJob, counts: Counts) -> Written | Refused:
        self.asked.append(("resume", job.resource_version, counts))
        return self.outcome

    def unmark(self, job: TrainingJob) -> Written | Refused:
        self.asked.append(("unmark", job.resource_version))
        return self.outcome

    def read_now(self, log: ProgressLog, run: JobRun) -> bool:
        self.asked.append("logs")
        return self.logs_are_in


def everything_fits(_: TrackedJob, most: Counts, at: float) -> CountsFound:
    """A cluster with room for all that is asked for."""
    return CountsFound(at, most)


class Setting:
    """One running job of 1 PS and 2 workers, whose rescale to 2 PSs and 3 workers has begun."""

    def __init__(self, step: Step = Step.SUSPEND) -> None:
        self.cluster = FakeCluster()
        self.fake = self.cluster.submit(
            tf_job("a", 1, 2, target_loss="0.001", training_mode="sync", rescale="any")
        )
        self.cluster.pass_time(1.0)
        self.observation: Observation = self.cluster.observe(AT)
        (job,) = self.observation.jobs.values()
        assert job.job is not None
        self.api = FakeApi(job, self.observation.pods[job.uid])
        self.state = TrackedJob.first_seen(job, job.job, None, AT)
        self.state.update(self.observation, nodes_changed=False)
        self.state.begin("i7", AT, Counts(2, 3), "worker 3 saves 41 s", RescalePurpose.INTERVAL)
        assert self.state.rescale is not None
        record = replace(self.state.rescale.record, step=step)
        self.state.rescale = replace(self.state.rescale, record=record, written=True)
        events = EventRecorder(self.cluster, Metrics(), lambda: AT)
        recorder = ProfileRecorder(self.cluster, events, spacing_seconds=5, timer=lambda: AT)
        access = RescaleAccess(self.api, self.api, recorder, events, self.api)
        self.rescales = Rescales(access, RescaleConfig())

    def execute(self, instruction: Observe | Suspend | ResizeAndResume | Unmark) -> object:
        executor = self.rescales.executor(self.state, self.observation, everything_fits, AT)
        match instruction:
            case Observe(uncached=uncached):
                return executor.observe(uncached=uncached)
            case Suspend():
                return executor.suspend(instruction)
            case ResizeAndResume():
                return executor.resize_and_resume(instruction)
            case Unmark():
                return executor.unmark(instruction)

    def advance(self) -> None:
        self.rescales.advance(self.state, self.observation, everything_fits, AT)

    @property
    def step(self) -> Step | None:
        return None if self.state.rescale is None else self.state.rescale.record.step


def test_pods_are_listed_before_the_job_is_read() -> None:
    setting = Setting()
    found = setting.execute(Observe(uncached=True))
    assert setting.api.asked == ["pods", "job"]
    assert isinstance(found, Observed)
    assert (found.at, found.pods.left, found.job.counts) == (AT, 3, Counts(1, 2))


def test_before_anything_is_written_a_copy_is_good_enough() -> None:
    setting = Setting(Step.CHECKPOINT)
    found = setting.execute(Observe(uncached=False))
    assert setting.api.asked == []
    assert isinstance(found, Observed)
    assert (found.at, found.pods.left) == (AT, 3)


def test_of_a_step_that_has_been_written_no_copy_is_observed() -> None:
    setting = Setting(Step.SUSPEND)
    setting.execute(Observe(uncached=False))
    assert setting.api.asked == ["pods", "job"]


def test_a_recreated_job_of_the_same_name_is_not_the_old_one() -> None:
    setting = Setting(Step.RESUME)
    setting.api.stored = replace(setting.api.stored, uid="another")
    assert setting.execute(Observe(uncached=True)) == JobGone()
    setting.advance()
    assert setting.step is None
    assert not any(isinstance(asked, tuple) for asked in setting.api.asked), "nothing is written"


@pytest.mark.parametrize(
    ("read", "kind", "answer"),
    [
        ("pods", ErrorKind.TRANSIENT, None),
        ("pods", ErrorKind.NOT_FOUND, None),
        ("job", ErrorKind.TRANSIENT, None),
        ("job", ErrorKind.NOT_FOUND, JobGone()),
    ],
)
def test_what_cannot_be_read_is_read_again_at_the_next_tick(
    read: str, kind: ErrorKind, answer: object
) -> None:
    setting = Setting()
    setting.api.unreadable[read] = kind
    assert setting.execute(Observe(uncached=True)) == answer


@pytest.mark.parametrize(
    "patch", [Suspend("i7", "old"), ResizeAndResume(Counts(2, 3), "old"), Unmark("old")]
)
def test_nothing_is_written_where_the_decision_was_about_another_version(
    patch: Suspend | ResizeAndResume | Unmark,
) -> None:
    setting = Setting()
    assert setting.execute(patch) == PatchAnswered(AT, PatchResult.CONFLICT)
    assert setting.api.asked == []


@pytest.mark.parametrize(
    ("patch", "written"),
    [
        (Suspend("i7", "1"), ["logs", ("suspend", "1", "i7")]),
        (ResizeAndResume(Counts(2, 3), "1"), [("resume", "1", Counts(2, 3))]),
        (Unmark("1"), [("unmark", "1")]),
    ],
)
def test_a_patch_is_guarded_by_the_version_that_it_was_decided_on(
    patch: Suspend | ResizeAndResume | Unmark, written: list[object]
) -> None:
    setting = Setting()
    assert setting.execute(patch) == PatchAnswered(AT, PatchResult.DONE)
    assert setting.api.asked == written


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (ErrorKind.CONFLICT, PatchResult.CONFLICT),
        (ErrorKind.NOT_FOUND, PatchResult.CONFLICT),
        (ErrorKind.TRANSIENT, PatchResult.UNKNOWN),
        (ErrorKind.EXPIRED, PatchResult.UNKNOWN),
        (ErrorKind.THROTTLED, PatchResult.UNKNOWN),
        (ErrorKind.FORBIDDEN, PatchResult.DENIED),
        (ErrorKind.INVALID, PatchResult.REFUSED),
        (ErrorKind.EXISTS, PatchResult.REFUSED),
    ],
)
def test_what_a_refusal_says_about_the_patch(kind: ErrorKind, result: PatchResult) -> None:
    setting = Setting()
    setting.api.outcome = Refused(kind, "the API server says no")
    assert setting.execute(Unmark("1")) == PatchAnswered(AT, result, "the API server says no")


def test_a_job_is_not_suspended_before_its_last_lines_are_in() -> None:
    setting = Setting()
    setting.api.logs_are_in = False
    assert setting.execute(Suspend("i7", "1")) is None
    assert setting.api.asked == ["logs"]


def test_a_tick_takes_the_rescale_as_far_as_it_goes() -> None:
    setting = Setting(Step.CHECKPOINT)
    setting.advance()
    assert setting.step is Step.SUSPEND
    assert setting.api.asked[:4] == ["pods", "job", "logs", ("suspend", "1", "i7")]
