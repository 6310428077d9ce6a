"""``optimus why JOB``: why a job does not run, and what its user can do.

Most of it is read from the API server by anybody who may view the namespace: the job, its pods, its
TrainingProfile and the Events, of which the extender writes one for each cause of a wait. The
extender's /inspect adds the place in the queue and the expected time, for those who can reach it.
"""

import argparse
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from optimus.cli.cluster import add_arguments, add_job, connected, incomplete, status_of
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.table import table
from optimus.times import clock, duration

if TYPE_CHECKING:  # loaded late: other commands do not need them
    from optimus.cli.job_facts import JobFacts
    from optimus.kube.logs import LogSource
    from optimus.kube.pods import Pod
    from optimus.kube.waiting_events import EventFacts

_INSPECT_SECONDS: Final = 5.0
_MOST_EVENTS: Final = 5
_SCHEDULER: Final = "optimus-scheduler"
_CLAIM: Final = re.compile(r"persistent volume claim (\S+) (?:does not exist|has lost|is )")
_PREEMPTION: Final = ("Preempting", "Preempted", "PreemptionFailed", "Resumed")
"""The autoscaler's Events on a preemption."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, "the name of a TFJob, MXJob, PyTorchJob, JobSet or TrainJob")
    add_arguments(parser)
    parser.add_argument(
        "--inspect",
        type=_address,
        metavar="URL",
        help="address of the extender, which adds the place in the queue and the expected time;"
        " for operators: kubectl -n optimus-system port-forward deploy/optimus-scheduler 8888,"
        " then --inspect http://127.0.0.1:8888",
    )


def _address(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise argparse.ArgumentTypeError(
            f"a URL such as http://127.0.0.1:8888 is expected, not {text!a}"
        )
    return text.rstrip("/")


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    with connected(options, "why") as cluster:
        from optimus.cli.job_facts import JobReader

        namespace = cluster.namespace
        facts = JobReader(cluster.client).read(namespace, options.job)
        facts = _with_last_words(facts, cluster.client)
    queue = None
    if options.inspect is not None:
        queue = _inspect(options.inspect, f"{namespace}/{options.job}", facts.job.uid)
    found = explain(facts, queue)
    return Answer(found.value(), found.text(), status=status_of(facts.not_readable))


def _with_last_words(facts: "JobFacts", client: "LogSource") -> "JobFacts":
    """The facts with how the log of the pod ended that fails worst, where it may be read."""
    from optimus.kube.logs import LogReader
    from optimus.kube.pod_failures import LAST_LINES, worst_first
    from optimus.kube.results import Refused

    for pod in worst_first(each for each in facts.pods if each.has_failed)[:1]:
        if pod.container.error and pod.container.started_at is None:
            found = LogReader(client).read(pod, last_lines=LAST_LINES)
            if not isinstance(found, Refused):
                words = {pod.uid: "\n".join(each.text for each in found.lines)}
                return replace(facts, last_words=words)
    return facts


def _inspect(address: str, job: str, uid: str) -> Mapping[str, Any]:
    """Return what the extender says of the job."""
    url = f"{address}/inspect?job={urllib.parse.quote(job)}"
    try:
        with urllib.request.urlopen(url, timeout=_INSPECT_SECONDS) as answer:  # noqa: S310 - the scheme is checked in _address
            found = json.load(answer)
        leads = bool(found["leads"])
        gang = gang_of(found["gangs"], uid)
    except (OSError, urllib.error.HTTPError) as error:
        raise BadInput(url, f"no answer ({error}); is the port forwarded?") from None
    except (ValueError, LookupError, TypeError):
        raise BadInput(url, "the answer is not the extender's") from None
    return {"leads": leads, "gang": gang}


def gang_of(gangs: Sequence[Mapping[str, Any]], uid: str) -> Mapping[str, Any] | None:
    """What the extender says of a job, by UID; of a JobSet with several gangs, of the first."""
    from optimus.kube.jobsets import set_uid

    return next((each for each in gangs if set_uid(each["uid"]) == uid), None)


# --- the explanation


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is explained, as sentences and as a table of the replicas."""

    job: str
    state: str
    headline: str
    roles: Sequence[tuple[str, int, int, int, int]]
    """Role, expected, existing, gated and bound pods."""

    lines: Sequence[tuple[str, str]] = ()
    """A word and a sentence."""

    advice: Sequence[str] = ()
    pods: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    waited_seconds: float | None = None
    queue: Mapping[str, Any] | None = None

    def text(self) -> str:
        """For people."""
        parts = [f"{self.job} {self.headline}"]
        if self.roles:
            headings = ("role", "expected", "exist", "gated", "with a node")
            parts.append(table("<>>>>", headings, self.roles))
        width = max((len(word) for word, _ in self.lines), default=0)
        parts.append("\n".join(f"{word:<{width}}  {sentence}" for word, sentence in self.lines))
        if self.advice:
            parts.append("\n".join(["What you can do:", *(f"- {each}" for each in self.advice)]))
        return "\n\n".join(part for part in parts if part)

    def value(self) -> dict[str, object]:
        """For programs."""
        columns = ("role", "expected", "exist", "gated", "bound")
        return {
            "job": self.job,
            "state": self.state,
            "headline": self.headline,
            "waitedSeconds": self.waited_seconds,
            "roles": [dict(zip(columns, row, strict=True)) for row in self.roles],
            "pods": {name: dict(each) for name, each in self.pods.items()},
            "details": [{"what": word, "text": sentence} for word, sentence in self.lines],
            "advice": list(self.advice),
            "inspect": self.queue,
        }


