"""What moving jobs has brought is told, and ends all moves where it is a loss."""

from autoscaler.jobs.managed import _LAST_PHASES
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.kube.profiles import BooksStatus, JobRef, ProfileStatus, TrainingProfile
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job


def end(job: FakeJob) -> None:
    job.manifest["status"]["conditions"] = [{"type": "Succeeded", "status": "True"}]


def test_a_moved_job_ends_with_what_that_has_brought(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.001", training_mode="sync"))
    harness.run(300)
    books = harness.status("a").books
    assert books is not None
    assert "than at 1 PS + 2 workers" in books.text
    harness.restart()
    harness.run(20)
    again = harness.status("a").books
    assert again is not None
    assert again.saved_seconds >= books.saved_seconds - 5, "a new leader goes on with them"
    end(job)
    harness.run(6)
    (message,) = cluster.messages("Ended")
    last = harness.status("a").books
    assert last is not None
    assert message == f"ended {last.text}"
    assert harness.status("a").phase in _LAST_PHASES


def test_what_was_saved_is_counted_until_the_goal_is_met(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.06", training_mode="sync"))
    harness.run_till(lambda: cluster.messages("GoalMet"), seconds=2000)
    books = harness.status("a").books
    assert books is not None
    assert job.counts != Counts(1, 2)
    harness.run(120)
    assert harness.status("a").books == books, "it trains on"
    harness.restart()
    harness.run(120)
    assert harness.status("a").books == books, "under a new leader"
    end(job)
    harness.run(6)
    assert cluster.messages("Ended") == [f"ended {books.text}"]


def test_a_job_that_was_never_moved_has_none(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.001", rescale="never"))
    harness.run(120)
    end(job)
    harness.run(6)
    assert harness.status("a").books is None
    assert cluster.messages("Ended") == []
    assert harness.status("a").phase is Phase.COMPLETED


def had_ended(cluster: FakeCluster, name: str, saved: float) -> None:
    """A job that was moved, and has ended."""
    job = cluster.submit(tf_job(name, 1, 2, target_loss="0.001"))
    end(job)
    books = BooksStatus(text="later", saved_seconds=-1, saved_fraction=saved)
    cluster.profiles[name] = TrainingProfile(
        uid=f"profile-{name}",
        namespace="team",
        name=name,
        job=JobRef("TFJob", name, f"uid-{name}"),
        status=ProfileStatus(phase=Phase.COMPLETED, books=books),
        resource_version="1",
    )


def test_where_moved_jobs_ended_later_nothing_is_moved_until_an_operator_lets_it(
    harness: ControllerHarness, cluster: FakeCluster
) -> None:
    for number in range(20):
        had_ended(cluster, f"e{number}", -0.4)
    job = cluster.submit(tf_job("a", 1, 2, target_loss="0.001", training_mode="sync"))
    harness.run(200)
    assert job.counts == Counts(1, 2)
    (message,) = cluster.messages("NotMoved")
    assert "the last 20 moved jobs of its namespace ended 40% later" in message
    assert "delete the TrainingProfiles" in message
    assert harness.status("a").recommended is not None
    for number in range(20):
        del cluster.profiles[f"e{number}"]
    harness.run(4)
    (state,) = harness.controller.managed
    assert not state.held
