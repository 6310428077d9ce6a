"""Runs a program to its end with a time-out, and turns its failure into one readable error."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.errors import BuildError

_SHOWN_LINES = 15


def run(
    command: Sequence[str],
    timeout_seconds: float,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Return what the command wrote to stdout.

    Raises BuildError when the program is missing, fails or takes too long; its message ends in the
    last lines of stderr (or of stdout where stderr is empty)."""
    name = " ".join(command[:3])
    try:
        done = subprocess.run(  # noqa: PLW1510 - the exit status is looked at below, to say more than check= would
            list(command),
            cwd=cwd,
            env=None if environ is None else dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"`{name}` did not end within {timeout_seconds:.0f} s") from error
    except OSError as error:
        raise BuildError(f"`{name}` could not be started: {error}") from error
    if done.returncode != 0:
        tail = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-_SHOWN_LINES:])
        raise BuildError(f"`{name}` ended with status {done.returncode}:\n{tail}")
    return done.stdout
