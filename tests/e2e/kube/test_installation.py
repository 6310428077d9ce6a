"""What the base and its optional parts install, rendered: settings, rights, and where they end."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import autoscaler.settings
import extender.settings
from tests.harness.kustomize import render

ROOT = Path(__file__).parents[3]
PARTS = sorted(path.parent.name for path in (ROOT / "manifests").glob("*/kustomization.yaml"))
COMPONENTS = [name for name in PARTS if name != "crds"]
POD_VALUES = {"POD_IP": "10.0.0.7"}
"""What the fields of a pod are."""


def overlay(folder: Path, *parts: str, **settings: str) -> list[dict[str, Any]]:
    """The objects of an overlay with these optional parts and settings."""
    generator = {"name": "optimus-settings", "namespace": "optimus-system", "behavior": "merge"}
    literals = [f"{name}={value}" for name, value in settings.items()]
    kustomization = {
        "resources": [os.path.relpath(ROOT / "manifests", folder)],
        "components": [os.path.relpath(ROOT / "manifests" / name, folder) for name in parts],
        "configMapGenerator": [{**generator, "literals": literals}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return render(folder)


def containers(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The containers of all pods by their names."""
    found: dict[str, dict[str, Any]] = {}
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet"):
            pod = each["spec"]["template"]["spec"]
            every = [*pod.get("initContainers", ()), *pod["containers"]]
            found |= {container["name"]: container for container in every}
    return found


def environment(objects: list[dict[str, Any]], container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container as the kubelet sets them."""
    maps = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ConfigMap"}
    values: dict[str, str] = {}
    for source in container["envFrom"]:
        values |= maps[source["configMapRef"]["name"]]["data"]
    given = {each["name"]: each.get("value") for each in container["env"]}
    values |= {name: text or POD_VALUES[name] for name, text in given.items()}
    mounted = values.pop("OPTIMUS_CONFIG")
    assert mounted == "/etc/optimus/config.yaml"
    assert {"name": "settings", "mountPath": "/etc/optimus", "readOnly": True} in container[
        "volumeMounts"
    ]
    assert next(data for name, data in maps.items() if name.startswith("optimus-config-"))[
        "data"
    ] == {"config.yaml": ""}
    return values


def arguments(container: dict[str, Any]) -> list[str]:
    ip = POD_VALUES["POD_IP"]
    return [each.replace("$(POD_IP)", ip) for each in container["args"]]


def running(
    objects: list[dict[str, Any]],
) -> tuple[autoscaler.settings.Settings, extender.settings.Settings]:
    """The settings of both processes as they are installed."""
    found = containers(objects)
    return (
        autoscaler.settings.parse(
            arguments(found["autoscaler"]), environment(objects, found["autoscaler"])
        ),
        extender.settings.parse(
            arguments(found["extender"]), environment(objects, found["extender"])
        ),
    )


def test_a_dry_run_in_the_pod_decides_as_the_deployment_does(tmp_path: Path) -> None:
    """`kubectl exec ... -- python -m autoscaler --dry-run --once` has the variables, no flags."""
    objects = overlay(
        tmp_path,
        OPTIMUS_NODE_SELECTOR="optimus.dl/pool=training",
        OPTIMUS_OPERATOR_VERSION="1.9.3",
        OPTIMUS_POLICY="drf",
        OPTIMUS_NAMESPACE_BUDGET="ml:cpu=40;web:cpu=8",
    )
    deployed, _ = running(objects)
    container = containers(objects)["autoscaler"]
    given = environment(objects, container)
    by_hand = autoscaler.settings.parse(["--dry-run", "--once"], given)
    assert by_hand.policy == "drf"
    assert by_hand.node_selector == "optimus.dl/pool=training"
    expected = replace(deployed, dry_run=True, once=True, page_listen=by_hand.page_listen)
    assert by_hand == replace(expected, listen=by_hand.listen)
    # It runs beside the process of the pod, so no address may come from the variables.
    assert by_hand.listen != deployed.listen


def test_the_pool_the_operator_and_the_scheduler_are_said_once_for_both(tmp_path: Path) -> None:
    shared = {"scheduler_name": "mine", "node_selector": "pool=a", "operator_version": "1.8.1"}
    variables = {f"OPTIMUS_{name.upper()}": value for name, value in shared.items()}
    for settings in running(overlay(tmp_path, **variables)):
        assert {name: getattr(settings, name) for name in shared} == shared


def granted(objects: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The verbs on training jobs by whom they are granted to: an account, or the user's role that
    an aggregated ClusterRole becomes part of."""
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"]): {
            who["name"] for who in each["subjects"]
        }
        for each in objects
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
    }
    found: dict[str, set[str]] = {}
    for each in objects:
        if each["kind"] in ("Role", "ClusterRole"):
            place = each["kind"], each["metadata"]["name"]
            to = {label.rpartition("-")[2] for label in each["metadata"].get("labels", ())}
            verbs = {
                verb
                for rule in each["rules"]
                if "kubeflow.org" in rule["apiGroups"]
                for verb in rule["verbs"]
            }
            for name in bound.get(place, set()) | to:
                found[name] = found.get(name, set()) | verbs
    return found


