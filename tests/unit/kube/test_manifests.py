"""The manifests say what the code says."""

import json
import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml

from autoscaler.cluster import Caches
from autoscaler.settings import parse
from optimus.kube.annotations import GOALS, asks_for_management
from optimus.kube.client import Client
from optimus.kube.contract import (
    GROUP,
    PROFILE_KIND,
    PROFILES,
    SCHEDULER_NAME,
    VERSION,
    Annotation,
    Phase,
)
from optimus.kube.devices import (
    watched_claim_templates,
    watched_device_claims,
    watched_device_classes,
    watched_slices,
)
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.job_kinds import JOB_KINDS, OPERATOR_GROUP
from optimus.kube.list_watch import ListWatch
from optimus.kube.nodes import watched_nodes
from optimus.kube.pods import watched_pods
from optimus.kube.profiles import (
    AvoidedNode,
    Condition,
    ConditionType,
    ProfileStatus,
    RescaleStatus,
    Truth,
    watched_profiles,
)
from optimus.kube.reflector import ReflectorConfig
from optimus.kube.training_jobs import watched_training_jobs
from optimus.kube.volumes import (
    watched_claims,
    watched_namespaces,
    watched_storage_classes,
    watched_volumes,
)
from optimus.progress import metric_names

ROOT = Path(__file__).parents[3]
MANIFESTS = sorted(
    path for path in (ROOT / "manifests").rglob("*.yaml") if path.parent.name != "install"
)
PREEMPTION = ROOT / "manifests/preemption"
RESIZED = [kind for kind in JOB_KINDS.values() if kind.is_resized]


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.fixture
def crd() -> dict[str, Any]:
    return documents(ROOT / "manifests/crds/crd-trainingprofiles.yaml")[0]


def status_of(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "status"
    ]
    return schema["properties"]  # type: ignore[no-any-return]  # YAML


def test_the_crd_is_the_one_that_is_written(crd: dict[str, Any]) -> None:
    assert (crd["spec"]["group"], crd["spec"]["versions"][0]["name"]) == (GROUP, VERSION)
    assert (crd["spec"]["names"]["kind"], crd["spec"]["names"]["plural"]) == (
        PROFILE_KIND,
        PROFILES,
    )


def test_the_crd_has_exactly_the_fields_that_are_written(crd: dict[str, Any]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(ProfileStatus)}
    assert set(status_of(crd)) == fields
    rescale = {field.encode_name for field in msgspec.structs.fields(RescaleStatus)}
    assert set(status_of(crd)["rescale"]["properties"]) == rescale
    avoided = {field.encode_name for field in msgspec.structs.fields(AvoidedNode)}
    assert set(status_of(crd)["avoidedNodes"]["items"]["properties"]) == avoided


def test_every_kind_of_job_may_have_a_profile(crd: dict[str, Any]) -> None:
    # One with a goal that is left alone says so in its profile, also where it is never resized.
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    reference = schema["properties"]["spec"]["properties"]["jobRef"]
    assert reference["properties"]["kind"]["enum"] == list(JOB_KINDS)


def test_the_crd_has_the_fields_of_conditions(crd: dict[str, Any]) -> None:
    conditions = status_of(crd)["conditions"]
    fields = {field.encode_name for field in msgspec.structs.fields(Condition)}
    assert set(conditions["items"]["properties"]) == {*fields, "observedGeneration"}
    assert set(conditions["items"]["required"]) == fields
    assert conditions["items"]["properties"]["status"]["enum"] == [each.value for each in Truth]
    assert conditions["maxItems"] >= len(ConditionType)


def test_both_versions_of_the_crd_are_one_and_the_older_is_stored(crd: dict[str, Any]) -> None:
    """So no conversion is needed, and the release before can be installed again."""
    older, newer = crd["spec"]["versions"]
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert [(each["name"], each["storage"]) for each in (older, newer)] == [
        ("v1alpha1", True),
        ("v1beta1", False),
    ]
    assert older["served"]
    assert {**newer, "name": "", "storage": 0} == {**older, "name": "", "storage": 0}


