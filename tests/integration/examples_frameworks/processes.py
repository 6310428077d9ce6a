"""Runs the replicas of one job as processes, as the training-operator's environment would start
them."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[3]
DEADLINE_SECONDS = 300.0
_STEP = re.compile(r"\bstep=(\d+) .*?loss=(\S+)")


@dataclass(frozen=True)
class Replica:
    """One process to be: its name as in a pod's, and what the operator adds to its environment."""

    name: str
    environment: Mapping[str, str]


class Process:
    """One running replica and every line that it has printed."""

    def __init__(self, command: list[str], replica: Replica) -> None:
        self.name = replica.name
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._child = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **replica.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for_line(self, wanted: Callable[[str], bool]) -> None:
        """Wait until a line that is wanted has been printed; fails when the process ends without
        one."""

        def settled() -> bool:
            return any(map(wanted, self.lines)) or not self._reader.is_alive()

        with self._changed:
            in_time = self._changed.wait_for(settled, DEADLINE_SECONDS)
        assert in_time, (
            f"{self.name} printed nothing that was waited for; its last lines: {self.lines[-5:]}"
        )
        assert any(map(wanted, self.lines)), (
            f"{self.name} ended without the line; its last: {self.lines[-5:]}"
        )

    def wait(self) -> int:
        """Wait for its end; the exit status."""
        status = self._child.wait(DEADLINE_SECONDS)
        self._reader.join(DEADLINE_SECONDS)
        return status

    def terminate(self) -> None:
        """Send SIGTERM, as a kubelet does."""
        self._child.terminate()

    def kill(self) -> None:
        """End it whatever it does."""
        self._child.kill()
        self.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def losses(self) -> dict[int, float]:
        """Loss by step, as printed so far."""
        found = filter(None, map(_STEP.search, self.lines))
        return {int(match[1]): float(match[2]) for match in found}


class Job:
    """All replicas of one job, running; none is left when the block ends."""

    def __init__(self, command: list[str], replicas: list[Replica]) -> None:
        self._processes = {replica.name: Process(command, replica) for replica in replicas}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.kill()

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    def terminate_all(self) -> list[int]:
        """SIGTERM to all at once, as when a job is suspended; their exit statuses."""
        for process in self._processes.values():
            process.terminate()
        return [process.wait() for process in self._processes.values()]

    def wait_all(self) -> list[int]:
        """Wait until every replica has ended; their exit statuses."""
        return [process.wait() for process in self._processes.values()]
