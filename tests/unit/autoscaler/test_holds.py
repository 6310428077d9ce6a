"""When and of which jobs nothing may begin."""

from datetime import UTC, datetime

import pytest

from autoscaler.jobs.managed import Holds
from autoscaler.windows import parse_windows
from optimus.jobs import Job
from tests.unit.autoscaler.fake_job import tf_job


def job(**annotations: str) -> Job:
    found = tf_job("a", 1, 2, target_loss="0.1", **annotations).decoded().job
    assert found is not None
    return found


def at(text: str) -> float:
    """An instant of a week that begins on Monday, the 1st of June 2026."""
    days = {"Mon": 1, "Tue": 2, "Sat": 6, "Sun": 7}
    day, _, time = text.partition(" ")
    hour, _, minute = time.partition(":")
    return datetime(2026, 6, days[day], int(hour), int(minute), tzinfo=UTC).timestamp()


def holds(windows: str, *, recommend: bool = False) -> Holds:
    parsed = parse_windows(windows)
    assert parsed is not None
    return Holds(recommend, parsed)


@pytest.mark.parametrize(
    ("windows", "open_at", "closed_at"),
    [
        ("deny Mon-Fri 08:00-10:30", ["Mon 07:59", "Mon 10:30", "Sat 09:00"], ["Tue 08:00"]),
        ("deny Fri-Mon 08:00-09:00", ["Tue 08:30"], ["Sat 08:30", "Sun 08:30", "Mon 08:30"]),
        ("deny Sat 22:00-06:00", ["Sat 05:00", "Mon 05:00"], ["Sat 23:00", "Sun 05:59"]),
        ("deny 12:00-13:00", ["Sun 11:59"], ["Sun 12:00", "Mon 12:59"]),
        ("allow Sat-Sun 00:00-24:00", ["Sat 00:00", "Sun 23:59"], ["Mon 00:00"]),
        ("ALLOW sat 00:00-24:00; deny 12:00-13:00", ["Sat 11:00"], ["Sat 12:30", "Sun 11:00"]),
        ("", ["Mon 12:00"], []),
    ],
)
def test_windows_in_which_nothing_begins(
    windows: str, open_at: list[str], closed_at: list[str]
) -> None:
    found = holds(windows)
    assert [found.why(job(), at(each)) for each in open_at] == [""] * len(open_at)
    for each in closed_at:
        assert "maintenance window" in found.why(job(), at(each)), each


@pytest.mark.parametrize(
    "text",
    ["Mon 08:00-09:00", "deny Mon", "deny Mon 8:00-9:00", "deny 08:00-08:00", "deny 08:61-09:00",
     "deny 08:00-24:01", "deny Mon,Tue 08:00-09:00", "deny Feb 08:00-09:00"],
)  # fmt: skip
def test_what_is_no_window_is_refused(text: str) -> None:
    assert parse_windows(text) is None


def test_a_job_is_held_by_its_own_annotations_first() -> None:
    paused = job(pause="true", manage="recommend")
    assert "paused by its user" in holds("deny 00:00-24:00").why(paused, 0.0)
    advised = job(manage="recommend")
    assert "recommendations only" in holds("").why(advised, 0.0)
    assert holds("").recommends(advised)
    assert not holds("").recommends(job())
    assert holds("", recommend=True).recommends(job())
