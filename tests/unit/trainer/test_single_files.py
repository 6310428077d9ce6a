"""Each module, copied alone beside a script, does its work under old and new versions of Python."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parents[3] / "trainer" / "src" / "optimus_trainer"
STOPPED: Final = 128 + signal.SIGTERM
SCRIPTS: Final = {
    "report": ("from report import report; report(step=3, loss=0.5)", 0, "step=3 loss=0.5\n"),
    "save_on_stop": (
        (
            "import os, signal, time\n"
            "from save_on_stop import SaveOnStop\n"
            "stop = SaveOnStop()\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n"
            "while not stop.told: time.sleep(0.01)\n"
            "print('saved')\n"
            "stop.leave()"
        ),
        STOPPED,
        "saved\n",
    ),
    "shards": (
        (
            "from shards import Deal\n"
            "deal = Deal.begin({'a': 7, 'b': 5}, 4, 2)\n"
            "deal = Deal.begin({'a': 7, 'b': 5}, 4, 1, saved=deal.saved(2))\n"
            "print(deal.epoch, deal.steps, sum(piece.examples for piece in deal.pieces(0)))"
        ),
        0,
        "0 1 4\n",
    ),
    "split": (
        "from split import split_batch; print(*split_batch(12, 4, {'WORLD_SIZE': '2'}))",
        0,
        "3 2\n",
    ),
    "parameters": (
        (
            "from parameters import VariablePlan, assign\n"
            "plan = VariablePlan([(90, 10)], 3)\n"
            "print(len(assign([900, 50, 50], 3)), plan.partitioner((90, 10)))"
        ),
        0,
        "5 [3, 1]\n",
    ),
}
"""Code, the exit status, and what is printed."""


def test_every_module_that_a_script_imports_has_one() -> None:
    assert {path.stem for path in SOURCES.glob("*.py")} == {*SCRIPTS, "__init__", "balance"}


@pytest.mark.parametrize("version", [None, "3.8", "3.12"])
@pytest.mark.parametrize("module", SCRIPTS)
def test_a_copied_file_is_enough(module: str, version: str | None, tmp_path: Path) -> None:
    """Under the version that runs this, and where they are installed the oldest and a newer one."""
    python = sys.executable if version is None else f"python{version}"
    chosen = {**os.environ, "PYENV_VERSION": version or "", "PYTHONPATH": ""}
    if shutil.which(python) is None or subprocess.call([python, "-V"], env=chosen):
        pytest.skip(f"{python} is not installed")
    code, status, printed = SCRIPTS[module]
    shutil.copy(SOURCES / f"{module}.py", tmp_path)
    (tmp_path / "train.py").write_text(code)
    done = subprocess.run(
        [python, "-S", "train.py"],
        cwd=tmp_path,
        env=chosen,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, printed), done.stderr