def explain(facts: "JobFacts", queue: Mapping[str, Any] | None = None) -> Explanation:
    """Why the job does not run, from what the API server says, and the extender where asked."""
    pods = [pod for pod in facts.pods if not pod.leaving and not pod.finished]
    waits = [each for each in pods if each.node is None]
    roles = _roles(facts, pods)
    state, headline, advice = _diagnosis(facts, pods, waits, roles)
    if state == "running":
        facts = replace(facts, events=_since_start(facts, pods))
    since = max((wait.created_at for wait in waits), default=None)
    waited = None if since is None else max(facts.now - since, 0.0)
    is_refused = state == "incomplete" and bool(_refused(facts))
    lines = [*_lines(facts, [] if is_refused else waits, waited), *_queue_lines(queue, facts.now)]
    return Explanation(
        job=f"{facts.job.submitted_kind} {facts.job.key}",
        state=state,
        headline=headline,
        roles=roles,
        lines=lines,
        advice=advice,
        pods={
            each.name: {
                "node": each.node,
                "nominated": each.nominated_node,
                "reason": each.refusal or each.container.stopped or each.container.error,
            }
            for each in facts.pods
        },
        waited_seconds=None if waited is None else round(waited, 1),
        queue=queue,
    )


def _since_start(facts: "JobFacts", pods: Sequence["Pod"]) -> "tuple[EventFacts, ...]":
    """The Events younger than the last start of its pods: what went before kept it from running."""
    began = max((pod.container.started_at or 0.0 for pod in pods), default=0.0)
    return tuple(each for each in facts.events if (_instant(each.last_at) or 0.0) >= began)


def _roles(facts: "JobFacts", pods: Sequence["Pod"]) -> list[tuple[str, int, int, int, int]]:
    if not facts.pods_were_read:
        return []
    found = []
    for role, expected in facts.expected().items():
        own = [pod for pod in pods if pod.replica and pod.replica.role is role]
        gated = sum(bool(each.gates) for each in own)
        found.append((str(role), expected, len(own), gated, sum(bool(each.node) for each in own)))
    return found


