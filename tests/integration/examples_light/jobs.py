"""Jobs of real processes: the environment that the operator gives them, their lines, their end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from localcluster.ports import pick_ports

_ROOT = Path(__file__).parents[3]
_LIMIT_SECONDS = 180.0


class Program:
    """One task: its lines are read as they come and can be waited for."""

    def __init__(self, environment: Mapping[str, str], flags: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "examples.light", *flags],
            cwd=_ROOT,
            env={"PATH": os.environ["PATH"], **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._closed = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._tell(line.rstrip("\n"))
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _tell(self, line: str) -> None:
        with self._news:
            self.lines.append(line)
            self._news.notify_all()

    def wait_for_line(self, wanted: Callable[[str], bool]) -> str:
        """Wait for a line that is wanted; AssertionError where the program ends or time passes
        without one."""

        def found() -> str | None:
            return next((line for line in self.lines if wanted(line)), None)

        with self._news:
            self._news.wait_for(lambda: found() or self._closed, _LIMIT_SECONDS)
            line = found()
        assert line is not None, self.text
        return line

    def end(self) -> int:
        """Wait for the program's end and return its exit code."""
        code = self._process.wait(_LIMIT_SECONDS)
        self._reader.join(_LIMIT_SECONDS)
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        self._process.send_signal(number)
        return self.end()

    def close(self) -> None:
        """End the program whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
        self.end()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def text(self) -> str:
        """All lines, for the message of a failed assertion."""
        return "\n".join(self.lines)

    def losses(self) -> dict[int, float]:
        """Losses by step, in the order of the lines."""
        found = (re.search(r"step=(\d+) loss=(\S+)", line) for line in self.lines)
        return {int(match[1]): float(match[2]) for match in found if match}

    def steps(self) -> list[int]:
        """Steps in the order of the lines that give a loss."""
        return list(self.losses())


class Job:
    """The programs of one run of a job, by name (`ps-0`, `worker-1`, ...); all are ended on
    exit."""

    def __init__(self, environments: Mapping[str, Mapping[str, str]], flags: Sequence[str]) -> None:
        self._environments, self._flags = environments, flags
        self._all: list[Program] = []
        self.programs: dict[str, Program] = {}
        self.start(*environments)

    def start(self, *names: str) -> None:
        """Start these tasks (again)."""
        for name in names:
            self.programs[name] = Program(self._environments[name], self._flags)
            self._all.append(self.programs[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for program in self._all:
            program.close()

    def __getitem__(self, name: str) -> Program:
        return self.programs[name]

    def ends(self, *prefixes: str) -> dict[str, int]:
        """Wait for the tasks whose names start so; their exit codes."""
        return {
            name: program.end()
            for name, program in self.programs.items()
            if name.startswith(prefixes)
        }

    def stop(self) -> dict[str, int]:
        """Stop all tasks as a suspended job is stopped; their exit codes."""
        return {name: program.stop() for name, program in self.programs.items()}


def tensorflow_environments(ps: int, workers: int) -> dict[str, dict[str, str]]:
    """TF_CONFIG of every task of a TFJob, service names turned into loopback addresses."""
    ports = iter(pick_ports(ps + workers))
    counts = {"ps": ps, "worker": workers}
    cluster = {
        role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in counts.items()
    }
    return {
        f"{role}-{index}": {
            "TF_CONFIG": json.dumps(
                {"cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud"}
            )
        }
        for role, addresses in cluster.items()
        for index in range(len(addresses))
    }


def mxnet_environments(servers: int, workers: int) -> dict[str, dict[str, str]]:
    """DMLC_* and MX_CONFIG of every task of an MXJob, as on a node whose pods share the loopback
    address."""
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(pick_ports(1)[0]),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NUM_WORKER": str(workers),
        "DMLC_USE_KUBERNETES": "1",
        "DMLC_NODE_HOST": "127.0.0.1",
    }
    environments = {}
    for role, count in (("scheduler", 1), ("server", servers), ("worker", workers)):
        for index in range(count):
            own = {**shared, "DMLC_ROLE": role} | (
                {"DMLC_WORKER_ID": str(index)} if role == "worker" else {}
            )
            config = {"cluster": {}, "labels": {}, "task": {"type": role, "index": index}}
            environments[f"{role}-{index}"] = own | {"MX_CONFIG": json.dumps(config)}
    return environments
