"""The Helm chart renders the objects of the kustomizations, and what its values say."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import autoscaler.settings
import extender.settings
from localcluster.paths import REPOSITORY
from optimus.runtime.settings import file_fields, flag_fields
from optimus.runtime.settings_file import key_of
from tests.cases import cases
from tests.harness.go_tools import run_tool
from tests.integration.packaging.conftest import Objects

pytestmark = pytest.mark.timeout(3600)  # with the first build of helm
CHART = REPOSITORY / "chart"
Chart = Callable[..., Objects]

_GENERATED = re.compile(r"(optimus-[a-z-]+)-[2-9bcdfghkmt]{10}")
"""A generated name of kustomize: it ends in a hash of the content."""


def comparable(objects: Objects) -> Objects:
    """Without the two ways to start new pods for changed settings (a hash in a ConfigMap's name,
    an annotation of the pods), and without Helm's own annotation of what it keeps."""
    names = {name: _GENERATED.sub(r"\1", name) for kind, _, name in objects if kind == "ConfigMap"}
    found: Objects = {}
    for (kind, namespace, name), body in objects.items():
        if kind == "Job":
            continue  # what helm runs before it removes the release
        text = json.dumps(body)
        for generated, plain in names.items():
            text = text.replace(json.dumps(generated), json.dumps(plain))
        plain_body = json.loads(text)
        without(plain_body["metadata"], "helm.sh/resource-policy")
        if kind in ("Deployment", "DaemonSet"):
            without(plain_body["spec"]["template"]["metadata"], "checksum/settings")
        found[kind, namespace, names.get(name, name)] = plain_body
    return found


def without(metadata: dict[str, Any], annotation: str) -> None:
    annotations = metadata.get("annotations", {})
    if annotation in annotations:
        del annotations[annotation]
        if not annotations:
            del metadata["annotations"]


NO_USER = {"runAsUser": None, "runAsGroup": None}
CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"preemption.enabled": True}, ["preemption"]),
    ({"page.exposed": True}, ["page"]),
    ({"userRoles.enabled": True}, ["user-roles"]),
    ({"networkPolicy.enabled": True}, ["network-policy"]),
    ({"placement.mode": "cluster-scheduler"}, ["cluster-scheduler"]),
    ({"placement.leaseNamespace": ""}, ["own-lease"]),
    ({"podSecurityContext": NO_USER}, ["openshift"]),
    ({"placement.mtls": True}, ["mtls"]),
    ({"rights.allNamespaces": False}, ["chosen-namespaces"]),
    ({"rights.completion": False}, ["without-completion"]),
    ({"admission.deny": True}, ["admission/deny"]),
    ({"admission.defaults": True}, ["admission/defaults"]),
    (
        {
            f"monitoring.{name}.enabled": True
            for name in ("podMonitor", "prometheusRule", "dashboards", "kubeStateMetrics")
        },
        ["monitoring"],
    ),
    (
        {
            "placement.mode": "cluster-scheduler",
            "placement.leaseNamespace": "",
            "placement.mtls": True,
            "podSecurityContext": NO_USER,
            "admission.defaults": True,
            "admission.deny": True,
            "preemption.enabled": True,
        },
        [
            "cluster-scheduler",
            "own-lease",
            "mtls",
            "openshift",
            "admission/defaults",
            "admission/deny",
            "preemption",
        ],
    ),
    (
        {
            "networkPolicy.enabled": True,
            "page.exposed": True,
            "rights.allNamespaces": False,
            "rights.completion": False,
        },
        ["page", "network-policy", "without-completion", "chosen-namespaces"],
    ),
]


@pytest.mark.parametrize(
    ("values", "components"), CASES, ids=[" and ".join(names) or "base" for _, names in CASES]
)
def test_the_chart_renders_what_kustomize_renders(
    chart: Chart, kustomized: Chart, values: dict[str, Any], components: list[str]
) -> None:
    by_helm, by_kustomize = comparable(chart(**values)), comparable(kustomized(*components))
    # Helm creates the release's namespace itself (--create-namespace).
    assert by_kustomize.keys() - by_helm.keys() == {("Namespace", "", "optimus-system")}
    assert by_helm.keys() <= by_kustomize.keys()
    for place, body in by_helm.items():
        assert body == by_kustomize[place], place


