"""The saved state in a profile is one word; an unreadable one is dropped."""

import json
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from optimus.jobs import Counts, Role
from optimus.kube import profiles
from optimus.kube.profile_codec import SavedState, pack, pack_rescale, unpack, unpack_rescale
from optimus.lifecycle import Avoided, JobRecord
from optimus.progress.pod_progress import PodState
from optimus.progress.state import LogState
from optimus.progress.types import LossPoint
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import PauseReason
from tests.cases import cases

SAVED = SavedState(
    LogState(
        run="r1",
        pods=[PodState("j-worker-0", Role.WORKER, 0, step=7)],
        losses=[LossPoint(loss=1.0 / (1 + n), epoch=float(n)) for n in range(200)],
    ),
    JobRecord(
        rescales=2,
        own_counts=Counts(1, 2),
        measured_at=50.0,
        replacements=(30.0, 60.0),
        avoided=(Avoided("n1", 900.0),),
    ),
)


def test_saved_state_is_one_word_and_is_restored() -> None:
    packed = pack(SAVED)
    assert packed.isascii()
    assert not set(packed) & set(' \n"')
    assert len(packed) < 8_000
    assert unpack(packed, "ns/j", 100.0) == SAVED


def test_equal_weights_and_learning_rates_are_one_object() -> None:
    points = [LossPoint(1.0 / (1 + n), float(n), n, 50.0, 0.1) for n in range(200)]
    log = unpack(pack(SavedState(LogState(run="r1", losses=points))), "ns/j", 100.0).log
    assert log.losses == points
    assert len({id(each.weight) for each in log.losses}) == 1
    assert len({id(each.learning_rate) for each in log.losses}) == 1


def test_what_an_earlier_version_stored_is_read_whole() -> None:
    stored = json.loads(Path("tests/data/profiles/state.json").read_text())
    packed = b64encode(zlib.compress(json.dumps(stored).encode())).decode()
    again = json.loads(zlib.decompress(b64decode(pack(unpack(packed, "ns/j", 100.0)))))
    assert known_part(again, stored) == stored


def test_what_is_not_known_any_more_of_a_log_is_passed_over() -> None:
    stored = json.loads(zlib.decompress(b64decode(pack(SAVED))))
    stored["log"]["pods"][0] |= {"one_each": True, "of a later version": [1]}
    packed = b64encode(zlib.compress(json.dumps(stored).encode())).decode()
    assert unpack(packed, "ns/j", 100.0) == SAVED


def known_part(now: Any, stored: Any) -> Any:
    """``now`` without the fields that were added since."""
    if isinstance(stored, dict):
        return {key: known_part(now[key], value) for key, value in stored.items()}
    if isinstance(stored, list):
        return [known_part(*each) for each in zip(now, stored, strict=True)]
    return now


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [
        ("", RescalePurpose.INTERVAL),
        ("of a later version", RescalePurpose.INTERVAL),
        ("exploration", RescalePurpose.EXPLORATION),
    ],
)
def test_a_rescale_of_an_unknown_purpose_is_one_of_an_interval(
    purpose: str, expected: RescalePurpose
) -> None:
    stored = profiles.RescaleStatus(
        "i7", "2026-01-01T00:00:00Z", 1, 1, 1, 2, step="empty", purpose=purpose
    )
    record = unpack_rescale(stored, "ns/j", 1e10)
    assert record is not None
    assert record.purpose is expected
    assert pack_rescale(record).purpose == expected


def test_no_restored_instant_lies_in_the_future() -> None:
    record = unpack(pack(SAVED), "ns/j", 40.0).record
    assert (record.measured_at, record.replacements) == (40.0, (30.0, 40.0))


@cases(
    "packed",
    {
        "nothing": "",
        "no base64": "nonsense!",
        "a letter that base64 lacks": "ü",
        "not compressed": b64encode(b"nonsense").decode(),
        "no JSON": b64encode(zlib.compress(b"nonsense")).decode(),
        "of another form": b64encode(zlib.compress(b'{"log": {"pods": 7}}')).decode(),
        "without end": b64encode(zlib.compress(b'"' + b" " * 50_000_000 + b'"')).decode(),
        "cut": pack(SAVED)[:-40],
    },
)
def test_an_unreadable_state_is_dropped(packed: str, caplog: pytest.LogCaptureFixture) -> None:
    assert unpack(packed, "ns/j", 0.0) == SavedState()
    assert "ns/j: saved state cannot be decoded" in caplog.text


@cases(
    ("target", "pause", "expected"),
    {
        "a pause": (Counts(0, 0), "policy", PauseReason.POLICY),
        "the resume after it": (Counts(2, 2), "gang", PauseReason.GANG),
        "stored before there were reasons": (Counts(0, 0), "", PauseReason.GOAL),
        "a rescale": (Counts(2, 2), "", None),
    },
)
def test_a_stored_rescale_says_why_its_job_is_paused(
    target: Counts, pause: str, expected: PauseReason | None
) -> None:
    stored = profiles.RescaleStatus(
        "i7", "2026-01-01T00:00:00Z", 1, 1, *target, step="resume", pause=pause
    )
    record = unpack_rescale(stored, "ns/j", 1e10)
    assert record is not None
    assert record.pause is expected
    assert pack_rescale(record).pause == (expected or "")
