"""What users write under optimus.dl/, and what an Event says where it cannot be used."""

import pytest

from optimus.jobs import (
    AtTarget,
    Batch,
    BatchScope,
    ConvergenceThreshold,
    CountBounds,
    Counts,
    Goal,
    RescaleRule,
    TargetEpochs,
    TargetLoss,
    TargetMetric,
    TargetSteps,
    TrainingMode,
)
from tests.unit.kube.job_json import job_json, managed, read


def test_every_annotation_is_read() -> None:
    found = managed(
        at_target="suspend",
        training_mode="sync",
        global_batch_size="256",
        steps_per_epoch="12.5",
        ps_unevenness=" 1, 1.24,1.315",
        lr_schedule="step:100,150 end=200",
        loss_metric="nll",
        metrics_format=r"(\w+)=(\d+)",
        min_ps="1",
        max_ps="4",
        min_workers="2",
        max_workers="8",
        workload="resnet-50",
        rescale="any",
        checkpoint_format=r"saved (\d+)",
        chief_trains="true",
    )
    job = found.job
    assert found.problems == found.hints == ()
    assert job is not None
    assert (job.goal, job.at_target, job.rescale) == (
        TargetLoss(0.2),
        AtTarget.SUSPEND,
        RescaleRule.ANY,
    )
    assert (job.mode, job.batch) == (TrainingMode.SYNC, Batch(256, BatchScope.JOB))
    assert job.bounds == CountBounds(1, 4, 2, 8, min_ps_given=True, min_workers_given=True)
    assert (job.steps_per_epoch, job.workload, job.chief_trains) == (12.5, "resnet-50", True)
    assert list(job.ps_unevenness) == [1, 1.24, 1.315]
    assert job.lr_schedule == "step:100,150 end=200"
    assert (job.loss_metric, job.metrics_format, job.checkpoint_format) == (
        "nll",
        r"(\w+)=(\d+)",
        r"saved (\d+)",
    )


def test_convergence_may_be_the_goal() -> None:
    found = read(job_json(convergence_threshold="0.02"))
    assert found.job is not None
    assert found.job.goal == ConvergenceThreshold(0.02)


@pytest.mark.parametrize(
    ("annotations", "goal"),
    [
        ({"target_epochs": "90"}, TargetEpochs(90.0)),
        ({"target_epochs": "2.5"}, TargetEpochs(2.5)),
        ({"target_steps": "1000000"}, TargetSteps(1_000_000)),
    ],
)
def test_an_amount_of_training_may_be_the_goal(
    annotations: dict[str, str], goal: TargetEpochs | TargetSteps
) -> None:
    found = read(job_json(**annotations))
    assert found.job is not None
    assert found.job.goal == goal


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("accuracy>=0.76", TargetMetric("accuracy", 0.76, at_least=True)),
        (" top-1 acc => 76% ", TargetMetric("top-1 acc", 0.76, at_least=True)),
        ("validation mAP > .8", TargetMetric("validation mAP", 0.8, True, evaluated=True)),
        ("train_acc>=0.9", TargetMetric("train_acc", 0.9, True, evaluated=False)),
        ("perplexity<=70", TargetMetric("perplexity", 70.0, at_least=False)),
        ("val_loss<1.5e-1", TargetMetric("val_loss", 0.15, False, evaluated=True)),
        ("my/own=<3", TargetMetric("my/own", 3.0, at_least=False)),
        ("loss<=0.3", TargetLoss(0.3)),
        ("training loss <= 0.3", TargetLoss(0.3)),
    ],
)
def test_any_metric_may_be_the_goal(text: str, goal: Goal) -> None:
    found = read(job_json(target=text))
    assert found.job is not None
    assert found.job.goal == goal


BAD = [
    ("ps_unevenness", "", "up to 64 numbers such as 1, 1.24, 1.31"),
    ("ps_unevenness", "1, 0.9", "of 1, 2, 3 PSs"),
    ("ps_unevenness", "1;1.2", "up to 64 numbers"),
    ("ps_unevenness", "1" + ",1" * 64, "up to 64 numbers"),
    ("target", "accuracy", "a metric, >= or <=, and a number are expected"),
    ("target", "accuracy==1", "such as accuracy>=0.76 or loss<=0.3"),
    ("target", "0.3", "a metric, >= or <="),
    ("target", "accuracy<=0.3", "accuracy rises as training goes on: accuracy>=0.3 would be"),
    ("target", "perplexity>=70", "perplexity falls as training goes on: perplexity<=70 would"),
    ("target", "a" * 200 + ">=1", "a metric, >= or <="),
    ("target", "accuracy>=0.5 and loss<=1", "a metric, >= or <="),
    ("target_loss", "low", "a number such as 0.25 is expected"),
    ("target_loss", "nan", "a number such as"),
    ("target_loss", "1e100", "a number such as"),
    ("target_loss", "1" * 40, "a number such as"),
    ("convergence_threshold", "2", "a fraction below 1"),
    ("convergence_threshold", "0", "a number above 0"),
    ("convergence_threshold", "0.02", "not both"),
    ("target_epochs", "90", "not both"),
    ("target_epochs", "0", "a number above 0"),
    ("target_steps", "1.5", "a whole number from 1"),
    ("at_target", "stop", "one of continue, suspend, complete is expected"),
    ("training_mode", "both", "one of sync, async is expected"),
    ("global_batch_size", "0", "a whole number from 1"),
    ("worker_batch_size", "1.5", "a whole number from 1"),
    ("steps_per_epoch", "-3", "a number above 0"),
    ("min_ps", "0", "a whole number from 1 to 10000"),
    ("max_workers", "many", "a whole number from 1 to 10000"),
    ("loss_metric", " ", "a name of 1 to 100 characters"),
    ("metrics_format", "(", "is not a regular expression"),
    ("metrics_format", "loss", "has 0 groups"),
    ("checkpoint_format", "[", "is not a regular expression"),
    ("workload", "Res Net", "lower-case letters"),
    ("rescale", "sometimes", "one of checkpoint, any, never is expected"),
    ("chief_trains", "yes", '"true" or "false"'),
]


