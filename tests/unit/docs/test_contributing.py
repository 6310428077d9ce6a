"""A policy, a placement rule, a log format and a job kind work in a copy of the package in which
only the files of code are touched that CONTRIBUTING.md names for them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.docs.pages import ROOT, page

_POLICY = """
from dataclasses import dataclass
from typing import ClassVar

from optimus.allocation import Allocation, AllocationProblem, PolicyTraits
from optimus.policies.fifo import FifoPolicy


@dataclass(frozen=True, slots=True)
class MinePolicy:
    name: ClassVar[str] = "mine"
    traits: ClassVar[PolicyTraits] = PolicyTraits(placed_by="spread", reads_forecasts=False)

    def allocate(self, problem: AllocationProblem) -> Allocation:
        return FifoPolicy().allocate(problem)
"""
_RULE = "from optimus.placement.theorem1 import Theorem1\n\nMINE = Theorem1()\n"
_FORM = '    ("~~ ", rf"~~ {_EPOCH} has (?P<loss>{NUMBER}) ~~", {"epoch_ended": True}),\n'
_KIND = """PADDLEJOB: Final = JobKind(
    "PaddleJob",
    "paddlejobs",
    "paddleReplicaSpecs",
    "",
    "paddle",
    {role.value: role for role in (Role.MASTER, Role.WORKER)},
)
"""
_DECODED = """
import json, sys
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.training_jobs import decode_job

raw = json.dumps(json.load(sys.stdin)).encode()
print(decode_job("PaddleJob", raw, config=EligibilityConfig()).job.size)
"""


class Copy:
    """The package ``optimus`` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "optimus", folder / "optimus", ignore=ignored)

    def new(self, path: str, text: str) -> None:
        (self._folder / path).write_text(text)

    def insert(self, path: str, before: str, text: str) -> None:
        file = self._folder / path
        at = file.read_text()
        assert at.count(before) == 1
        file.write_text(at.replace(before, text + before))

    def run(self, *arguments: str, stdin: str = "") -> str:
        paths = os.pathsep.join([str(self._folder), str(ROOT / "trainer" / "src")])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": paths},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def named_for(what: str) -> str:
    """The files that CONTRIBUTING.md names."""
    (row,) = (row for row in page("CONTRIBUTING.md").rows("Where to put it") if row[0] == what)
    return row[1]


def test_a_policy_is_a_module_and_a_row(copy: Copy) -> None:
    copy.new("optimus/policies/mine.py", _POLICY)
    rows = "optimus/policies/__init__.py"
    copy.insert(
        rows,
        "from optimus.policies.optimus import",
        "from optimus.policies.mine import MinePolicy\n",
    )
    copy.insert(
        rows, "        Dl2Policy.name: _dl2,", "        MinePolicy.name: _of_pools(MinePolicy),\n"
    )
    told = copy.run(
        "-m", "optimus.cli", "simulate", "--policies", "mine", "--jobs", "2", "--seeds", "1"
    )
    assert "mine" in told
    assert "`optimus/policies/`" in named_for("a policy")


def test_a_placement_rule_is_a_module_and_a_row(copy: Copy) -> None:
    copy.new("optimus/placement/mine.py", _RULE)
    rows = "optimus/placement/named.py"
    copy.insert(
        rows, "from optimus.placement.per_pod import", "from optimus.placement.mine import MINE\n"
    )
    copy.insert(rows, '"theorem1": Theorem1()', '"mine": MINE, ')
    options = ("--policies", "drf", "--placement", "mine", "--jobs", "2", "--seeds", "1")
    assert "drf" in copy.run("-m", "optimus.cli", "simulate", *options)
    assert "`named.py`" in named_for("a placement rule")


def test_a_log_format_is_a_row(copy: Copy, tmp_path: Path) -> None:
    rows = "optimus/progress/formats/frameworks.py"
    copy.insert(rows, '    (\n        "[Batch ",', _FORM)
    log = tmp_path / "mine.log"
    log.write_text("".join(f"~~ {epoch} has {1 / (1 + epoch)} ~~\n" for epoch in range(9)))
    read = copy.run("-m", "optimus.cli", "doctor", str(log))
    assert "9 of 9 lines are read" in read
    assert f"`{rows}`" in named_for("a log format")


def test_a_job_kind_is_a_row_beside_its_rights(copy: Copy) -> None:
    rows = "optimus/kube/job_kinds.py"
    copy.insert(rows, "JOBSET: Final = JobKind(", _KIND)
    copy.insert(rows, "JOBSET)\n}", "PADDLEJOB, ")
    pod = {"spec": {"containers": [{"name": "paddle", "image": "paddle"}]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PaddleJob",
        "metadata": {"namespace": "team", "name": "a", "uid": "u", "resourceVersion": "1"},
        "spec": {"paddleReplicaSpecs": {"Worker": {"replicas": 3, "template": pod}}},
    }
    job["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"  # type: ignore[index]
    assert copy.run("-c", _DECODED, stdin=json.dumps(job)) == "3 workers\n"
    assert f"`{rows}`" in named_for("a job kind")
