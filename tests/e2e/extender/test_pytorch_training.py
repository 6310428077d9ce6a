"""A PyTorchJob that trains with ``DistributedDataParallel``, where PyTorch is installed
(``tests/harness/pytorch.py``)."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from localcluster.cluster import LocalCluster
from optimus.cli.main import main
from tests.e2e.extender.scheduler import TrainingJobs, unharmed
from tests.e2e.extender.test_pytorch_jobs import pytorch_job, succeeded
from tests.harness.api import Api
from tests.harness.pytorch import PYTORCH_IMAGE
from tests.harness.waiting import LONG_SECONDS, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

_EPOCHS: Final = 200
_ENVIRONMENT: Final = [
    {"name": "GLOO_SOCKET_IFNAME", "value": "lo"},
    {"name": "OMP_NUM_THREADS", "value": "1"},
]
TRAINING: Final = r"""
import argparse, os, time
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--slow-until", help="each step takes 0.25 s until this file is there")
arguments = parser.parse_args()
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(0)
inputs = torch.randn(64, 3)
outputs = inputs @ torch.tensor([[1.0], [-2.0], [3.0]]) + 0.1 * torch.randn(64, 1)
examples = TensorDataset(inputs, outputs)
sampler = DistributedSampler(examples)
batches = DataLoader(examples, batch_size=8, sampler=sampler)
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(1, arguments.epochs + 1):
    sampler.set_epoch(epoch)
    for number, (given, wanted) in enumerate(batches):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        loss.backward()
        optimizer.step()
        place = f"[{number * 8}/{len(sampler)} ({100 * number / len(batches):.0f}%)]"
        if rank == 0:
            print(f"Train Epoch: {epoch} {place}\tLoss: {loss.item():.6f}", flush=True)
        if not os.path.exists(arguments.slow_until):
            time.sleep(0.25)
print("weights:", model.module.weight.tolist(), flush=True)
"""
"""Each rank trains on its own part of the examples, from its own first weights: only what the ranks
exchange makes their weights the same. It prints what PyTorch's example for MNIST prints."""


def test_ranks_on_two_nodes_train_one_model_and_its_end_is_told(
    own: LocalCluster,
    jobs: TrainingJobs,
    api: Api,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def advice() -> Any:
        capsys.readouterr()
        kubeconfig = str(own.kubeconfig)
        asked = ("advise", "ddp", "-n", "default", "--json", "--kubeconfig", kubeconfig)
        assert main([*asked]) == 0
        (job,) = json.loads(capsys.readouterr().out)["jobs"]
        return job

    file, script = tmp_path / "end", tmp_path / "train.py"
    script.write_text(TRAINING)
    command = (str(script), "--epochs", str(_EPOCHS), "--slow-until", str(file))
    job = pytorch_job("ddp", 1, "3", *command, image=PYTORCH_IMAGE, env=_ENVIRONMENT)
    with unharmed(own, tmp_path):
        jobs.submit("ddp", json.dumps(job))
        assert len({*jobs.wait_bound("ddp", 2).values()}) == 2
        wait_until("its end is told", lambda: advice().get("remainingSeconds"), LONG_SECONDS)
        told = advice()
        file.touch()
        wait_until("it has ended", lambda: succeeded(api, "ddp"), LONG_SECONDS)
        logs = {rank: own.kubectl("logs", f"ddp-{rank}-0") for rank in ("master", "worker")}
    losses = re.findall(r"Loss: (\S+)", logs["master"])
    assert len(losses) == 4 * _EPOCHS
    assert float(losses[-1]) < 0.05 * float(losses[0])
    master, worker = (re.findall(r"weights: (.*)", log) for log in logs.values())
    assert master == worker != []
    assert told["goal"] == f"{_EPOCHS} epochs"
    assert told["goalIsDeclared"]
    assert 0 < told["done"] < 1
    assert 0 < told["loss"] < float(losses[0])
