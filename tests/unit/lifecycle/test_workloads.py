"""What ended jobs tell others: runs to those of their workload, lengths to all, within bounds."""

import math
from dataclasses import replace

from optimus.jobs import TargetLoss, default_workload
from optimus.lifecycle.workloads import UsualLengths, provided
from optimus.models.earlier_runs import run_of
from optimus.models.prior import usual_total
from optimus.progress.types import NOTHING, EarlierRun, RunLengths
from tests.cases import cases
from tests.unit.models.forecasting import JOB, after

UNNAMED = replace(JOB, workload=default_workload("image command"))
RUN = run_of(replace(UNNAMED, uid="earlier"), after(50), 0.0, succeeded=True)
WHERE = JOB.key.namespace


def lengths_of(*epochs: float) -> tuple[EarlierRun, ...]:
    return tuple(
        replace(RUN, uid=str(number), goal=TargetLoss(0.1), met_at=each)
        for number, each in enumerate(epochs)
    )


def usual_of(**namespaces: list[tuple[float, ...]]) -> UsualLengths:
    usual = UsualLengths()
    usual.update(
        {
            (namespace, f"w{number}"): lengths_of(*epochs)
            for namespace, workloads in namespaces.items()
            for number, epochs in enumerate(workloads)
        }
    )
    return usual


def test_each_workload_of_the_namespace_counts_once_and_the_jobs_own_does_not() -> None:
    usual = usual_of(team=[(10.0, 12.0, 99.0), (40.0,) * 9, (70.0,)])
    assert usual.others("team", "w2") == (RunLengths(epochs=(12.0, 40.0)),)
    assert usual.others("team", None) == (RunLengths(epochs=(12.0, 40.0, 70.0)),)


def test_a_namespace_counts_once_for_others_however_much_it_ran() -> None:
    usual = usual_of(a=[(20.0,), (30.0,)] * 20, b=[(50.0,)], c=[(40.0,)])
    cluster, *_ = usual.others("team", "w0")
    assert sorted(cluster.epochs) == [25.0, 40.0, 50.0]


@cases("epochs", {"absurdly long runs": 1e12, "runs that end at once": 1e-6})
def test_one_tenant_does_not_shift_what_others_expect_by_much(epochs: float) -> None:
    def median(usual: UsualLengths) -> float:
        told = replace(NOTHING, lengths=usual.others("team", "w0"))
        found = usual_total(told, in_epochs=True)
        return 60.0 if found is None else math.exp(found.log)

    alone = usual_of(hostile=[(epochs,)] * 50)
    assert median(alone) == 60.0, "one namespace says nothing of the others"
    honest: dict[str, list[tuple[float, ...]]] = {name: [(30.0,)] for name in "abc"}
    with_it = median(usual_of(**honest, hostile=[(epochs,)] * 50))
    assert 0.7 < with_it / median(usual_of(**honest)) < 1.4


def test_what_has_not_changed_is_not_worked_out_again() -> None:
    usual, runs = UsualLengths(), lengths_of(10.0)
    usual.update({("team", "w"): runs})
    before = usual.others("team", None)
    usual.update({("team", "w"): runs, ("team", "v"): lengths_of(20.0)})
    assert before == (RunLengths(epochs=(10.0,)),)
    assert usual.others("team", None) == (RunLengths(epochs=(10.0, 20.0)),)


def test_nobody_learns_from_unnamed_jobs_of_which_two_differed() -> None:
    once = (RUN, replace(RUN, uid="b", at=1.0, differed=True), replace(RUN, uid="c", at=2.0))
    twice = (*once, replace(RUN, uid="d", at=3.0, differed=True))
    assert len(provided(once, UNNAMED, 10.0).earlier) == 2
    assert not provided(twice, UNNAMED, 10.0).earlier
    named = replace(UNNAMED, workload="digits")
    assert len(provided(twice, named, 10.0).earlier) == 1, "its user says that they are alike"
