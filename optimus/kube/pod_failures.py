"""Why the pods of a job do not run, as one value: for profiles, Events, the page and the commands.

What the kubelet says of a container comes first, then how it ended and what it printed last. A
container that runs again after an error counts as failing until its job trains again, or until it
has run for as long as the kubelet takes to forget its back-off."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from optimus.jobs import counted
from optimus.kube.pods import Pod

FORGIVEN_SECONDS: Final = 600.0
"""After so long without another end the kubelet starts its back-off anew."""

LAST_LINES: Final = 20
"""The lines at the end of a log in which the reason of an error is looked for."""

_LONGEST: Final = 200
_NO_MEMORY: Final = re.compile(
    r"out of memory|OutOfMemory|OOMKilled|ResourceExhausted|RESOURCE_EXHAUSTED|bad_alloc"
    r"|[Cc]annot allocate memory|MemoryError"
)
_ERROR: Final = re.compile(
    r"\b\w*(?:Error|Exception)\b|^(?:fatal|panic)\b|[Nn]o space left|[Nn]o such file"
    r"|[Pp]ermission denied|[Ss]egmentation fault|[Bb]us error|core dumped|(?i:\berror: )"
)


@dataclass(frozen=True, slots=True)
class PodFailure:
    """The worst of a job's pods that do not run as they should."""

    pod: str
    what: str
    """``CrashLoopBackOff, exit code 1``, ``ImagePullBackOff: no such image``, ``Evicted: ...``."""

    restarts: int = 0
    last_words: str = ""
    """The line of its log that says why it ended; empty where that is not known."""

    others: int = 0
    """The number of further pods that do not run as they should."""

    @property
    def cause(self) -> str:
        """Another one only where the pods fail for another reason: each restart changes the
        sentence."""
        return f"{self.what.partition(':')[0]} {self.last_words}"

    def __str__(self) -> str:
        again = f" after {counted(self.restarts, 'restarts')}" if self.restarts else ""
        words = f": {self.last_words}" if self.last_words else ""
        others = f"; {counted(self.others, 'more pods')} too" if self.others else ""
        return f"{self.pod}: {self.what}{again}{words}{others}"


def failure_of(
    pods: Iterable[Pod],
    now: float,
    trained_at: float = 0.0,
    last_words: Mapping[str, str] | None = None,
) -> PodFailure | None:
    """The failure of a job with these pods; ``None`` where none of them fails.

    ``trained_at``: when training was last seen, seconds since the epoch; ``last_words``: by UID of
    a pod, how its log ended."""
    failing = [pod for pod in pods if pod.has_failed and _fails(pod, now, trained_at)]
    if not failing:
        return None
    known = last_words or {}
    words = {pod.uid: pod.container.message or known.get(pod.uid, "") for pod in failing}
    first = min(failing, key=lambda pod: _order(pod, words[pod.uid]))
    said = last_line(words[first.uid].splitlines())
    restarts = first.container.restarts if first.container.error else 0
    others = len(failing) - 1
    return PodFailure(first.name, _what(first), restarts, said, others)


def worst_first(pods: Iterable[Pod]) -> list[Pod]:
    """The pods whose logs most likely say why the job fails come first."""
    return sorted(pods, key=lambda pod: _order(pod, pod.container.message))


def _order(pod: Pod, words: str) -> tuple[bool, bool, int, str]:
    """A pod without memory takes the others with it; of the others, which started most often."""
    state = pod.container
    is_cause = _NO_MEMORY.search(f"{state.error} {words}") is not None
    return not is_cause, not state.stopped, -state.restarts, pod.name


def _fails(pod: Pod, now: float, trained_at: float) -> bool:
    state = pod.container
    if state.stopped or not pod.running or state.restarted_at is None:
        return True
    return trained_at <= state.restarted_at and now < state.restarted_at + FORGIVEN_SECONDS


def _what(pod: Pod) -> str:
    state = pod.container
    if not state.stopped:
        return f"ended with {state.error}"
    return ", ".join(filter(None, (state.stopped, state.error)))


def last_line(lines: Sequence[str]) -> str:
    """The line of a log's end that says why its program ended: of memory first, then the last
    error, else the last line of all."""
    texts = [line.strip() for line in lines if line.strip()]
    for pattern in (_NO_MEMORY, _ERROR):
        for text in reversed(texts):
            found = pattern.search(text)
            if found is not None:
                begin = max(found.start() - _LONGEST // 2, 0) if len(text) > _LONGEST else 0
                return text[begin : begin + _LONGEST]
    return texts[-1][:_LONGEST] if texts else ""
