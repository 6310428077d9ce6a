"""What the commands that ask a cluster say to users with few rights; on a real API server."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubeconfig import read_kubeconfig, write_kubeconfig
from optimus.cli.main import main
from tests.e2e.kube.conftest import MANIFESTS
from tests.e2e.kube.test_admission_policy import job
from tests.harness.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

JOB = "few"
READING: Final[Sequence[Sequence[str]]] = (("status",), ("status", JOB), ("why", JOB))
VIEW = "ask an administrator for the ClusterRole view"


@dataclass(frozen=True)
class Told:
    """What a user is told."""

    status: int
    out: str
    err: str


Ask = Callable[..., Told]


class Users:
    """Makes users of the namespace, with kubeconfigs of their own."""

    def __init__(self, cluster: LocalCluster, namespace: str, folder: Path) -> None:
        self._cluster, self.namespace, self._folder = cluster, namespace, folder

    def made(self, name: str, *bindings: tuple[str, str]) -> Path:
        """A user with these ClusterRoles, each in a namespace; "" is everywhere."""
        cluster, account = self._cluster, f"{self.namespace}:{name}"
        cluster.kubectl("-n", self.namespace, "create", "serviceaccount", name)
        for role, namespace in bindings:
            where = ("-n", namespace) if namespace else ()
            kind = "rolebinding" if namespace else "clusterrolebinding"
            bound = (f"{name}-{role}-{self.namespace}", f"--clusterrole={role}")
            cluster.kubectl(*where, "create", kind, *bound, f"--serviceaccount={account}")
        token = cluster.kubectl("-n", self.namespace, "create", "token", name).strip()
        admin = read_kubeconfig(cluster.kubeconfig)
        path = self._folder / name
        write_kubeconfig(path, admin.server, admin.ca_pem, {"token": token})
        return path


@pytest.fixture
def users(granted: LocalCluster, namespace: str, tmp_path: Path) -> Iterator[Users]:
    """A namespace with one job, of which no pod runs."""
    for name in ("user-roles/rbac.yaml", "rbac-doctor.yaml"):
        granted.kubectl("apply", "--server-side", "-f", str(MANIFESTS / name))
    granted.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(job("TFJob", JOB)))
    yield Users(granted, namespace, tmp_path)
    granted.kubectl("-n", namespace, "delete", "tfjob", JOB)


@pytest.fixture
def ask(users: Users, capsys: pytest.CaptureFixture[str]) -> Callable[[Path], Ask]:
    """Runs commands as a user, and checks that no answer is the API server's own."""

    def of(kubeconfig: Path) -> Ask:
        def asked(*words: str) -> Told:
            capsys.readouterr()
            status = main([*words, "-n", users.namespace, "--kubeconfig", str(kubeconfig)])
            told = Told(status, *capsys.readouterr())
            for raw in ("forbidden", "HTTP 403", "Traceback"):
                assert raw not in told.out + told.err, told
            assert told.err.count("\n") == (0 if told.out else 1), told
            return told

        return asked

    return of


def test_a_viewer_reads_everything_of_the_namespace(
    users: Users, ask: Callable[[Path], Ask]
) -> None:
    viewer = ask(users.made("viewer", ("view", users.namespace)))
    wait_until("the role view is complete", lambda: viewer("why", JOB).status == 0)
    for words in (*READING, ("forecast", JOB)):
        assert viewer(*words).status == 0, words
    assert "has no TrainingProfile" in viewer("what-if", JOB, "--workers", "+1").out
    told = viewer("status", "-A")
    assert (told.status, "without -A" in told.err) == (1, True)


def test_doctor_as_a_viewer_is_incomplete_and_with_its_role_complete(
    users: Users, ask: Callable[[Path], Ask]
) -> None:
    viewer = ask(users.made("viewer", ("view", users.namespace)))
    told = viewer("doctor")
    assert told.status == 3
    assert told.out.count("you may not") == 1
    assert "Incomplete: " in told.out
    assert "--clusterrole=optimus-doctor" in told.out
    examiner = ask(
        users.made("examiner", ("optimus-doctor", ""), ("view", "optimus-system")),
    )
    wait_until("its roles are in force", lambda: "Not checked" not in examiner("doctor").out)
    told = examiner("doctor")
    assert told.status == 1, "Optimus is not installed here"
    assert "there is no deployment optimus-autoscaler" in told.out


def test_who_may_read_nothing_is_told_whom_to_ask(users: Users, ask: Callable[[Path], Ask]) -> None:
    nobody = ask(users.made("nobody"))
    for words in READING:
        told = nobody(*words)
        assert (told.status, told.out) == (1, ""), words
        assert "you may not " in told.err, words
        assert VIEW in told.err, words
    told = nobody("doctor")
    assert told.status == 3
    assert "Ask an administrator to run this command" in told.out
