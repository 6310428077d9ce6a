"""The policy of annotations on a real API server: what it warns of is what the parser refuses."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from localcluster.testing.waiting import wait_until
from optimus.kube.annotations import AnnotationProblem, read_options, unknown_annotations
from optimus.kube.job_kinds import JOB_KINDS
from tests.cases import cases
from tests.e2e.kube.conftest import MANIFESTS
from tests.e2e.kube.test_real_api_server import replicas
from tests.harness.api import KUBEFLOW, Api, in_namespace

ROLES = {
    "TFJob": ("PS", "Worker"),
    "MXJob": ("Scheduler", "Server", "Worker"),
    "PyTorchJob": ("Master", "Worker"),
}
RESIZED = [name for name, kind in JOB_KINDS.items() if kind.is_resized]
Json = dict[str, Any]
GOAL = {"target-loss": "0.2"}
PATTERNS = ("metrics-format", "checkpoint-format")
"""Of these only the parser can tell everything: it compiles them."""

JUDGED: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "target-loss": ("-1e-3", ("0,3",)),
    "convergence-threshold": ("9.9e-1", ("0", "1")),
    "target-steps": ("000000000000012", ("1000000000001",)),
    "ps-unevenness": (" 1, 1.24,1.315 ", ("0.5",)),
    "global-batch-size": ("1000000000", ("0",)),
    "at-target": (" Complete", ("stop",)),
    "pause": ("TRUE", ("yes",)),
    "workload": ("a" * 63, ("a" * 64, "a" * 101)),
    "finish-by": ("2028-02-29t23:59:59z", ("2027-02-29T00:00:00Z",)),
    "lr-schedule": (
        "step:30,60,90 factor=0.2 warmup=5",
        (
            "sine:200",
            "step:150,100",
            "cosine:100,200",
            "step:100 factor=1",
            "step:100 end=100",
        ),
    ),
    "metrics-format": (
        r"(?i)(?<name>[[:alpha:]\])]+)(?-i:\s)\(?=(\pN+|(?P<inf>inf))",
        ("(a)(b", "(?=(a))(b)", "(?i)(a)", "(a)(b)" + "c" * 300),
    ),
    "checkpoint-format": (r"\Qsaved (\E", (r"saved\Z",)),
    "target": (
        "val_loss<=0.3  OR  mAP>=80%",
        ("high", "train rmse>3", "validation ppl >= 3", "loss<=0.3 or IoU<.5", "a<1 or b<1 or c<1"),
    ),
}
"""Per annotation a value that each rule for it accepts, and one that each of them refuses."""


def job(kind: str, annotations: Mapping[str, str], scheduler: str = "optimus-scheduler") -> Json:
    container = JOB_KINDS[kind].container
    specs = {role: replicas(1, container, scheduler) for role in ROLES[kind]}
    mode = {"jobMode": "MXTrain"} if kind == "MXJob" else {}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": "j", "annotations": _full(annotations)},
        "spec": {JOB_KINDS[kind].replica_specs: specs, **mode},
    }


def _full(annotations: Mapping[str, str]) -> dict[str, str]:
    return {f"optimus.dl/{name}": value for name, value in annotations.items()}


class Warned:
    """Submits jobs, without storing them, and returns what the API server warns of."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace = api, namespace

    def of(self, body: Json) -> list[str]:
        plural = JOB_KINDS[body["kind"]].plural
        path = in_namespace(KUBEFLOW, self._namespace, plural)
        return [each.partition(": ")[2] for each in self._api.warnings(path, body)]

    def of_annotations(self, annotations: Mapping[str, str]) -> list[str]:
        return self.of(job("TFJob", annotations))


@pytest.fixture(scope="module")
def api(policed: LocalCluster) -> Iterator[Api]:
    with policed.api_client() as client:
        yield Api(client)


