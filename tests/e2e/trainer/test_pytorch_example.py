"""The PyTorch example as real processes that exchange gradients, stopped and begun anew at other
numbers of them."""

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from localcluster.testing.waiting import wait_until
from tests.harness.pytorch import PYTORCH_IMAGE, pytorch_environment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROOT: Final = Path(__file__).parents[3]
JOBS: Final = Path(__file__).parent / "jobs"
_EXAMPLES: Final = 1280
_BATCH: Final = 128


@contextmanager
def ranks(folder: Path, world: int) -> Iterator[Path]:
    """So many processes of the example; gives the log of rank 0. At the end all are told to stop,
    and have."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    folder.mkdir()
    python = pytorch_environment()[PYTORCH_IMAGE] / "bin" / "python"
    common = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'trainer' / 'src'}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(world),
    }
    command = [str(python), str(JOBS / "pytorch_example.py"), "--example-seconds=0.002"]
    command += [f"--checkpoint-dir={folder.parent / 'saved'}", "--checkpoint-steps=1000"]
    command += [f"--examples={_EXAMPLES}", f"--batch={_BATCH}"]
    processes = []
    for rank in range(world):
        with (folder / str(rank)).open("w") as log:
            environment = common | {"RANK": str(rank), "NOTES": str(folder)}
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        yield folder / "0"
    finally:
        for each in processes:
            each.send_signal(signal.SIGTERM)
        ended = [each.wait(timeout=60) for each in processes]
    assert ended[0] == 128 + signal.SIGTERM  # the others may see that it has left


def trained(folder: Path, after: int, until: int) -> Iterator[tuple[int, int]]:
    """The steps of a run within these bounds, each with every example that a rank trained in it."""
    for notes in folder.glob("*.json"):
        for step, spans in map(json.loads, notes.read_text().splitlines()):
            if after < step <= until:
                yield from ((step, each) for span in spans for each in range(*span))


def _trains(log: Path) -> bool:
    return log.read_text().count("loss=") >= 4


@pytest.mark.skipif(not pytorch_environment(), reason="python3-torch is not installed")
def test_it_goes_on_from_the_step_at_which_it_was_told_to_stop(tmp_path: Path) -> None:
    saved, losses, epochs = 0, list[float](), Counter[tuple[int, int]]()
    for number, world in enumerate((2, 4, 2)):
        began = saved
        with ranks(tmp_path / str(number), world) as log:
            wait_until(partial(_trains, log), "it trains", 120)
        text = log.read_text()
        (restored,) = re.findall(r"restored step (\d+) world (\d+)", text)
        assert restored == (str(saved), str(world))
        (saved,) = (int(step) for step in re.findall(r"step=(\d+) checkpoint", text))
        for step, example in trained(tmp_path / str(number), began, saved):
            epochs[(step - 1) * _BATCH // _EXAMPLES, example] += 1
        losses += [float(each) for each in re.findall(r"loss=([\d.]+)", text)]
    assert saved >= 60
    assert losses[-1] < 0.5 * losses[0]
    assert set(epochs.values()) == {1}, "no example is trained twice in an epoch"
    whole = saved * _BATCH // _EXAMPLES
    assert whole >= 3
    assert sum(epoch < whole for epoch, _ in epochs) == whole * _EXAMPLES, "and none is left out"