def _diagnosis(
    facts: "JobFacts",
    pods: Sequence["Pod"],
    waits: Sequence["Pod"],
    roles: Sequence[tuple[str, int, int, int, int]],
) -> tuple[str, str, list[str]]:
    """The state in a word, the headline, and advice."""
    job, expected = facts.job, max(sum(row[1] for row in roles), len(pods))
    ended = _ended_or_suspended(facts)
    if ended is not None:
        return ended
    if not facts.pods_were_read:
        return "unknown", "has pods that could not be read: whether they run is not known", []
    apart = _never_meet(facts)
    if apart:
        lines = [job.suspend_line, job.resume_line]
        return "apart", apart, [f"once its pods are gone, resume it: {'; '.join(lines)}"]
    failure = facts.failure()
    if failure is not None:
        return "failing", f"fails: {failure}", _advice_on_failure(facts, str(failure), failure.pod)
    if len(pods) < expected:
        missing = f"{expected - len(pods)} of {expected} pods do not exist"
        headline = f"is not whole: {_refused(facts) or missing}"
        return "incomplete", headline, _advice_on_missing(facts)
    gates = sorted({gate for wait in waits for gate in wait.gates})
    if gates:
        advice = [
            (
                f"whoever set the scheduling gate {', '.join(gates)} removes it; with Kueue,"
                f" kubectl get workloads -n {job.namespace} says what it waits for"
            )
        ]
        return "gated", f"is held by scheduling gates: {', '.join(gates)}", advice
    if waits:
        bound = len(pods) - len(waits)
        partly = f"; the other {bound} hold their resources" if bound else ""
        headline = f"waits for nodes: {len(waits)} of {expected} pods have none{partly}"
        return "waiting", headline, _advice_on_waiting(facts, waits)
    return _with_nodes(pods)


def _never_meet(facts: "JobFacts") -> str:
    from optimus.kube.pods import why_never_meet

    found = facts.job.job
    return "" if found is None else why_never_meet(found, facts.pods)


def _with_nodes(pods: Sequence["Pod"]) -> tuple[str, str, list[str]]:
    """Of a job of which all pods have a node."""
    if not pods:
        return "ended", "has no pod that has not ended", []
    if not all(each.running for each in pods):
        return "starting", "has its nodes; its containers are starting", []
    have = "its pod has" if len(pods) == 1 else f"all {len(pods)} pods have"
    return "running", f"runs: {have} a node", []


def _ended_or_suspended(facts: "JobFacts") -> tuple[str, str, list[str]] | None:
    job = facts.job
    if job.deleted:
        return "deleted", "is being deleted", []
    if job.outcome is not None:
        failure = facts.failure()
        told = ". ".join(filter(None, (job.outcome, job.message, str(failure or ""))))
        return "ended", f"has ended: {told}", []
    if not job.suspended:
        return None
    if job.job is not None and job.job.preempted_for:
        headline = f"is paused for {job.job.preempted_for}"
        then = "nothing: it is resumed by itself, and then waits for capacity like any job"
        return "preempted", headline, [then]
    if job.suspended_by is not None:
        phase = facts.profile.phase if facts.profile is not None else None
        advice = [] if phase != "Suspended" else [_resume(facts)]
        return "suspended", "is suspended by Optimus, for a rescale or at its goal", advice
    return "suspended", "is suspended by its user or by a queue", [_resume(facts)]


_ON_FAILURE: Final = (
    ("OOMKilled|annot allocate memory|bad_alloc|MemoryError", "raise the memory limit of its pods"),
    (
        "CUDA|OutOfMemory|RESOURCE_EXHAUSTED|ResourceExhausted",
        "its GPU has too little memory: make the batch of one worker smaller",
    ),
    ("ImagePull|InvalidImage", "check the image's name, and the pull secret of its pods"),
    ("ConfigError", "create the Secret or ConfigMap that its pods name"),
    ("Evicted", "its node was short of this: ask for as much as its pods use"),
)
"""What is found in a failure, and what helps."""


