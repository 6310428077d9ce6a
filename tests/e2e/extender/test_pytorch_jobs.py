"""PyTorchJobs, which have no PSs: placed as gangs, and never resized."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.testing.waiting import holds_for
from tests.e2e.extender.scheduler import TrainingJobs, unharmed
from tests.harness.api import KUBEFLOW, Api, in_namespace
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.e2e

JOBS = in_namespace(KUBEFLOW, "default", "pytorchjobs")

MEETING = """
import os, socket, time
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
others = int(os.environ["WORLD_SIZE"]) - 1
if os.environ["RANK"] == "0":
    server = socket.create_server(master)
    came = [server.accept()[0] for _ in range(others)]
    while not os.path.exists(FILE): time.sleep(0.2)
    for each in came: each.sendall(b"end")
else:
    while True:
        try: connection = socket.create_connection(master); break
        except OSError: time.sleep(0.2)
    assert connection.recv(3) == b"end"
"""
"""What ``torch.distributed`` does with these variables: all ranks meet at the master's address.
They end once the file is there."""


def pytorch_job(name: str, workers: int, cpu: str, *command: str, **fields: Any) -> dict[str, Any]:
    """A Master and so many workers. ``command``: arguments of Python; ``fields``: further ones of
    the container."""
    container = {
        "name": "pytorch",
        "image": "optimus-examples:0.1.0",
        "command": ["python", *command],
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        **fields,
    }
    spec = {
        "schedulerName": "optimus-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    replicas = {"restartPolicy": "OnFailure", "template": {"spec": spec}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **replicas},
                "Worker": {"replicas": workers, **replicas},
            }
        },
    }


def succeeded(api: Api, name: str) -> bool:
    conditions = api.get(f"{JOBS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Succeeded" and each["status"] == "True" for each in conditions)


def bound_events(api: Api, name: str) -> list[dict[str, Any]]:
    """What the Events of a job say of its placement."""
    found = api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    own = [each for each in found if each["regarding"]["name"] == name]
    return [each for each in own if each["reason"] == "GangBound"]


def test_a_pytorch_job_is_bound_whole_on_the_fewest_nodes_and_the_next_one_waits_whole(
    own: LocalCluster, jobs: TrainingJobs, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "end"
    meeting = MEETING.replace("FILE", repr(str(file)))
    with unharmed(own, tmp_path):
        jobs.submit("torch", json.dumps(pytorch_job("torch", 7, "1", "-c", meeting)))
        assert len({*jobs.wait_bound("torch", 8).values()}) == 2
        (told,) = wait_until("its user reads of it", lambda: bound_events(api, "torch"))
        assert told["regarding"]["kind"] == "PyTorchJob"
        assert told["note"].startswith("all 8 pods have a node: ")
        jobs.submit("next", json.dumps(pytorch_job("next", 8, "1", "-c", meeting)))
        jobs.wait_refused("next", 9, "default/next")
        holds_for(lambda: not jobs.nodes("next"), "no part of the gang is bound", 5.0)
        file.touch()
        wait_until("all ranks have met, and the job has ended", lambda: succeeded(api, "torch"))
        assert len({*jobs.wait_bound("next", 9).values()}) == 3
        wait_until("the other one, too", lambda: succeeded(api, "next"))
