"""`make demo` on the embedded control plane, from its first line to its end, and cut short."""

import http.client
import signal
import time
import urllib.request
from pathlib import Path

import pytest

from localcluster.testing.waiting import wait_until
from tests.cases import cases
from tests.integration.demo.demo_run import DemoRun, demo_run

INTERRUPTED = 130
SOON = "--target-loss=0.7"
"""Reached by the jobs' first epochs."""


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def listed(demo: DemoRun) -> str:
    """The page of profiles once it shows the first job; the autoscaler may not serve it yet."""
    try:
        page = read(demo.address("profiles"))
    except (OSError, http.client.HTTPException):
        return ""
    return page if "light-tf" in page else ""


@pytest.mark.timeout(600)
def test_it_shows_two_jobs_until_they_reach_their_goals_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    with demo_run(tmp_path, SOON) as demo:
        demo.wait_says("light-tf  submitted")
        page = wait_until(
            lambda: listed(demo), "the page of profiles lists the first job", 180, lambda: demo.said
        )
        assert page.split()[:4] == ["NAME", "PHASE", "PS", "WORKERS"]
        assert "<title>Optimus</title>" in read(demo.address("page"))
        wait_until(
            lambda: '"name":"light-tf"' in read(demo.address("page") + "api/overview"),
            "the autoscaler's page shows the first job",
            60,
            lambda: demo.said,
        )
        for process, metric in (
            ("autoscaler", "optimus_autoscaler_intervals_total"),
            ("extender", "optimus_extender_"),
        ):
            assert metric in read(demo.address(f"{process} metrics"))
        status = demo.wait_ended(300)
        assert (status, demo.left()) == (0, []), demo.said
    assert "PSs + workers on" in demo.said
    for job in ("light-tf", "light-mx"):
        assert f"{job}: reached its goal" in demo.said
    assert demo.said.endswith("everything is cleaned up\n")


@cases(
    ("instant", "number"),
    {
        "while the cluster starts": ("starting the cluster", signal.SIGINT),
        "as a service manager does, while Optimus is installed": (
            "installing Optimus",
            signal.SIGTERM,
        ),
        "while a job trains": ("light-tf  placed on", signal.SIGINT),
    },
)
def test_ctrl_c_ends_it_cleanly_however_often_it_is_pressed(
    tmp_path: Path, instant: str, number: signal.Signals
) -> None:
    with demo_run(tmp_path) as demo:
        demo.wait_says(instant)
        demo.interrupt(number)
        while demo.runs:
            demo.interrupt(number)
            time.sleep(0.1)
        assert (demo.wait_ended(), demo.left()) == (INTERRUPTED, []), demo.said
    assert demo.said.endswith("stopped; everything is cleaned up\n")
    assert "Traceback" not in demo.said


def test_it_gives_up_at_its_limit_and_says_so(tmp_path: Path) -> None:
    with demo_run(tmp_path, "--limit-seconds=1") as demo:
        assert (demo.wait_ended(), demo.left()) == (1, []), demo.said
    assert "light-tf: did not reach its goal within the demo's time limit" in demo.said
    assert demo.said.endswith("not every job reached its goal\n")
