"""The life of one pod as a state machine without I/O: events in, instructions out.

The rules are a kubelet's. After every event the machine compares what is with what should be, as a
kubelet's sync loop does: prepare the pod; run init containers one after another, keeping sidecars
running from their place in that order on; run the main containers; restart what the policy
restarts, with back-off; when all work has ended, end the sidecars in reverse order and settle on
Succeeded or Failed. A deletion overrides all this: main containers get SIGTERM and their grace,
then the sidecars, then the object goes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcluster.node import lifecycle as life
from localcluster.node import transitions
from localcluster.node.lifecycle import BackOff, Event, Instruction, Moment, Record
from localcluster.node.recovery import recover
from localcluster.node.spec import Kind, PodPlan
from localcluster.node.status import Conditions, Failure, phase_of, terminal_phase, write_status
from localcluster.node.transitions import MINIMUM_GRACE_SECONDS, awaits_kill


@dataclass
class _Ending:
    """Why a pod's containers are being ended, and by when they are killed (monotonic seconds)."""

    kill_at_seconds: float
    deleted: bool


class PodMachine:
    """One pod's lifecycle. Call `handle` with each event; read `status` for what the API server
    should say."""

    def __init__(
        self,
        plan: PodPlan,
        back_off: BackOff,
        now: Moment,
        recovered: life.StatusJson | None = None,
    ) -> None:
        """Take over a pod; `recovered` is the status that an earlier agent wrote, if it wrote
        one."""
        self.plan = plan
        self._back_off = back_off
        waiting = "PodInitializing" if plan.init else "ContainerCreating"
        self.init = [Record(each, life.Waiting(waiting)) for each in plan.init]
        self.main = [Record(each, life.Waiting(waiting)) for each in plan.main]
        self._start = now
        self._conditions = Conditions()
        self._prepared = False
        self._preparing = False
        self._prepare_failures = 0
        self._prepare_at: float | None = None
        self._ending: _Ending | None = None
        self._failure: Failure | None = None
        self._phase: str | None = None
        self._gone = False
        self._discarded = False
        self._out: list[Instruction] = []
        if recovered:
            self._start = recover(recovered, [*self.init, *self.main], now)
            self._conditions = Conditions.read(recovered)
            if recovered.get("phase") in {"Succeeded", "Failed"}:
                self._phase = str(recovered["phase"])
                self._failure = Failure.read(recovered)

    @property
    def records(self) -> list[Record]:
        """All containers' records, init containers first."""
        return self.init + self.main

    @property
    def finished(self) -> bool:
        """Tell whether the pod has reached Succeeded or Failed and nothing of it runs."""
        return self._phase is not None and not any(each.alive for each in self.records)

    def reject(self, reason: str, message: str) -> None:
        """Refuse the pod at admission: it fails at once and nothing of it is started."""
        self._failure = Failure(reason, message, at_admission=True)
        self._phase = "Failed"

    def handle(self, event: Event, now: Moment) -> list[Instruction]:
        """Take in one event and return what has to be done, in order."""
        self._out = []
        self._absorb(event, now)
        self._advance(now)
        return self._out

    def next_wake(self) -> float | None:
        """Return the monotonic second at which a Tick is due, or None when only events can change
        anything."""
        if self._gone:
            return None
        times = [
            each.retry_at_seconds
            for each in self.records
            if self._ending is None and not each.starting
        ]
        times += [
            each.stopping.kill_at_seconds
            for each in self.records
            if each.stopping and awaits_kill(each)
        ]
        if self._phase is None and self._ending is None:
            times += [self._prepare_at, self._deadline()]
        return min((each for each in times if each is not None), default=None)

    def status(self, now: Moment) -> dict[str, Any]:
        """Return the pod's status as a kubelet would write it."""
        phase = self._phase or phase_of(self.init, self.main, self.plan.restart_policy)
        self._conditions.update(self.init, self.main, phase, prepared=self._prepared, now=now.wall)
        return write_status(self, phase, self._conditions, self._failure)

    @property
    def started_at(self) -> datetime:
        """When the agent first took the pod on."""
        return self._start.wall

    # --- events

    def _absorb(self, event: Event, now: Moment) -> None:
        match event:
            case life.Prepared():
                self._prepared, self._preparing, self._prepare_at = True, False, None
                for record in self.records:
                    if isinstance(record.state, life.Waiting) and not record.launched:
                        record.state = life.Waiting(self._waiting_reason(record))
            case life.PrepareFailed():
                self._prepare_failed(event, now)
            case life.DeletionRequested():
                self._delete(event.grace_seconds, now)
            case life.Vanished():
                self._gone = True
            case life.Tick():
                pass
            case _:
                self._absorb_container(event, now)

    def _absorb_container(
        self,
        event: life.Started | life.StartFailed | life.Exited | life.ProbeReport | life.HookFinished,
        now: Moment,
    ) -> None:
        record = next((each for each in self.records if each.plan.name == event.container), None)
        if record is None or (
            not isinstance(event, life.StartFailed) and event.attempt != record.attempt
        ):
            return
        match event:
            case life.Started():
                self._out += transitions.started(record, now)
            case life.StartFailed():
                self._out += transitions.start_failed(record, event, self._back_off, now)
            case life.Exited():
                self._out += transitions.exited(record, event.exit_code, self._back_off, now)
            case life.ProbeReport():
                self._probed(record, event, now)
            case life.HookFinished():
                self._out += transitions.hook_finished(record, now)

    def _prepare_failed(self, event: life.PrepareFailed, now: Moment) -> None:
        self._preparing = False
        self._prepare_at = now.seconds + min(2.0**self._prepare_failures, 30.0)
        self._prepare_failures += 1
        for record in self.records:
            if isinstance(record.state, life.Waiting) and not record.launched:
                record.state = life.Waiting(event.reason, event.message)
        self._tell(
            "Warning",
            "FailedMount" if event.reason == "ContainerCreating" else event.reason,
            event.message,
        )

    def _delete(self, grace_seconds: float, now: Moment) -> None:
        kill_at = now.seconds + grace_seconds
        if self._ending is not None:
            kill_at = min(self._ending.kill_at_seconds, kill_at)
        self._ending = _Ending(kill_at, deleted=True)
        for record in self.records:
            if record.stopping is not None:
                record.stopping.kill_at_seconds = min(record.stopping.kill_at_seconds, kill_at)

    def _probed(self, record: Record, event: life.ProbeReport, now: Moment) -> None:
        if not isinstance(record.state, life.Running):
            return
        if event.probe == "readiness":
            record.probed_ready = event.healthy
        elif event.probe == "startup" and event.healthy:
            record.started = record.started_once = True
        elif not event.healthy:
            probe = record.plan.startup if event.probe == "startup" else record.plan.liveness
            grace = (
                probe.grace_seconds
                if probe and probe.grace_seconds is not None
                else self.plan.grace_seconds
            )
            self._tell(
                "Normal",
                "Killing",
                f"Container {record.plan.name} failed {event.probe} probe, will be stopped",
            )
            self._out += transitions.stop(record, now.seconds + grace, now)
        if not event.healthy:
            self._tell(
                "Warning", "Unhealthy", f"{event.probe.capitalize()} probe failed: {event.message}"
            )

    # --- what should be

    def _advance(self, now: Moment) -> None:
        if self._gone:
            self._clear_away()
            return
        for record in self.records:
            self._out += transitions.kill_overdue(record, now)
        if self._phase is None:
            self._expire(now)
            if self._ending is None:
                self._run(now)
            if self._ending is not None:
                self._wind_down(now)
        if (
            self._phase is not None
            and self._ending is not None
            and self._ending.deleted
            and not self._discarded
        ):
            self._discarded = True
            self._out.append(life.Discard())

    def _clear_away(self) -> None:
        """The object was deleted by force: kill what runs, and forget the pod once nothing does."""
        for record in self.records:
            if isinstance(record.state, life.Running):
                self._out.append(life.Signal(record.plan.name, kill=True))
        if not any(each.alive for each in self.records):
            self._out.append(life.Forget())

    def _expire(self, now: Moment) -> None:
        deadline = self._deadline()
        if self._ending is None and deadline is not None and deadline <= now.seconds:
            message = "Pod was active on the node longer than the specified deadline"
            self._fail("DeadlineExceeded", message, now)

    def _deadline(self) -> float | None:
        limit = self.plan.deadline_seconds
        return None if limit is None else self._start.seconds + limit

    def _fail(self, reason: str, message: str, now: Moment) -> None:
        self._failure = Failure(reason, message)
        self._ending = _Ending(now.seconds + self.plan.grace_seconds, deleted=False)

    def _run(self, now: Moment) -> None:
        if not self._prepared:
            self._request_preparation(now)
            return
        if self._run_init(now):
            for record in self.main:
                self._keep_running(record, now)
        failed_init = any(
            each.plan.kind is Kind.INIT and each.over and not each.succeeded for each in self.init
        )
        if failed_init or all(each.over for each in self.main):
            self._ending = _Ending(now.seconds + self.plan.grace_seconds, deleted=False)

    def _request_preparation(self, now: Moment) -> None:
        due = self._prepare_at is None or self._prepare_at <= now.seconds
        if due and not self._preparing:
            self._preparing, self._prepare_at = True, None
            self._out.append(life.Prepare())

    def _run_init(self, now: Moment) -> bool:
        """Drive init containers in order; return whether the main containers may run."""
        for record in self.init:
            if record.plan.kind is Kind.INIT and record.succeeded:
                continue
            self._keep_running(record, now)
            if record.plan.kind is Kind.INIT or not record.started_once:
                return False
        return True

    def _keep_running(self, record: Record, now: Moment) -> None:
        if record.alive or record.over:
            return
        self._out += transitions.plan_restart(record, self._back_off, self.plan.name, now)
        if record.retry_at_seconds is None or record.retry_at_seconds <= now.seconds:
            self._out += transitions.launch(record)

    def _wind_down(self, now: Moment) -> None:
        """End the pod's work first, then its sidecars from the last to the first, then settle."""
        assert self._ending is not None
        work = [each for each in self.records if each.alive and each.plan.kind is not Kind.SIDECAR]
        sidecars = [each for each in self.init if each.alive and each.plan.kind is Kind.SIDECAR]
        for record in work or sidecars[-1:]:
            if isinstance(record.state, life.Running) and record.stopping is None:
                self._tell("Normal", "Killing", f"Stopping container {record.plan.name}")
                least = now.seconds + (MINIMUM_GRACE_SECONDS if record in sidecars else 0.0)
                kill_at = max(self._ending.kill_at_seconds, least)
                self._out += transitions.stop(record, kill_at, now)
        if not work and not sidecars:
            self._settle()

    def _settle(self) -> None:
        for record in self.records:
            if isinstance(record.state, life.Waiting) and record.last is not None:
                record.state, record.last = record.last, None
            record.retry_at_seconds = None
        self._phase = "Failed" if self._failure else terminal_phase(self.init, self.main)

    def _waiting_reason(self, record: Record) -> str:
        return (
            "PodInitializing"
            if self.plan.init and record.plan.kind is Kind.MAIN
            else "ContainerCreating"
        )

    def _tell(self, kind: str, reason: str, message: str) -> None:
        self._out.append(life.Tell(kind, reason, message))