@pytest.mark.parametrize(("name", "value", "right"), BAD)
def test_a_value_that_cannot_be_used_names_itself_and_what_is_expected(
    name: str, value: str, right: str
) -> None:
    found = managed(**{name: value})
    annotation = f"optimus.dl/{name.replace('_', '-')}"
    assert [problem.annotation for problem in found.problems] == [annotation]
    assert right in str(found.problems[0])
    assert found.left_alone is not None
    assert annotation in found.left_alone
    assert found.job is not None
    assert not found.job.managed
    assert found.job.counts == Counts(2, 4)


def test_contradictions_are_problems() -> None:
    both = managed(global_batch_size="8", worker_batch_size="8")
    assert [problem.annotation for problem in both.problems] == ["optimus.dl/worker-batch-size"]
    crossed = managed(min_ps="4", max_ps="2")
    assert "at least 4 (optimus.dl/min-ps) is expected" in str(crossed.problems[0])


def test_the_learning_rate_follows_the_batch_only_where_that_is_said() -> None:
    plain, follows = (
        managed(worker_batch_size="8"),
        managed(worker_batch_size="8", lr_scaling="linear"),
    )
    assert [each.job and each.job.batch for each in (plain, follows)] == [
        Batch(8, BatchScope.WORKER),
        Batch(8, BatchScope.WORKER, rate_follows=True),
    ]


def test_a_misspelt_annotation_is_a_hint_and_does_no_harm() -> None:
    found = managed(target_los="1", suspended_by="i-1")
    assert [hint.annotation for hint in found.hints] == ["optimus.dl/target-los"]
    assert "did you mean optimus.dl/target-loss?" in str(found.hints[0])
    assert found.job is not None
    assert found.job.managed


def test_a_deadline_is_an_instant() -> None:
    found = managed(finish_by=" 2027-01-15T08:00:00.5+01:00")
    assert found.job is not None
    assert found.job.finish_by == 1_799_996_400.5
    assert found.ignored == ()


@pytest.mark.parametrize(
    "text",
    [
        "tomorrow",
        "2027-01-15",
        "2027-01-15T08:00:00",
        "2027-01-15T08:00:00+05:99",
        "2027-01-15T08:00:00." + "0" * 64 + "Z",
        "",
    ],
)
def test_a_wrong_deadline_is_left_out(text: str) -> None:
    found = managed(finish_by=text)
    assert found.job is not None
    assert found.job.managed
    assert found.job.finish_by is None
    (ignored,) = found.ignored
    assert str(ignored) == (
        f"optimus.dl/finish-by: {text!r} is invalid; an RFC 3339 time is expected, such as "
        "2026-01-31T18:00:00Z; the job goes on without a deadline"
    )


def test_a_deadline_without_a_goal_is_left_out() -> None:
    found = read(job_json(finish_by="2027-01-15T08:00:00Z"))
    assert found.job is not None
    assert not found.job.managed
    assert found.job.finish_by is None
    (ignored,) = found.ignored
    assert "it needs a goal beside it, such as optimus.dl/target-loss" in str(ignored)


def test_a_wrong_schedule_is_left_out_and_said() -> None:
    found = managed(lr_schedule="sine:200")
    assert found.job is not None
    assert found.job.managed
    assert found.job.lr_schedule is None
    (ignored,) = found.ignored
    assert "cosine:200" in str(ignored)
    assert "the log's own is used" in str(ignored)


LONG = (
    "1" * 250_000 + "x",
    "a" * 250_000,
    "x" + " " * 250_000 + "x",
    "a and " * 40_000,
    "([" * 100_000,
)


@pytest.mark.parametrize("value", LONG, ids=lambda value: value[:6])
@pytest.mark.parametrize("name", sorted({name for name, _, _ in BAD} - {"target_los"}))
def test_a_value_of_a_quarter_of_a_megabyte_is_answered_at_once(name: str, value: str) -> None:
    """As large as the API server stores it. This test hangs where a value is matched in steps that
    grow with the square of its length."""
    found = managed(**{name: value})
    assert f"optimus.dl/{name.replace('_', '-')}" in {each.annotation for each in found.problems}


def test_of_thousands_of_unknown_annotations_the_first_are_looked_up() -> None:
    found = managed(**{f"target_los{number:05}": "" for number in range(18_000)})
    assert [hint.annotation for hint in found.hints] == [
        f"optimus.dl/target-los{number:05}" for number in range(10)
    ]
