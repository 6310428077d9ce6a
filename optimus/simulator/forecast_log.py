"""What was foretold when, to be compared with what came: remaining time, epochs, speed."""

from collections.abc import Mapping
from dataclasses import dataclass

from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.models.forecast import Forecast
from optimus.simulator.cluster import JobState
from optimus.simulator.forecasts import epochs_left
from optimus.simulator.speeds import EmptyCluster


@dataclass(frozen=True, slots=True)
class LoggedForecast:
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


def log_forecasts(
    states: Mapping[str, JobState],
    forecasts: Mapping[str, Forecast | NotReady],
    decided: Mapping[str, Counts],
    empty: EmptyCluster,
) -> list[LoggedForecast]:
    """The forecasts of all jobs that go on, at the counts decided for them."""
    logged = []
    for uid, counts in sorted(decided.items()):
        forecast, state = forecasts.get(uid), states.get(uid)
        if state is None or isinstance(forecast, NotReady | None) or forecast.goal_met:
            continue
        logged.append(_logged(state, forecast, counts, empty))
    return [each for each in logged if each.true_steps_per_second > 0]


def _logged(
    state: JobState, forecast: Forecast, counts: Counts, empty: EmptyCluster
) -> LoggedForecast:
    training = state.training
    servers = training.run.servers if training.run and training.run.counts == counts else None
    servers = servers or empty.servers(state.job, counts)
    true_speed = training.truth.speed.steps_per_second(servers) if servers else 0.0
    return LoggedForecast(
        state.job.uid,
        training.at,
        training.epochs / training.end_epochs,
        forecast.at(counts),
        training.epochs + epochs_left(training.truth, forecast),
        training.end_epochs,
        float(forecast.speed.steps_per_second(counts.ps, counts.workers)),
        true_speed,
    )