def test_users_get_rights_where_an_operator_gives_them_alone(tmp_path: Path) -> None:
    reads = {"get", "list", "watch"}
    processes = {"optimus-autoscaler": {*reads, "patch"}, "optimus-scheduler": reads}
    assert granted(overlay(tmp_path)) == processes
    assert granted(overlay(tmp_path, *sorted({*COMPONENTS} - {"user-roles"}))) == processes
    users = {"view": reads, "edit": {"patch"}}
    assert granted(overlay(tmp_path, "user-roles")) == processes | users


def admitted(objects: list[dict[str, Any]]) -> dict[str, set[tuple[str, str]]]:
    """Who reaches each port of the pods that a NetworkPolicy selects: a namespace's label each."""
    found: dict[str, set[tuple[str, str]]] = {}
    for each in objects:
        if each["kind"] == "NetworkPolicy":
            for rule in each["spec"]["ingress"]:
                for port in rule["ports"]:
                    who = [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"]]
                    labels = {item for selector in who for item in selector.items()}
                    found[port["port"]] = found.get(port["port"], set()) | labels
    return found


METRICS, READERS = {("metrics", "enabled")}, {("optimus.dl/page", "allowed")}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), {}),
        (("network-policy",), {"http": METRICS, "health": METRICS, "https": METRICS}),
        (
            ("page", "network-policy"),
            {"http": METRICS, "health": METRICS, "https": METRICS, "page": READERS},
        ),
    ],
    ids=lambda value: " and ".join(value) or "none" if isinstance(value, tuple) else "",
)
def test_network_policies_admit_labelled_namespaces_alone(
    tmp_path: Path, parts: tuple[str, ...], expected: dict[str, set[tuple[str, str]]]
) -> None:
    objects = overlay(tmp_path, *parts)
    assert admitted(objects) == expected
    ports = {
        port["name"] for each in containers(objects).values() for port in each.get("ports", ())
    }
    assert ports - {"extender"} >= expected.keys()
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in objects
        if each["kind"] == "Deployment"
    ]
    for each in objects:
        if each["kind"] == "NetworkPolicy":
            wanted = each["spec"]["podSelector"]["matchLabels"].items()
            assert sum(wanted <= found.items() for found in labels) == 1


def by_place(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
    }
    assert len(found) == len(objects)
    return found


def test_the_order_of_optional_parts_does_not_matter(tmp_path: Path) -> None:
    parts = (*COMPONENTS, "admission/deny", "admission/defaults")
    expected = by_place(overlay(tmp_path, *parts))
    for start in range(1, len(parts)):
        order = [*parts[start:], *parts[:start]]
        assert by_place(overlay(tmp_path, *order)) == expected, order
        assert by_place(overlay(tmp_path, *order[::-1])) == expected, order


