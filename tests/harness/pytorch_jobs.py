"""A PyTorchJob that needs no PyTorch: its ranks take steps, and rank 0 saves each, and says after
how long without one it begins again."""

from typing import Any, Final

from tests.harness.light_jobs import CLAIM, POOL
from tests.harness.small_jobs import SMALL

GRACE_SECONDS: Final = 1
_SCRIPT: Final = """
import os, pathlib, time
world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
saved = pathlib.Path("/checkpoints/ddp-step")
new = saved.with_suffix(".new")
began = saved.stat().st_mtime if saved.exists() else time.time()
step = int(saved.read_text()) if saved.exists() else 0
print(f"restored step {step} world {world} after {time.time() - began:.1f} s", flush=True)
while True:
    time.sleep(0.05 + 0.4 / world)
    step += 1
    if rank == 0:
        new.write_text(str(step))
        new.replace(saved)
        print(f"step={step} loss={1 + 9 / (9 + step):.4f}", flush=True)
"""


def pytorch_job(workers: int) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "schedulerName": "optimus-scheduler",
        "nodeSelector": dict(POOL),
        "tolerations": [{"key": "optimus.dl/training", "operator": "Exists"}],
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "volumes": [{"name": "saved", "persistentVolumeClaim": {"claimName": CLAIM}}],
        "containers": [
            {
                "name": "pytorch",
                "image": "optimus-examples:0.1.0",
                "command": ["python", "-c", _SCRIPT],
                "resources": {"requests": SMALL},
                "volumeMounts": [{"name": "saved", "mountPath": "/checkpoints"}],
            }
        ],
    }
    roles = {"Master": 1, "Worker": workers}
    annotations = {
        "target-steps": "1000000",
        "global-batch-size": "64",
        "rescale": "any",
        "max-workers": str(workers),
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "ddp",
            "annotations": {f"optimus.dl/{name}": text for name, text in annotations.items()},
        },
        "spec": {
            "pytorchReplicaSpecs": {
                role: {
                    "replicas": count,
                    "restartPolicy": "OnFailure",
                    "template": {"spec": pod},
                }
                for role, count in roles.items()
            }
        },
    }
