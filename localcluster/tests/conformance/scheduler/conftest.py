"""A scheduler with an extender of the test's own, nodes that nobody runs, and pods that name that
scheduler."""

import secrets
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.testing.backends import scheduler_command
from tests.conformance.api_calls import ApiCalls, Json, pod
from tests.conformance.scheduler.extender import Extender

Scheduling: TypeAlias = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="session")
def scheduling(backend: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Scheduling:
    """Run a scheduler of one's own for the length of a `with` block; returns the name that pods
    give.

    Its arguments are fields of its one extender, `election`: the fields of leaderElection, and
    `post_filter`: which plugins of that point are on or off.
    """

    @contextmanager
    def run(
        election: Json | None = None, post_filter: Json | None = None, **extender: Any
    ) -> Iterator[str]:
        name = f"scheduler-{secrets.token_hex(4)}"
        folder = tmp_path_factory.mktemp(name)
        config = _configuration(backend.kubeconfig, name, election, extender)
        config["profiles"][0]["plugins"] = {"postFilter": post_filter or {}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        command = [*scheduler_command(backend), f"--config={folder / 'config.yaml'}"]
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            try:
                yield name
            finally:
                process.terminate()
                process.wait(120)

    return run


def _configuration(kubeconfig: Path, name: str, election: Json | None, extender: Json) -> Json:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 500},
        "leaderElection": election or {"leaderElect": False},
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": name}],
        "extenders": [extender] if extender else [],
    }


@pytest.fixture(scope="session")
def serving() -> Iterator[Extender]:
    with Extender().serving() as extender:
        yield extender


STANDARD: Json = {
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "weight": 121,
    "httpTimeout": "60s",
    "nodeCacheCapable": True,
    "ignorable": False,
}
"""As in the product's own configuration, but for the time-out, which no answer is to meet."""


@pytest.fixture(scope="session")
def standard_scheduler(scheduling: Scheduling, serving: Extender) -> Iterator[str]:
    """The scheduler that most tests share."""
    with scheduling(urlPrefix=serving.url, **STANDARD) as name:
        yield name


@pytest.fixture
def extender(serving: Extender) -> Extender:
    """The extender that most tests share, as at first."""
    serving.reset()
    return serving


@dataclass
class SchedulingHarness:
    """One test's nodes and pods."""

    api: ApiCalls
    namespace: str
    scheduler: str
    nodes: list[str]

    def node(self, cpu: str = "4", labels: Json | None = None, **spec: Any) -> str:
        """Make a node."""
        name = self.api.make_node(cpu, labels, **spec)
        self.nodes.append(name)
        return name

    def wait_known(self) -> None:
        """Wait until the scheduler's copy has this test's nodes and no other.

        Its copies of nodes and of pods do not grow alike: a pod may be tried on the first of three
        nodes alone. A pod that fits nowhere is told how many nodes were looked at, and no extender
        is asked about it."""

        def counted() -> bool:
            name = f"scout-{secrets.token_hex(4)}"
            self.pod(name, nodeSelector={"nowhere": "yes"})
            said = self.wait_refused(name)
            self.remove(name)
            return said.startswith(f"0/{len(self.nodes)} nodes are available")

        self.api.wait_until(counted, f"the scheduler knows {len(self.nodes)} nodes")

    def pod(self, name: str, cpu: str = "1", *, resources: Json | None = None, **spec: Any) -> None:
        """Make a pod."""
        body = pod(name, schedulerName=spec.pop("schedulerName", self.scheduler), **spec)
        body["spec"]["containers"][0]["resources"] = resources or {"requests": {"cpu": cpu}}
        self.api.core.create_namespaced_pod(self.namespace, body)

    def read(self, name: str) -> Any:
        return self.api.core.read_namespaced_pod(name, self.namespace)

    def wait_bound(self, name: str) -> str:
        """Wait until a pod has a node; return that."""
        node = self.api.wait_until(
            lambda: self.read(name).spec.node_name, f"{name} has a node ({self.why(name)})"
        )
        return str(node)

    def condition(self, name: str) -> tuple[str, str, str] | None:
        """Status, reason and message of a pod's condition PodScheduled."""
        for each in self.read(name).status.conditions or ():
            if each.type == "PodScheduled":
                return each.status, each.reason, each.message
        return None

    def why(self, name: str) -> str:
        """The sentence why a pod has no node; "" for none."""
        return (self.condition(name) or ("", "", ""))[2] or ""

    def wait_refused(self, name: str, reason: str = "Unschedulable") -> str:
        """Wait until a pod is said to have no node, for a reason; return the sentence."""
        self.api.wait_until(
            lambda: (self.condition(name) or ("", ""))[:2] == ("False", reason),
            f"{name} is refused: {reason}",
        )
        return self.why(name)

    def wait_refused_again(self, name: str, extender: Extender) -> None:
        """Wait until the extender has refused a pod, was asked once more, and is asked no further.

        The second question follows from the scheduler's own note in the pod's status. How soon is
        the machine's affair: silence alone does not tell that it has been asked.
        """
        self.wait_refused(name)
        self.api.wait_until(
            lambda: len(extender.asked(name)) >= 2, f"the extender is asked about {name} once more"
        )
        self.quiet(extender)

    def wait_message(self, name: str, sentence: str) -> None:
        """Wait until a pod is said to have no node with exactly this sentence.

        The scheduler's copies of nodes and pods do not grow alike: its first sentence may lack the
        newest node."""
        try:
            self.api.wait_until(lambda: self.why(name) == sentence, f"{name} has the reason")
        except AssertionError:
            assert self.why(name) == sentence
            raise

    def nominate(self, name: str, node: str | None) -> None:
        """Write a pod's nomination, as an extender does."""
        self.api.core.patch_namespaced_pod_status(
            name, self.namespace, {"status": {"nominatedNodeName": node}}
        )

    def annotate(self, name: str) -> None:
        """Change an annotation of a pod, as an extender does to wake it."""
        body = {"metadata": {"annotations": {"woken": secrets.token_hex(4)}}}
        self.api.core.patch_namespaced_pod_status(name, self.namespace, body)

    def remove(self, name: str) -> None:
        """Make a pod go at once."""
        self.api.core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def quiet(self, extender: Extender, seconds: float = 0.7) -> int:
        """Wait until the extender is not asked any more; return how often it was asked."""
        seen: list[int] = [-1]

        def unchanged() -> bool:
            before, seen[0] = seen[0], len(extender.calls)
            if before == seen[0]:
                return True
            self.api.holds(lambda: True, "time goes by", seconds)
            return False

        self.api.wait_until(unchanged, "the extender is asked no further")
        return seen[0]


@pytest.fixture
def harness(api: ApiCalls, namespace: str, standard_scheduler: str) -> Iterator[SchedulingHarness]:
    """A cluster without nodes, to begin with."""
    for node in api.core.list_node().items:
        api.core.delete_node(node.metadata.name)
    made = SchedulingHarness(api, namespace, standard_scheduler, [])
    yield made
    api.delete_leftovers(namespace)
    api.wait_until(lambda: not api.core.list_namespaced_pod(namespace).items, "the pods are gone")
    for name in made.nodes:
        api.core.delete_node(name)
