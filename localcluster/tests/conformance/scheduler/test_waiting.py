"""Pods that wait: what wakes them, and what a nomination does."""

import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import pytest

from tests.conformance.api_calls import Json, config_map, now
from tests.conformance.scheduler.conftest import STANDARD, Scene, Scheduling
from tests.conformance.scheduler.extender import Extender, keep, keep_all, refuse_all

Change = Callable[[Scene], object]


def on_node(scene: Scene, body: object) -> object:
    return scene.api.core.patch_node(scene.nodes[0], body)


def heartbeat(scene: Scene) -> object:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": now()}
    return scene.api.core.patch_node_status(scene.nodes[0], {"status": {"conditions": [condition]}})


def another_is_bound(scene: Scene) -> object:
    scene.pod("other", schedulerName="nobody")
    scene.api.bind("other", scene.namespace, scene.nodes[0])
    return None


def label(scene: Scene) -> object:
    return scene.api.core.patch_namespaced_pod(
        "p", scene.namespace, {"metadata": {"labels": {"x": "1"}}}
    )


WAKING: Final[dict[str, Change]] = {
    "an annotation of its own": lambda scene: scene.annotate("p"),
    "a label of its own": label,
    "a nomination": lambda scene: scene.nominate("p", scene.nodes[0]),
    "an annotation of a node": lambda scene: on_node(
        scene, {"metadata": {"annotations": {"x": "1"}}}
    ),
    "a label of a node": lambda scene: on_node(scene, {"metadata": {"labels": {"x": "1"}}}),
    "a taint of a node": lambda scene: on_node(
        scene, {"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}}
    ),
    "a new node": lambda scene: scene.node(),
    "another pod that is bound": another_is_bound,
    "another pod that goes": lambda scene: scene.remove("placed"),
}

NOT_WAKING: Final[dict[str, Change]] = {
    "a node's heartbeat": heartbeat,
    "an object that is no business of the scheduler's": lambda scene: (
        scene.api.core.create_namespaced_config_map(scene.namespace, config_map("c"))
    ),
    "another scheduler's pod": lambda scene: scene.pod("other", schedulerName="nobody"),
}


class TestWaking:
    def refused(self, scene: Scene, extender: Extender) -> None:
        """A pod that the extender refuses, beside one that is placed."""
        scene.node()
        scene.pod("placed")
        scene.wait_bound("placed")
        extender.filter = refuse_all("not yet")
        scene.pod("p")
        scene.wait_refused_again("p", extender)
        extender.filter = keep_all

    @pytest.mark.parametrize("change", WAKING.values(), ids=WAKING.keys())
    def test_a_pod_that_the_extender_refused_is_woken_by(
        self, scene: Scene, extender: Extender, change: Change
    ) -> None:
        self.refused(scene, extender)
        change(scene)
        scene.wait_bound("p")

    @pytest.mark.parametrize("change", NOT_WAKING.values(), ids=NOT_WAKING.keys())
    def test_a_pod_that_the_extender_refused_is_not_woken_by(
        self, scene: Scene, extender: Extender, change: Change
    ) -> None:
        self.refused(scene, extender)
        asked = len(extender.calls)
        change(scene)
        scene.api.holds(
            lambda: len(extender.calls) == asked, "the extender is not asked again", 2.0
        )

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda scene: scene.remove("placed"), id="room on a node"),
            pytest.param(
                lambda scene: scene.api.core.patch_node_status(
                    scene.nodes[0], {"status": {"allocatable": {"cpu": "9"}}}
                ),
                id="a node that offers more",
            ),
            pytest.param(lambda scene: scene.node("4"), id="a new node"),
        ],
    )
    def test_a_pod_without_room_is_woken_by(
        self, scene: Scene, extender: Extender, change: Change
    ) -> None:
        scene.node("4")
        scene.pod("placed", "3")
        scene.wait_bound("placed")
        scene.pod("p", "3")
        scene.wait_refused("p")
        change(scene)
        scene.wait_bound("p")

    def test_a_pod_is_woken_by_its_node_being_uncordoned(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = scene.node(unschedulable=True)
        scene.pod("p")
        scene.wait_refused("p")
        on_node(scene, {"spec": {"unschedulable": None}})
        assert scene.wait_bound("p") == node


class TestNomination:
    def nominated(self, scene: Scene, extender: Extender) -> str:
        """A refused pod's nomination to the last of three nodes; the extender is asked about it
        from now on."""
        nodes = sorted(scene.node() for _ in range(3))
        scene.wait_known()
        extender.filter = refuse_all("not yet")
        scene.pod("p")
        scene.wait_refused_again("p", extender)
        extender.calls.clear()
        return nodes[2]

    def test_the_nominated_node_is_offered_alone_and_taken(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = self.nominated(scene, extender)
        extender.filter = keep_all
        scene.nominate("p", node)
        assert scene.wait_bound("p") == node
        assert [(call.verb, call.names) for call in extender.calls] == [("filter", [node])]
        assert extender.calls[0].body["Pod"]["status"]["nominatedNodeName"] == node

    def test_where_it_is_refused_every_node_is_offered(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = self.nominated(scene, extender)
        other = min(scene.nodes)
        extender.filter = keep(other)
        scene.nominate("p", node)
        assert scene.wait_bound("p") == other
        assert extender.asked("p") == [[node], sorted(scene.nodes)]

    def test_an_attempt_that_fails_takes_the_nomination_back(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = self.nominated(scene, extender)
        scene.nominate("p", node)
        scene.api.wait_until(
            lambda: scene.read("p").status.nominated_node_name is None, "the nomination is gone"
        )
        assert extender.asked("p")[:2] == [[node], sorted(scene.nodes)]

    def test_an_attempt_that_ends_in_an_error_takes_it_back_too(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = self.nominated(scene, extender)
        extender.filter = lambda _: {"Error": "not ready"}
        scene.nominate("p", node)
        assert scene.wait_refused("p", "SchedulerError") == "not ready"
        scene.api.wait_until(
            lambda: scene.read("p").status.nominated_node_name is None, "the nomination is gone"
        )

    def test_a_node_that_does_not_fit_any_more_is_not_offered_alone(
        self, scene: Scene, extender: Extender
    ) -> None:
        node = self.nominated(scene, extender)
        extender.filter = keep_all
        scene.api.core.patch_node(node, {"spec": {"unschedulable": True}})
        scene.wait_bound("p")
        scene.pod("next")
        scene.wait_bound("next")
        assert [node] not in extender.asked("next")

    def test_a_nominated_pod_holds_room_against_pods_that_matter_no_more(
        self, scene: Scene, extender: Extender
    ) -> None:
        """The nominated pod waits for a label, so that the nomination does not wake it."""
        node = scene.node("4")
        scene.pod("p", "3", nodeSelector={"nowhere": "yes"})
        scene.wait_refused("p")
        scene.nominate("p", node)
        scene.pod("small", "1")
        assert scene.wait_bound("small") == node
        scene.pod("large", "2")
        assert scene.wait_refused("large").startswith(
            "0/1 nodes are available: 1 Insufficient cpu. "
        )
        assert scene.read("p").status.nominated_node_name == node
        scene.remove("p")
        assert scene.wait_bound("large") == node


class TestLeading:
    @pytest.fixture
    def election(self) -> Json:
        return {
            "leaderElect": True,
            "resourceName": f"lease-{secrets.token_hex(4)}",
            "resourceNamespace": "kube-system",
            "leaseDuration": "600s",  # so that nobody takes over by waiting for its end
            "renewDeadline": "500s",
            "retryPeriod": "500ms",
        }

    def lease(self, scene: Scene, election: Json) -> Any:
        return scene.api.leases.read_namespaced_lease(election["resourceName"], "kube-system").spec

    def test_a_scheduler_holds_its_lease_by_the_name_of_its_host_and_renews_it(
        self, scene: Scene, extender: Extender, scheduling: Scheduling, election: Json
    ) -> None:
        node = scene.node()
        with scheduling(election, urlPrefix=extender.url, **STANDARD) as name:
            scene.pod("p", schedulerName=name)
            assert scene.wait_bound("p") == node
            held = self.lease(scene, election)
            assert held.holder_identity.startswith(f"{socket.gethostname()}_")
            assert (held.lease_duration_seconds, held.lease_transitions) == (600, 0)
            scene.api.wait_until(
                lambda: self.lease(scene, election).renew_time > held.renew_time,
                "it renews the lease",
            )

    def test_a_second_one_waits_and_takes_over_when_the_first_ends(
        self, scene: Scene, extender: Extender, scheduling: Scheduling, election: Json
    ) -> None:
        node = scene.node()
        with ExitStack() as ended_first:
            first = ended_first.enter_context(
                scheduling(election, urlPrefix=extender.url, **STANDARD)
            )
            scene.pod("p", schedulerName=first)
            scene.wait_bound("p")
            with scheduling(election, urlPrefix=extender.url, **STANDARD) as second:
                scene.pod("q", schedulerName=second)
                scene.api.holds(
                    lambda: not scene.read("q").spec.node_name, "the second one waits", 2.0
                )
                ended_first.close()
                assert scene.wait_bound("q") == node
                assert self.lease(scene, election).lease_transitions == 1