def _advice_on_failure(facts: "JobFacts", failure: str, pod: str) -> list[str]:
    namespace = facts.job.namespace
    known = next((advice for found, advice in _ON_FAILURE if re.search(found, failure)), None)
    look = f"kubectl describe pod {pod} -n {namespace}"
    if "exit code" in failure:
        look = f"kubectl logs {pod} -n {namespace} --previous"
    return [*filter(None, (known,)), f"{look} says more"]


def _resume(facts: "JobFacts") -> str:
    return f"resume it: {facts.job.resume_line}"


def _advice_on_missing(facts: "JobFacts") -> list[str]:
    warnings = [
        event for event in facts.events if event.about == facts.job.name and event.type == "Warning"
    ]
    advice = [
        (
            f"{_operator(facts)} creates the pods: check quotas (kubectl describe quota -n"
            f" {facts.job.namespace}), admission policies, and that it runs"
        )
    ]
    failed = [warning for warning in warnings if "Failed" in warning.reason][-1:]
    return [*(f"{each.reason}: {each.message}" for each in failed), *advice]


def _advice_on_waiting(facts: "JobFacts", waits: Sequence["Pod"]) -> list[str]:
    job = facts.job
    others = sorted({wait.scheduler_name for wait in waits} - {_SCHEDULER})
    if others:
        return [
            (
                f"its pods name the scheduler {', '.join(others)}; behind the cluster's own"
                f" scheduler that is right, otherwise set schedulerName: {_SCHEDULER} in"
                f" {_templates(facts)}"
            ),
        ]
    event = _waiting_event(facts)
    if event is None:
        if any(each.refusal for each in waits):
            return [f"kubectl describe pod {waits[0].name} -n {job.namespace} says more"]
        if not facts.events_were_read:
            return []
        return [
            (
                f"no scheduler has tried its pods: check that {_SCHEDULER} runs (kubectl -n"
                " optimus-system get pods)"
            )
        ]
    return _advice_on_wait(event, waits[0].name, job.namespace)


def _advice_on_wait(event: "EventFacts", pod: str, namespace: str) -> list[str]:
    """Return what helps a job of which the extender says why it waits."""
    if event.reason == "HalfPlaced":
        return ["free capacity, or suspend and resume the job so that it is placed as a whole"]
    if event.wait is not None and event.wait.rules:
        rules = ", ".join(event.wait.rules)
        wait = "waiting and a PriorityClass do not help" if event.wait.never else "or wait"
        look = f"kubectl describe pod {pod} -n {namespace} says what refuses it"
        helps = f"fewer replicas, other rules than its {rules}, or more nodes that they allow"
        return [f"{wait}: {helps}" if event.wait.never else f"{helps}; {wait}", look]
    if event.wait is not None and event.wait.never:
        return [
            (
                "waiting does not help: ask for less per replica or for fewer replicas, change its"
                " node selector or tolerations, or have nodes added that hold them"
            )
        ]
    claim = _CLAIM.search(event.message)
    if claim is not None:
        named = f"kubectl get pvc {claim[1]} -n {namespace}"
        return [f"fewer replicas do not help; what becomes of the claim: {named}"]
    return [
        (
            "wait, or start sooner with fewer replicas, or with replicas that ask for less of what"
            " is short"
        ),
        "a PriorityClass in the pod templates puts it before jobs of a lower priority",
    ]


def _refused(facts: "JobFacts") -> str:
    """Return what keeps its pods from being created, as the autoscaler says: by the profile, or of
    a job without one by its newest Event."""
    from optimus.kube.contract import NOT_CREATED

    if facts.profile is not None:
        return facts.profile.reason if NOT_CREATED in facts.profile.reason else ""
    said = [each.message for each in facts.events if each.reason == "PodsNotCreated"]
    return said[-1] if said else ""


def _operator(facts: "JobFacts") -> str:
    """Return what creates the job's pods."""
    return "the training operator" if facts.job.shape is None else "JobSet's controller"


