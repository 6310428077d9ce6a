"""How one container's record changes when something happens to it; each step returns what is to be
done.

These are the parts of the pod's state machine (`pod`) that concern a single container: starting,
ending, back-off between runs, and stopping with hook, SIGTERM and SIGKILL.
"""

from localcluster.node import lifecycle as life
from localcluster.node.lifecycle import BackOff, Instruction, Moment, Record, Stopping

# A container whose preStop hook has used up the grace period still gets this long after SIGTERM.
MINIMUM_GRACE_SECONDS = 2.0


def launch(record: Record) -> list[Instruction]:
    """Ask for the next run. A run that has ended is counted as a restart when the next one is
    made."""
    if isinstance(record.state, life.Terminated):
        record.last = record.state
    if record.last is not None and record.last.attempt == record.attempt:
        record.attempt += 1
    record.starting, record.retry_at_seconds = True, None
    return [life.Start(record.plan.name, record.attempt)]


def started(record: Record, now: Moment) -> list[Instruction]:
    """The process exists."""
    record.state = life.Running(now)
    record.starting, record.launched, record.refusals = False, True, 0
    record.probed_ready, record.stopping = False, None
    record.started = record.plan.startup is None
    record.started_once = record.started_once or record.started
    out: list[Instruction] = [
        life.Tell("Normal", "Started", f"Started container {record.plan.name}")
    ]
    if record.plan.startup or record.plan.readiness or record.plan.liveness:
        out.append(life.BeginProbes(record.plan.name, record.attempt))
    return out


def start_failed(
    record: Record, event: life.StartFailed, back_off: BackOff, now: Moment
) -> list[Instruction]:
    """The process could not be made: a failed run, or something to try again after a while."""
    record.starting = False
    told = life.Tell("Warning", "Failed", f"Error: container {record.plan.name}: {event.message}")
    if event.exit_code is not None:
        record.launched, record.ended_seconds = True, now.seconds
        record.state = life.Terminated(
            event.exit_code, event.reason, now.wall, now.wall, event.message, record.attempt
        )
        return [told]
    record.refusals += 1
    pulling_again = event.reason == "ErrImagePull" and record.refusals > 1
    record.state = life.Waiting(
        "ImagePullBackOff" if pulling_again else event.reason, event.message
    )
    record.delay_seconds = back_off.after(record.delay_seconds)
    record.retry_at_seconds = now.seconds + record.delay_seconds
    return [told]


def exited(record: Record, exit_code: int, back_off: BackOff, now: Moment) -> list[Instruction]:
    """The process has ended."""
    if not isinstance(record.state, life.Running):
        return []
    since = record.state.since
    if now.seconds - since.seconds >= back_off.reset_seconds:
        record.delay_seconds = 0.0
    reason = "Completed" if exit_code == 0 else "Error"
    record.state = life.Terminated(exit_code, reason, since.wall, now.wall, attempt=record.attempt)
    record.ended_seconds = now.seconds
    record.stopping, record.started, record.probed_ready = None, False, False
    return [life.EndProbes(record.plan.name)]


def plan_restart(
    record: Record, back_off: BackOff, pod_name: str, now: Moment
) -> list[Instruction]:
    """Set when an ended container runs again: the first time at once, then with growing delays."""
    if not isinstance(record.state, life.Terminated):
        return []
    delay = record.delay_seconds
    record.delay_seconds = back_off.after(delay)
    record.retry_at_seconds = record.ended_seconds + delay
    if record.retry_at_seconds <= now.seconds:
        return []
    message = f"back-off {delay:g}s restarting failed container={record.plan.name} pod={pod_name}"
    record.last, record.state = record.state, life.Waiting("CrashLoopBackOff", message)
    return [life.Tell("Warning", "BackOff", message)]


def stop(record: Record, kill_at_seconds: float, now: Moment) -> list[Instruction]:
    """End a running container: its hook, SIGTERM, and SIGKILL when the time is over."""
    if record.stopping is not None or not isinstance(record.state, life.Running):
        return []
    name, grace = record.plan.name, kill_at_seconds - now.seconds
    if grace <= 0:
        record.stopping = Stopping(kill_at_seconds, signalled=True, killed=True)
        return [life.Signal(name, kill=True)]
    if record.plan.pre_stop:
        record.stopping = Stopping(kill_at_seconds + MINIMUM_GRACE_SECONDS)
        return [life.RunHook(name, record.attempt, grace)]
    record.stopping = Stopping(kill_at_seconds, signalled=True)
    return [life.Signal(name, kill=False)]


def hook_finished(record: Record, now: Moment) -> list[Instruction]:
    """The preStop hook is over: now SIGTERM."""
    stopping = record.stopping
    if stopping is None or stopping.signalled:
        return []
    stopping.signalled = True
    stopping.kill_at_seconds = max(stopping.kill_at_seconds, now.seconds + MINIMUM_GRACE_SECONDS)
    return [life.Signal(record.plan.name, kill=False)]


def kill_overdue(record: Record, now: Moment) -> list[Instruction]:
    """Kill a container whose time to end is over."""
    stopping = record.stopping
    if stopping is None or not awaits_kill(record) or stopping.kill_at_seconds > now.seconds:
        return []
    stopping.signalled = stopping.killed = True
    return [life.Signal(record.plan.name, kill=True)]


def awaits_kill(record: Record) -> bool:
    """Tell whether a container is being stopped and has not been killed yet."""
    running = isinstance(record.state, life.Running)
    return record.stopping is not None and not record.stopping.killed and running
