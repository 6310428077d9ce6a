"""The lifecycle of one pod as a state machine without I/O: events in, instructions out.

The rules are a kubelet's. After every event the machine compares what is with what should be:
prepare the pod; start the sidecars one after another, then the main containers; restart what the
policy restarts, with back-off; when all work has ended, end the sidecars in reverse order and
settle on Succeeded or Failed. A deletion overrides all this: main containers get SIGTERM and their
grace, then the sidecars, then the object is deleted."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from localcluster.backoff import BackOff
from localcluster.node import lifecycle as life
from localcluster.node.admission import Rejection
from localcluster.node.lifecycle import (
    ContainerRecord,
    EmitEvent,
    Event,
    Instruction,
    Moment,
    Stopping,
)
from localcluster.node.pod_spec import PodSpec
from localcluster.node.status import (
    Conditions,
    phase_of,
    pod_status,
    terminal_phase,
)

_AGENT_ENDED: Final = "The pod's processes ended together with the node agent that ran them"
_SIDECAR_GRACE_SECONDS: Final = 2.0
"""A sidecar has at least this long after SIGTERM, however late the main containers ended."""

_LONGEST_PREPARE_RETRY_SECONDS: Final = 30.0


@dataclass
class _Ending:
    """The pod's containers are being ended, and killed at `kill_at_seconds` (monotonic)."""

    kill_at_seconds: float
    deleted: bool


