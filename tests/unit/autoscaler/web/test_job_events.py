"""The Events on a job and on its pods: those of the job alone, in few reads."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from autoscaler.web.job_events import (
    MOST_EVENTS,
    DisplayedJob,
    JobEvents,
    read_job_events,
)
from optimus.jobs import JobKey, NodeConstraints
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.pods import Pod
from optimus.kube.times import format_second
from optimus.resources import Resources

CREATED = 1_800_000_000.0


def pod(name: str, phase: str = "Running", **fields: Any) -> Pod:
    return Pod(
        uid=f"uid-{name}",
        namespace="team-a",
        name=name,
        created_at=CREATED,
        phase=phase,
        resources=Resources(pods=1),
        constraints=NodeConstraints(),
        **fields,
    )


def job(*pods: Pod) -> DisplayedJob:
    return DisplayedJob("TFJob", JobKey("team-a", "resnet"), "uid-job", CREATED, pods)


def event(
    name: str, reason: str, at: float = 0.0, uid: str = "", kind: str = "Normal"
) -> dict[str, Any]:
    return {
        "involvedObject": {"kind": "Pod", "name": name, "uid": uid or f"uid-{name}"},
        "type": kind,
        "reason": reason,
        "lastTimestamp": format_second(CREATED + at),
    }


class Source:
    """The Events of a namespace; ``crowded``: there are more on pods than one list has."""

    def __init__(self, *events: dict[str, Any], crowded: bool = False) -> None:
        self.events, self.crowded, self.selectors = events, crowded, list[str]()

    def get(
        self,
        what: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        assert path == "/api/v1/namespaces/team-a/events"
        assert read_seconds is not None
        assert most_bytes is not None
        asked = dict(query)
        assert int(asked["limit"]) == 500
        selector = asked["fieldSelector"]
        self.selectors.append(selector)
        wanted = [each.partition("=") for each in selector.split(",")]
        found = [
            each
            for each in self.events
            if all(each["involvedObject"].get(name[15:]) == value for name, _, value in wanted)
        ]
        is_cut = self.crowded and selector == "involvedObject.kind=Pod"
        metadata = {"resourceVersion": "9", "continue": "more" if is_cut else ""}
        return msgspec.json.encode({"metadata": metadata, "items": found})


def read(source: Source, *pods: Pod) -> JobEvents:
    return read_job_events(source, job(*pods))


def shown(source: Source, *pods: Pod) -> list[tuple[str, str]]:
    return [(each.about, each.reason) for each in read(source, *pods).events]


def test_events_on_the_job_and_its_pods_come_in_one_row_of_time() -> None:
    source = Source(
        event("resnet-worker-0", "FailedScheduling", 20),
        event("resnet", "Rescaled", 10, "uid-job"),
        event("resnet-worker-0", "BackOff", 5),
    )
    assert shown(source, pod("resnet-worker-0", "Pending")) == [
        ("resnet-worker-0", "FailedScheduling"),
        ("resnet", "Rescaled"),
        ("resnet-worker-0", "BackOff"),
    ]
    assert source.selectors == ["involvedObject.uid=uid-job", "involvedObject.kind=Pod"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("resnet-2-worker-0", id="a job whose name begins alike"),
        pytest.param("resnet-server-0", id="a role that no TFJob has"),
        pytest.param("resnet-worker-0-x", id="a longer name"),
        pytest.param("xresnet-worker-0", id="a name that ends alike"),
        pytest.param("web-0", id="no training pod"),
    ],
)
def test_events_on_pods_of_others_are_not_shown(name: str) -> None:
    assert shown(Source(event(name, "Killing", 5)), pod("resnet-worker-1")) == []


def test_a_deleted_pod_says_why_but_not_what_was_before_the_job() -> None:
    source = Source(
        event("resnet-worker-0", "Preempted", 30, "uid-of-the-deleted-one"),
        event("resnet-worker-0", "Killing", -30, "uid-of-a-job-before"),
    )
    assert shown(source) == [("resnet-worker-0", "Preempted")]


def test_two_hundred_pods_cost_two_reads() -> None:
    pods = [pod(f"resnet-worker-{n}", "Pending") for n in range(200)]
    source = Source(*(event(each.name, "FailedScheduling", 1) for each in pods))
    assert len(read(source, *pods).events) == MOST_EVENTS
    assert len(source.selectors) == 2


def test_in_a_crowded_namespace_it_is_said_that_some_may_be_missing() -> None:
    source = Source(event("resnet-ps-7", "BackOff", 1), crowded=True)
    found = read(source, pod("resnet-ps-7"))
    assert [each.reason for each in found.events] == ["BackOff"]
    (problem,) = found.problems
    assert problem.startswith("namespace team-a has more than 500 Events on pods: ")


def test_warnings_are_kept_before_what_each_start_brings() -> None:
    many = [event("resnet-worker-1", "Pulled", n) for n in range(400)]
    first = event("resnet-worker-0", "FailedScheduling", -5, kind="Warning")
    found = shown(Source(*many, first), pod("resnet-worker-0"), pod("resnet-worker-1"))
    assert len(found) == MOST_EVENTS
    assert found[-1] == ("resnet-worker-0", "FailedScheduling")


def test_a_refused_list_leaves_the_other() -> None:
    class Refusing(Source):
        def get(
            self,
            what: str,
            path: str,
            query: Sequence[tuple[str, str]] = (),
            read_seconds: float | None = None,
            most_bytes: int | None = None,
        ) -> bytes:
            if dict(query)["fieldSelector"] == "involvedObject.kind=Pod":
                raise KubeError(ErrorKind.TRANSIENT, f"cannot {what}: silent")
            return super().get(what, path, query, read_seconds, most_bytes)

    source = Refusing(event("resnet", "Rescaled", 10, "uid-job"))
    found = read(source)
    assert [each.reason for each in found.events] == ["Rescaled"]
    assert found.problems == ("cannot list the Events on the pods of team-a/resnet: silent",)


def test_an_event_that_cannot_be_read_leaves_the_others() -> None:
    odd = {**event("resnet", "Odd", 5, "uid-job"), "message": 7, "metadata": {"name": "resnet.1"}}
    found = read(Source(event("resnet", "Rescaled", 10, "uid-job"), odd))
    assert [each.reason for each in found.events] == ["Rescaled"]
    (problem,) = set(found.problems)
    assert problem.startswith("resnet.1: not an Event: ")