def test_every_component_is_compared() -> None:
    components = {
        str(path.parent.relative_to(REPOSITORY / "manifests"))
        for path in (REPOSITORY / "manifests").rglob("kustomization.yaml")
        if yaml.safe_load(path.read_text())["kind"] == "Component"
    }
    assert {name for _, names in CASES for name in names} == components


def container(objects: Objects, name: str) -> dict[str, Any]:
    for (kind, _, _), body in objects.items():
        if kind in ("Deployment", "DaemonSet"):
            pod = body["spec"]["template"]["spec"]
            for each in [*pod.get("initContainers", ()), *pod["containers"]]:
                if each["name"] == name:
                    return dict(each)
    raise AssertionError(f"no container {name}")


@cases(
    ("cluster", "tag"),
    {
        "as the project publishes it": ("v1.33.4", "v1.33.4"),
        "GKE": ("v1.34.2-gke.1187000", "v1.34.2"),
        "EKS": ("v1.35.1-eks-3cfe0ce", "v1.35.1"),
    },
)
def test_kube_scheduler_is_of_the_version_of_the_cluster(
    chart: Chart, cluster: str, tag: str
) -> None:
    objects = chart(kube_version=cluster)
    assert container(objects, "kube-scheduler")["image"] == f"registry.k8s.io/kube-scheduler:{tag}"


def test_images_can_be_those_of_a_registry(chart: Chart) -> None:
    objects = chart(
        image={"repository": "registry.local/optimus", "tag": "1", "pullPolicy": "Always"},
        kubeScheduler={"repository": "registry.local/kube-scheduler", "tag": "v1.36.1"},
        imagePullSecrets=[{"name": "key"}],
    )
    for name in ("autoscaler", "extender"):
        assert container(objects, name)["image"] == "registry.local/optimus:1"
    scheduler = container(objects, "kube-scheduler")
    assert scheduler["image"] == "registry.local/kube-scheduler:v1.36.1"
    assert scheduler["imagePullPolicy"] == "Always"


def settings_of(objects: Objects) -> dict[str, str]:
    (found,) = [body for (_, _, name), body in objects.items() if name == "optimus-settings"]
    data: dict[str, str] = found["data"]
    return data


def test_settings_are_texts_that_both_programs_read(chart: Chart) -> None:
    given = {
        "OPTIMUS_NODE_SELECTOR": "optimus.dl/pool=training",
        "OPTIMUS_LEAST_GAIN_PERCENT": 2.5,
        "OPTIMUS_INTERVAL_SECONDS": 67108864,
        "OPTIMUS_RECOMMEND": True,
    }
    data = settings_of(chart(settings=given))
    deciding, placing = autoscaler.settings.parse([], data), extender.settings.parse([], data)
    assert (deciding.least_gain_percent, deciding.recommend) == (2.5, True)
    assert data["OPTIMUS_INTERVAL_SECONDS"] == "67108864"
    assert deciding.node_selector == placing.node_selector == "optimus.dl/pool=training"


def test_the_file_of_both_programs_is_a_value(chart: Chart, tmp_path: Path) -> None:
    given = {
        "autoscaler": {"moves-per-hour": 3, "priority-weights": {"high": 2}},
        "extender": {"topology-labels": ["rack"]},
        "policy": {"optimus": {"min-gain-fraction": 0.01}},
    }
    path = tmp_path / "config.yaml"
    for config in ({}, given):
        objects = chart(config=config)
        (text,) = [
            body["data"]["config.yaml"]
            for (kind, _, name), body in objects.items()
            if (kind, name) == ("ConfigMap", "optimus-config")
        ]
        path.write_text(text)
        assert (yaml.safe_load(text) or {}) == config
        deciding = autoscaler.settings.parse([f"--config={path}"], {})
        placing = extender.settings.parse([f"--config={path}"], {})
    assert (deciding.moves_per_hour, deciding.priority_weights) == (3, {"high": 2.0})
    assert placing.topology_labels == ("rack",)


