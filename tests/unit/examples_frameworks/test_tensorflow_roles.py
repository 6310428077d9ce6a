"""What the TensorFlow example makes of TF_CONFIG."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from examples.tensorflow.train import read_task
from tests.cases import cases

CLUSTER = {"chief": ["c:2222"], "worker": ["w:2222"], "ps": ["p:2222"]}


def config(role: Any, **cluster: Any) -> str:
    return json.dumps({"cluster": {**CLUSTER, **cluster}, "task": {"type": role, "index": 0}})


@pytest.mark.parametrize("role", ["chief", "worker", "ps"])
def test_a_role_of_the_cluster_is_taken(role: str) -> None:
    assert read_task(config(role)) == (role, "c:2222")


@cases(
    ("text", "sentence"),
    {
        "no TF_CONFIG at all": ("", "TF_CONFIG does not describe"),
        "no JSON": ("{", "TF_CONFIG does not describe"),
        "no JSON object": ("[]", "TF_CONFIG does not describe"),
        "no task": ('{"cluster": {}}', "TF_CONFIG does not describe"),
        "a number as cluster": ('{"cluster": 3, "task": {"type": "ps"}}', "does not describe"),
        "a role that this example lacks": (config("evaluator"), 'the role "evaluator"'),
        "a role that is no word": (config(["chief"]), "the role"),
        "no parameter server": (config("chief", ps=[]), "lists no ps"),
        "neither chief nor worker": (config("ps", chief=[], worker=[]), "no chief and no worker"),
    },
)
def test_what_is_not_one_of_our_clusters_is_refused_with_a_sentence(
    text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_task(text)


def test_a_refusal_is_one_line_and_a_status_without_a_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.tensorflow.train", "--checkpoint-dir=unused"],
        env={**os.environ, "TF_CONFIG": "{}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("cannot train: TF_CONFIG does not describe")
    assert done.stderr.count("\n") == 1
