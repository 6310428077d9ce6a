"""What was foretold when, to be compared with what came: remaining time, epochs, speed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from optimus.errors import NotReady
from optimus.jobs import Counts, Job
from optimus.models.forecast import Forecast, ForecastFn
from optimus.progress.types import TrainingProgress
from optimus.simulator.cluster import JobState
from optimus.simulator.forecasts import epochs_left
from optimus.simulator.speeds import EmptyCluster


@dataclass(frozen=True, slots=True)
class Guess:
    """One job's forecast at the instant ``at``, for the counts decided then, beside the truth.

    ``progress`` is the true part of its epochs that was done. ``total_epochs`` and
    ``steps_per_second`` are foretold, the ``true_`` ones are what is; the true speed is that of its
    present run, at other counts that of the job alone on the cluster.
    """

    uid: str
    at: float
    progress: float
    remaining_seconds: float
    total_epochs: float
    true_epochs: int
    steps_per_second: float
    true_steps_per_second: float

    @property
    def convergence_error(self) -> float:
        """Relative error of the total of epochs (Optimus, section 3.1)."""
        return self.total_epochs / self.true_epochs - 1

    @property
    def speed_error(self) -> float:
        """Relative error of the speed."""
        return self.steps_per_second / self.true_steps_per_second - 1


@dataclass(slots=True)
class Noting:
    """A forecaster that keeps what it said, by UID."""

    forecast: ForecastFn
    said: dict[str, Forecast] = field(default_factory=dict)

    def __call__(self, job: Job, progress: TrainingProgress, /) -> Forecast | NotReady:
        """What the forecaster says."""
        forecast = self.forecast(job, progress)
        if not isinstance(forecast, NotReady):
            self.said[job.uid] = forecast
        return forecast


def guesses(
    states: Mapping[str, JobState],
    noting: Noting,
    decided: Mapping[str, Counts],
    empty: EmptyCluster,
) -> list[Guess]:
    """What was said of every job that goes on, at the counts decided for it."""
    found = []
    for uid, counts in sorted(decided.items()):
        forecast, state = noting.said.get(uid), states.get(uid)
        if forecast is not None and state is not None and not forecast.goal_met:
            found.append(_guess(state, forecast, counts, empty))
    return [each for each in found if each.true_steps_per_second > 0]


def _guess(state: JobState, forecast: Forecast, counts: Counts, empty: EmptyCluster) -> Guess:
    training = state.training
    servers = training.run.servers if training.run and training.run.counts == counts else None
    servers = servers or empty.servers(state.job, counts)
    true_speed = training.truth.speed.steps_per_second(servers) if servers else 0.0
    return Guess(
        state.job.uid,
        training.at,
        training.epochs / training.end_epochs,
        forecast.at(counts),
        training.epochs + epochs_left(training.truth, forecast),
        training.end_epochs,
        float(forecast.speed.steps_per_second(counts.ps, counts.workers)),
        true_speed,
    )
