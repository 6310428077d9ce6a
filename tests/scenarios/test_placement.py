"""Placement of jobs, compared with an exhaustive oracle (Optimus, section 4.2)."""

from collections.abc import Mapping

from tests.cases import cases
from tests.harness.api import CORE
from tests.harness.brute_force import violations
from tests.harness.light_jobs import SLEEP, Kind, LightJob, plain_pod
from tests.harness.scenario import Scenario

SMALL = {"PS": {"cpu": "500m", "memory": "64Mi"}, "Worker": {"cpu": "500m", "memory": "64Mi"}}
MIXED = {"PS": {"cpu": "300m", "memory": "64Mi"}, "Worker": {"cpu": "1", "memory": "128Mi"}}
LARGE = {"PS": {"cpu": "500m", "memory": "64Mi"}, "Worker": {"cpu": "1500m", "memory": "128Mi"}}
WITH_GPUS = {"PS": {"cpu": "500m"}, "Worker": {"cpu": "500m", "nvidia.com/gpu": "1"}}


def job(name: str, ps: int, workers: int, requests: Mapping[str, Mapping[str, str]]) -> LightJob:
    kind: Kind = "MXJob" if name.startswith("mx") else "TFJob"
    return LightJob(
        kind,
        name,
        ps,
        workers,
        requests={**requests, "Scheduler": {"cpu": "100m", "memory": "32Mi"}},
    )


@cases(
    ("submitted", "taken"),
    {
        "a job that one server holds is on one server": (job("tf-small", 1, 2, SMALL), {}),
        "a job for two servers has half of each role on each": (job("tf-even", 2, 4, LARGE), {}),
        "odd counts differ by one from server to server": (job("tf-odd", 3, 5, MIXED), {}),
        "where room is uneven the servers with room are taken": (
            job("tf-uneven", 2, 3, MIXED),
            {"train-1": "3500m", "train-2": "2"},
        ),
        "an MXJob's scheduler is beside its servers and workers": (
            job("mx-beside", 2, 2, MIXED),
            {},
        ),
        "an MXJob's scheduler is apart where that server is full": (
            job("mx-full", 2, 2, LARGE),
            {},
        ),
        "an MXJob in uneven room": (
            job("mx-uneven", 2, 4, MIXED),
            {"train-2": "1500m", "train-3": "1500m", "train-4": "3"},
        ),
        "workers with GPUs are on nodes with GPUs": (job("tf-gpus", 2, 4, WITH_GPUS), {}),
        "a chief is beside PSs and workers": (
            LightJob("TFJob", "tf-chief", 2, 3, fixed={"Chief": 1}),
            {},
        ),
    },
)
def test_a_job_is_spread_evenly_on_the_fewest_servers(
    scenario: Scenario, submitted: LightJob, taken: Mapping[str, str]
) -> None:
    for node, cpu in taken.items():
        scenario.create(
            CORE, "pods", plain_pod(f"takes-{node}", scenario.namespace, cpu, nodeName=node)
        )
    scenario.wait(lambda: len(scenario.pods()) == len(taken), "the plain pods are stored")
    free = scenario.free_resources(submitted)
    scenario.submit(submitted)
    observed = scenario.wait_bound(submitted)
    assert not violations(submitted.demand(), free, observed), (observed, free)


def test_nodes_outside_the_selector_are_not_used(scenario: Scenario) -> None:
    anywhere = LightJob("TFJob", "anywhere", 4, 4, requests=LARGE, node_selector={}, script=SLEEP)
    assert "system" in scenario.free_resources(anywhere), "the job itself would go there"
    scenario.submit(anywhere)
    assert "system" not in scenario.wait_bound(anywhere)
