"""When and of which jobs nothing may begin."""

from autoscaler.jobs.managed import Holds
from autoscaler.jobs.state import BlockReason
from optimus.jobs import Job
from tests.unit.autoscaler.fake_job import tf_job


def reasons(holds: Holds, **annotations: str) -> set[BlockReason]:
    job: Job | None = tf_job("a", 1, 2, target_loss="0.1", **annotations).decoded().job
    assert job is not None
    return {reason for reason, text in holds.texts(job).items() if text}


def test_a_job_is_held_by_its_own_annotations_and_by_an_operator() -> None:
    both = {BlockReason.PAUSED, BlockReason.RECOMMENDED}
    assert reasons(Holds(), pause="true", manage="recommend") == both
    assert reasons(Holds(), manage="recommend") == {BlockReason.RECOMMENDED}
    assert reasons(Holds(), manage="auto") == set()
    assert reasons(Holds(recommend=True)) == {BlockReason.RECOMMENDED}
