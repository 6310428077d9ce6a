"""``optimus evaluate history``: the books of a cluster's jobs, and those of all."""

from typing import Any

import pytest

from optimus.cli import evaluate_history
from optimus.cli.command import INCOMPLETE, Answer
from optimus.jobs import Counts
from optimus.kube.job_list import list_jobs
from tests.unit.cli.fake_api import FakeApi, profile, stored_state
from tests.unit.kube.job_json import job_json

MOVED: dict[str, Any] = {"rescaled_counts": (Counts(1, 2), Counts(2, 4)), "stopped_seconds": 30.0}
OWN = Counts(1, 2)


def answer(api: FakeApi, namespace: str | None = "ns") -> Answer:
    return evaluate_history.answer_of(list_jobs(api, namespace), namespace)


def moved(name: str, phase: str, **record: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job as it is stored, and its profile."""
    body = job_json(target_loss="0.2")
    body["metadata"] |= {"name": name, "uid": name}
    if phase == "Completed":
        body["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    state = stored_state(**{"user_counts": OWN, **MOVED, **record})
    return body, profile(name, name, state=state, phase=phase, rescales=1)


def cluster(*jobs: tuple[dict[str, Any], dict[str, Any]], **fields: Any) -> FakeApi:
    return FakeApi(jobs=[each[0] for each in jobs], profiles=[each[1] for each in jobs], **fields)


def test_the_jobs_that_lost_most_come_first_and_ended_ones_are_summed_alone() -> None:
    found = answer(
        cluster(
            moved("little", "Completed", stopped_seconds=3.0),
            moved("much", "Completed", stopped_seconds=900.0, redone_seconds=90.0),
            moved("runs", "Training"),
        )
    )
    value: Any = found.value
    assert [each["name"] for each in value["jobs"]] == ["much", "runs", "little"]
    ended, running = value["ended"], value["running"]
    assert (ended["jobs"], ended["stoppedSeconds"], ended["redoneSeconds"]) == (2, 903.0, 90.0)
    assert running["jobs"] == 1
    for each in value["jobs"]:
        lost = each["stoppedSeconds"] + each["redoneSeconds"]
        assert each["savedSeconds"] == pytest.approx(each["fasterSeconds"] - lost, abs=0.2)
    assert ended["savedSeconds"] == pytest.approx(
        sum(each["savedSeconds"] for each in value["jobs"] if each["ended"]), abs=0.2
    )
    assert "ns/much" in found.text.splitlines()[1]
    assert "ended: 2 jobs lost" in found.text
    assert "still running: 1 job" in found.text


def test_a_job_that_was_never_moved_is_not_in_the_sum() -> None:
    found = answer(cluster(moved("stays", "Completed", rescaled_counts=())))
    assert found.text == "no job was moved in namespace ns; -A asks for all namespaces"
    assert found.value["jobs"] == []  # type: ignore[index]


def test_a_job_whose_own_counts_are_not_known_is_named() -> None:
    found = answer(cluster(moved("strange", "Completed", user_counts=None)))
    assert "ns/strange" in found.text
    assert [each["job"] for each in found.value["withoutBooks"]] == ["ns/strange"]  # type: ignore[index]


def test_what_may_not_be_read_is_said() -> None:
    found = answer(cluster(moved("j", "Training"), forbidden=["pods"]))
    assert found.status == INCOMPLETE
    assert "incomplete: " in found.text
