"""Two scheduler pods, of which no update and no drain takes both."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
JITTER = 2.2
"""client-go waits up to 2.2 times the retry period between two looks at the Lease."""

TAKE_OVER_SECONDS = 20.0


def read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return document


@pytest.fixture
def deployment() -> dict[str, Any]:
    return read("manifests/scheduler.yaml")


@pytest.fixture
def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = deployment["spec"]["template"]
    return template


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_two_pods_never_share_a_host(deployment: dict[str, Any], pod: dict[str, Any]) -> None:
    assert deployment["spec"]["replicas"] == 2
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    selected = term["labelSelector"]["matchLabels"].items()
    assert selected <= pod["metadata"]["labels"].items()
    assert selected == deployment["spec"]["selector"]["matchLabels"].items()


def test_an_update_leaves_one_pod_and_needs_no_third_host(deployment: dict[str, Any]) -> None:
    strategy = deployment["spec"]["strategy"]
    assert strategy["type"] == "RollingUpdate"
    assert strategy["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_a_drain_leaves_one_pod(deployment: dict[str, Any], pod: dict[str, Any]) -> None:
    budget = read("manifests/disruption-scheduler.yaml")
    assert budget["spec"]["maxUnavailable"] == deployment["spec"]["replicas"] - 1
    assert budget["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    selected = budget["spec"]["selector"]["matchLabels"].items()
    assert selected <= pod["metadata"]["labels"].items()


def test_both_containers_say_when_they_are_ready(pod: dict[str, Any]) -> None:
    (extender,), (scheduler,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    assert extender["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert scheduler["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_kube_scheduler_without_an_extender_ends_in_time_for_the_other(
    pod: dict[str, Any],
) -> None:
    (extender,), (scheduler,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in extender["ports"]}
    probe = scheduler["livenessProbe"]
    assert probe["httpGet"] == {"path": "/healthz", "port": ports["health"]}
    noticed = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    election = read("scheduler-config/kube-scheduler-config.yaml")["leaderElection"]
    assert noticed + JITTER * seconds(election["retryPeriod"]) < TAKE_OVER_SECONDS


def test_the_quota_admits_both_pods_and_those_that_are_ending(
    deployment: dict[str, Any], pod: dict[str, Any]
) -> None:
    quota = read("manifests/quota-scheduler.yaml")
    assert quota["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    (selected,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert selected["values"] == [pod["spec"]["priorityClassName"]]
    assert int(quota["spec"]["hard"]["pods"]) >= 2 * deployment["spec"]["replicas"]


@pytest.mark.parametrize("name", ["kube-scheduler-config.yaml", "advisory.yaml"])
def test_another_leads_in_time_after_a_kill(name: str) -> None:
    election = read(f"scheduler-config/{name}")["leaderElection"]
    lease, renew, retry = (
        seconds(election[key]) for key in ("leaseDuration", "renewDeadline", "retryPeriod")
    )
    # kube-scheduler itself demands these.
    assert retry * 1.2 < renew < lease
    # The last renewal is seen late, then the Lease has to run out, then comes the next try.
    assert JITTER * retry + lease + JITTER * retry < 0.75 * TAKE_OVER_SECONDS
