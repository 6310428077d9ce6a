"""Profiles of workloads: what is written is read back, and what somebody has edited breaks none."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from optimus.jobs import ConvergenceThreshold, Counts, Goal, TargetLoss
from optimus.kube.contract import GROUP, VERSION, WORKLOAD_PROFILE_KIND, WORKLOAD_PROFILES
from optimus.kube.workload_profiles import (
    StoredRun,
    StoredSample,
    WorkloadProfile,
    WorkloadStatus,
    decode_workload_profile,
    status_of,
    watched_workload_profiles,
)
from optimus.models.earlier_runs import KEPT_SECONDS, MOST_LOSSES, MOST_RUNS, MOST_SAMPLES
from optimus.progress.types import EarlierRun, SpeedSample
from tests.cases import cases

ROOT = Path(__file__).parents[3]
RUN = EarlierRun(
    uid="u-1",
    job="train-1",
    at=1_800_000_000.0,
    conditions="TFJob; async; batch 32 of the job",
    samples=(
        SpeedSample(Counts(1, 2), 3.25, 61.5, 1_799_999_000.0, "a100"),
        SpeedSample(Counts(4, 8), 9.5, 300.0, 1_799_999_500.0),
    ),
    places=(1.0, 2.0),
    losses=(2.5, 1.25),
    every_epoch=True,
    goal=TargetLoss(1.3),
    met_at=2.0,
    steps_per_epoch=100.0,
)


def stored(status: WorkloadStatus | dict[str, Any]) -> WorkloadProfile:
    metadata = {"name": "resnet", "namespace": "team", "uid": "w", "resourceVersion": "7"}
    body = {"metadata": metadata, "spec": {}, "status": msgspec.to_builtins(status)}
    return decode_workload_profile(json.dumps(body).encode())


_GOALS: dict[str, Goal | None] = {
    "a target": TargetLoss(1.3),
    "a threshold": ConvergenceThreshold(0.02),
    "no goal": None,
}


@pytest.mark.parametrize("goal", _GOALS.values(), ids=_GOALS.keys())
@cases("in_epochs", {"in epochs": True, "in steps": False})
def test_what_is_written_is_read_back(goal: Goal | None, in_epochs: bool) -> None:
    run = replace(RUN, goal=goal, in_epochs=in_epochs, differed=not in_epochs)
    found = stored(status_of([run, replace(run, uid="u-2")], "me"))
    assert found.runs == (run, replace(run, uid="u-2"))
    assert (found.namespace, found.name, found.resource_version) == ("team", "resnet", "7")


_EDITED: dict[str, dict[str, Any]] = {
    "no instant": {"at": "yesterday"},
    "a sample's instant is none": {
        "samples": [{"ps": 1, "workers": 1, "stepsPerSecond": 1.0, "seconds": 60, "at": ""}]
    },
}


@pytest.mark.parametrize("fields", _EDITED.values(), ids=_EDITED.keys())
def test_a_run_that_was_edited_is_left_out_and_the_others_stay(fields: dict[str, Any]) -> None:
    status = json.loads(msgspec.json.encode(status_of([RUN, replace(RUN, uid="u-2")])))
    status["runs"][0] |= fields
    assert [run.uid for run in stored(status).runs] == ["u-2"]


def test_impossible_samples_and_losses_are_left_out() -> None:
    status = msgspec.to_builtins(status_of([RUN]))
    (run,) = status["runs"]
    run["samples"][0]["stepsPerSecond"] = -1.0
    run["places"] = [2.0, 1.0]
    run["metAt"] = -3.0
    (found,) = stored(status).runs
    assert found.samples == RUN.samples[1:]
    assert (found.places, found.losses, found.met_at) == ((), (), None)


def test_it_has_expired_when_nothing_was_added_for_thirty_days() -> None:
    found = stored(status_of([RUN, replace(RUN, uid="u-2", at=RUN.at + 100)]))
    assert not found.has_expired(RUN.at + KEPT_SECONDS + 99)
    assert found.has_expired(RUN.at + KEPT_SECONDS + 100)


def schema() -> dict[str, Any]:
    text = (ROOT / "manifests/crds/crd-workloadprofiles.yaml").read_text()
    crd: dict[str, Any] = yaml.safe_load(text)
    assert (crd["spec"]["group"], crd["spec"]["versions"][0]["name"]) == (GROUP, VERSION)
    names = crd["spec"]["names"]
    assert (names["kind"], names["plural"]) == (WORKLOAD_PROFILE_KIND, WORKLOAD_PROFILES)
    whole = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return whole["status"]["properties"]  # type: ignore[no-any-return]  # YAML


def names_of(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_the_crd_has_exactly_the_fields_that_are_written_and_their_bounds() -> None:
    status = schema()
    run = status["runs"]["items"]["properties"]
    assert set(status) == names_of(WorkloadStatus)
    assert set(run) == names_of(StoredRun)
    assert set(run["samples"]["items"]["properties"]) == names_of(StoredSample)
    assert status["runs"]["maxItems"] == MOST_RUNS
    assert run["samples"]["maxItems"] == MOST_SAMPLES
    assert run["losses"]["maxItems"] == run["places"]["maxItems"] == MOST_LOSSES


def test_the_largest_profile_is_far_below_what_an_object_may_have() -> None:
    sample = SpeedSample(Counts(1000, 1000), 123456.789, 86_400.0, 1.8e9, "x" * 64)
    figures = tuple(1234.5678 + n for n in range(MOST_LOSSES))
    run = replace(
        RUN, conditions="x" * 1024, samples=(sample,) * MOST_SAMPLES, places=figures, losses=figures
    )
    assert len(msgspec.json.encode(status_of([run] * MOST_RUNS))) < 400_000


def test_the_autoscaler_may_do_what_it_does_and_users_may_read() -> None:
    def verbs(file: str, resource: str) -> set[str]:
        documents = yaml.safe_load_all((ROOT / "manifests" / file).read_text())
        rules = (rule for each in documents for rule in each.get("rules", ()))
        return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}

    assert verbs("rbac-autoscaler.yaml", WORKLOAD_PROFILES) == {
        "get",
        "list",
        "watch",
        "create",
        "delete",
    }
    assert verbs("rbac-autoscaler.yaml", f"{WORKLOAD_PROFILES}/status") == {"get", "patch"}
    users = verbs("user-roles/rbac.yaml", WORKLOAD_PROFILES)
    assert users == {"get", "list", "watch", "delete"}, "what is deleted is forgotten"
    assert watched_workload_profiles().path == f"/apis/{GROUP}/{VERSION}/{WORKLOAD_PROFILES}"
