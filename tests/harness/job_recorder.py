"""Records the jobs of a scenario from watches: profiles, conditions and training logs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

from tests.harness.api import CORE, KUBEFLOW, OPTIMUS, Json, in_namespace
from tests.harness.light_jobs import LightJob
from tests.harness.scenario import Scenario
from tests.harness.training_runs import TrainingLogs, violations
from tests.harness.watch_recorder import WatchRecorder

Counts = tuple[int, int]
"""PSs and workers."""


@dataclass
class Rescale:
    """One rescale as the profile showed it, with every phase."""

    id: str
    before: Counts
    target: Counts
    why: str
    purpose: str = ""
    phases: list[str] = field(default_factory=list)

    @property
    def measures(self) -> bool:
        """Whether it only measures a young job's speed."""
        return self.purpose == "profiling"

    @property
    def suspends(self) -> bool:
        """Whether the job is to stay suspended."""
        return self.target == (0, 0)

    @property
    def has_more(self) -> bool:
        """Whether some role gets larger."""
        return any(after > before for before, after in zip(self.before, self.target, strict=True))

    @property
    def has_less(self) -> bool:
        """Whether some role gets smaller."""
        return any(after < before for before, after in zip(self.before, self.target, strict=True))

    @property
    def grows(self) -> bool:
        """Whether some role gets larger and none smaller."""
        return self.has_more and not self.has_less

    @property
    def shrinks(self) -> bool:
        """Whether some role gets smaller and none larger, and the job continues."""
        return self.has_less and not self.has_more and not self.suspends

    def __str__(self) -> str:
        return f"{self.id}: {self.before} -> {self.target} [{', '.join(self.phases)}] {self.why}"


def _nothing(_: Json) -> None:
    pass


class JobRecorder:
    """Records from entering to leaving the `with` block; `on_profile` is called in the instant of a
    change."""

    def __init__(self, scenario: Scenario, on_profile: Callable[[Json], None] = _nothing) -> None:
        api, namespace = scenario.api, scenario.namespace
        self.logs = TrainingLogs(api, namespace)
        self._stage = scenario
        self._profiles = WatchRecorder(
            api, in_namespace(OPTIMUS, namespace, "trainingprofiles"), on_profile
        )
        self._jobs = [
            WatchRecorder(api, in_namespace(KUBEFLOW, namespace, each))
            for each in scenario.optimus.plurals.values()
        ]
        self.pods = WatchRecorder(api, in_namespace(CORE, namespace, "pods"), self.logs.update)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for recording in (self._profiles, *self._jobs, self.pods):
            self._stack.enter_context(recording)
        return self

    def __exit__(self, *exc: object) -> None:
        self.logs.finish()
        if exc[0] is not None:
            self._stage.notes.append(str(self))
        self._stack.__exit__(*exc)  # type: ignore[arg-type]  # as it came in

    def catch_up(self) -> None:
        """Wait until all that is stored now is in the record."""
        for recording in (self._profiles, *self._jobs, self.pods):
            recording.catch_up()

    def statuses(self, job: LightJob) -> list[Json]:
        """Return the status of the job's profile after each change."""
        return [profile.get("status") or {} for profile in self._profiles.of(job.name)]

    def status(self, job: LightJob) -> Json:
        """Return the present status of the job's profile; empty without one."""
        return (self.statuses(job) or [{}])[-1]

    def phase(self, job: LightJob) -> str:
        """Return the profile's phase."""
        return str(self.status(job).get("phase", ""))

    def is_quiet_at(self, job: LightJob, *counts: Counts) -> bool:
        """Whether the job trains at one of these counts (any, if none is named) and no rescale is
        under way."""
        status = self.status(job)
        now = (status.get("ps"), status.get("workers"))
        return (
            status.get("phase") == "Training"
            and "rescale" not in status
            and (not counts or now in counts)
        )

    def rescales(self, job: LightJob) -> list[Rescale]:
        """Return every rescale of the job in its order."""
        found: dict[str, Rescale] = {}
        for status in self.statuses(job):
            record = status.get("rescale")
            if record:
                before = (record["fromPs"], record["fromWorkers"])
                rescale = Rescale(
                    record["id"],
                    before,
                    (record["toPs"], record["toWorkers"]),
                    record.get("why", ""),
                    record.get("purpose", ""),
                )
                phases = found.setdefault(rescale.id, rescale).phases
                if status["phase"] not in phases:
                    phases.append(status["phase"])
        return list(found.values())

    def stored(self, job: LightJob) -> Iterator[Json]:
        """Yield the job as it was after each change."""
        for recording in self._jobs:
            yield from recording.of(job.name)

    def ever_failed(self, job: LightJob) -> bool:
        """Tell whether the job was Failed at any instant."""
        conditions = [
            each
            for stored in self.stored(job)
            for each in (stored.get("status") or {}).get("conditions", ())
        ]
        return any(each["type"] == "Failed" and each["status"] == "True" for each in conditions)

    def training_violations(self, job: LightJob) -> list[str]:
        """Return where the job's training did not go on after its newest checkpoint."""
        return violations(self.logs.runs(job.name), exact=job.kind == "TFJob")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name in {each["metadata"]["name"]: None for each in list(self._profiles.objects)}:
            job = LightJob("TFJob", name)
            yield f"--- {name}: {self.status(job).get('reason')}"
            yield from (f"  {rescale}" for rescale in self.rescales(job))
            for number, run in enumerate(self.logs.runs(name), start=1):
                steps = run.steps
                yield (
                    (
                        f"  run {number}: {len(run.lines)} lines, steps {steps[0].step} to "
                        f"{steps[-1].step}"
                    )
                    if steps
                    else (f"  run {number}: {run.lines}")
                )
