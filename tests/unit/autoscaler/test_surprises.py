"""What users, restarts and strangers do at the worst moment, and that nothing stays stuck by it."""

from typing import Any

import msgspec
import pytest

from kube.contract import Phase
from kube.profiles import JobRef, ProfileStatus, RescaleRecord, TrainingProfile
from scheduling.jobs import Counts
from scheduling.models.predict import JobOutlook
from tests.unit.autoscaler.town import Mayor, Town, Trainee, tf_job

SUSPENDED_BY = "optimus.dl/suspended-by"


@pytest.fixture
def town() -> Town:
    return Town()


@pytest.fixture
def mayor(town: Town) -> Mayor:
    return Mayor(town)


def annotate(job: Trainee, **annotations: str | None) -> None:
    stored: dict[str, Any] = job.manifest["metadata"]["annotations"]
    for key, value in annotations.items():
        name = f"optimus.dl/{key.replace('_', '-')}"
        stored.pop(name, None)
        if value is not None:
            stored[name] = value
    job.changed()


def until_suspended_by_us(mayor: Mayor, job: Trainee) -> None:
    for _ in range(200):
        mayor.rule(1)
        if job.suspended:
            return
    raise AssertionError("the job was never suspended")


@pytest.mark.parametrize("second", [1, 2, 3, 4])
def test_a_job_that_waits_is_resized_whenever_the_autoscaler_is_killed(second: int) -> None:
    mayor = Mayor(town := Town(cpus=6))
    job = town.submit(tf_job("a", 4, 4, target_loss="0.12", training_mode="sync"))
    mayor.rule(second)
    mayor.restart()
    mayor.rule(60)
    assert job.pods, mayor.status("a").reason


@pytest.mark.parametrize("goal", [None, "low"])
def test_a_job_that_loses_its_goal_in_the_middle_of_a_rescale_is_set_going_again(
    town: Town, mayor: Mayor, goal: str | None
) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    until_suspended_by_us(mayor, job)
    annotate(job, target_loss=goal)
    mayor.restart()
    mayor.rule(30)
    assert not job.suspended
    assert SUSPENDED_BY not in job.manifest["metadata"]["annotations"]
    assert job.pods
    if goal is not None:
        assert mayor.status("a").phase is Phase.LEFT_ALONE


