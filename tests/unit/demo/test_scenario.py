"""What the demo submits: the examples, quicker, and otherwise the same."""

from typing import Any

import pytest
import yaml

from examples.demo.scenario import FIRST, SECOND, TARGET_LOSS, UNTOUCHED, DemoJob, with_flags
from localcluster.paths import REPOSITORY
from tests.cases import cases

_JOBS = pytest.mark.parametrize("job", [FIRST, SECOND], ids=["the TFJob", "the MXJob"])


def _roles(body: dict[str, Any]) -> dict[str, Any]:
    return next(value for key, value in body["spec"].items() if key.endswith("ReplicaSpecs"))


def _flags(body: dict[str, Any]) -> list[dict[str, str]]:
    """The flags of each role."""
    arguments = [
        role["template"]["spec"]["containers"][0]["args"] for role in _roles(body).values()
    ]
    return [dict(each.split("=") for each in one if "=" in each) for one in arguments]


def _example(job: DemoJob) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples" / "light" / job.manifest).read_text()
    )
    return body


@_JOBS
def test_all_costs_are_cut_by_one_factor(job: DemoJob) -> None:
    given, demo = _flags(_example(job))[0], _flags(job.body())[0]
    factor = float(demo["--example-seconds"]) / float(given["--example-seconds"])
    assert factor < 1
    assert float(demo["--message-seconds"]) == pytest.approx(
        factor * float(given["--message-seconds"])
    )
    assert float(demo["--link-mbit"]) == pytest.approx(float(given["--link-mbit"]) / factor)


@_JOBS
def test_an_epoch_has_the_steps_that_the_annotation_says(job: DemoJob) -> None:
    body = job.body()
    flags, annotations = _flags(body)[0], body["metadata"]["annotations"]
    batch = int(flags.get("--global-batch-size", flags.get("--worker-batch-size", "0")))
    assert (
        int(flags["--examples-per-epoch"]) == int(annotations["optimus.dl/steps-per-epoch"]) * batch
    )


@_JOBS
def test_nothing_but_flags_annotations_and_namespace_differs_from_the_example(job: DemoJob) -> None:
    example, body = _example(job), job.body()
    assert len({str(flags) for flags in _flags(body)}) == 1, "all roles get the same flags"
    for each in (example, body):
        del each["metadata"]
        for role in _roles(each).values():
            del role["template"]["spec"]["containers"][0]["args"]
    assert body == example


def test_a_flag_is_changed_where_it_stands() -> None:
    assert with_flags(["--a=1", "--dir", "/x", "--b=2"], {"--b": "3"}) == [
        "--a=1",
        "--dir",
        "/x",
        "--b=3",
    ]


@cases("arguments", {"it is not there": ["--a=1"], "its value is apart": ["--b", "2"]})
def test_a_flag_that_cannot_be_changed_is_not_passed_over(arguments: list[str]) -> None:
    with pytest.raises(ValueError, match="--b"):
        with_flags(arguments, {"--b": "3"})


@_JOBS
def test_another_goal_is_all_that_differs_in_a_job_that_aims_at_it(job: DemoJob) -> None:
    usual, other = job.body(), job.aiming_at(0.5).body()
    for body, loss in ((usual, f"{TARGET_LOSS:g}"), (other, "0.5")):
        for role in _roles(body).values():
            role["template"]["spec"]["containers"][0]["args"].remove(f"--target-loss={loss}")
    assert other["metadata"]["annotations"].pop("optimus.dl/target-loss") == "0.5"
    assert usual["metadata"]["annotations"].pop("optimus.dl/target-loss") == f"{TARGET_LOSS:g}"
    assert other == usual


@_JOBS
def test_the_untouched_job_is_the_same_without_anything_of_optimus(job: DemoJob) -> None:
    managed, untouched = job.body(), job.body(UNTOUCHED)
    assert "optimus" not in str(untouched["metadata"])
    for role in _roles(untouched).values():
        assert role["template"]["spec"].pop("schedulerName") == "default-scheduler"
        assert role["template"]["spec"].pop("nodeSelector") == {"optimus.dl/pool": UNTOUCHED}
    for role in _roles(managed).values():
        del role["template"]["spec"]["schedulerName"]
    assert untouched["spec"] == managed["spec"]
