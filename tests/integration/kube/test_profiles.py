"""Profiles: made, written, deleted."""

import json
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from optimus.kube.client import Client
from optimus.kube.contract import Phase
from optimus.kube.profiles import (
    Condition,
    ConditionType,
    NameTaken,
    ProfileStatus,
    ProfileWriter,
    TrainingProfile,
    Truth,
)
from optimus.kube.results import Written
from tests.cases import cases
from tests.integration.kube.recorder import Recorder, job, refusal, stored

pytestmark = pytest.mark.integration

PROFILES_PATH = "/apis/optimus.dl/v1alpha1/namespaces/ns/trainingprofiles"


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


@cases(("uid", "ours"), {"ours": ("u1", True), "not": ("u2", False)})
def test_an_existing_profile_is_this_jobs_or_another_jobs(
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


def test_a_status_is_replaced_whole_and_holds_no_null(
    httpserver: HTTPServer, client: Client
) -> None:
    profile = a_profile(httpserver, client)
    server = Recorder(httpserver, f"{PROFILES_PATH}/j/status", [stored("4")])
    status = ProfileStatus(phase=Phase.RESIZING, loss=float("nan"), target_ps=3, state="packed")
    assert ProfileWriter(client).write_status(profile, status) == Written("4")
    assert server.requests[0].headers["Content-Type"] == "application/json-patch+json"
    assert server.body() == [
        {"op": "test", "path": "/metadata/uid", "value": "prof"},
        {
            "op": "add",
            "path": "/status",
            "value": {"phase": "Resizing", "targetPs": 3, "state": "packed"},
        },
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"},
    ]


def test_a_stale_profile_is_deleted_by_its_uid(httpserver: HTTPServer, client: Client) -> None:
    profile = a_profile(httpserver, client)
    server = Recorder(httpserver, f"{PROFILES_PATH}/j", [Response("{}")])
    assert ProfileWriter(client).delete(profile) == Written()
    assert server.requests[0].method == "DELETE"
    assert server.body() == {"preconditions": {"uid": "prof"}}


def test_conditions_are_stored_with_the_generation_that_they_are_about(
    httpserver: HTTPServer, client: Client
) -> None:
    body: dict[str, Any] = profile_json()
    body["metadata"]["generation"] = 1
    Recorder(httpserver, PROFILES_PATH, [Response(json.dumps(body), status=201)])
    profile = ProfileWriter(client).create(job())
    assert isinstance(profile, TrainingProfile)
    server = Recorder(httpserver, f"{PROFILES_PATH}/j/status", [stored("4")])
    met = Condition(ConditionType.GOAL_MET, Truth.TRUE, "GoalMet", "it is", "2026-01-01T00:00:00Z")
    ProfileWriter(client).write_status(profile, ProfileStatus(conditions=(met,)))
    body = json.loads(server.requests[0].get_data())[1]
    assert body["value"]["conditions"] == [
        {
            "type": "GoalMet",
            "status": "True",
            "reason": "GoalMet",
            "message": "it is",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        }
    ]