class PodMachine:
    """One pod. `handle` takes events; `status` is what the API server should have."""

    def __init__(
        self,
        spec: PodSpec,
        back_off: BackOff,
        now: Moment,
        recovered: life.StatusJson | None = None,
    ) -> None:
        """Take up a pod. `recovered` is the status that an earlier agent wrote, if one did: a pod
        that had ended stays as it is, and one that ran has ended with that agent."""
        self.spec = spec
        self._back_off = back_off
        waiting = life.Waiting("PodInitializing" if spec.sidecars else "ContainerCreating")
        self.sidecars = [ContainerRecord(each, waiting) for each in spec.sidecars]
        self.main = [ContainerRecord(each, waiting) for each in spec.main]
        self._start = now
        self._conditions = Conditions()
        self._prepared = False
        self._preparing = False
        self._prepare_failures = 0
        self._prepare_at: float | None = None
        self._ending: _Ending | None = None
        self._rejection: Rejection | None = None
        self._phase: str | None = None
        self._written: dict[str, Any] | None = None
        self._gone = False
        self._discarded = False
        self._out: list[Instruction] = []
        phase = (recovered or {}).get("phase")
        if phase in {"Succeeded", "Failed"}:
            self._written, self._phase = dict(recovered or {}), str(phase)
        elif (recovered or {}).get("startTime"):
            self.reject(Rejection("NodeAgentEnded", _AGENT_ENDED))

    @property
    def records(self) -> list[ContainerRecord]:
        """All containers' records, sidecars first."""
        return self.sidecars + self.main

    @property
    def finished(self) -> bool:
        """Whether the pod has reached Succeeded or Failed and nothing of it runs."""
        return self._phase is not None and not any(each.alive for each in self.records)

    def reject(self, rejection: Rejection) -> None:
        """Refuse the pod at admission: it fails at once and nothing of it is started."""
        self._rejection, self._phase = rejection, "Failed"

    def handle(self, event: Event, now: Moment) -> list[Instruction]:
        """Take one event; return what has to be done, in order."""
        self._out = []
        self._absorb(event, now)
        self._advance(now)
        return self._out

    def next_wake(self) -> float | None:
        """Return the monotonic second at which a Tick is due; None when only events matter."""
        if self._gone:
            return None
        times = [
            each.stopping.kill_at_seconds
            for each in self.records
            if each.stopping and _awaits_kill(each)
        ]
        if self._ending is None:
            retries = [each.retry_at_seconds for each in self.records if not each.starting]
            prepare = [self._prepare_at] if self._phase is None else []
            times += [each for each in retries + prepare if each is not None]
        return min(times, default=None)

    def status(self, now: Moment) -> dict[str, Any]:
        """Return the pod's status as a kubelet would write it."""
        if self._written is not None:
            return self._written
        if self._rejection is not None:
            return {"phase": "Failed", **asdict(self._rejection)}
        phase = self._phase or phase_of(self.sidecars, self.main, self.spec.restart_policy)
        self._conditions.update(
            self.sidecars, self.main, phase, prepared=self._prepared, now=now.wall
        )
        status = pod_status(self.spec.uid, self._start.wall, self.records, phase)
        return {**status, "conditions": list(self._conditions.by_type.values())}

    # --- events

    def _absorb(self, event: Event, now: Moment) -> None:
        match event:
            case life.Prepared():
                self._prepared, self._preparing, self._prepare_at = True, False, None
                for record in self._not_launched():
                    initialising = self.spec.sidecars and not record.spec.sidecar
                    reason = "PodInitializing" if initialising else "ContainerCreating"
                    record.state = life.Waiting(reason)
            case life.PrepareFailed():
                self._prepare_failed(event, now)
            case life.DeletionRequested():
                self._delete(now.seconds + event.grace_seconds)
            case life.Vanished():
                self._gone = True
            case life.Started() | life.StartFailed() | life.Exited() | life.ProbeReport():
                self._absorb_container(event, now)

    def _absorb_container(self, event: life.ContainerEvent, now: Moment) -> None:
        record = next(each for each in self.records if each.spec.name == event.container)
        if not isinstance(event, life.StartFailed) and event.attempt != record.attempt:
            return  # about an earlier run
        match event:
            case life.Started():
                self._out += _started(record, now)
            case life.StartFailed():
                self._out += _start_failed(record, event, self._back_off, now)
            case life.Exited():
                self._out += _exited(record, event.exit_code, self._back_off, now)
            case life.ProbeReport():
                self._probed(record, event, now)

    def _not_launched(self) -> list[ContainerRecord]:
        return [
            each
            for each in self.records
            if isinstance(each.state, life.Waiting) and not each.launched
        ]

    def _prepare_failed(self, event: life.PrepareFailed, now: Moment) -> None:
        self._preparing = False
        delay = min(2.0**self._prepare_failures, _LONGEST_PREPARE_RETRY_SECONDS)
        self._prepare_at = now.seconds + delay
        self._prepare_failures += 1
        for record in self._not_launched():
            record.state = life.Waiting(event.reason, event.message)
        reason = "FailedMount" if event.reason == "ContainerCreating" else event.reason
        self._emit("Warning", reason, event.message)

    def _delete(self, kill_at: float) -> None:
        if self._ending is not None:
            kill_at = min(self._ending.kill_at_seconds, kill_at)
        self._ending = _Ending(kill_at, deleted=True)
        for record in self.records:
            if record.stopping is not None:
                record.stopping.kill_at_seconds = min(record.stopping.kill_at_seconds, kill_at)

    def _probed(self, record: ContainerRecord, event: life.ProbeReport, now: Moment) -> None:
        if not isinstance(record.state, life.Running):
            return
        if event.probe == "readiness":
            record.probed_ready = event.healthy
        elif event.healthy:
            if event.probe == "startup":
                record.started = record.started_once = True
        else:
            failed = f"Container {record.spec.name} failed {event.probe} probe, will be stopped"
            self._emit("Normal", "Killing", failed)
            self._out += _stop(record, now.seconds + self.spec.grace_seconds, now)
        if not event.healthy:
            message = f"{event.probe.capitalize()} probe failed: {event.message}"
            self._emit("Warning", "Unhealthy", message)

    # --- what should be

    def _advance(self, now: Moment) -> None:
        if self._gone:
            self._force_delete()
            return
        for record in self.records:
            self._out += _kill_overdue(record, now)
        if self._phase is None and self._ending is None:
            self._run(now)
        if self._phase is None and self._ending is not None:
            self._shut_down(self._ending, now)
        deleted = self._ending is not None and self._ending.deleted
        if self._phase is not None and deleted and not self._discarded:
            self._discarded = True
            self._out.append(life.Discard())

    def _force_delete(self) -> None:
        """The object was deleted by force: kill what runs, then forget the pod."""
        for record in self.records:
            if isinstance(record.state, life.Running):
                self._out.append(life.Signal(record.spec.name, kill=True))
        if not any(each.alive for each in self.records):
            self._out.append(life.Forget())

    def _run(self, now: Moment) -> None:
        if not self._prepared:
            due = self._prepare_at is None or self._prepare_at <= now.seconds
            if due and not self._preparing:
                self._preparing, self._prepare_at = True, None
                self._out.append(life.Prepare())
            return
        if self._run_sidecars(now):
            for record in self.main:
                self._keep_running(record, now)
        if all(each.over for each in self.main):
            self._ending = _Ending(now.seconds + self.spec.grace_seconds, deleted=False)

    def _run_sidecars(self, now: Moment) -> bool:
        """Start the sidecars in order; return whether the main containers may run."""
        for record in self.sidecars:
            self._keep_running(record, now)
            if not record.started_once:
                return False
        return True

    def _keep_running(self, record: ContainerRecord, now: Moment) -> None:
        if record.alive or record.over:
            return
        self._out += _schedule_restart(record, self._back_off, self.spec.name, now)
        if record.retry_at_seconds is None or record.retry_at_seconds <= now.seconds:
            self._out.append(_launch(record))

    def _shut_down(self, ending: _Ending, now: Moment) -> None:
        """End the pod's work first, then its sidecars from the last to the first, then settle."""
        work = [each for each in self.main if each.alive]
        sidecars = [each for each in self.sidecars if each.alive]
        for record in work or sidecars[-1:]:
            if isinstance(record.state, life.Running) and record.stopping is None:
                self._emit("Normal", "Killing", f"Stopping container {record.spec.name}")
                least = now.seconds + (0.0 if work else _SIDECAR_GRACE_SECONDS)
                self._out += _stop(record, max(ending.kill_at_seconds, least), now)
        if not work and not sidecars:
            for record in self.records:
                if isinstance(record.state, life.Waiting) and record.last is not None:
                    record.state, record.last = record.last, None
                record.retry_at_seconds = None
            self._phase = terminal_phase(self.main)

    def _emit(self, kind: str, reason: str, message: str) -> None:
        self._out.append(EmitEvent(kind, reason, message))