def test_a_typo_in_the_middle_of_a_rescale_leaves_the_record_as_it_is(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    until_suspended_by_us(mayor, job)
    annotate(job, target_loss="low")
    mayor.controller.tick()
    assert mayor.status("a").phase is not Phase.LEFT_ALONE
    mayor.rule(30)
    assert mayor.status("a").phase is Phase.LEFT_ALONE
    assert not job.suspended


def test_a_profile_elsewhere_that_names_the_job_has_no_say(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", rescale="never"))
    forged = RescaleRecord("forged", "2027-01-15T08:00:00Z", 1, 1, 0, 0, "because", "suspend")
    town.profiles["forged"] = TrainingProfile(
        uid="p",
        namespace="elsewhere",
        name="forged",
        job=JobRef("TFJob", "a", "uid-a"),
        status=ProfileStatus(rescale=forged),
    )
    mayor.rule(30)
    assert not job.suspended


def test_a_job_that_ends_while_nobody_looks_is_reported_all_the_same(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.001", training_mode="sync"))
    mayor.rule_until("a", "Training")
    job.manifest["status"]["conditions"] = [{"type": "Failed", "status": "True", "message": "a worker failed"}]
    job.pods.clear()
    mayor.restart()
    for _ in range(3):
        mayor.controller.tick()
    assert (mayor.status("a").phase, mayor.status("a").reason) == (Phase.FAILED, "a worker failed")
    assert mayor.controller.fleet.states == {}


def test_what_was_suspended_at_its_goal_goes_on_when_its_user_says_so(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.3", training_mode="sync", at_target="suspend"))
    mayor.rule_until("a", "Suspended", seconds=600)
    job.manifest["spec"]["runPolicy"]["suspend"] = False
    job.manifest["metadata"]["annotations"].pop(SUSPENDED_BY)
    job.changed()
    mayor.rule(100)
    assert not job.suspended
    assert mayor.status("a").phase is Phase.AT_TARGET


def test_a_lower_goal_sets_a_job_going_again_that_was_suspended_at_the_old_one(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 1, target_loss="0.3", training_mode="sync", at_target="suspend"))
    mayor.rule_until("a", "Suspended", seconds=600)
    annotate(job, target_loss="0.2")
    mayor.rule(20)
    assert not job.suspended
    mayor.rule_until("a", "Suspended", seconds=600)
    assert mayor.status("a").progress_percent == 100


def test_a_memory_that_is_nonsense_costs_its_own_job_only(town: Town, mayor: Mayor) -> None:
    town.submit(tf_job("odd", 1, 1, target_loss="0.12", training_mode="sync"))
    good = town.submit(tf_job("good", 1, 1, target_loss="0.12", training_mode="sync"))
    mayor.rule(20)
    status = mayor.status("odd")
    assert status.state is not None
    memory = msgspec.json.decode(msgspec.json.encode(status.state))
    memory["log"]["pods"] = [{"name": "odd-worker-0", "role": "ps", "index": 0, "tells_loss": True, "step": 1}]
    town.write_status(town.profiles["odd"], msgspec.structs.replace(status, state=memory))
    mayor.restart()
    runs = good.runs
    mayor.rule(60)
    assert good.runs > runs


def test_a_quota_that_nobody_tells_of_costs_few_restarts() -> None:
    mayor = Mayor(town := Town(cpus=40, quota=6))
    job = town.submit(tf_job("a", 1, 2, target_loss="0.0501", training_mode="sync", rescale="any"))
    trained = 0
    for _ in range(1200):
        mayor.rule(1)
        trained += bool(job.pods) and all(pod["status"]["phase"] == "Running" for pod in job.pods)
    assert town.reasons("a").count("RollingBack") <= 4
    assert trained >= 900
    assert len(mayor.controller.fleet.states["uid-a"].deeds.setbacks) <= 8


@pytest.mark.parametrize("counts", [(4, 12), (2, 6)])
@pytest.mark.parametrize(("goal", "has_forecast"), [("0.0501", True), ("1e-9", False)])
def test_a_job_that_never_prints_a_checkpoint_is_left_no_worse_than_submitted(
    mayor: Mayor, town: Town, counts: tuple[int, int], goal: str, has_forecast: bool
) -> None:
    town.checkpoints = False
    job = town.submit(tf_job("a", *counts, target_loss=goal, training_mode="sync", global_batch_size="64"))
    mayor.rule(200)
    state = mayor.controller.fleet.states["uid-a"]
    assert len(state.deeds.profiled) == 4
    assert isinstance(state.outlook, JobOutlook) is has_forecast
    if not has_forecast:
        assert job.counts == Counts(*counts)
    assert job.speed() >= tf_job("as-submitted", *counts).speed()
    assert job.runs <= 6, "four runs, and the last move"


def test_room_is_not_kept_for_long_for_a_job_that_never_prints_a_checkpoint(town: Town, mayor: Mayor) -> None:
    town.checkpoints_of = {"b"}
    for name in ("a", "b"):
        town.submit(tf_job(name, 1, 2, target_loss="0.0501", training_mode="sync", global_batch_size="64"))
    mayor.rule(400)
    runs, waited = town.trainees["a"].runs, 0
    for _ in range(200):
        mayor.rule(1)
        waited += mayor.status("a").phase == "WaitingForCheckpoint"
    assert (town.trainees["a"].runs, waited) == (runs, 0)
    assert sum(len(trainee.pods) for trainee in town.trainees.values()) >= town.cpus - 1
    assert town.reasons("a").count("WaitingForCheckpoint") <= 1


def test_a_job_whose_checkpoints_are_rare_is_moved_at_one(town: Town, mayor: Mayor) -> None:
    town.checkpoints = False
    job = town.submit(tf_job("a", 1, 1, target_loss="1e-4", training_mode="sync", max_workers="1", max_ps="1"))
    mayor.rule_until("a", "Training")
    annotate(job, min_workers="2", max_workers="2")
    mayor.rule(300)
    assert (job.runs, mayor.status("a").phase) == (1, "Training")
    assert "waited for a checkpoint in vain" in mayor.status("a").reason
    mayor.restart()
    mayor.rule(30)
    assert job.runs == 1
    town.checkpoints = True
    mayor.rule(40)
    assert job.counts == Counts(1, 2)
    assert job.saved > 0


def until_waiting(town: Town, mayor: Mayor, counts: tuple[int, int] = (1, 2)) -> Trainee:
    """A job that is to grow at its next checkpoint, which does not come yet."""
    job = town.submit(tf_job("a", *counts, target_loss="0.0501", training_mode="sync", rescale="any"))
    for _ in range(300):
        mayor.rule(1)
        if len(mayor.controller.fleet.states["uid-a"].deeds.profiled) == 4 and mayor.status("a").phase == "Training":
            break
    town.checkpoints = False
    annotate(job, rescale="checkpoint", min_workers=str(job.counts.workers + 1))
    mayor.rule_until("a", "WaitingForCheckpoint")
    annotate(job, min_workers="1")
    mayor.rule(1)
    return job


@pytest.mark.parametrize(
    ("written", "allowed"),
    [
        pytest.param({"rescale": "never"}, [], id="never"),
        pytest.param({"target_loss": None}, [], id="to be managed no longer"),
        pytest.param({"target_loss": "low"}, [], id="what cannot be read"),
        pytest.param({"max_workers": "1", "max_ps": "1"}, [Counts(1, 1)], id="less"),
    ],
)
def test_what_the_user_writes_while_a_rescale_waits_counts(
    town: Town, mayor: Mayor, written: dict[str, str | None], allowed: list[Counts]
) -> None:
    job = until_waiting(town, mayor)
    before = job.counts
    annotate(job, **written)
    mayor.rule(2)
    town.checkpoints = True
    for _ in range(60):
        mayor.rule(1)
        assert job.counts in [before, *allowed]


def test_any_ends_the_wait_for_a_checkpoint(town: Town, mayor: Mayor) -> None:
    job = until_waiting(town, mayor)
    before = job.counts
    annotate(job, rescale="any")
    mayor.rule(10)
    assert job.counts != before


def test_bounds_that_move_while_the_job_is_suspended_are_kept_to(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 4, 4, target_loss="0.0501", training_mode="sync", rescale="any"))
    mayor.rule_until("a", "Training")
    annotate(job, max_workers="2")
    until_suspended_by_us(mayor, job)
    annotate(job, max_workers=None, min_workers="4")
    for _ in range(60):
        mayor.rule(1)
        assert job.suspended or job.counts.workers >= 4
    assert not job.suspended


def test_who_resumes_what_was_suspended_at_its_goal_may_suspend_it_again(town: Town, mayor: Mayor) -> None:
    job = town.submit(tf_job("a", 1, 2, target_loss="0.3", training_mode="sync", at_target="suspend", rescale="any"))
    mayor.rule_until("a", "Suspended", seconds=600)
    for suspend in (False, True):
        job.manifest["spec"]["runPolicy"]["suspend"] = suspend
        job.changed()
        mayor.rule(20)
        assert job.suspended is suspend
        assert SUSPENDED_BY not in job.manifest["metadata"]["annotations"]
    annotate(job, target_loss="0.1")
    mayor.rule(20)
    assert job.suspended


def test_a_clock_that_is_set_forward_gives_pods_the_time_that_they_have(town: Town, mayor: Mayor) -> None:
    town.quota = 0
    job = town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync", rescale="any", min_workers="2"))
    mayor.rule_until("a", "Starting")
    town.day_offset = 700.0
    mayor.rule(30)
    assert "RollingBack" not in town.reasons("a")
    mayor.rule(40)
    assert "RollingBack" in town.reasons("a")
    assert not job.suspended or job.manifest["metadata"]["annotations"][SUSPENDED_BY]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_set_back_keeps_no_job_in_peace_for_long(town: Town, mayor: Mayor, restarts: bool) -> None:
    town.submit(tf_job("a", 1, 1, target_loss="0.0501", training_mode="sync", rescale="any"))
    for _ in range(300):
        mayor.rule(1)
        if mayor.status("a").rescales and mayor.status("a").phase == "Training":
            break
    town.day_offset = -36_000.0
    if restarts:
        mayor.restart()
    mayor.rule(60)
    assert mayor.status("a").rescales
    assert "left in peace" not in mayor.status("a").reason


def test_a_clock_that_is_set_back_does_not_stop_the_intervals(town: Town, mayor: Mayor) -> None:
    town.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    mayor.rule(5)
    planned = mayor.intervals
    town.day_offset = -3600.0
    mayor.rule(60)
    assert mayor.intervals > planned


def test_a_decision_that_waits_too_long_for_a_checkpoint_is_made_anew(town: Town, mayor: Mayor) -> None:
    town.checkpoints = False
    job = town.submit(tf_job("a", 1, 1, target_loss="0.001", training_mode="sync", max_workers="1", max_ps="1"))
    mayor.rule_until("a", "Training")
    annotate(job, min_workers="2", max_workers="2")
    mayor.rule_until("a", "WaitingForCheckpoint")
    annotate(job, min_workers="1", max_workers="1")
    mayor.rule_until("a", "Training", seconds=200)
    assert (job.runs, job.counts) == (1, Counts(1, 1))
