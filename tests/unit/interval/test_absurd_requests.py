"""Jobs and pods that ask for more than numbers of 64 bits hold do not concern the other jobs."""

from dataclasses import replace

import pytest

from optimus.interval import Action
from optimus.jobs import CountBounds, Counts, ReplicaSpec
from optimus.resources import Resources
from optimus.snapshot import BoundPod
from tests.cases import cases
from tests.unit.interval.cases import ON_NODE_00, Case
from tests.unit.interval.cluster import job, nodes, steps

AMOUNTS = [
    pytest.param(Resources({name: amount, "pods": 1}), id=f"{amount:.0e} of {name}")
    for name in ("cpu", "memory", "example.com/device")
    for amount in (2**48, 2**62, 2**63 - 1, 3 * 2**63)
]


@pytest.mark.parametrize("asked", AMOUNTS)
@cases("least", {"at least 1": 1, "at least 5000": 5000})
@cases("forecast", {"with a forecast": True, "without": False})
def test_a_job_that_asks_for_an_absurd_amount_waits_alone(
    asked: Resources, least: int, forecast: bool
) -> None:
    spec, minimum = ReplicaSpec(asked), Counts(least, least)
    absurd = job("absurd")
    bounds = CountBounds(min_ps=least, min_workers=least)
    absurd = replace(absurd, ps=spec, worker=spec, counts=minimum, bounds=bounds)
    known = {"a": steps(1000)} | ({"absurd": steps(1000)} if forecast else {})
    decided = Case([(job("a"), ON_NODE_00), (absurd, [])], known).decisions()
    assert (decided["a"].action, decided["a"].counts) == (Action.GROW, Counts(3, 5))
    assert decided["absurd"].action is Action.WAIT


@pytest.mark.parametrize("asked", AMOUNTS)
def test_a_pod_that_overcommits_its_node_takes_nothing_of_the_others(asked: Resources) -> None:
    others = [BoundPod("absurd", "node-01", asked)]
    case = Case([(job("a"), ON_NODE_00)], {"a": steps(1000)}, nodes(2, 4), others=others)
    decision = case.decisions()["a"]
    assert decision.action is Action.GROW
    assert sum(decision.counts) == (4 if "cpu" in asked else 8)  # tasks ask for CPU alone