# --- one container


def _launch(record: ContainerRecord) -> Instruction:
    """Ask for the next run; an ended run counts as a restart when the next one is made."""
    if isinstance(record.state, life.Terminated):
        record.last = record.state
    if record.last is not None and record.last.attempt == record.attempt:
        record.attempt += 1
    record.starting, record.retry_at_seconds = True, None
    return life.Start(record.spec.name, record.attempt)


def _started(record: ContainerRecord, now: Moment) -> list[Instruction]:
    record.state = life.Running(now)
    record.starting, record.launched, record.refusals = False, True, 0
    record.probed_ready, record.stopping = False, None
    record.started = record.spec.startup is None
    record.started_once = record.started_once or record.started
    out: list[Instruction] = [
        EmitEvent("Normal", "Started", f"Started container {record.spec.name}")
    ]
    if record.spec.startup or record.spec.readiness or record.spec.liveness:
        out.append(life.BeginProbes(record.spec.name, record.attempt))
    return out


def _start_failed(
    record: ContainerRecord, event: life.StartFailed, back_off: BackOff, now: Moment
) -> list[Instruction]:
    """A failed run, or something to try again after a while."""
    record.starting = False
    if event.exit_code is not None:
        record.launched, record.ended_seconds = True, now.seconds
        record.state = life.Terminated(
            event.exit_code, event.reason, now.wall, now.wall, event.message, record.attempt
        )
    else:
        record.refusals += 1
        again = event.reason == "ErrImagePull" and record.refusals > 1
        record.state = life.Waiting("ImagePullBackOff" if again else event.reason, event.message)
        record.delay_seconds = back_off.after(record.delay_seconds)
        record.retry_at_seconds = now.seconds + record.delay_seconds
    return [EmitEvent("Warning", "Failed", f"Error: container {event.container}: {event.message}")]


def _exited(
    record: ContainerRecord, exit_code: int, back_off: BackOff, now: Moment
) -> list[Instruction]:
    if not isinstance(record.state, life.Running):
        return []
    since = record.state.since
    if now.seconds - since.seconds >= back_off.reset_seconds:
        record.delay_seconds = 0.0
    reason = "Completed" if exit_code == 0 else "Error"
    record.state = life.Terminated(exit_code, reason, since.wall, now.wall, attempt=record.attempt)
    record.ended_seconds = now.seconds
    record.stopping, record.started, record.probed_ready = None, False, False
    return [life.EndProbes(record.spec.name)]


def _schedule_restart(
    record: ContainerRecord, back_off: BackOff, pod_name: str, now: Moment
) -> list[Instruction]:
    """Set when an ended container runs again: the first time at once, then with growing delays."""
    if not isinstance(record.state, life.Terminated):
        return []
    delay = record.delay_seconds
    record.delay_seconds = back_off.after(delay)
    record.retry_at_seconds = record.ended_seconds + delay
    if record.retry_at_seconds <= now.seconds:
        return []
    message = f"back-off {delay:g}s restarting failed container={record.spec.name} pod={pod_name}"
    record.last, record.state = record.state, life.Waiting("CrashLoopBackOff", message)
    return [EmitEvent("Warning", "BackOff", message)]


def _stop(record: ContainerRecord, kill_at_seconds: float, now: Moment) -> list[Instruction]:
    """End a running container: SIGTERM, and SIGKILL when the time is over."""
    if record.stopping is not None or not isinstance(record.state, life.Running):
        return []
    kill = kill_at_seconds <= now.seconds
    record.stopping = Stopping(kill_at_seconds, killed=kill)
    return [life.Signal(record.spec.name, kill=kill)]


def _kill_overdue(record: ContainerRecord, now: Moment) -> list[Instruction]:
    stopping = record.stopping
    if stopping is None or not _awaits_kill(record) or stopping.kill_at_seconds > now.seconds:
        return []
    stopping.killed = True
    return [life.Signal(record.spec.name, kill=True)]


def _awaits_kill(record: ContainerRecord) -> bool:
    running = isinstance(record.state, life.Running)
    return record.stopping is not None and not record.stopping.killed and running
