"""Start one task of a training job: `python -m examples.light [flags]`; the role comes from the
environment."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(
        _name, "1"
    )  # before numpy loads: the products are tiny, more threads only burn CPU


_savers: list[Callable[[], str | None]] = []


def _die(number: int, _frame: FrameType | None) -> None:
    # As process 1 of a container the default action of SIGTERM would be ignored by the kernel.
    try:
        for line in filter(None, (save() for save in _savers)):
            os.write(1, f"{line}\n".encode())  # print would fail where this interrupts it
    except OSError as error:
        os.write(2, f"examples.light: told to stop, and not saved: {error}\n".encode())
    finally:
        os._exit(128 + number)


def main(arguments: list[str]) -> int:
    """Run the task to its end; the exit code is 0 done, 1 a peer stayed away, 2 a wrong flag or
    environment."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _die)
    from examples.light.roles import run_task

    return run_task(arguments, dict(os.environ), _savers.append)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
