"""A Chief that trains is a trainer beside the workers; any other is not."""

import pytest

from optimus.jobs import Counts, FixedRole, ReplicaSpec, Role, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from tests.cases import cases
from tests.unit.progress.jobs import START, job, stamped

LATER = START + 1e6
CHIEF = (FixedRole(Role.CHIEF, 1, ReplicaSpec()), FixedRole(Role.EVALUATOR, 1, ReplicaSpec()))
BATCHES = [
    f"Epoch[{n // 5}] Batch [{n % 5 * 20}]/[100]\tSpeed: 640 samples/sec\tloss=1" for n in range(40)
]


@cases(
    ("chief_trains", "speed", "per_epoch"),
    {
        "it trains: five share an epoch, and their speeds add up": (True, 50.0, 500.0),
        "it does not: four do": (False, 40.0, 400.0),
    },
)
def test_async_trainers_add_up(chief_trains: bool, speed: float, per_epoch: float) -> None:
    asked = job(fixed=CHIEF, chief_trains=chief_trains, mode=TrainingMode.ASYNC)
    log = ProgressLog(LogFormatOptions.of(asked))
    for role, name in ((Role.CHIEF, "chief"), (Role.WORKER, "worker")):
        log.observe(name, role, 0, Counts(1, 4), stamped(BATCHES, every=2.0), "r")
    progress = log.progress(LATER)
    assert progress.samples[0].steps_per_second == pytest.approx(speed, rel=0.01)
    assert progress.steps_per_epoch == pytest.approx(per_epoch)


def test_an_evaluators_log_gives_evaluations_alone() -> None:
    log = ProgressLog(LogFormatOptions())
    trained = [f"loss = 0.{9 - n}, step = {n}00" for n in range(5)]
    result = "Saving dict for global step 400: auc = 0.71, global_step = 400, loss = 0.4"
    log.observe("e", Role.EVALUATOR, 0, Counts(1, 1), stamped([result, *trained]), "run")
    log.observe("c", Role.CHIEF, 0, Counts(1, 1), stamped(trained), "run")
    log.observe("e", Role.EVALUATOR, 0, Counts(1, 1), stamped([result], start=START + 99), "run")
    progress = log.progress(LATER)
    assert [point.loss for point in progress.losses] == [0.9, 0.8, 0.7, 0.6, 0.5]
    auc = next(each for each in progress.metrics if each.name == "auc")
    assert (auc.evaluated, auc.points[-1].loss, auc.points[-1].step) == (True, 0.71, 400)
