"""What the trainers printed in all of a job's runs, and whether training lost a checkpoint.

Logs are followed while the pods run, as `kubectl logs -f` does: a rescale deletes the pods, and
their logs with them."""

import re
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import urllib3
from kubernetes.client.exceptions import ApiException

from tests.harness.api import CORE, Json, in_namespace
from tests.harness.training_log import Step, parse_log
from tests.harness.watch_recorder import lines_of

_LABELS = "training.kubeflow.org"
_GOES_ON = re.compile(r"goes on from checkpoint=(\d+)")
_SILENCE_SECONDS = 300.0
_AGAIN_SECONDS = 0.2
_VAIN_ATTEMPTS = 150
_BEYOND_ASYNC = 40
"""An asynchronous trainer's own first step may come after so many of the others'."""

Life: TypeAlias = tuple[str, int]
"""The uid of a trainer's pod, and how often its container had been started before."""


@dataclass
class Run:
    """One life of trainer 0: what it printed, and whether its container had been started before in
    the same pod."""

    job: str
    restarted: bool
    lines: list[str] = field(default_factory=list)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return its records."""
        return parse_log("\n".join(self.lines))


class Served(Protocol):
    """What a log book asks for; ``Api`` is one."""

    def get(self, path: str, **query: str) -> Json:
        """Return an object. Raises ApiException."""
        ...

    def stream(
        self, path: str, silence_seconds: float, **query: str
    ) -> AbstractContextManager[urllib3.BaseHTTPResponse]:
        """Open a streamed answer. Raises ApiException, and what urllib3 raises where it is
        cut."""
        ...


class TrainingLogs:
    """Follows the log of trainer 0 of every job of a namespace; given each pod as it changes."""

    def __init__(self, api: Served, namespace: str) -> None:
        self._api, self._pods = api, in_namespace(CORE, namespace, "pods")
        self._runs: dict[Life, Run] = {}
        self._threads: list[threading.Thread] = []
        self._finished = threading.Event()

    def update(self, pod: Json) -> None:
        """Begin to follow a trainer 0 that has begun to run."""
        labels = pod["metadata"].get("labels") or {}
        replica = (
            labels.get(f"{_LABELS}/replica-type"),
            labels.get(f"{_LABELS}/replica-index"),
        )
        # Of a job whose master trains, worker 0 prints no step.
        is_lead = replica in (("worker", "0"), ("master", "0"))
        for life, state in _lives(pod).items():
            if is_lead and "running" in state and life not in self._runs:
                self._runs[life] = Run(labels[f"{_LABELS}/job-name"], restarted=life[1] > 0)
                arguments = (f"{self._pods}/{pod['metadata']['name']}", life)
                thread = threading.Thread(target=self._follow, args=arguments, daemon=True)
                thread.start()
                self._threads.append(thread)  # once it has started: another thread may join it

    def runs(self, job: str) -> list[Run]:
        """Return the runs of a job in their order."""
        return [run for run in list(self._runs.values()) if run.job == job]

    def steps_of_last(self, job: str) -> tuple[Step, ...]:
        """Return what the newest run has printed."""
        runs = self.runs(job)
        return runs[-1].steps if runs else ()

    def steps_of_present(self, pods: Sequence[Json]) -> tuple[Step, ...]:
        """Return what the trainer 0 among these pods has printed in its present life.

        The newest run that is known may still be the one before: pods are heard of a moment
        late."""
        present = {life for pod in pods for life in _lives(pod)}
        runs = [run for life, run in list(self._runs.items()) if life in present]
        return runs[-1].steps if runs else ()

    def finish(self, seconds: float = 0.5) -> None:
        """Wait a moment for each log whose pod has just gone; none is opened from then on."""
        for thread in list(self._threads):
            thread.join(seconds)
        self._finished.set()

    def _follow(self, pod: str, life: Life) -> None:
        """Read the log to its end; one that is cut, as where an API server is killed, is opened
        again."""
        lines, vain = self._runs[life].lines, 0
        while vain < _VAIN_ATTEMPTS and not self._finished.is_set():
            before = len(lines)
            if self._is_read(pod, life):
                return
            vain = 0 if len(lines) > before else vain + 1
            self._finished.wait(_AGAIN_SECONDS)

    def _is_read(self, pod: str, life: Life) -> bool:
        """Read what there is; return whether no more will come: the log has ended, or the pod is
        another by now."""
        lines = self._runs[life].lines
        try:
            if life not in _lives(self._api.get(pod)):
                return True
            with self._api.stream(f"{pod}/log", _SILENCE_SECONDS, follow="true") as response:
                for number, line in enumerate(lines_of(response)):
                    if number >= len(lines):
                        lines.append(line.decode(errors="replace"))
        except ApiException as error:
            return error.status in (400, 404)
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            return False
        return True


def _lives(pod: Json) -> dict[Life, Json]:
    """Return the present life of each of a pod's containers, and its state."""
    found = pod["status"].get("containerStatuses") or ()
    return {(pod["metadata"]["uid"], int(each["restartCount"])): each["state"] for each in found}


def violations(runs: Sequence[Run], *, exact: bool) -> list[str]:
    """Return where training did not go on after the newest checkpoint, one sentence each.

    `exact`: the first step is the checkpoint's + 1; an asynchronous trainer sees the others' steps
    between."""
    reader = _Reader(exact)
    for number, run in enumerate(runs, start=1):
        reader.begins(number, run)
        for line in run.lines:
            reader.reads(line)
    return reader.found


def epoch_losses(runs: Sequence[Run]) -> dict[int, float]:
    """Return the mean loss of each epoch, over the steps that its lines speak for."""
    sums: dict[int, tuple[float, int]] = {}
    for run in runs:
        before: int | None = None
        for record in run.steps:
            if record.loss is not None:
                steps = 1 if before is None else record.step - before
                loss, count = sums.get(record.epoch, (0.0, 0))
                sums[record.epoch] = (loss + steps * record.loss, count + steps)
                before = record.step
    return {epoch: loss / count for epoch, (loss, count) in sums.items() if count}


class _Reader:
    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._saved, self._base, self._fresh, self._number = 0, 0, True, 0
        self.found: list[str] = []

    def begins(self, number: int, run: Run) -> None:
        # A trainer that is started again in its pod joins the others, who may not have stopped.
        self._number, self._base, self._fresh = number, 0, not run.restarted

    def reads(self, line: str) -> None:
        goes_on = _GOES_ON.search(line)
        if goes_on:
            self._base, self._fresh = int(goes_on[1]), True
        for record in parse_log(line):
            if self._fresh and record.loss is not None:
                self._first(record.step)
            self._saved = max(self._saved, record.checkpoint or 0)

    def _first(self, step: int) -> None:
        self._fresh = False
        where = f"run {self._number} began at checkpoint {self._base} with step {step}"
        if self._base < self._saved:
            self.found.append(f"{where}, but checkpoint {self._saved} was complete")
        if not self._base < step <= self._base + (1 if self._exact else _BEYOND_ASYNC):
            self.found.append(f"{where}, which is not the next")
