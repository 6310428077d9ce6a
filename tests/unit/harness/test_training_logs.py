"""A log book has each line of a trainer once, also where the API server that it is read through is
killed."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from tests.harness.api import Json
from tests.harness.training_runs import TrainingLogs

ENDED = "end"
CUT = "cut"


def pod(uid: str, restarts: int = 0) -> Json:
    labels = {"replica-type": "worker", "replica-index": "0", "job-name": "job"}
    return {
        "metadata": {
            "name": "job-worker-0",
            "uid": uid,
            "labels": {f"training.kubeflow.org/{name}": value for name, value in labels.items()},
        },
        "status": {"containerStatuses": [{"restartCount": restarts, "state": {"running": {}}}]},
    }


class Log(urllib3.HTTPResponse):
    """What a log says until it ends or its connection is cut."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def stream(
        self, amt: int | None = None, decode_content: bool | None = None
    ) -> Generator[bytes]:
        yield from (f"{line}\n".encode() for line in self._lines[:-1])
        if self._lines[-1] == CUT:
            raise urllib3.exceptions.ProtocolError("Connection broken")


class Trainer:
    """A pod as it is found before each reading of its log, and what that reading brings: lines, and
    how they end."""

    def __init__(self, *readings: tuple[Json, Sequence[str]]) -> None:
        self._readings = list(readings)

    def get(self, path: str, **query: str) -> Json:
        if not self._readings:
            raise ApiException(status=404)
        return self._readings[0][0]

    @contextmanager
    def stream(
        self, path: str, silence_seconds: float, **query: str
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        _, lines = self._readings.pop(0)
        yield Log(lines)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        pytest.param([(pod("a"), ["1", "2", ENDED])], ["1", "2"], id="it is read to its end"),
        pytest.param(
            [(pod("a"), ["1", CUT]), (pod("a"), [CUT]), (pod("a"), ["1", "2", ENDED])],
            ["1", "2"],
            id="it is cut twice",
        ),
        pytest.param([(pod("a"), ["1", CUT])], ["1"], id="it is cut and its pod is gone"),
        pytest.param(
            [(pod("a"), ["1", CUT]), (pod("b"), ["1", "3", ENDED])],
            ["1"],
            id="another pod has its name by then",
        ),
        pytest.param(
            [(pod("a"), ["1", CUT]), (pod("a", 1), ["3", "4", ENDED])],
            ["1"],
            id="its container was started again",
        ),
    ],
)
def test_a_log_is_read_line_by_line_where(
    readings: list[tuple[Json, Sequence[str]]], expected: list[str]
) -> None:
    book = TrainingLogs(Trainer(*readings), "space")
    book.update(pod("a"))
    book.finish(20)
    assert [each.lines for each in book.runs("job")] == [expected]


def test_the_present_steps_are_not_those_of_a_pod_that_is_gone() -> None:
    """The new pod is running, and the watch has not shown it yet."""
    line = "2027-01-15T08:00:00Z epoch=1 step=7 loss=0.5"
    book = TrainingLogs(Trainer((pod("a"), [line, ENDED])), "space")
    book.update(pod("a"))
    book.finish(20)
    assert [each.step for each in book.steps_of_present([pod("a")])] == [7]
    assert book.steps_of_present([pod("b")]) == ()
    assert book.steps_of_present([pod("a", 1)]) == ()
