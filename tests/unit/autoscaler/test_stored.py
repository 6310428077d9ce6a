"""What a profile remembers of its job: one word, and any other word is given up instead of
believed."""

import zlib
from base64 import b64encode

import pytest

from autoscaler.profile.codec import JobRecord, SavedState, pack, unpack
from optimus.jobs import Counts, Role
from optimus.progress.pod_progress import PodState
from optimus.progress.state import LogState
from optimus.progress.types import LossPoint

MEMORY = SavedState(
    LogState(
        run="r1",
        pods=[PodState("j-worker-0", Role.WORKER, 0, step=7)],
        losses=[LossPoint(loss=1.0 / (1 + n), epoch=float(n)) for n in range(200)],
    ),
    JobRecord(rescales=2, own_counts=Counts(1, 2), measured_at=50.0),
)


def test_a_memory_is_one_word_and_comes_back_as_it_was() -> None:
    word = pack(MEMORY)
    assert word.isascii()
    assert not set(word) & set(' \n"')
    assert len(word) < 8_000
    assert unpack(word, "ns/j", 100.0) == MEMORY


def test_nothing_done_lies_in_the_future() -> None:
    assert unpack(pack(MEMORY), "ns/j", 40.0).record.measured_at == 40.0


@pytest.mark.parametrize(
    "word",
    [
        pytest.param("", id="nothing"),
        pytest.param("nonsense!", id="no base64"),
        pytest.param("ü", id="a letter that base64 lacks"),
        pytest.param(b64encode(b"nonsense").decode(), id="not compressed"),
        pytest.param(b64encode(zlib.compress(b"nonsense")).decode(), id="no JSON"),
        pytest.param(
            b64encode(zlib.compress(b'{"log": {"pods": 7}}')).decode(), id="of another form"
        ),
        pytest.param(
            b64encode(zlib.compress(b'"' + b" " * 50_000_000 + b'"')).decode(), id="without end"
        ),
        pytest.param(pack(MEMORY)[:-40], id="cut"),
    ],
)
def test_a_word_that_cannot_be_read_is_given_up(
    word: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert unpack(word, "ns/j", 0.0) == SavedState()
    assert "ns/j: what its profile remembers cannot be read" in caplog.text


def test_a_job_without_a_profile_has_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    assert unpack(None, "ns/j", 0.0) == SavedState()
    assert not caplog.text
