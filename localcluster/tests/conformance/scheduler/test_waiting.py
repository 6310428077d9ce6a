"""Pods that wait: what wakes them, and what a nomination does."""

import secrets
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import pytest

from tests.conformance.api_calls import Json, config_map, now
from tests.conformance.scheduler.conftest import STANDARD, Scheduling, SchedulingHarness
from tests.conformance.scheduler.extender import Extender, keep, keep_all, refuse_all

Change = Callable[[SchedulingHarness], object]


def on_node(harness: SchedulingHarness, body: object) -> object:
    return harness.api.core.patch_node(harness.nodes[0], body)


def heartbeat(harness: SchedulingHarness) -> object:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": now()}
    return harness.api.core.patch_node_status(
        harness.nodes[0], {"status": {"conditions": [condition]}}
    )


def another_is_bound(harness: SchedulingHarness) -> object:
    harness.pod("other", schedulerName="nobody")
    harness.api.bind("other", harness.namespace, harness.nodes[0])
    return None


def label(harness: SchedulingHarness) -> object:
    return harness.api.core.patch_namespaced_pod(
        "p", harness.namespace, {"metadata": {"labels": {"x": "1"}}}
    )


WAKING: Final[dict[str, Change]] = {
    "an annotation of its own": lambda harness: harness.annotate("p"),
    "a label of its own": label,
    "a nomination": lambda harness: harness.nominate("p", harness.nodes[0]),
    "an annotation of a node": lambda harness: on_node(
        harness, {"metadata": {"annotations": {"x": "1"}}}
    ),
    "a label of a node": lambda harness: on_node(harness, {"metadata": {"labels": {"x": "1"}}}),
    "a taint of a node": lambda harness: on_node(
        harness, {"spec": {"taints": [{"key": "x", "effect": "PreferNoSchedule"}]}}
    ),
    "a new node": lambda harness: harness.node(),
    "another pod that is bound": another_is_bound,
    "another pod that goes": lambda harness: harness.remove("placed"),
}

NOT_WAKING: Final[dict[str, Change]] = {
    "a node's heartbeat": heartbeat,
    "an object that is no business of the scheduler's": lambda harness: (
        harness.api.core.create_namespaced_config_map(harness.namespace, config_map("c"))
    ),
    "another scheduler's pod": lambda harness: harness.pod("other", schedulerName="nobody"),
}