def test_the_crd_knows_every_phase(crd: dict[str, Any]) -> None:
    assert status_of(crd)["phase"]["enum"] == [phase.value for phase in Phase]


def readable(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Groups and resources that may be listed and watched."""
    return {
        (group, resource)
        for rule in rules
        if {"list", "watch"} <= {*rule["verbs"]}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_extender_may_read_all_that_it_watches() -> None:
    config = EligibilityConfig(scheduler_name=SCHEDULER_NAME)
    watched: list[ListWatch[Any]] = [
        watched_nodes(),
        watched_pods(),
        *(watched_training_jobs(kind, config) for kind in JOB_KINDS),
        watched_profiles(),
        watched_claims(),
        watched_volumes(),
        watched_storage_classes(),
        watched_namespaces(),
        watched_slices(),
        watched_device_classes(),
        watched_claim_templates(),
        watched_device_claims(),
    ]
    (role,) = (
        document
        for document in documents(ROOT / "manifests/rbac-scheduler.yaml")
        if document["kind"] == "ClusterRole"
    )
    assert {(each.group, each.plural) for each in watched} <= readable(role["rules"])


def test_the_autoscaler_may_read_all_that_it_watches() -> None:
    role = documents(ROOT / "manifests/rbac-autoscaler.yaml")[1]
    caches = Caches(cast("Client", object()), EligibilityConfig(), "", "", ReflectorConfig())
    watched = {(each.watched.group, each.watched.plural) for each in caches.all}
    assert watched <= readable(role["rules"])


def test_of_pods_the_autoscaler_may_write_the_status_part_alone() -> None:
    """Its write is ``PodWriter.set_goal_met``, one patch; the right is a role of its own."""
    writes = {
        (document["metadata"]["name"], resource, verb)
        for document in documents(ROOT / "manifests/rbac-autoscaler.yaml")
        for rule in document.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if resource.split("/")[0] == "pods" and verb not in ("get", "list", "watch")
    }
    assert writes == {("optimus-autoscaler-completion", "pods/status", "patch")}


def test_who_may_view_a_namespace_may_read_every_kind_of_job() -> None:
    view, *_ = documents(ROOT / "manifests/user-roles/rbac.yaml")
    jobs = {(*rule["apiGroups"], each) for rule in view["rules"] for each in rule["resources"]}
    assert jobs >= {(kind.group, kind.plural) for kind in JOB_KINDS.values()}


def test_the_extender_may_not_write_jobs() -> None:
    rules = [
        rule
        for document in documents(ROOT / "manifests/rbac-scheduler.yaml")
        for rule in document.get("rules", ())
        if OPERATOR_GROUP in rule["apiGroups"]
    ]
    assert [rule["verbs"] for rule in rules] == [["get", "list", "watch"]]


def test_preemption_is_a_part_that_has_to_be_chosen() -> None:
    (component,) = documents(PREEMPTION / "kustomization.yaml")
    (default,) = documents(ROOT / "manifests/kustomization.yaml")
    assert component["kind"] == "Component"
    assert "components" not in default
    assert "preemption" not in str(default["resources"])
    (generator,) = component["configMapGenerator"]
    assert parse([], dict(each.split("=", 1) for each in generator["literals"])).preempt


def test_the_page_is_reached_by_forwarded_ports_alone_unless_its_component_is_added() -> None:
    (deployment,) = documents(ROOT / "manifests/autoscaler.yaml")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--page-listen=127.0.0.1:8090" in container["args"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["page"] == 8090
    (component,) = documents(ROOT / "manifests/page/kustomization.yaml")
    assert component["kind"] == "Component"
    (default,) = documents(ROOT / "manifests/kustomization.yaml")
    assert "page" not in str(default["resources"])
    (patch,) = component["patches"]
    (replaced,) = yaml.safe_load(patch["patch"])
    number = int(replaced["path"].rpartition("/")[2])
    assert container["args"][number].startswith("--page-listen=")
    assert replaced["value"] == "--page-listen=$(POD_IP):8090"


def test_who_may_reach_the_page_is_said_of_its_service() -> None:
    (service,) = documents(ROOT / "manifests/page/service.yaml")
    (deployment,) = documents(ROOT / "manifests/autoscaler.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert [each["targetPort"] for each in service["spec"]["ports"]] == ["page"]


def test_the_overlays_configuration_differs_by_the_kubeconfig_alone() -> None:
    plain = documents(ROOT / "scheduler-config/kube-scheduler-config.yaml")[0]
    overlaid = documents(ROOT / "localcluster/overlay/kube-scheduler-config.yaml")[0]
    connection = overlaid.pop("clientConnection")
    assert connection == {"kubeconfig": "/var/run/secrets/kubernetes.io/serviceaccount/kubeconfig"}
    assert overlaid == plain


@pytest.mark.parametrize("name", ["kube-scheduler-config.yaml", "advisory.yaml"])
def test_the_scheduler_has_the_name_of_the_contract(name: str) -> None:
    configuration = documents(ROOT / "scheduler-config" / name)[0]
    assert [profile["schedulerName"] for profile in configuration["profiles"]] == [SCHEDULER_NAME]


def admission_policy() -> tuple[dict[str, Any], dict[str, Any]]:
    (policy, binding) = documents(ROOT / "manifests/admission-policy.yaml")
    return policy, binding


def test_the_admission_policy_is_part_of_the_default_installation_and_denies() -> None:
    policy, binding = admission_policy()
    (default,) = documents(ROOT / "manifests/kustomization.yaml")
    assert "admission-policy.yaml" in default["resources"]
    assert policy["apiVersion"] == "admissionregistration.k8s.io/v1"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]


def test_the_admission_policy_knows_exactly_the_kinds_of_training_job() -> None:
    spec = admission_policy()[0]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == [kind.plural for kind in RESIZED]
    assert rule["apiGroups"] == [OPERATOR_GROUP]
    assert rule["operations"] == ["UPDATE"]
    for variable, version in zip(spec["variables"], ("oldObject", "object"), strict=True):
        first, *others = (f"dyn({version}).spec.?{each.replica_specs}" for each in RESIZED)
        chain = first + "".join(f".or({other})" for other in others)
        assert variable["expression"] == f"{chain}.orValue({{}})"


def test_the_admission_policy_exempts_the_autoscaler_and_names_what_makes_a_job_managed() -> None:
    conditions = {
        each["name"]: each["expression"]
        for each in admission_policy()[0]["spec"]["matchConditions"]
    }
    (account, *_) = documents(ROOT / "manifests/rbac-autoscaler.yaml")
    name = f"{account['metadata']['namespace']}:{account['metadata']['name']}"
    assert f'"system:serviceaccount:{name}"' in conditions["by-others-than-the-autoscaler"]
    assert all(asks_for_management({goal: "0.1"}) for goal in GOALS)
    assert json.dumps(GOALS) in conditions["with-a-goal"]


def annotation_policy() -> tuple[dict[str, Any], dict[str, Any]]:
    (policy, binding) = documents(ROOT / "manifests/admission/annotations.yaml")
    return policy, binding


def test_the_annotations_are_warned_of_by_default_and_denied_by_a_component() -> None:
    policy, binding = annotation_policy()
    (default,) = documents(ROOT / "manifests/kustomization.yaml")
    assert "admission/annotations.yaml" in default["resources"]
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Warn"]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    (component,) = documents(ROOT / "manifests/admission/deny/kustomization.yaml")
    (patch,) = component["patches"]
    assert patch["target"] == {"kind": binding["kind"], "name": binding["metadata"]["name"]}
    assert yaml.safe_load(patch["patch"])[0]["value"] == ["Deny"]


def test_the_policy_of_annotations_knows_their_names_and_the_kinds_of_job() -> None:
    spec = annotation_policy()[0]["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == [kind.plural for kind in RESIZED]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    names = [value for name, value in vars(Annotation).items() if name.isupper()]
    assert sorted(json.loads(variables["known"])) == sorted(names)
    written = [
        Annotation.SUSPENDED_BY,
        Annotation.GOAL_MET,
        Annotation.REQUEUED,
    ]
    assert json.dumps(written) in str(spec["matchConditions"])
    assert json.dumps(GOALS) in variables["goals"]
    assert variables["scheduler"] == f"'{SCHEDULER_NAME}'"
    judged = "".join(variables.values())
    assert all(f'"{name}"' in judged.replace(variables["known"], "") for name in names[:-3])
    for kind in RESIZED:
        assert f".{kind.replica_specs}" in variables["roles"].replace("?", "")


@pytest.mark.parametrize(
    "pattern",
    [
        metric_names._RISING,
        metric_names._FALLING,
        metric_names._PERPLEXITY,
        metric_names._REGRESSION,
        metric_names._ENTROPY,
        metric_names._SCOPES,
        metric_names._EVALUATION,
    ],
)
def test_the_policy_of_annotations_reads_names_of_metrics_as_the_parser_does(
    pattern: re.Pattern[str],
) -> None:
    expressions = [each["expression"] for each in annotation_policy()[0]["spec"]["variables"]]
    assert f'"^(" + r"{pattern.pattern}" + ")$"' in "".join(expressions)


def test_the_policy_of_defaults_is_a_part_that_has_to_be_chosen_and_knows_the_names() -> None:
    folder = ROOT / "manifests/admission/defaults"
    policy, binding, priority = documents(folder / "policy.yaml")
    (component,) = documents(folder / "kustomization.yaml")
    (default,) = documents(ROOT / "manifests/kustomization.yaml")
    assert component["kind"] == "Component"
    assert "defaults" not in str(default)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    spec = policy["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == [kind.plural for kind in RESIZED]
    conditions = {each["name"]: each["expression"] for each in spec["matchConditions"]}
    assert json.dumps(GOALS) in conditions["with-a-goal"]
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    assert variables["scheduler"] == f"'{SCHEDULER_NAME}'"
    assert variables["priorityClass"] == f"'{priority['metadata']['name']}'"
    assert (priority["value"], priority["preemptionPolicy"]) == (0, "Never")
    assert all(kind.replica_specs in variables["path"] for kind in RESIZED)


def containers() -> list[Any]:
    found = []
    for path in MANIFESTS:
        for document in documents(path):
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                every = [*pod.get("initContainers", ()), *pod["containers"]]
                found += [pytest.param(pod, container, id=container["name"]) for container in every]
    return found


@pytest.mark.parametrize(("pod", "container"), containers())
def test_every_container_is_confined_bounded_and_watched(
    pod: dict[str, Any], container: dict[str, Any]
) -> None:
    security = container["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert container["resources"]["limits"]["memory"]
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert {"livenessProbe", "startupProbe"} <= container.keys()
    assert not container["image"].endswith(":latest")


def rules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in MANIFESTS:
        for document in documents(path):
            found += document.get("rules", ())
    return found


def test_no_right_is_granted_by_a_star() -> None:
    assert rules()
    for rule in rules():
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_the_rights_name_exactly_the_kinds_of_training_job() -> None:
    groups = {kind.group for kind in JOB_KINDS.values()}
    granted: dict[str, set[str]] = {}
    for path in MANIFESTS:
        for document in documents(path):
            for rule in document.get("rules") or ():
                if groups.intersection(rule.get("apiGroups", ())):
                    name = document["metadata"]["name"]
                    plurals = {resource.partition("/")[0] for resource in rule["resources"]}
                    granted[name] = granted.get(name, set()) | plurals
    every = {kind.plural for kind in JOB_KINDS.values()}
    resized = {kind.plural for kind in JOB_KINDS.values() if kind.is_resized}
    for name, plurals in granted.items():
        assert plurals in (every, resized), name
    assert every in granted.values()