def test_an_optional_part_has_the_last_word_over_what_an_overlay_generates(
    tmp_path: Path,
) -> None:
    """As kubectl renders it: tests/e2e/kube/test_optional_parts.py compares."""
    deciding, _ = running(overlay(tmp_path, "preemption", OPTIMUS_PREEMPT="false"))
    assert deciding.preempt


def test_behind_the_clusters_scheduler_its_lease_is_that_of_the_shipped_configuration(
    tmp_path: Path,
) -> None:
    path = ROOT / "scheduler-config" / "cluster-scheduler.yaml"
    election = yaml.safe_load(path.read_text())["leaderElection"]
    _, placing = running(overlay(tmp_path, "cluster-scheduler"))
    assert placing.leader_lease == f"{election['resourceNamespace']}/{election['resourceName']}"


def test_nothing_is_made_in_kube_system_with_a_lease_of_its_own(tmp_path: Path) -> None:
    assert any(each["metadata"].get("namespace") == "kube-system" for each in overlay(tmp_path))
    objects = overlay(tmp_path, "own-lease")
    namespaces = {each["metadata"].get("namespace", "") for each in objects}
    assert namespaces == {"", "optimus-system"}
    _, placing = running(objects)
    scheduler = containers(objects)["kube-scheduler"]
    (flag,) = [each for each in scheduler["args"] if each.startswith("--leader-elect-resource")]
    assert placing.leader_lease == f"{flag.partition('=')[2]}/optimus-scheduler"
    role = next(each for each in objects if each["metadata"]["name"] == "optimus-scheduler-lease")
    assert role["rules"][1]["resourceNames"] == ["optimus-scheduler"]


@pytest.mark.parametrize("parts", [["openshift"], ["openshift", "cluster-scheduler"]])
def test_on_openshift_no_user_is_named_and_still_none_is_root(
    tmp_path: Path, parts: list[str]
) -> None:
    pods = [
        each["spec"]["template"]["spec"]["securityContext"]
        for each in overlay(tmp_path, *parts)
        if each["kind"] in ("Deployment", "DaemonSet")
    ]
    assert pods == [{"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}] * 2


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("admission/defaults", "cluster-scheduler", "admission/deny"),
    ],
    ids=lambda parts: ", ".join(parts) or "the base",
)
def test_checks_and_defaults_at_submit_name_the_scheduler_that_is_installed(
    tmp_path: Path, parts: tuple[str, ...]
) -> None:
    objects = overlay(tmp_path, *parts)
    deciding, _ = running(objects)
    said = {
        each["metadata"]["name"]: variable["expression"]
        for each in objects
        if each["kind"] in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
        for variable in each["spec"].get("variables", ())
        if variable["name"] == "scheduler"
    }
    names = {
        "optimus-annotations",
        *(["optimus-defaults"] if "admission/defaults" in parts else []),
    }
    assert said == dict.fromkeys(names, f"'{deciding.scheduler_name}'")


@pytest.mark.parametrize(
    ("name", "folders"),
    [("install", ["manifests/crds", "manifests"]), ("uninstall", ["manifests"])],
)
def test_rendered_files_are_up_to_date(name: str, folders: list[str]) -> None:
    expected = by_place([each for folder in folders for each in render(ROOT / folder)])
    assert rendered(name) == expected, "run make install-yaml, and commit manifests/install"


def test_the_file_that_is_deleted_keeps_what_was_learned() -> None:
    """It lacks the CRDs, and nothing else, of the file that is applied."""
    applied, deleted = rendered("install"), rendered("uninstall")
    assert {kind for kind, _, _ in applied.keys() - deleted.keys()} == {"CustomResourceDefinition"}
    assert deleted.items() <= applied.items()


def rendered(name: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Return the objects of a file in manifests/install by their places."""
    text = (ROOT / "manifests" / "install" / f"{name}.yaml").read_text()
    return by_place([each for each in yaml.safe_load_all(text) if each])
