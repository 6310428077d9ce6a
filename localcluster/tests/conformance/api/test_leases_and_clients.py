"""Leases, leader election and the official client's tools."""

import threading
from datetime import UTC, datetime
from typing import Any

from kubernetes import client
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.conformance.api_calls import ApiCalls


def lease(name: str, holder: str) -> client.V1Lease:
    at = datetime.now(UTC)
    spec = client.V1LeaseSpec(
        holder_identity=holder, lease_duration_seconds=15, renew_time=at, acquire_time=at
    )
    return client.V1Lease(metadata=client.V1ObjectMeta(name=name), spec=spec)


def test_the_server_says_which_kubernetes_it_is(api: ApiCalls) -> None:
    version = client.VersionApi(api.client).get_code()
    assert (
        version.git_version
        == f"v{version.major}.{version.minor.rstrip('+')}." + version.git_version.split(".")[2]
    )
    assert (int(version.major), int(version.minor.rstrip("+"))) >= (1, 32)


def test_the_server_is_ready_and_alive(api: ApiCalls) -> None:
    for path in ("/readyz", "/livez", "/healthz"):
        with api.stream(path) as response:
            assert response.read() == b"ok"


def test_discovery_lists_the_resources_that_programs_ask_for(api: ApiCalls) -> None:
    core = {each["name"]: each for each in api.get("/api/v1")["resources"]}
    assert {
        "pods",
        "pods/status",
        "pods/binding",
        "pods/log",
        "nodes",
        "nodes/status",
        "services",
    } <= core.keys()
    assert core["pods"]["namespaced"] is True
    assert core["nodes"]["namespaced"] is False
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(core["pods"]["verbs"])
    groups = {each["name"] for each in api.get("/apis")["groups"]}
    assert {"apps", "coordination.k8s.io", "kubeflow.org"} <= groups


def test_a_lease_keeps_microseconds_and_is_guarded_by_its_version(
    api: ApiCalls, namespace: str
) -> None:
    made = api.leases.create_namespaced_lease(namespace, lease("l", "me"))
    assert (
        made.spec.renew_time.microsecond
        == api.leases.read_namespaced_lease("l", namespace).spec.renew_time.microsecond
    )
    stale = api.leases.read_namespaced_lease("l", namespace)
    made.spec.holder_identity = "you"
    assert api.leases.replace_namespaced_lease("l", namespace, made).spec.holder_identity == "you"
    with api.refused(409, "Conflict") as refusal:
        api.leases.replace_namespaced_lease("l", namespace, stale)
    assert refusal.message.startswith(
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l"'
    )


def test_the_official_clients_election_makes_one_leader(api: ApiCalls, namespace: str) -> None:
    default = client.Configuration.get_default_copy()
    client.Configuration.set_default(api.client.configuration)
    leads, ended = threading.Event(), threading.Event()

    def lead() -> None:
        leads.set()
        ended.wait(180)
        raise RuntimeError("the work is over")  # the library's leader stops in no other way

    lock: Any = LeaseLock
    config: Any = electionconfig.Config
    chosen = config(
        lock("le", namespace, "me"),
        lease_duration=90,
        renew_deadline=60,
        retry_period=1,
        onstarted_leading=lead,
        onstopped_leading=lambda: None,
    )
    election: Any = leaderelection.LeaderElection
    thread = threading.Thread(target=election(chosen).run, daemon=True)
    thread.start()
    try:
        assert leads.wait(180)
        first = api.leases.read_namespaced_lease("le", namespace)
        assert first.spec.holder_identity == "me"
        api.wait_until(
            lambda: (
                api.leases.read_namespaced_lease("le", namespace).spec.renew_time
                > first.spec.renew_time
            ),
            "the leader renews its lease",
        )
    finally:
        ended.set()
        thread.join(180)
        client.Configuration.set_default(default)


def test_a_new_namespace_has_an_account_and_the_authoritys_certificate(
    api: ApiCalls, namespace: str
) -> None:
    assert api.core.read_namespaced_service_account("default", namespace).metadata.name == "default"
    api.wait_until(
        lambda: api.read_or_none(
            lambda: api.core.read_namespaced_config_map("kube-root-ca.crt", namespace)
        ),
        "the certificate is there",
    )


def test_an_account_is_given_tokens_that_expire(api: ApiCalls, namespace: str) -> None:
    body = {"spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 600}}
    made = api.core.create_namespaced_service_account_token("default", namespace, body)
    assert made.status.token.count(".") == 2
    assert 0 < (made.status.expiration_timestamp - datetime.now(UTC)).total_seconds() <= 610
