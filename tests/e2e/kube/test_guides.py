"""The commands of the guides, from the first job to the removal, as their pages have them, and what
`doctor` says of faults of an installation; on a real control plane, with kubectl."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.specs import NodeSpec
from localcluster.testing.clusters import Shown
from optimus.cli.main import main
from tests.harness.go_tools import HELM
from tests.harness.guide_commands import block, blocks
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

ROOT: Final = Path(__file__).parents[3]
FIRST_JOB: Final = ROOT / "docs" / "first-job.md"
OPERATOR: Final = ROOT / "docs" / "operator-guide.md"
ROLLOUT: Final = "rollout status"
_SECONDS: Final = 240
LEFT: Final = {
    "CustomResourceDefinition trainingprofiles.optimus.dl",
    "CustomResourceDefinition workloadprofiles.optimus.dl",
    "Lease optimus-scheduler",
}
"""What the guide says is left of an installation, beside the profiles."""
Doctor = Callable[[], dict[str, dict[str, Any]]]


def line_with(page: Path, part: str) -> str:
    """The one command of a page with this part."""
    (found,) = {line for line in page.read_text().splitlines() if line.startswith(part)}
    return found


class Shell:
    """Runs commands in the root of the checkout, with kubectl for one cluster."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.binaries["kubectl"])
        (programs / "kubectl-optimus").symlink_to(Path(sys.executable).parent / "kubectl-optimus")
        self._programs = programs
        self._environ = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(cluster.kubeconfig),
        }
        # What the pages write for this checkout and machine.
        self._here = {
            ".venv/bin/python": sys.executable,
            "/tmp/optimus-checkpoints": str(folder / "checkpoints"),
            "my-cluster": str(folder / "my-cluster"),
            "NODE...": "node-1 node-2",
            "NAMESPACE": "default",
            "REGISTRY": "registry.invalid",
        }

    def add(self, program: Path) -> None:
        """Let the commands find one more program."""
        (self._programs / program.name).symlink_to(program)

    def run(self, commands: str) -> str:
        """What the commands print. Raises AssertionError with it where one fails."""
        for written, meant in self._here.items():
            commands = commands.replace(written, meant)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=ROOT,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def succeeds(self, commands: str) -> bool:
        """Whether they succeed now; for what may have to be asked again."""
        try:
            self.run(commands)
        except AssertionError as error:
            print(error)
            return False
        return True


