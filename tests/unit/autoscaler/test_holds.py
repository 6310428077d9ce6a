"""When and of which jobs nothing may begin."""

from autoscaler.jobs.managed import Holds
from optimus.jobs import Job
from tests.unit.autoscaler.fake_job import tf_job


def job(**annotations: str) -> Job:
    found = tf_job("a", 1, 2, target_loss="0.1", **annotations).decoded().job
    assert found is not None
    return found


def test_a_job_is_held_by_its_own_annotations_first() -> None:
    paused = job(pause="true", manage="recommend")
    assert "paused by its user" in Holds().why(paused)
    advised = job(manage="recommend")
    assert "recommendations only" in Holds().why(advised)
    assert Holds().recommends(advised)
    assert not Holds().recommends(job())
    assert not Holds().why(job())
    assert Holds(recommend=True).recommends(job())
