"""One framework job's run: it trains, is rescaled by its bounds, trains on and ends."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.e2e.frameworks.framework_jobs import Counts, FrameworkJob, bounds
from tests.e2e.frameworks.trainer_log import TrainerLog, job_losses
from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, PLURALS, Json, in_namespace
from tests.harness.log_follower import FollowedLog, LogFollower
from tests.harness.scenario import Scenario

T = TypeVar("T")

_LABELS: Final = "training.kubeflow.org"
_STEPS_BEFORE: Final = 90
"""The bounds are moved after so many: the loss falls so steeply before that six steps change it by
more than noise."""

_PATIENCE_SECONDS: Final = 480.0


@dataclass(frozen=True)
class RescaleRun:
    """What was seen of a job.

    `before` and `after` are the logs of the pods that print losses, by index, on either side of the
    rescale, with the profile as it stood on either side; `placed` are the pods that ran after it;
    `job` and `profile` are from the end."""

    before: Sequence[TrainerLog]
    profile_before: Json
    after: Sequence[TrainerLog]
    profile_after: Json
    placed: Counts
    job: Json
    profile: Json
    events: Sequence[Json]

    @property
    def checkpoint(self) -> int:
        """The step of the last checkpoint reported complete before the rescale."""
        return max(self.before[0].checkpoints)

    @property
    def losses_before(self) -> dict[int, float]:
        """The job's loss by step before the rescale."""
        return job_losses(self.before)

    @property
    def losses_after(self) -> dict[int, float]:
        """The job's loss by step after the rescale."""
        return job_losses(self.after)

    @property
    def conditions(self) -> set[str]:
        """The types of the job's conditions that are true in the end."""
        return {
            each["type"] for each in self.job["status"]["conditions"] if each["status"] == "True"
        }


class RescaleRunner:
    """Plays a job's run in a namespace that has its checkpoint volume."""

    def __init__(self, scenario: Scenario, job: FrameworkJob) -> None:
        self._scenario, self._api, self._job = scenario, scenario.api, job
        self._path = in_namespace(KUBEFLOW, scenario.namespace, PLURALS[job.kind], job.name)

    def play(self) -> RescaleRun:
        """Submit the job and see it to its end. Raises AssertionError, with all there is to say,
        where it hangs."""
        with LogFollower(self._api, self._printing_pods) as follower:
            self._scenario.create(KUBEFLOW, PLURALS[self._job.kind], self._job.body())
            profile_before = self._wait_understood(follower, frozenset(), _STEPS_BEFORE)
            first_run = frozenset(log.uid for log in follower.logs)
            self._move_bounds()
            self._wait(self._is_rescaled, "it is rescaled")
            profile_after = self._wait_understood(follower, first_run, 1)
            placed = self._placed()
            self._wait(self._has_ended, "it ends")
            self._wait(
                lambda: self._status().get("phase") in ("Completed", "Failed"),
                "its profile says that it ended",
            )
            follower.wait_read(180)
        return RescaleRun(
            before=_of_run(follower.logs, first_run, former=True),
            profile_before=profile_before,
            after=_of_run(follower.logs, first_run, former=False),
            profile_after=profile_after,
            placed=placed,
            job=self._api.get(self._path),
            profile=self._status(),
            events=self._scenario.events(self._job.name),
        )

    def _wait_understood(
        self, follower: LogFollower, former: frozenset[str], least_steps: int
    ) -> Json:
        """Wait until the profile shows the run's loss, checkpoint and speed; return it, together
        with the log."""

        def understood() -> Json | None:
            assert not self._conditions() & {"Failed"}, (
                f"{self._job.name} has failed\n{self._scenario.describe()}"
            )
            logs = _of_run(follower.logs, former, former=False)
            status = self._status()
            if not logs or not logs[0].checkpoints or logs[0].steps[-1].step < least_steps:
                return None
            is_complete = {"loss", "checkpointStep", "stepsPerSecond"} <= status.keys()
            return (
                status if is_complete and status["checkpointStep"] in logs[0].checkpoints else None
            )

        found = self._wait(
            understood, "its profile shows a loss, a checkpoint of this run and a speed"
        )
        assert found is not None
        return found

    def _is_rescaled(self) -> bool:
        assert not self._has_ended(), (
            f"{self._job.name} ended before it was rescaled\n{self._scenario.describe()}"
        )
        return bool(self._status().get("rescales") == 1)

    def _move_bounds(self) -> None:
        self._api.patch(self._path, {"metadata": {"annotations": dict(bounds(self._job.after))}})

    def _wait(self, condition: Callable[[], T], sentence: str) -> T:
        return self._scenario.wait(condition, f"{self._job.name}: {sentence}", _PATIENCE_SECONDS)

    def _status(self) -> Json:
        path = in_namespace(OPTIMUS, self._scenario.namespace, "trainingprofiles", self._job.name)
        status: Json = (self._api.find(path) or {}).get("status") or {}
        return status

    def _conditions(self) -> set[str]:
        found = (self._api.get(self._path).get("status") or {}).get("conditions") or ()
        return {each["type"] for each in found if each["status"] == "True"}

    def _has_ended(self) -> bool:
        return bool(self._conditions() & {"Succeeded", "Failed"})

    def _pods(self, **labels: str) -> list[Json]:
        wanted = {"job-name": self._job.name, **labels}
        selector = ",".join(f"{_LABELS}/{name}={value}" for name, value in wanted.items())
        return self._api.items(
            in_namespace(CORE, self._scenario.namespace, "pods"), labelSelector=selector
        )

    def _printing_pods(self) -> list[Json]:
        return self._pods(**{"replica-type": self._job.role})

    def _placed(self) -> Counts:
        running = [pod for pod in self._pods() if pod["spec"].get("nodeName")]
        roles = Counter(pod["metadata"]["labels"][f"{_LABELS}/replica-type"] for pod in running)
        return Counts(roles["ps"] + roles["server"], roles["worker"])


def _of_run(
    logs: Sequence[FollowedLog], first_run: frozenset[str], *, former: bool
) -> list[TrainerLog]:
    chosen = [TrainerLog(log.pod, log.text) for log in logs if (log.uid in first_run) is former]
    return sorted(chosen, key=lambda log: int(log.pod.rpartition("-")[2]))
