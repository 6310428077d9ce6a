"""Becomes a container's program: `python -I -S launcher.py PARENT DIR PROGRAM ARGV...`.

It asks the kernel to kill this process when the agent's thread that made it ends
(PR_SET_PDEATHSIG): no container outlives its agent, not even one that is killed. A program of its
own keeps the agent's threads and locks out of this; it imports nothing of the project."""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied(
    command: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    program: str | None = None,
) -> list[str]:
    """The command line that runs a command in a folder, and that the kernel kills when the thread
    that starts it ends. The program is an absolute path; without it the command names it so."""
    own = (sys.executable, "-I", "-S", __file__, os.getpid())
    return [str(each) for each in (*own, folder, program or command[0], *command)]


def main(arguments: list[str]) -> None:
    """Tie this process to its parent, change the folder, become the container's program."""
    parent, folder, program, *argv = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)) != 0 or os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        os.chdir(folder)
        os.execv(program, argv)  # noqa: S606 -- no shell is wanted: this is the container's own command line
    except OSError as error:
        sys.stderr.write(
            f"the container's program cannot be started: {program}: {error.strerror}\n"
        )
        os._exit(128)


if __name__ == "__main__":
    main(sys.argv[1:])
