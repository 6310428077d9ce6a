"""One path of an API server that gives set answers, and keeps the requests."""

import json

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.pods import Pod, decode_pod
from optimus.kube.training_jobs import TrainingJob, decode_job

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
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "name": "j",
                "uid": "u1",
                "controller": True,
            }
        ],
    },
    "spec": {"containers": [{"name": "istio"}, {"name": "tensorflow"}]},
}
JOB_PATH = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs/j"


def job() -> TrainingJob:
    return decode_job("TFJob", json.dumps(JOB).encode(), config=EligibilityConfig())


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
    return Response(
        json.dumps({"metadata": {"name": "x", "uid": "x", "resourceVersion": version}, **extra})
    )


def refusal(code: int, reason: str = "") -> Response:
    return Response(
        json.dumps({"kind": "Status", "message": "said so", "reason": reason, "code": code}),
        status=code,
    )
