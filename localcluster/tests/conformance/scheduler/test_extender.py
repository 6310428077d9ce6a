"""How an extender is asked, and what its answers do."""

import json
from typing import Any

import pytest

from localcluster.ports import pick_ports
from tests.conformance.api_calls import Json
from tests.conformance.scheduler.conftest import STANDARD, Scheduling, SchedulingHarness
from tests.conformance.scheduler.extender import (
    Answer,
    Extender,
    always,
    keep,
    keep_all,
    refuse_all,
)
from tests.conformance.scheduler.test_rules import NO_ROOM, NOT_HELPFUL


class TestQuestions:
    def test_filter_is_sent_the_pod_and_the_names_of_nodes(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        one, two = sorted(harness.node() for _ in range(2))
        harness.wait_known()
        harness.pod("p", resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}})
        harness.wait_bound("p")
        first = extender.calls[0]
        assert (first.verb, first.content_type, first.names) == (
            "filter",
            "application/json",
            [one, two],
        )
        assert (set(first.body), first.body["Nodes"]) == ({"Pod", "Nodes", "NodeNames"}, None)
        sent = first.body["Pod"]
        assert set(sent) == {"metadata", "spec", "status"}
        assert sent["metadata"]["uid"] == harness.read("p").metadata.uid
        assert sent["metadata"]["namespace"] == harness.namespace
        assert "managedFields" not in sent["metadata"]
        assert sent["spec"]["containers"][0]["resources"]["requests"] == {
            "cpu": "1",
            "memory": "1Gi",
        }
        assert sent["spec"]["schedulerName"] == harness.scheduler
        assert sent["status"]["phase"] == "Pending"

    def test_only_nodes_that_pass_the_schedulers_own_rules_are_offered(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        fits = harness.node("4")
        harness.node("1")
        harness.node("4", unschedulable=True)
        harness.wait_known()
        harness.pod("p", "2")
        assert harness.wait_bound("p") == fits
        assert extender.asked("p") == [[fits]]

    def test_scores_are_asked_for_what_filter_has_left(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        nodes = sorted(harness.node() for _ in range(3))
        harness.wait_known()
        extender.filter = keep(*nodes[:2])
        harness.pod("p")
        harness.wait_bound("p")
        assert [(call.verb, call.names) for call in extender.calls] == [
            ("filter", nodes),
            ("prioritize", nodes[:2]),
        ]
        assert set(extender.calls[1].body) == {"Pod", "Nodes", "NodeNames"}

    def test_no_scores_are_asked_for_a_single_node(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        nodes = sorted(harness.node() for _ in range(2))
        harness.wait_known()
        extender.filter = keep(nodes[1])
        harness.pod("p")
        assert harness.wait_bound("p") == nodes[1]
        assert [call.verb for call in extender.calls] == ["filter"]


class TestScores:
    def test_one_step_of_the_extenders_score_outweighs_the_schedulers_own(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        small, large = harness.node("2"), harness.node("64")
        harness.wait_known()
        extender.prioritize = always([{"Host": small, "Score": 1}, {"Host": large, "Score": 0}])
        for number in range(2):
            harness.pod(f"p{number}", "500m")
            assert harness.wait_bound(f"p{number}") == small

    def test_an_extender_that_does_not_filter_is_asked_for_scores_alone(
        self, harness: SchedulingHarness, extender: Extender, scheduling: Scheduling
    ) -> None:
        nodes = [harness.node() for _ in range(2)]
        extender.filter = always(500)
        extender.prioritize = always([{"Host": nodes[1], "Score": 1}])
        fields = {key: value for key, value in STANDARD.items() if key != "filterVerb"}
        with scheduling(urlPrefix=extender.url, **{**fields, "ignorable": True}) as name:
            harness.pod("p", schedulerName=name)
            assert harness.wait_bound("p") == nodes[1]
        assert [call.verb for call in extender.calls] == ["prioritize"]

    def test_a_node_without_a_score_has_none(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        nodes = [harness.node() for _ in range(3)]
        harness.wait_known()
        extender.prioritize = always([{"Host": nodes[2], "Score": 10}])
        harness.pod("p")
        assert harness.wait_bound("p") == nodes[2]

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(500, id="an error"),
            pytest.param("nonsense", id="no JSON"),
            pytest.param({"Error": "not now"}, id="no list"),
            pytest.param([{"Host": "a-stranger", "Score": 10}], id="a node that is not there"),
        ],
    )
    def test_unusable_scores_are_ignored(
        self, harness: SchedulingHarness, extender: Extender, answer: Answer
    ) -> None:
        nodes = [harness.node() for _ in range(2)]
        harness.wait_known()
        extender.prioritize = always(answer)
        harness.pod("p")
        assert harness.wait_bound("p") in nodes


class TestRefusals:
    def test_unresolvable_nodes_are_reported_with_their_reason(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        harness.node()
        extender.filter = refuse_all("waiting for all pods of job ns/j")
        harness.pod("p")
        harness.wait_message(
            "p", f"0/1 nodes are available: 1 waiting for all pods of job ns/j. {NOT_HELPFUL}"
        )

    def test_other_refused_nodes_are_looked_at_for_evictions(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node()
        extender.filter = always({"NodeNames": [], "FailedNodes": {node: "busy"}})
        harness.pod("p")
        harness.wait_message("p", f"0/1 nodes are available: 1 busy. {NO_ROOM}")

    def test_a_node_that_is_refused_in_both_ways_is_unresolvable(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        node = harness.node()
        both = {"FailedNodes": {node: "busy"}, "FailedAndUnresolvableNodes": {node: "reserved"}}
        extender.filter = always({"NodeNames": [], **both})
        harness.pod("p")
        harness.wait_message("p", f"0/1 nodes are available: 1 reserved. {NOT_HELPFUL}")

    def test_reasons_of_both_are_counted_together(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        harness.node("1")
        for _ in range(2):
            harness.node("4")
        harness.wait_known()
        extender.filter = refuse_all("another node is planned")
        harness.pod("p", "2")
        harness.wait_message(
            "p",
            "0/3 nodes are available: 1 Insufficient cpu, 2 another node is planned. no new "
            "claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        )

    @pytest.mark.parametrize("answer", [{}, {"NodeNames": None}, {"NodeNames": []}], ids=json.dumps)
    def test_an_answer_without_nodes_is_an_answer_of_no_node(
        self, harness: SchedulingHarness, extender: Extender, answer: Json
    ) -> None:
        harness.node()
        extender.filter = always(answer)
        harness.pod("p")
        harness.wait_message("p", f"0/1 nodes are available: {NOT_HELPFUL}")

    def test_keys_of_an_answer_may_be_written_in_any_case(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        nodes = [harness.node() for _ in range(2)]
        harness.wait_known()
        extender.filter = always(
            {"nodenames": [nodes[1]], "failedandunresolvablenodes": {nodes[0]: "no"}}
        )
        harness.pod("p")
        assert harness.wait_bound("p") == nodes[1]

    def test_a_refused_pod_is_asked_about_once_more_and_then_no_more(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        """The second time is due to the scheduler's own note in the pod's status, which changes
        nothing then."""
        harness.node()
        harness.pod("placed")
        harness.wait_bound("placed")
        harness.quiet(extender)
        extender.calls.clear()
        extender.filter = refuse_all("not yet")
        harness.pod("p")
        harness.wait_refused_again("p", extender)
        assert len(extender.calls) == 2


class TestFailures:
    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            pytest.param(
                {"Error": "the extender is not ready"},
                "the extender is not ready",
                id="an error of its own",
            ),
            pytest.param(
                500,
                "failed filter with extender at URL {url}/filter, code 500",
                id="a server error",
            ),
            pytest.param(
                201,
                "failed filter with extender at URL {url}/filter, code 201",
                id="another success",
            ),
            pytest.param(
                {"NodeNames": ["a-stranger"]},
                (
                    'extender "{url}" claims a filtered node "a-stranger" which is not found in '
                    "the "
                    "input node list"
                ),
                id="a node that was not offered",
            ),
        ],
    )
    def test_an_answer_that_cannot_be_used_fails_the_attempt(
        self, harness: SchedulingHarness, extender: Extender, answer: Answer, message: str
    ) -> None:
        node = harness.node()
        extender.filter = always(answer)
        harness.pod("p")
        assert harness.wait_refused("p", "SchedulerError") == message.format(url=extender.url)
        extender.filter = keep_all
        assert harness.wait_bound("p") == node

    def test_an_answer_that_is_no_json_fails_the_attempt(
        self, harness: SchedulingHarness, extender: Extender
    ) -> None:
        harness.node()
        extender.filter = always("nonsense")
        harness.pod("p")
        assert harness.wait_refused("p", "SchedulerError")
        assert harness.read("p").spec.node_name is None

    def test_an_answer_that_takes_too_long_fails_the_attempt(
        self, harness: SchedulingHarness, extender: Extender, scheduling: Scheduling
    ) -> None:
        harness.node()
        extender.delay_seconds = 3.0
        with scheduling(urlPrefix=extender.url, **{**STANDARD, "httpTimeout": "1s"}) as name:
            harness.pod("p", schedulerName=name)
            said = harness.wait_refused("p", "SchedulerError")
            assert said.startswith(f'Post "{extender.url}/filter": context deadline exceeded')
            extender.delay_seconds = 0.0
            harness.wait_bound("p")

    def test_an_unreachable_extender_fails_the_attempt(
        self, harness: SchedulingHarness, scheduling: Scheduling
    ) -> None:
        harness.node()
        port = pick_ports(1)[0]
        with scheduling(urlPrefix=f"http://127.0.0.1:{port}", **STANDARD) as name:
            harness.pod("p", schedulerName=name)
            said = harness.wait_refused("p", "SchedulerError")
        assert said == (
            f'Post "http://127.0.0.1:{port}/filter": dial tcp 127.0.0.1:{port}: connect: '
            "connection refused"
        )

    @pytest.mark.parametrize(
        "answer", [{"Error": "no"}, 500, "nonsense", {"NodeNames": ["a-stranger"]}], ids=json.dumps
    )
    def test_an_extender_that_may_be_ignored_is(
        self, harness: SchedulingHarness, extender: Extender, scheduling: Scheduling, answer: Any
    ) -> None:
        node = harness.node()
        extender.filter = always(answer)
        with scheduling(urlPrefix=extender.url, **{**STANDARD, "ignorable": True}) as name:
            harness.pod("p", schedulerName=name)
            assert harness.wait_bound("p") == node
        assert extender.asked("p") == [[node]]