class TestRequeuing:
    def refused(self, harness: SchedulingHarness, extender: Extender) -> None:
        """A pod that the extender refuses, beside one that is placed."""
        harness.node()
        harness.pod("placed")
        harness.wait_bound("placed")
        extender.filter = refuse_all("not yet")
        harness.pod("p")
        harness.wait_refused_again("p", extender)
        extender.filter = keep_all

    @pytest.mark.parametrize("change", WAKING.values(), ids=WAKING.keys())
    def test_a_pod_that_the_extender_refused_is_requeued_by(
        self, harness: SchedulingHarness, extender: Extender, change: Change
    ) -> None:
        self.refused(harness, extender)
        change(harness)
        harness.wait_bound("p")

    @pytest.mark.parametrize("change", NOT_WAKING.values(), ids=NOT_WAKING.keys())
    def test_a_pod_that_the_extender_refused_is_not_requeued_by(
        self, harness: SchedulingHarness, extender: Extender, change: Change
    ) -> None:
        self.refused(harness, extender)
        asked = len(extender.calls)
        change(harness)
        harness.api.holds(
            lambda: len(extender.calls) == asked, "the extender is not asked again", 2.0
        )

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda harness: harness.remove("placed"), id="room on a node"),
            pytest.param(
                lambda harness: harness.api.core.patch_node_status(
                    harness.nodes[0], {"status": {"allocatable": {"cpu": "9"}}}
                ),
                id="a node that offers more",
            ),
            pytest.param(lambda harness: harness.node("4"), id="a new node"),
        ],
    )
    def test_a_pod_without_room_is_requeued_by(
        self, harness: SchedulingHarness, extender: Extender, change: Change
    ) -> None:
        harness.node("4")
        harness.pod("placed", "3")
        harness.wait_bound("placed")
        harness.pod("p", "3")
        harness.wait_refused("p")
        change(harness)
        harness.wait_bound("p")

    def test_a_pod_is_requeued_when_its_node_is_uncordoned(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node(unschedulable=True)
        harness.pod("p")
        harness.wait_refused("p")
        on_node(harness, {"spec": {"unschedulable": None}})
        assert harness.wait_bound("p") == node


class TestNomination:
    def nominated(self, harness: SchedulingHarness, extender: Extender) -> str:
        """A refused pod's nomination to the last of three nodes; the extender is asked about it
        from now on."""
        nodes = sorted(harness.node() for _ in range(3))
        harness.wait_known()
        extender.filter = refuse_all("not yet")
        harness.pod("p")
        harness.wait_refused_again("p", extender)
        extender.calls.clear()
        return nodes[2]

    def test_the_nominated_node_is_offered_alone_and_taken(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = self.nominated(harness, extender)
        extender.filter = keep_all
        harness.nominate("p", node)
        assert harness.wait_bound("p") == node
        assert [(call.verb, call.names) for call in extender.calls] == [("filter", [node])]
        assert extender.calls[0].body["Pod"]["status"]["nominatedNodeName"] == node

    def test_where_it_is_refused_every_node_is_offered(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = self.nominated(harness, extender)
        other = min(harness.nodes)
        extender.filter = keep(other)
        harness.nominate("p", node)
        assert harness.wait_bound("p") == other
        assert extender.asked("p") == [[node], sorted(harness.nodes)]

    def test_an_attempt_that_fails_takes_the_nomination_back(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = self.nominated(harness, extender)
        harness.nominate("p", node)
        harness.api.wait_until(
            lambda: harness.read("p").status.nominated_node_name is None, "the nomination is gone"
        )
        assert extender.asked("p")[:2] == [[node], sorted(harness.nodes)]

    def test_an_attempt_that_ends_in_an_error_takes_it_back_too(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = self.nominated(harness, extender)
        extender.filter = lambda _: {"Error": "not ready"}
        harness.nominate("p", node)
        assert harness.wait_refused("p", "SchedulerError") == "not ready"
        harness.api.wait_until(
            lambda: harness.read("p").status.nominated_node_name is None, "the nomination is gone"
        )

    def test_a_node_that_does_not_fit_any_more_is_not_offered_alone(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = self.nominated(harness, extender)
        extender.filter = keep_all
        harness.api.core.patch_node(node, {"spec": {"unschedulable": True}})
        harness.wait_bound("p")
        harness.pod("next")
        harness.wait_bound("next")
        assert [node] not in extender.asked("next")

    def test_a_nominated_pod_holds_room_against_pods_of_no_higher_priority(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        """The nominated pod waits for a label, so that the nomination does not wake it."""
        node = harness.node("4")
        harness.pod("p", "3", nodeSelector={"nowhere": "yes"})
        harness.wait_refused("p")
        harness.nominate("p", node)
        harness.pod("small", "1")
        assert harness.wait_bound("small") == node
        harness.pod("large", "2")
        assert harness.wait_refused("large").startswith(
            "0/1 nodes are available: 1 Insufficient cpu. "
        )
        assert harness.read("p").status.nominated_node_name == node
        harness.remove("p")
        assert harness.wait_bound("large") == node


class TestLeaderElection:
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

    def lease(self, harness: SchedulingHarness, election: Json) -> Any:
        return harness.api.leases.read_namespaced_lease(
            election["resourceName"], "kube-system"
        ).spec

    def test_a_scheduler_holds_its_lease_by_the_name_of_its_host_and_renews_it(
        self, harness: SchedulingHarness, extender: Extender, scheduling: Scheduling, election: Json
    ) -> None:
        node = harness.node()
        with scheduling(election, urlPrefix=extender.url, **STANDARD) as name:
            harness.pod("p", schedulerName=name)
            assert harness.wait_bound("p") == node
            held = self.lease(harness, election)
            assert held.holder_identity.startswith(f"{socket.gethostname()}_")
            assert (held.lease_duration_seconds, held.lease_transitions) == (600, 0)
            harness.api.wait_until(
                lambda: self.lease(harness, election).renew_time > held.renew_time,
                "it renews the lease",
            )

    def test_a_second_one_waits_and_takes_over_when_the_first_ends(
        self, harness: SchedulingHarness, extender: Extender, scheduling: Scheduling, election: Json
    ) -> None:
        node = harness.node()
        with ExitStack() as ended_first:
            first = ended_first.enter_context(
                scheduling(election, urlPrefix=extender.url, **STANDARD)
            )
            harness.pod("p", schedulerName=first)
            harness.wait_bound("p")
            with scheduling(election, urlPrefix=extender.url, **STANDARD) as second:
                harness.pod("q", schedulerName=second)
                harness.api.holds(
                    lambda: not harness.read("q").spec.node_name, "the second one waits", 2.0
                )
                ended_first.close()
                assert harness.wait_bound("q") == node
                assert self.lease(harness, election).lease_transitions == 1