def test_a_changed_setting_starts_new_pods(chart: Chart) -> None:
    def checksums(objects: Objects) -> set[str]:
        return {
            body["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
            for (kind, _, _), body in objects.items()
            if kind == "Deployment"
        }

    before, after = checksums(chart()), checksums(chart(settings={"OPTIMUS_POLICY": "drf"}))
    assert before.isdisjoint(after)
    assert checksums(chart()) == before
    assert checksums(chart(config={"extender": {"bind-gangs": False}})).isdisjoint(before)
    assert checksums(chart(**{"placement.mode": "advisory"})).isdisjoint(before)


def test_nothing_names_another_namespace_than_the_releases(chart: Chart) -> None:
    objects = chart("team-a", **{"placement.leaseNamespace": ""})
    assert {namespace for _, namespace, _ in objects} == {"", "team-a"}
    assert "optimus-system" not in json.dumps(list(objects.values()))
    data = settings_of(objects)
    given = container(objects, "extender")["env"]
    own = {each["name"]: each["value"] for each in given if "value" in each}
    assert own.pop("OPTIMUS_CONFIG") == "/etc/optimus/config.yaml"
    deciding = autoscaler.settings.parse([], data)
    placing = extender.settings.parse([], data | own)
    assert deciding.leader_lease == "team-a/optimus-autoscaler"
    assert placing.leader_lease == "team-a/optimus-scheduler"


def test_a_lease_that_is_a_setting_has_the_last_word(chart: Chart) -> None:
    lease = "OPTIMUS_EXTENDER_LEADER_LEASE"
    values = {"placement.leaseNamespace": "", "settings": {lease: "team-a/mine"}}
    objects = chart("team-a", **values)
    assert settings_of(objects)[lease] == "team-a/mine"
    assert lease not in {each["name"] for each in container(objects, "extender")["env"]}


def test_in_chosen_namespaces_the_autoscaler_is_bound_to_its_roles(chart: Chart) -> None:
    values = {"rights.allNamespaces": False, "rights.namespaces": ["team-a", "team-b"]}
    roles = {"optimus-autoscaler-logs", "optimus-autoscaler-completion"}
    objects = chart("optimus-2", **values)
    bound = {
        (namespace, name): body
        for (kind, namespace, name), body in objects.items()
        if kind == "RoleBinding" and namespace.startswith("team-")
    }
    assert bound.keys() == {(team, role) for team in ("team-a", "team-b") for role in roles}
    for (_, role), body in bound.items():
        assert (body["roleRef"]["kind"], body["roleRef"]["name"]) == ("ClusterRole", role)
        assert [each["namespace"] for each in body["subjects"]] == ["optimus-2"]
    assert not roles & {name for kind, _, name in objects if kind == "ClusterRoleBinding"}
    fewer = chart(**values, **{"rights.completion": False})
    assert "optimus-autoscaler-completion" not in {name for _, _, name in fewer}


def test_before_removal_a_job_resumes_what_is_paused_as_the_autoscaler_would(
    chart: Chart,
) -> None:
    objects = chart(namespace="team-o")
    job = objects["Job", "team-o", "optimus-resume-all"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    (own,) = job["spec"]["template"]["spec"]["containers"]
    assert own["command"] == ["python", "-m", "autoscaler.resume_all"]
    pod = objects["Deployment", "team-o", "optimus-autoscaler"]["spec"]["template"]["spec"]
    (autoscaler,) = pod["containers"]
    for name in ("image", "env", "envFrom", "volumeMounts", "securityContext"):
        assert own[name] == autoscaler[name]
    hook = job["spec"]["template"]["spec"]
    for name in ("serviceAccountName", "volumes", "securityContext"):
        assert hook[name] == pod[name]
    assert hook["restartPolicy"] == "Never"


def test_removal_keeps_what_was_learned(chart: Chart) -> None:
    kept = {
        name
        for (kind, _, name), body in chart().items()
        if kind == "CustomResourceDefinition"
        and body["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    }
    assert kept == {"trainingprofiles.optimus.dl", "workloadprofiles.optimus.dl"}
    classes = [
        body
        for (kind, _, _), body in chart(**{"admission.defaults": True}).items()
        if kind == "PriorityClass"
    ]
    assert [each["metadata"]["annotations"]["helm.sh/resource-policy"] for each in classes] == [
        "keep"
    ]
    without_them = chart(**{"crds.enabled": False})
    assert not [kind for kind, _, _ in without_them if kind == "CustomResourceDefinition"]


def test_what_is_not_wanted_is_left_out(chart: Chart) -> None:
    objects = chart(**{"admission.enabled": False, "quota.enabled": False, "scheduler.replicas": 1})
    kinds = {kind for kind, _, _ in objects}
    assert kinds.isdisjoint({"ValidatingAdmissionPolicy", "ResourceQuota"})
    # A budget of one pod out of one would stop every drain.
    assert ("PodDisruptionBudget", "optimus-system", "optimus-scheduler") not in objects
    assert ("PodDisruptionBudget", "optimus-system", "optimus-autoscaler") in objects


@cases(
    ("value", "sentence"),
    {
        "namespaces without effect": ('rights.namespaces=["team-a"]', "rights.namespaces"),
        "a namespace that cannot be": ('rights.namespaces=["Team A"]', "rights/namespaces"),
        "a misspelling": ('settings={"OPTIMUS_NODE_SELECTR":"a=b"}', "NODE_SELECTR"),
        "an address": ('settings={"OPTIMUS_LISTEN":":80"}', "OPTIMUS_LISTEN"),
        "an unknown key": ('config={"autoscaler":{"tick":1}}', "'tick'"),
        "an unknown section": ('config={"autoscalr":{}}', "autoscalr"),
        "a mode that there is not": ('placement.mode="second"', "placement/mode"),
        "no replica": ("autoscaler.replicas=0", "autoscaler/replicas"),
        "root": ("podSecurityContext.runAsUser=0", "runAsUser"),
        "a value that there is not": ('sheduler={"replicas":2}', "sheduler"),
    },
)
def test_a_wrong_value_is_refused_by_name(helm: Path, value: str, sentence: str) -> None:
    done = run_tool(helm, "template", "optimus", str(CHART), "--set-json", value)
    assert done.returncode != 0
    assert sentence in done.stderr


def test_a_package_of_the_chart_has_all_that_it_reads(
    helm: Path, chart: Chart, tmp_path: Path
) -> None:
    """The chart reads its objects through links, which a package must not have."""
    packed = run_tool(helm, "package", str(CHART), "--destination", str(tmp_path))
    assert packed.returncode == 0, packed.stderr
    (package,) = tmp_path.glob("optimus-*.tgz")
    options = ("--namespace", "optimus-system", "--kube-version", "v1.36.3")
    done = run_tool(helm, "template", "optimus", str(package), *options)
    assert done.returncode == 0, done.stderr
    rendered = [each for each in yaml.safe_load_all(done.stdout) if each]
    expected = list(chart().values())
    assert sorted(map(repr, rendered)) == sorted(map(repr, expected))


def test_the_schema_knows_exactly_the_values_of_the_file() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    sections = schema["properties"]["config"]["properties"]
    for name, settings in (
        ("autoscaler", autoscaler.settings.Settings),
        ("extender", extender.settings.Settings),
    ):
        keys = [key_of(field.name) for field in file_fields(settings)]
        assert sections[name]["propertyNames"]["enum"] == sorted(keys)


def test_the_schema_knows_exactly_the_settings_that_are_not_addresses() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = {
        prefix + field.name.upper()
        for prefix, settings in (
            ("OPTIMUS_", autoscaler.settings.Settings),
            ("OPTIMUS_EXTENDER_", extender.settings.Settings),
        )
        for field in flag_fields(settings)
    }
    # What differs between two processes of one pod, or is the chart's to say.
    own = {"LISTEN", "PAGE_LISTEN", "HEALTH_LISTEN", "KUBECONFIG", "ONCE", "CONFIG"}
    taken = {f"{prefix}{name}" for prefix in ("OPTIMUS_", "OPTIMUS_EXTENDER_") for name in own}
    assert set(schema["properties"]["settings"]["propertyNames"]["enum"]) == known - taken


def test_the_chart_has_the_version_of_the_image() -> None:
    meta = yaml.safe_load((CHART / "Chart.yaml").read_text())
    base = yaml.safe_load((REPOSITORY / "manifests" / "kustomization.yaml").read_text())
    (image,) = base["images"]
    assert meta["version"] == meta["appVersion"] == image["newTag"]


def test_in_kube_system_no_quota_limits_the_critical_pods_of_others(chart: Chart) -> None:
    def quotas(namespace: str) -> list[str]:
        return [name for kind, _, name in chart(namespace) if kind == "ResourceQuota"]

    assert quotas("team-a") == ["optimus-critical-pods"]
    assert quotas("kube-system") == []