@pytest.fixture(scope="module")
def cluster(shown: Shown) -> Iterator[LocalCluster]:
    """Three nodes of four cores, as on the page of the first job."""
    nodes = [NodeSpec(f"node-{number}", {"cpu": "4", "memory": "8Gi"}) for number in (1, 2, 3)]
    with LocalCluster("guides", nodes) as cluster, shown(cluster):
        yield cluster


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """`my-cluster` is the demo's overlay without CRDs, as overlays of the operator guide are: an
    image cannot be pulled here."""
    folder = tmp_path_factory.mktemp("guides").resolve()
    overlay = folder / "my-cluster"
    overlay.mkdir()
    gone = yaml.safe_dump({"$patch": "delete", "kind": "any", "metadata": {"name": "any"}})
    kustomization = {
        "resources": [os.path.relpath(ROOT / "examples" / "demo" / "optimus", overlay)],
        "patches": [{"target": {"kind": "CustomResourceDefinition"}, "patch": gone}],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return Shell(cluster, folder)


@pytest.fixture
def installed(shell: Shell) -> Shell:
    """Both processes run, whatever the tests before have removed."""
    commands = block(FIRST_JOB, "Optimus")
    assert "kubectl apply --server-side -k examples/demo/optimus" in commands
    assert ROLLOUT in commands
    shell.run(commands)
    return shell


@pytest.fixture
def doctor(cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """What `kubectl optimus doctor` finds now."""

    def examined() -> dict[str, dict[str, Any]]:
        capsys.readouterr()
        main(["doctor", "--json", "--kubeconfig", str(cluster.kubeconfig)])
        found = json.loads(capsys.readouterr().out)["findings"]
        return {each["what"]: each for each in found}

    return examined


@pytest.fixture
def jobs(installed: Shell) -> Iterator[Shell]:
    """For a test that submits jobs, which are gone afterwards."""
    yield installed
    installed.run("kubectl delete tfjobs,mxjobs --all")


@pytest.mark.timeout(900)
def test_upgrade_and_removal_keep_what_was_learned(jobs: Shell) -> None:
    jobs.run("kubectl apply -f examples/light/tfjob.yaml")
    profile = "kubectl get tprof light-tf -o jsonpath={.metadata.uid}"
    owner = "kubectl get tprof light-tf -o jsonpath={.spec.jobRef.uid}"
    job = jobs.run("kubectl get tfjob light-tf -o jsonpath={.metadata.uid}")
    # One of an earlier job of the name is collected at any moment.
    has_profile = partial(jobs.succeeds, f'[ "$({owner})" = {job} ]')
    wait_until("the job has a profile of its own", has_profile)
    learned = jobs.run(profile)
    upgrade = [
        line_with(OPERATOR, "kubectl apply --server-side -k manifests/crds"),
        line_with(OPERATOR, "kubectl apply --server-side -k my-cluster"),
        line_with(OPERATOR, "kubectl -n optimus-system rollout status"),
    ]
    jobs.run("\n".join(upgrade))
    assert jobs.run(profile) == learned

    guide = " ".join(OPERATOR.read_text().split())
    for command in ("kubectl get tprof -A", "kubectl delete --ignore-not-found -k my-cluster"):
        assert f"`{command}`" in guide
        jobs.run(command)
    gone = partial(is_gone, jobs)
    wait_until("the namespace is gone", partial(gone, "kubectl get namespace optimus-system"))
    assert jobs.run(profile) == learned
    check_removed(jobs)
    assert "`kubectl delete -k manifests/crds`" in guide
    jobs.run("kubectl delete -k manifests/crds")
    wait_until("profiles are gone", partial(gone, "kubectl get tprof -A"))
    lease = "kubectl -n kube-system delete lease optimus-scheduler"
    assert f"`{lease}`" in guide
    jobs.run(lease)
    wait_until("nothing is left", lambda: not ours(jobs))


@pytest.mark.timeout(900)
def test_one_line_installs_and_another_removes_all_but_what_was_learned(installed: Shell) -> None:
    """With the rights of users and the policies of the optional parts, and without their pods: an
    image cannot be pulled here."""
    (install,) = block(OPERATOR, "Install").splitlines()
    parts = [f"manifests/{name}" for name in ("user-roles/rbac", "network-policy/policies")]
    optional = [f"kubectl apply --server-side -f {part}.yaml" for part in parts]
    removal = "kubectl delete --ignore-not-found -f manifests/install/uninstall.yaml"
    assert removal in " ".join(OPERATOR.read_text().split())
    installed.run("kubectl delete --ignore-not-found -k my-cluster")
    check_removed(installed)
    installed.run("\n".join([f"{install} --force-conflicts", *optional]))
    assert len(ours(installed)) > len(LEFT)
    installed.run(
        "\n".join(
            [removal, *(f"kubectl delete --ignore-not-found -f {part}.yaml" for part in parts)]
        )
    )
    check_removed(installed)


@pytest.mark.timeout(3600)  # with the first build of helm
def test_helm_installs_upgrades_and_removes(installed: Shell) -> None:
    """The pods do not start: an image cannot be pulled here, and so the hook is left out."""
    installed.add(HELM.built())
    in_words = " ".join(OPERATOR.read_text().split())
    (install,) = {each for each in commands_of(OPERATOR) if each.startswith("helm ")}
    removal = "helm uninstall optimus -n optimus-system"
    assert f"`{removal}`" in in_words
    assert "`--take-ownership`" in in_words
    installed.run("kubectl delete --ignore-not-found -k my-cluster")
    check_removed(installed)
    installed.run(f"{install} --take-ownership")  # the CRDs are there already
    image = "-o jsonpath='{.spec.template.spec.containers[0].image}'"
    deployment = "kubectl -n optimus-system get deployment optimus-autoscaler"
    assert "registry.invalid/optimus-on-kubernetes:" in installed.run(f"{deployment} {image}")
    installed.run(install)
    assert '"revision":"2"' in installed.run(f"{HELM.name} list -n optimus-system -o json")
    assert "`--no-hooks`" in in_words
    installed.run(f"{removal} --no-hooks --wait")
    kept = {"Namespace optimus-system", "Lease optimus-autoscaler"}
    wait_until("the rest is gone", lambda: ours(installed) - LEFT <= kept)
    installed.run("kubectl delete namespace optimus-system")
    check_removed(installed)


@pytest.mark.timeout(900)
def test_each_other_command_of_the_operator_guide(installed: Shell) -> None:
    """As they are written; a namespace and nodes have the names of this cluster."""
    refused_here = ("kubectl -n optimus-system exec ", "kubectl -n optimus-system port-forward ")
    system = "kubectl -n optimus-system "
    elsewhere = ("helm ", "kubectl apply ", f"{system}rollout ", f"{system}create secret ")
    installed.run("kubectl create namespace monitoring")
    commands = commands_of(OPERATOR)
    run = [each for each in commands if not each.startswith((*refused_here, *elsewhere))]
    assert len(run) >= 6, run
    wait_until("both processes lead", lambda: installed.succeeds("kubectl optimus doctor"))
    for each in run:
        installed.run(each)
    taints = "kubectl get node node-1 -o jsonpath={.spec.taints[*].key}"
    assert installed.run(taints) == "optimus.dl/training"
    bindings = ("optimus-kube-state-metrics", "optimus-autoscaler-logs")
    assert all(any(name in each for each in run) for name in bindings)
    installed.run(
        """
        kubectl taint nodes node-1 node-2 optimus.dl/training-
        kubectl delete namespace monitoring
        kubectl delete clusterrolebinding optimus-kube-state-metrics
        kubectl delete rolebinding optimus-autoscaler-logs
        """
    )


def commands_of(page: Path) -> list[str]:
    """The commands in a page's blocks of code, each on one line."""
    lines = "\n".join(blocks(page)).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith(("kubectl ", "helm "))]


def ours(shell: Shell) -> set[str]:
    """The objects of every kind whose names are of Optimus; an APIService goes with its CRD."""
    kinds = shell.run("kubectl api-resources --verbs=list -o name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith(("events", "apiservices")))
    shown = "-o custom-columns=KIND:.kind,NAME:.metadata.name --no-headers"
    lines = shell.run(f"kubectl get {listed} -A --ignore-not-found {shown}").splitlines()
    return {" ".join(line.split()) for line in lines if "optimus" in line}


def check_removed(shell: Shell) -> None:
    wait_until("nothing but what the guide names is left", lambda: ours(shell) <= LEFT)


def is_gone(shell: Shell, command: str) -> bool:
    return not shell.succeeds(command)


def has_state(doctor: Doctor, what: str, state: str) -> bool:
    return bool(doctor()[what]["state"] == state)


@pytest.mark.timeout(900)
def test_doctor_names_each_fault_and_what_mends_it(installed: Shell, doctor: Doctor) -> None:
    for what in ("CRDs", "scheduler", "scheduler's configuration"):
        wait_until(f"{what} are in order", partial(has_state, doctor, what, "ok"))

    installed.run("kubectl delete crd trainingprofiles.optimus.dl")
    check_fault(installed, doctor, "CRDs", "does not serve trainingprofiles")

    installed.run("kubectl -n optimus-system scale deployment optimus-scheduler --replicas=0")
    check_fault(installed, doctor, "scheduler", "scaled to 0 replicas")

    deployment = "kubectl -n optimus-system get deployment optimus-autoscaler"
    source = "{.spec.template.spec.containers[0].envFrom[0].configMapRef.name}"
    settings = installed.run(f"{deployment} -o jsonpath='{source}'")
    name_scheduler(installed, settings, "nobody")
    found = fault(doctor, "scheduler's configuration")
    assert "no profile has the schedulerName nobody" in found["text"]
    assert "scheduler-config/kube-scheduler-config.yaml" in found["mend"]
    name_scheduler(installed, settings, "optimus-scheduler")
    wait_until("it is mended", lambda: has_state(doctor, "scheduler's configuration", "ok"))


def name_scheduler(shell: Shell, settings: str, name: str) -> None:
    patch = json.dumps({"data": {"OPTIMUS_SCHEDULER_NAME": name}})
    shell.run(f"kubectl -n optimus-system patch configmap {settings} -p '{patch}'")


def fault(doctor: Doctor, what: str) -> dict[str, Any]:
    """What `doctor` says once it sees a problem; rights and kinds change a moment later."""
    wait_until(f"doctor sees that {what} are wrong", lambda: has_state(doctor, what, "problem"))
    return doctor()[what]


def check_fault(shell: Shell, doctor: Doctor, what: str, sentence: str) -> None:
    """A fault is named, and gone after its command."""
    found = fault(doctor, what)
    assert sentence in found["text"]
    shell.run(found["mend"])
    wait_until(f"{what} are mended", lambda: has_state(doctor, what, "ok"))