@pytest.fixture(scope="module")
def policed(granted: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster with the policy, in force."""
    path = str(MANIFESTS / "admission" / "annotations.yaml")
    granted.kubectl("apply", "--server-side", "-f", path)
    with granted.api_client() as client:
        warned = Warned(Api(client), "default")
        wait_until(lambda: bool(warned.of_annotations({"what": ""})), "the policy is in force", 180)
    yield granted
    granted.kubectl("delete", "-f", path)


@pytest.fixture
def warned(api: Api) -> Warned:
    return Warned(api, "default")


def refused(annotations: Mapping[str, str]) -> list[AnnotationProblem]:
    """What the parser refuses, leaves out or does not know."""
    found = read_options(_full(annotations))
    return [*found.problems, *found.ignored, *unknown_annotations(_full(annotations))]


NAMED: Final = re.compile(r'optimus\.dl/([a-z-]+)(?=: "|: unknown|, optimus)')


def compare(warned: Warned, annotations: Mapping[str, str]) -> None:
    """The policy warns of what the parser refuses, in its words; of patterns it may say less."""
    said, expected = " | ".join(warned.of_annotations(annotations)), refused(annotations)
    names = {each.annotation.removeprefix("optimus.dl/") for each in expected}
    found = {name for each in said.split(" | ") for name in NAMED.findall(each)}
    assert found <= names, f"{annotations}: {said}"
    assert names - found <= set(PATTERNS), f"{annotations}: {said}"
    for each in expected:
        if not each.annotation.endswith("-format"):
            sentence = each.expected.partition("; did you mean")[0]
            assert sentence in said, f"{annotations}: {said}"


def beside(name: str) -> Mapping[str, str]:
    """A goal for a value that is none itself: a deadline needs one."""
    return {} if name.startswith(("target", "convergence")) else GOAL


@pytest.mark.parametrize("name", JUDGED)
def test_a_warning_names_what_the_parser_refuses_and_nothing_else(
    warned: Warned, name: str
) -> None:
    accepted, wrong = JUDGED[name]
    annotations = {**beside(name), name: accepted}
    assert refused(annotations) == []
    assert warned.of_annotations(annotations) == []
    for value in wrong:
        annotations = {**beside(name), name: value}
        assert refused(annotations)
        assert warned.of_annotations(annotations)
        compare(warned, annotations)


@cases(
    "annotations",
    {
        "two goals, of which one is": {"target-loss": "low", "target": "loss<=1"},
        "three goals": {"convergence-threshold": "1", "target-steps": "1", "target-epochs": "2"},
        "bounds that cross": {**GOAL, "min-ps": "4", "max-ps": "2"},
        "two batches": {**GOAL, "global-batch-size": "8", "worker-batch-size": "8"},
        "a deadline without a goal": {"finish-by": "2027-01-15T08:00:00Z"},
        "text to be escaped": {**GOAL, "pause": 'x"\n\\', "manage": "é" * 300},
        "the programs' own beside unknown names": {
            **GOAL,
            "suspended-by": "i-1",
            "what": "1",
            "which": "2",
        },
    },
)
def test_annotations_together_are_judged_alike(
    warned: Warned, annotations: Mapping[str, str]
) -> None:
    compare(warned, annotations)


@pytest.mark.parametrize("character", ["1", "(", ",1", "a>=1 and "])
def test_the_longest_values_are_within_the_costs(warned: Warned, character: str) -> None:
    """The API server stores up to 256 KiB of annotations; an expression that costs too much would
    fail, and say nothing."""
    longest = character * ((250 << 10) // len(character))
    for name in JUDGED:
        compare(warned, {**beside(name), name: longest})


def test_very_many_annotations_are_within_the_costs(warned: Warned) -> None:
    many = {f"x-{number}": "" for number in range(5000)}
    (said,) = warned.of_annotations({**GOAL, **many})
    assert "unknown annotations" in said


@pytest.mark.parametrize("kind", RESIZED)
def test_roles_of_an_annotated_job_that_lack_the_scheduler_are_named(
    warned: Warned, kind: str
) -> None:
    body = job(kind, GOAL)
    worker = body["spec"][JOB_KINDS[kind].replica_specs]["Worker"]["template"]["spec"]
    worker["schedulerName"] = "default-scheduler"
    (said,) = warned.of(body)
    assert said.startswith("replica type Worker does not name scheduler optimus-scheduler")
    del worker["schedulerName"]
    (said,) = warned.of(body)
    assert 'add "schedulerName: optimus-scheduler" to template.spec of each' in said
    body["metadata"]["annotations"] = {}
    assert warned.of(body) == []


def test_kubectl_apply_shows_it_and_what_was_there_before_is_not_judged_again(
    policed: LocalCluster, namespace: str
) -> None:
    body = job("TFJob", {"target-loss": "low"}, scheduler="nobody")
    command = ("-n", namespace, "apply", "--warnings-as-errors", "-f", "-")
    with pytest.raises(KubectlError, match="a number such as") as shown:
        policed.kubectl(*command, stdin=json.dumps(body))
    said = str(shown.value)
    assert "PS, Worker does not name scheduler" in said or "Worker, PS does not name" in said
    body["spec"]["runPolicy"] = {"suspend": True}
    policed.kubectl(*command, stdin=json.dumps(body))
    body["metadata"]["annotations"]["optimus.dl/suspended-by"] = "i-1"
    policed.kubectl(*command, stdin=json.dumps(body))
    body["metadata"]["annotations"]["optimus.dl/pause"] = "true"
    with pytest.raises(KubectlError, match="a number such as"):
        policed.kubectl(*command, stdin=json.dumps(body))


DENY: Final = MANIFESTS / "admission" / "deny" / "kustomization.yaml"


@pytest.fixture
def denying(policed: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster as with the component `admission/deny`."""
    (patch,) = yaml.safe_load(DENY.read_text())["patches"]
    (denied,) = yaml.safe_load(patch["patch"])
    binding = f"validatingadmissionpolicybinding/{patch['target']['name']}"
    policed.kubectl("patch", binding, "--type=json", "-p", json.dumps([denied]))
    yield policed
    warned = [{**denied, "value": ["Warn"]}]
    policed.kubectl("patch", binding, "--type=json", "-p", json.dumps(warned))


def test_with_the_component_such_jobs_are_denied(denying: LocalCluster, namespace: str) -> None:
    body = job("TFJob", {"target-loss": "low"})
    command = ("-n", namespace, "apply", "--dry-run=server", "-f", "-")

    def denied() -> bool:
        try:
            denying.kubectl(*command, stdin=json.dumps(body))
        except KubectlError as error:
            return "a number such as 0.25 is expected" in str(error)
        return False

    wait_until(denied, "it is denied", 180)
    body["metadata"]["annotations"]["optimus.dl/target-loss"] = "0.2"
    assert "created" in denying.kubectl(*command, stdin=json.dumps(body))
