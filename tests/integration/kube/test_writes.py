"""What is sent for each write, and what becomes of each answer."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from kube.client import Client
from kube.contract import Phase
from kube.errors import ErrorKind
from kube.events import EventType, EventWriter
from kube.left_alone import JobRules
from kube.listing import DirectReader
from kube.logs import LogReader
from kube.outcomes import Refused, Written
from kube.pods import Pod, decode_pod
from kube.profiles import NameTaken, ProfileStatus, ProfileWriter, TrainingProfile
from kube.training_jobs import TrainingJob, decode_job
from kube.writer import JobWriter, PodWriter
from scheduling.jobs import Counts, JobKey
from scheduling.progress.record import LogLine

pytestmark = pytest.mark.integration

REPLICA = {"replicas": 1, "template": {"spec": {"containers": [{"name": "tensorflow"}]}}}
JOB = {
    "metadata": {"name": "j", "namespace": "ns", "uid": "u1", "resourceVersion": "7"},
    "spec": {"tfReplicaSpecs": {"Ps": REPLICA, "worker": REPLICA}},
}
POD = {
    "metadata": {
        "name": "j-ps-0",
        "namespace": "ns",
        "uid": "p1",
        "ownerReferences": [
            {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u1", "controller": True}
        ],
    },
    "spec": {"containers": [{"name": "istio"}, {"name": "tensorflow"}]},
}
JOB_PATH = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j"
PROFILES_PATH = "/apis/optimus.dl/v1alpha1/namespaces/ns/trainingprofiles"


def job() -> TrainingJob:
    return decode_job("TFJob", json.dumps(JOB).encode(), rules=JobRules())


def pod() -> Pod:
    return decode_pod(json.dumps(POD).encode())


class Recorder:
    """Answers one path and keeps what it was asked."""

    def __init__(self, server: HTTPServer, path: str, answers: list[Response]) -> None:
        self.requests: list[Request] = []
        self._answers = answers
        server.expect_request(path).respond_with_handler(self._answer)

    def _answer(self, request: Request) -> Response:
        request.get_data()
        self.requests.append(request)
        return self._answers.pop(0)

    def body(self, index: int = 0) -> object:
        return json.loads(self.requests[index].get_data())


def stored(version: str = "8", **extra: object) -> Response:
    return Response(json.dumps({"metadata": {"name": "x", "uid": "x", "resourceVersion": version}, **extra}))


def refusal(code: int, reason: str = "") -> Response:
    return Response(json.dumps({"kind": "Status", "message": "said so", "reason": reason, "code": code}), status=code)


def test_suspending_is_one_guarded_patch_that_says_whose_doing_it_is(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).suspend(job(), "i-9") == Written("8")
    assert server.requests[0].method == "PATCH"
    assert server.requests[0].headers["Content-Type"] == "application/merge-patch+json"
    assert server.requests[0].headers["User-Agent"] == "test/1"
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": "i-9"}},
        "spec": {"runPolicy": {"suspend": True}},
    }


def test_resuming_writes_the_counts_under_the_keys_that_are_stored(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).resize_and_resume(job(), Counts(2, 5)) == Written("8")
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": None}},
        "spec": {
            "runPolicy": {"suspend": False},
            "tfReplicaSpecs": {"Ps": {"replicas": 2}, "worker": {"replicas": 5}},
        },
    }


def test_a_mark_can_be_taken_away_alone(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).unmark(job()) == Written("8")
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": None}},
    }


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refusal(409, "Conflict"), ErrorKind.CONFLICT, id="the job has changed since"),
        pytest.param(refusal(404, "NotFound"), ErrorKind.NOT_FOUND, id="the job is gone"),
        pytest.param(refusal(403, "Forbidden"), ErrorKind.FORBIDDEN, id="the right is missing"),
        pytest.param(refusal(401, "Unauthorized"), ErrorKind.FORBIDDEN, id="the token is not known"),
        pytest.param(refusal(422, "Invalid"), ErrorKind.INVALID, id="the API server finds it invalid"),
        pytest.param(Response("<html>bad gateway", status=502), ErrorKind.TRANSIENT, id="a proxy answers"),
        pytest.param(Response("", status=500), ErrorKind.TRANSIENT, id="the server broke"),
    ],
)
def test_expected_refusals_are_values(
    httpserver: HTTPServer, client: Client, answer: Response, kind: ErrorKind
) -> None:
    Recorder(httpserver, JOB_PATH, [answer])
    outcome = JobWriter(client).suspend(job(), "i-9")
    assert isinstance(outcome, Refused)
    assert outcome.kind is kind
    assert str(outcome).startswith("cannot suspend TFJob ns/j: ")


def test_a_throttled_write_is_not_tried_again_behind_the_callers_back(httpserver: HTTPServer, client: Client) -> None:
    answer = refusal(429)
    answer.headers["Retry-After"] = "7"
    server = Recorder(httpserver, JOB_PATH, [answer])
    outcome = JobWriter(client).suspend(job(), "i-9")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.THROTTLED
    assert len(server.requests) == 1


@pytest.mark.parametrize("connection", ["cut_off", "frozen"])
def test_a_write_without_an_answer_may_have_happened(request: pytest.FixtureRequest, connection: str) -> None:
    client: Client = request.getfixturevalue(connection)
    outcome = JobWriter(client).suspend(job(), "i-9")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.TRANSIENT


def test_a_token_that_was_replaced_is_used(httpserver: HTTPServer, client: Client, token_file: Path) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored(), stored()])
    JobWriter(client).suspend(job(), "i")
    token_file.write_text("second, longer\n")
    JobWriter(client).suspend(job(), "i")
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer first",
        "Bearer second, longer",
    ]


@pytest.mark.parametrize("node", ["n1", None])
def test_nominating_names_the_very_pod(httpserver: HTTPServer, client: Client, node: str | None) -> None:
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/status", [stored()])
    assert PodWriter(client).nominate(pod(), node) == Written("8")
    assert server.body() == {"metadata": {"uid": "p1"}, "status": {"nominatedNodeName": node}}
    assert server.requests[0].headers["Content-Type"] == "application/merge-patch+json"


def test_waking_changes_an_annotation(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/status", [stored()])
    assert PodWriter(client).wake(pod(), "room at 5") == Written("8")
    assert server.body() == {"metadata": {"uid": "p1", "annotations": {"optimus.dl/woken": "room at 5"}}}


def test_the_pods_of_a_job_are_those_that_it_controls(httpserver: HTTPServer, client: Client) -> None:
    other = {**POD, "metadata": {"name": "k", "namespace": "ns", "uid": "p2"}}
    lists = [
        Response(json.dumps({"metadata": {"resourceVersion": "5", "continue": "c"}, "items": [other]})),
        Response(json.dumps({"metadata": {"resourceVersion": "5"}, "items": [POD]})),
    ]
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods", lists)
    assert DirectReader(client, JobRules()).pods_of(job()) == (pod(),)
    assert server.requests[0].args["labelSelector"] == "training.kubeflow.org/job-name=j"
    assert "resourceVersion" not in server.requests[0].args
    assert server.requests[1].args["continue"] == "c"


def test_a_pod_that_cannot_be_read_is_not_taken_for_gone(httpserver: HTTPServer, client: Client) -> None:
    lists = [Response(json.dumps({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {}}]}))]
    Recorder(httpserver, "/api/v1/namespaces/ns/pods", lists)
    assert isinstance(DirectReader(client, JobRules()).pods_of(job()), Refused)


def test_a_job_is_read_as_it_is_now(httpserver: HTTPServer, client: Client) -> None:
    Recorder(httpserver, JOB_PATH, [Response(json.dumps(JOB)), refusal(404), Response("[]")])
    reader = DirectReader(client, JobRules())
    assert reader.job("TFJob", JobKey("ns", "j")) == job()
    gone, garbage = reader.job("TFJob", JobKey("ns", "j")), reader.job("TFJob", JobKey("ns", "j"))
    assert isinstance(gone, Refused)
    assert gone.kind is ErrorKind.NOT_FOUND
    assert isinstance(garbage, Refused)
    assert garbage.kind is ErrorKind.INVALID


def test_a_log_is_read_in_bounds_from_the_training_container(httpserver: HTTPServer, client: Client) -> None:
    body = b"2026-01-01T00:00:01.5Z loss=1\nunable to retrieve\n2026-01-01T00:00:02Z \xff\n2026-01-01T00:00:03Z cu"
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/log", [Response(body)])
    lines = LogReader(client, 1000).read(pod(), since=1767225600.25)
    assert lines == [LogLine(1767225601.5, "loss=1"), LogLine(1767225602.0, "\N{REPLACEMENT CHARACTER}")]
    assert dict(server.requests[0].args) == {
        "container": "tensorflow",
        "timestamps": "true",
        "limitBytes": "1000",
        "sinceTime": "2026-01-01T00:00:00.250000Z",
    }


def test_a_log_that_is_not_there_is_a_value(httpserver: HTTPServer, client: Client) -> None:
    Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/log", [refusal(400)])
    assert isinstance(LogReader(client).read(pod()), Refused)


def profile_json(uid: str = "u1") -> dict[str, object]:
    return {
        "metadata": {"name": "j", "namespace": "ns", "uid": "prof", "resourceVersion": "3"},
        "spec": {"jobRef": {"kind": "TFJob", "name": "j", "uid": uid}},
        "status": {"phase": "Training", "ps": 2, "futureField": 1},
    }


def test_a_profile_is_made_as_the_jobs_own(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, PROFILES_PATH, [Response(json.dumps(profile_json()), status=201)])
    made = ProfileWriter(client).create(job())
    assert isinstance(made, TrainingProfile)
    assert made.status == ProfileStatus(phase=Phase.TRAINING, ps=2)
    body = server.body()
    assert isinstance(body, dict)
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert body["spec"] == {"jobRef": {"kind": "TFJob", "name": "j", "uid": "u1"}}


@pytest.mark.parametrize(("uid", "ours"), [pytest.param("u1", True, id="ours"), pytest.param("u2", False, id="not")])
def test_a_profile_that_is_there_is_ours_or_anothers(
    httpserver: HTTPServer, client: Client, uid: str, ours: bool
) -> None:
    Recorder(httpserver, PROFILES_PATH, [refusal(409, "AlreadyExists")])
    Recorder(httpserver, f"{PROFILES_PATH}/j", [Response(json.dumps(profile_json(uid)))])
    assert isinstance(ProfileWriter(client).create(job()), TrainingProfile if ours else NameTaken)


def a_profile(httpserver: HTTPServer, client: Client) -> TrainingProfile:
    Recorder(httpserver, PROFILES_PATH, [Response(json.dumps(profile_json()), status=201)])
    profile = ProfileWriter(client).create(job())
    assert isinstance(profile, TrainingProfile)
    return profile


def test_a_status_is_replaced_whole_and_holds_no_null(httpserver: HTTPServer, client: Client) -> None:
    profile = a_profile(httpserver, client)
    server = Recorder(httpserver, f"{PROFILES_PATH}/j/status", [stored("4")])
    status = ProfileStatus(phase=Phase.RESIZING, loss=float("nan"), target_ps=3, state={"samples": []})
    assert ProfileWriter(client).write_status(profile, status) == Written("4")
    assert server.requests[0].headers["Content-Type"] == "application/json-patch+json"
    assert server.body() == [
        {"op": "test", "path": "/metadata/uid", "value": "prof"},
        {"op": "add", "path": "/status", "value": {"phase": "Resizing", "targetPs": 3, "state": {"samples": []}}},
    ]


def test_a_stale_profile_is_deleted_by_its_uid(httpserver: HTTPServer, client: Client) -> None:
    profile = a_profile(httpserver, client)
    server = Recorder(httpserver, f"{PROFILES_PATH}/j", [Response("{}")])
    assert ProfileWriter(client).delete(profile) == Written()
    assert server.requests[0].method == "DELETE"
    assert server.body() == {"preconditions": {"uid": "prof"}}


class Clock:
    def __init__(self) -> None:
        self.seconds = 1_767_225_600.0

    def __call__(self) -> float:
        return self.seconds


EVENTS_PATH = "/api/v1/namespaces/ns/events"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def emit(client: Client, clock: Clock) -> Callable[[str], Written | Refused | None]:
    writer = EventWriter(client, "optimus-autoscaler", now=clock, timer=clock)
    return lambda message: writer.emit(job(), EventType.WARNING, "BadAnnotation", message)


Emit = Callable[[str], Written | Refused | None]


def test_equal_events_are_counted_in_one(httpserver: HTTPServer, emit: Emit, clock: Clock) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored()])
    assert isinstance(emit("no"), Written)
    assert emit("no") is None
    clock.seconds += 61
    body = created.body()
    assert isinstance(body, dict)
    counted = Recorder(httpserver, f"{EVENTS_PATH}/{body['metadata']['name']}", [stored()])
    assert isinstance(emit("no"), Written)
    assert (body["type"], body["reason"], body["message"], body["count"]) == ("Warning", "BadAnnotation", "no", 1)
    assert body["involvedObject"]["uid"] == "u1"
    assert counted.body() == {"count": 3, "lastTimestamp": "2026-01-01T00:01:01Z"}


def test_an_event_that_the_server_forgot_is_written_anew(httpserver: HTTPServer, emit: Emit, clock: Clock) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored(), stored()])
    emit("no")
    clock.seconds += 61
    body = created.body()
    assert isinstance(body, dict)
    Recorder(httpserver, f"{EVENTS_PATH}/{body['metadata']['name']}", [refusal(404)])
    assert isinstance(emit("no"), Written)
    assert len(created.requests) == 2


def test_one_job_cannot_flood_the_server(httpserver: HTTPServer, emit: Emit, clock: Clock) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [stored() for _ in range(26)])
    assert sum(emit(f"message {number}") is not None for number in range(40)) == 25
    clock.seconds += 601
    assert isinstance(emit("later"), Written)
    assert len(created.requests) == 26


def test_an_event_that_was_refused_is_no_error_and_is_tried_again(httpserver: HTTPServer, emit: Emit) -> None:
    created = Recorder(httpserver, EVENTS_PATH, [refusal(403), stored()])
    assert isinstance(emit("no"), Refused)
    assert isinstance(emit("no"), Written)
    assert len(created.requests) == 2