def _templates(facts: "JobFacts") -> str:
    """Return where its user writes what the job's pods are to be."""
    if facts.job.is_train_job:
        return "the runtime that it refers to, in each pod template"
    return "each of its replica types" if facts.job.shape is None else "each of its replicated jobs"


def _waiting_event(facts: "JobFacts") -> "EventFacts | None":
    """The extender's newest Event on the job that waits."""
    found = [
        event
        for event in facts.events
        if event.about == facts.job.name and event.reason in ("Waiting", "HalfPlaced")
    ]
    return found[-1] if found else None


def _lines(
    facts: "JobFacts", waits: Sequence["Pod"], waited: float | None
) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    event = _waiting_event(facts) if waits else None
    if event is not None:
        lines.append(("why", f"{event.message} (Event of {_clock(event.last_at, facts.now)})"))
        expected = None if event.wait is None else event.wait.expected(facts.now)
        if expected is not None:
            lines.append(("expected", f"capacity at about {clock(expected, facts.now)} UTC"))
    refusals = sorted({wait.refusal for wait in waits if wait.refusal})
    lines += [("kube-scheduler", refusal) for refusal in refusals[:3]]
    if waited is not None:
        lines.append(("for", duration(waited)))
    if facts.job.left_alone is not None:
        lines.append(("not managed", facts.job.left_alone))
    if facts.job.surplus:
        lines.append(("surplus", facts.job.surplus))
    if facts.profile is not None and facts.profile.phase is not None:
        reason = f": {facts.profile.reason}" if facts.profile.reason else ""
        lines.append(("autoscaler", f"{facts.profile.phase}{reason}"))
    preemption = [
        each for each in facts.events if each.about == facts.job.name and each.reason in _PREEMPTION
    ][-1:]
    lines += [
        ("preemption", f"{each.message} ({_clock(each.last_at, facts.now)})") for each in preemption
    ]
    if facts.later:
        lines.append(("later", _later(facts)))
    shown = [event, *preemption]
    others = [each for each in facts.events if each not in shown and each.type == "Warning"]
    for event in others[-_MOST_EVENTS:]:
        if event.reason != "FailedScheduling":  # the condition says the same
            lines.append(("warning", f"{event.about}: {event.reason}: {event.message}"))
    return lines + [("incomplete", each) for each in incomplete(facts.not_readable)]


def _later(facts: "JobFacts") -> str:
    shape = facts.job.shape
    assert shape is not None, "only a JobSet has parts"
    parts = [
        f"{gang.size} {'pod' if gang.size == 1 else 'pods'} of {', '.join(shape.names(gang))}"
        for gang in facts.later
    ]
    return f"{' and '.join(parts)}, created once those before them let them"


def _queue_lines(queue: Mapping[str, Any] | None, now: float) -> list[tuple[str, str]]:
    if queue is None:
        return []
    if not queue["leads"]:
        return [("extender", "this pod does not lead: forward a port of the other one")]
    gang = queue["gang"]
    if gang is None:
        return [("extender", "it has not seen such a job; its cache may be a moment old")]
    lines = [("extender", f"{gang['state']}: {gang['sentence']}")]
    if gang["position"] is not None:
        jobs = "job" if gang["jobsAhead"] == 1 else "jobs"
        place = f"place {gang['position']}, {gang['jobsAhead']} {jobs} before it"
        lines.append(("queue", place))
    expected = gang["expected"]
    if expected is not None and (_instant(expected["at"]) or 0.0) > now:
        nodes = ", ".join(expected["nodes"])
        lines.append(("expected", f"capacity at about {_clock(expected['at'], now)} on {nodes}"))
    return lines


def _instant(text: str | None) -> float | None:
    from optimus.kube.times import instant_of

    return instant_of(text)


def _clock(text: str, now: float) -> str:
    at = _instant(text)
    return "an unknown time" if at is None else f"{clock(at, now)} UTC"


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
