"""``optimus advise``: what the jobs of a cluster would gain from other counts, before anything is
installed there."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from optimus.allocation import NO_HISTORY
from optimus.cli.cluster import add_arguments, add_job, connected, incomplete, status_of
from optimus.cli.command import Answer, Implementation, Progress
from optimus.cli.table import columns_table
from optimus.errors import NotReady
from optimus.interval import IntervalConfig
from optimus.jobs import Counts, Job, Role, counted, goal_text
from optimus.models.forecast import TimeLeft, current_loss, current_value
from optimus.resources import CPU, MEMORY, NONE, amounts_text, total
from optimus.times import clock, duration
from optimus.what_if.advice import LIKELY, Advice, Alternative, advise

if TYPE_CHECKING:
    from optimus.cli.observed_jobs import ObservedJob, ObservedJobs, ObservedPod

_SILENT_SECONDS: Final = 900.0
_HOUR: Final = 3600.0
_USERS: Final = {
    Role.PS: "PSs",
    Role.CHIEF: "the chief",
    Role.MASTER: "the master",
    Role.WORKER: "workers",
}
"""Whose use of capacity is told."""
_ALL_SEEN: Final = 3
"""Pairs of counts from which the speed model is fitted without hypotheses."""
_JOB: Final = (
    "the name of a TFJob, MXJob, PyTorchJob, JobSet or TrainJob, whose advice is given in full;"
    " default: all jobs"
)


@dataclass(frozen=True)
class AdvisedJob:
    """One job with its advice."""

    observed: "ObservedJob"
    now: float

    @property
    def name(self) -> str:
        """Namespace and name."""
        return str(self.observed.job.key)

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.observed.job.outcome is not None

    @cached_property
    def advice(self) -> Advice | NotReady:
        """What is known, or why nothing is."""
        job, progress = self.observed.at_counts, self.observed.progress
        if isinstance(progress, NotReady) or job is None:
            return progress if isinstance(progress, NotReady) else NotReady("it cannot be read")
        price = IntervalConfig().price_seconds(NO_HISTORY)
        return advise(job, progress, price, self.observed.left_seconds)

    @property
    def known(self) -> Advice | None:
        """What is known of it, unless that is neither other counts nor its end."""
        found = self.advice
        return found if isinstance(found, Advice) and (found.is_compared or found.left) else None

    @property
    def why_not(self) -> str:
        """Why nothing of it is known."""
        return self.advice.no_end if isinstance(self.advice, Advice) else str(self.advice)

    @property
    def since(self) -> float:
        """The last line of its log, from which what is left counts."""
        return self.observed.read_until or self.now

    def left(self, found: TimeLeft | None) -> TimeLeft | None:
        """Return what is left from now on."""
        if found is None:
            return None
        passed = max(self.now - self.since, 0.0)
        return TimeLeft(*(max(each - passed, 0.0) for each in _ends(found)))

    @property
    def freed_hours(self) -> TimeLeft | None:
        """Hours, until its end, of the capacity that helps nothing."""
        advice = self.known
        left = None if advice is None else self.left(advice.left)
        if advice is None or left is None or not advice.freed:
            return None
        unit = 1000 if advice.resource == CPU else 1
        return TimeLeft(*(each / _HOUR * advice.freed / unit for each in _ends(left)))

    def notes(self) -> Iterator[str]:
        """Return what else its user would want to know."""
        silent = self.now - self.since
        if self.known is not None and silent > _SILENT_SECONDS:
            yield f"its log has printed nothing for {duration(silent)}"
        pods = self.observed.pods
        killed = [each.pod for each in pods if "OOMKilled" in each.pod.container.error]
        if killed:
            others = f" and {len(killed) - 1} more" if len(killed) > 1 else ""
            why = killed[0].container.error
            yield f"{killed[0].name}{others} ended for want of memory before: {why}"
        yield from filter(None, (each.near_limit for each in pods))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, _JOB, nargs="?")
    add_arguments(parser, all_namespaces=True)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    with connected(options, "advise") as cluster:
        from optimus.cli.observed_jobs import observe_jobs

        namespace = cluster.wanted(options)
        names = () if options.job is None else (options.job,)
        return answer_of(observe_jobs(cluster.client, namespace, names), namespace, options.job)


def answer_of(found: "ObservedJobs", namespace: str | None, name: str | None = None) -> Answer:
    """The advice on all jobs, or on those of this name in full."""
    jobs = [AdvisedJob(each, found.now) for each in found.jobs]
    value = {
        "namespace": namespace,
        "summary": Summary(jobs).value(),
        "jobs": [_value(each) for each in jobs],
        "notReadable": list(found.not_readable),
        "notKnown": [found.no_metrics] if found.no_metrics else [],
    }
    parts = list(_in_full(jobs) if name is not None and jobs else _parts(jobs, namespace, name))
    parts += [f"Not known: {found.no_metrics}."] if found.no_metrics and jobs else []
    parts += [f"incomplete: {each}" for each in incomplete(found.not_readable)]
    return Answer(value, "\n\n".join(parts), status=status_of(found.not_readable))


def training_of(found: "ObservedJobs", uid: str) -> Answer | None:
    """What the log of one job shows; ``None`` where the job is not among those found."""
    jobs = [AdvisedJob(each, found.now) for each in found.jobs if each.job.uid == uid]
    if not jobs:
        return None
    _, _, text = "\n\n".join(_in_full(jobs)).partition("\n")
    return Answer(_value(jobs[0]), text)


@dataclass(frozen=True)
class Summary:
    """What all jobs together would gain. Intervals are sums of the jobs' own: as wide as if all
    erred in the same direction."""

    jobs: Sequence[AdvisedJob]

    @cached_property
    def running(self) -> list[AdvisedJob]:
        """Those that have not ended."""
        return [each for each in self.jobs if not each.is_over]

    @cached_property
    def known(self) -> list[Advice]:
        """The advice on those of which there is one."""
        return [each.known for each in self.running if each.known is not None]

    @property
    def compared(self) -> list[Advice]:
        """Those of which anything is known of other counts."""
        return [each for each in self.known if each.is_compared]

    @property
    def saves(self) -> TimeLeft | None:
        """Seconds that the jobs would end earlier, of those with a known end."""
        found = [each.sooner.saves for each in self.known if each.sooner and each.sooner.saves]
        return _sum(found) if found else None

    @property
    def hours(self) -> Mapping[str, TimeLeft]:
        """Hours of each resource that help nothing, of jobs with a known end."""
        found: dict[str, list[TimeLeft]] = {}
        for each in self.running:
            if each.known is not None and each.freed_hours is not None:
                found.setdefault(each.known.resource, []).append(each.freed_hours)
        return {name: _sum(hours) for name, hours in sorted(found.items())}

    def value(self) -> dict[str, object]:
        """For programs."""
        return {
            "running": len(self.running),
            "ended": len(self.jobs) - len(self.running),
            "advised": len(self.compared),
            "sooner": sum(each.sooner is not None for each in self.known),
            "larger": sum(each.larger is not None for each in self.known),
            "savesSeconds": _interval(self.saves),
            "helpsNothingHours": {name: _interval(each) for name, each in self.hours.items()},
            "probability": LIKELY,
        }

    def lines(self, where: str) -> Iterator[str]:
        """In sentences."""
        running, ended = len(self.running), len(self.jobs) - len(self.running)
        over = f"; {ended} {'has' if ended == 1 else 'have'} ended" if ended else ""
        found = {
            "advised": len(self.compared),
            "with an end alone": len(self.known) - len(self.compared),
            "not advised": running - len(self.known),
        }
        said = ", ".join(f"{number} {what}" for what, number in found.items() if number)
        have = "has" if running == 1 else "have"
        yield f"{where}: {_many(running)} {have} not ended{said and ': '}{said}{over}."
        if not self.compared:
            return
        sooner = sum(each.sooner is not None for each in self.known)
        saves = self.saves
        earlier = "" if saves is None else f": together {_durations(saves)} earlier"
        counts = "at other counts that request no more than they do now"
        yield f"{sooner} of {_many(running)} would finish sooner {counts}{earlier}."
        larger = sum(each.larger is not None for each in self.known)
        if larger:
            yield (
                f"{larger} would finish sooner with up to twice as many replicas, where nodes have"
                " the capacity for them."
            )
        for name, hours in self.hours.items():
            amount = f"{hours.median:.3g} {_unit(name)}-hours ({hours.low:.3g} to {hours.high:.3g})"
            yield f"Replicas that do not help hold {amount} until their jobs end."


def _parts(jobs: Sequence[AdvisedJob], namespace: str | None, name: str | None) -> Iterator[str]:
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    if not jobs:
        from optimus.kube.job_kinds import ANY_KIND

        of = f" {name}" if name else ""
        hint = "" if namespace is None else "; -A asks for all namespaces"
        yield f"there is no {ANY_KIND}{of} in {where}{hint}"
        return
    yield "\n".join(Summary(jobs).lines(where))
    advised = [each for each in jobs if each.known is not None]
    if advised:
        yield _table(advised)
    others = [each for each in jobs if each.known is None and not each.is_over]
    if others:
        yield "\n".join(["Not advised:", *(f"  {each.name}: {each.why_not}" for each in others)])
    notes = [f"  {each.name}: {note}" for each in jobs if not each.is_over for note in each.notes()]
    if notes:
        yield "\n".join(["To be looked at:", *notes])
    if advised:
        yield "\n".join(_how_sure([each.known for each in advised if each.known is not None]))


def _table(jobs: Sequence[AdvisedJob]) -> str:
    """A line for each job; a column in which no job has anything is left out."""
    found = [(each, each.known) for each in jobs if each.known is not None]
    has_ps = any(advice.job.counts.ps for _, advice in found)
    columns = [
        ("<", "job", [each.name for each, _ in found]),
        ("<", "PS + workers" if has_ps else "size", [_size(a.job, a.job.counts) for _, a in found]),
        (">", "done", ["-" if a.done is None else f"{a.done:.0%}" for _, a in found]),
        ("<", "end (UTC)", [_end_text(each, advice.left) or "-" for each, advice in found]),
        ("<", "no more capacity", [_faster(advice, advice.sooner) for _, advice in found]),
        ("<", "up to twice", [_faster(advice, advice.larger) for _, advice in found]),
        ("<", "enough", [_enough(advice) for _, advice in found]),
    ]
    return columns_table(columns)


def _faster(advice: Advice, found: Alternative | None) -> str:
    if found is None:
        return "-"
    size = _size(advice.job, found.counts)
    return f"{size}: {found.speed_up.median:.2g} x, {found.chance:.0%}"


def _enough(advice: Advice) -> str:
    found = advice.leaner
    if found is None:
        return "-"
    freed = amounts_text({advice.resource: advice.freed})
    return f"{_size(advice.job, found.counts)}: frees {freed}, {found.chance:.0%}"


def _how_sure(found: Sequence[Advice]) -> Iterator[str]:
    compared = [each for each in found if each.is_compared]
    if len(compared) < len(found):
        alone = len(found) - len(compared)
        who = f"{alone} of {_many(len(found))} {'has' if alone == 1 else 'have'}"
        yield (
            f"{'It has' if len(found) == 1 else who} no PSs and declares no "
            "optimus.dl/global-batch-size: with each worker's batch fixed, other counts change what"
            " a job learns."
        )
    if not compared:
        return
    yield (
        f"x: times as fast; %: how sure it is that it ends sooner, a restart of "
        f"{IntervalConfig().rescale_seconds:.0f} s included (enough: at most 5 % later than now)."
    )
    yield "Ranges have a probability of 80 %. What pods use is that of this moment."
    few = sum(each.seen_counts < _ALL_SEEN for each in compared)
    if few:
        yield (
            f"The speed of {few} of {_many(len(found))} was seen at one or two pairs of counts; at "
            "others it rests on what such jobs usually do, and the percentages count that in."
        )
    unsaid = sum(each.job.mode_is_assumed for each in found)
    if unsaid:
        yield (
            f"Of {unsaid} of {_many(len(found))} nothing says whether the workers step together; "
            "the counts named are better either way. With the annotation optimus.dl/training-mode "
            "(sync or async) on a job, which needs nothing installed, more may be named."
        )


def _in_full(jobs: Sequence[AdvisedJob]) -> Iterator[str]:
    for each in jobs:
        advice, job = each.advice, each.observed.job
        lines = [f"{job.submitted_kind} {each.name}:"]
        if isinstance(advice, NotReady):
            over = f"it has ended: {job.outcome}" if each.is_over else f"not advised: {advice}"
            lines.append(over)
        else:
            lines += _told(each, advice)
        lines += each.notes()
        lines += _use_lines(each.observed.pods)
        lines += _earlier_lines(each.observed)
        yield "\n".join(lines)
        if isinstance(advice, Advice):
            yield "\n".join(_how_sure([advice]))


def _told(each: AdvisedJob, advice: Advice) -> Iterator[str]:
    yield f"in its log: {_read_text(each, advice)}"
    goal = goal_text(advice.goal)
    source = ", as its program declares" if advice.goal_is_declared else ""
    end = _end_text(each, advice.left)
    if end:
        yield f"its end ({goal}{source}): {end} UTC"
    if advice.unlikely:
        yield f"{advice.unlikely}; the end is that of its run"
    if advice.no_end:
        yield f"its end is not known: {advice.no_end}"
    if advice.flattening is not None:
        flat = advice.flattening
        yield (
            f"as much training again would take its loss from {flat.loss:.4g} to {flat.then:.4g} "
            f"({flat.low:.4g} to {flat.high:.4g}); that it flattens is no goal"
        )
    for name, found in (
        ("with no more capacity", advice.sooner),
        ("with up to twice as much", advice.larger),
    ):
        if found is not None:
            size = replace(advice.job, counts=found.counts).size
            yield f"{name}: {_alternative_text(each, size, found)}"
    if advice.leaner is not None:
        freed = amounts_text({advice.resource: advice.freed})
        counts = replace(advice.job, counts=advice.leaner.counts).size
        enough = f"{counts}, at most 5 % later with {advice.leaner.chance:.0%}"
        hours = each.freed_hours
        until = "" if hours is None else f", {hours.median:.3g} {_unit(advice.resource)}-hours"
        yield f"enough: {enough}; {freed} ({advice.freed_part:.0%}{until}) help nothing"
    if advice.is_compared and advice.sooner is advice.larger is advice.leaner is None:
        yield "no other counts are better with a probability of 65 %"


def _read_text(each: AdvisedJob, advice: Advice) -> str:
    progress = advice.progress
    said = [] if progress.epoch is None else [counted(round(progress.epoch, 2), "epochs")]
    said += [] if progress.step is None else [f"step {progress.step}"]
    value, loss = current_value(advice.goal, progress), current_loss(progress)
    said += [] if loss is None else [f"loss {loss:.4g}"]
    said += [] if value is None else [f"{value[0]} {value[1]:.4g}"]
    speed = f"{advice.steps_per_second:.3g} {progress.speed_unit} at {advice.job.size}"
    said.append(f"{speed} (measured for {duration(advice.measured_seconds)})")
    return ", ".join([*said, f"until {clock(each.since, each.now)} UTC"])


def _alternative_text(each: AdvisedJob, size: str, found: Alternative) -> str:
    fast = found.speed_up
    text = (
        f"{size}, {fast.median:.2g} times as fast ({fast.low:.2g} to {fast.high:.2g}), "
        f"sooner with {found.chance:.0%}"
    )
    end = _end_text(each, found.left)
    if end and found.saves is not None:
        text += f": {end} UTC, {_durations(found.saves)} earlier"
    more = {name: amount for name, amount in found.requests.items() if amount > 0}
    return f"{text}; requests {amounts_text(more)} more" if more else text


def _use_lines(pods: Sequence["ObservedPod"]) -> Iterator[str]:
    for role in _USERS:
        own = [each for each in _of_role(pods, role) if each.used is not None]
        if own:
            asked, used = amounts_text(_asked(own)), amounts_text(_used(own))
            who, s = _USERS[role], "" if role in (Role.PS, Role.WORKER) else "s"
            yield f"{who} request{s} {asked} and use{s} {used} now"


def _earlier_lines(observed: "ObservedJob") -> Iterator[str]:
    for role, used in observed.earlier_memory.items():
        job = observed.job.job
        spec = None if job is None else job.ps if role is Role.PS else job.worker
        asked = amounts_text({MEMORY: 0 if spec is None else spec.resources[MEMORY]})
        who, most = "PS" if role is Role.PS else "worker", amounts_text({MEMORY: used})
        yield f"earlier runs of its workload used at most {most} a {who}; it requests {asked}"


def _of_role(pods: Sequence["ObservedPod"], role: Role) -> list["ObservedPod"]:
    return [each for each in pods if each.pod.replica and each.pod.replica.role is role]


def _asked(pods: Sequence["ObservedPod"]) -> dict[str, int]:
    asked = total(each.pod.resources for each in pods)
    return {name: asked[name] for name in (CPU, MEMORY)}


def _used(pods: Sequence["ObservedPod"]) -> dict[str, int]:
    used = total(each.used or NONE for each in pods)
    return {name: used[name] for name in (CPU, MEMORY)}


def _value(each: AdvisedJob) -> dict[str, object]:
    advice, job = each.advice, each.observed.job
    value: dict[str, object] = {
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.submitted_kind,
        "outcome": job.outcome,
        "problem": str(advice) if isinstance(advice, NotReady) else None,
        "linesRead": each.observed.lines,
        "notes": [] if each.is_over else list(each.notes()),
        "use": {
            role: {"requests": _asked(own), "uses": _used(own)}
            for role in _USERS
            if (own := [pod for pod in _of_role(each.observed.pods, role) if pod.used is not None])
        },
        "earlierMemory": dict(each.observed.earlier_memory),
    }
    if isinstance(advice, NotReady):
        return value
    flat = advice.flattening
    return value | {
        "ps": advice.job.counts.ps,
        "workers": advice.job.counts.workers,
        "trainers": sum(advice.job.trainers.values()),
        "epoch": advice.progress.epoch,
        "step": advice.progress.step,
        "loss": current_loss(advice.progress),
        "stepsPerSecond": advice.steps_per_second,
        "speedUnit": advice.progress.speed_unit,
        "measuredSeconds": advice.measured_seconds,
        "countsSeen": advice.seen_counts,
        "goal": goal_text(advice.goal) or None,
        "goalIsDeclared": advice.goal_is_declared,
        "done": advice.done,
        "remainingSeconds": _interval(each.left(advice.left)),
        "noEnd": advice.no_end or None,
        "unlikely": advice.unlikely or None,
        "lossAfterAsMuchAgain": flat and {"low": flat.low, "median": flat.then, "high": flat.high},
        "sooner": _alternative_value(each, advice.sooner),
        "larger": _alternative_value(each, advice.larger),
        "enough": _alternative_value(each, advice.leaner),
        "helpsNothing": {
            "resource": advice.resource,
            "amount": advice.freed,
            "part": advice.freed_part,
            "hours": _interval(each.freed_hours),
        },
    }


def _alternative_value(each: AdvisedJob, found: Alternative | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "ps": found.counts.ps,
        "workers": found.counts.workers,
        "speedUp": _interval(found.speed_up),
        "probability": found.chance,
        "remainingSeconds": _interval(each.left(found.left)),
        "savesSeconds": _interval(found.saves),
        "requestsMore": dict(found.requests),
    }


def _end_text(each: AdvisedJob, found: TimeLeft | None) -> str:
    left = each.left(found)
    if left is None:
        return ""
    low, median, high = (clock(each.now + seconds, each.now) for seconds in _ends(left))
    # Nothing is uncertain of an amount of training at a speed whose error is not known.
    return median if left.low == left.high else f"{median} ({low} to {high})"


def _ends(found: TimeLeft) -> tuple[float, float, float]:
    return found.low, found.median, found.high


def _sum(found: Sequence[TimeLeft]) -> TimeLeft:
    return TimeLeft(*(sum(each) for each in zip(*map(_ends, found), strict=True)))


def _interval(found: TimeLeft | None) -> dict[str, float] | None:
    return None if found is None else asdict(found)


def _durations(found: TimeLeft) -> str:
    low, median, high = (
        duration(each) if each >= 0 else f"-{duration(-each)}" for each in _ends(found)
    )
    return f"{median} ({low} to {high})"


def _size(job: Job, counts: Counts) -> str:
    """The job's size at these counts, as short as a table needs it."""
    return f"{counts.ps} + {counts.workers}" if counts.ps else replace(job, counts=counts).size


def _unit(resource: str) -> str:
    return {CPU: "CPU", "pods": "pod"}.get(resource, resource.rpartition("/")[2].upper())


def _many(jobs: int) -> str:
    return f"{jobs} job{'s' if jobs != 1 else ''}"


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
