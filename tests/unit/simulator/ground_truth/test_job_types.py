"""The nine job types: the paper's figures, and losses that fall."""

from itertools import pairwise

import pytest

from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType

PAPER = {  # millions of parameters, examples
    "ResNeXt-110": (1.7, 60_000),
    "ResNet-50": (25, 1_313_788),
    "Inception-BN": (11.3, 30_607),
    "KAGGLE": (1.4, 37_920),
    "CNN-rand": (6, 10_662),
    "DSSM": (1.5, 214_288),
    "RNN-LSTM-Dropout": (4.7, 1_002_000),
    "Seq2Seq": (9.1, 1_000_000),
    "DeepSpeech2": (38, 45_000),
}

kinds = pytest.mark.parametrize("kind", JOB_TYPES, ids=lambda kind: kind.name)


def test_there_are_the_papers_nine() -> None:
    assert {kind.name for kind in JOB_TYPES} == set(PAPER)


@kinds
def test_sizes_are_the_papers(kind: JobType) -> None:
    millions, examples = PAPER[kind.name]
    assert kind.parameters == pytest.approx(millions * 1e6, rel=0.06)
    assert kind.examples == examples
    assert kind.model_mb == pytest.approx(4 * millions, rel=0.06)
    assert kind.async_batch * 16 in range(kind.batch - 15, kind.batch + 1)


@kinds
def test_losses_fall_from_the_first_epoch_to_their_floor(kind: JobType) -> None:
    losses = [kind.loss.after(epochs) for epochs in range(1, 61)]
    assert losses[0] < kind.loss.first
    assert all(later < former for former, later in pairwise(losses))
    assert losses[-1] > kind.loss.floor


@kinds
@pytest.mark.parametrize("threshold", [0.01, 0.03, 0.05])
def test_the_papers_thresholds_are_met_once_the_loss_has_fallen_by_most_of_what_it_will(
    kind: JobType, threshold: float
) -> None:
    losses = [kind.loss.after(epochs) for epochs in range(1, 101)]
    falls = [former - later < threshold * losses[0] for former, later in pairwise(losses)]
    quiet = next(at for at in range(2, len(falls)) if all(falls[at - 2 : at + 1]))
    assert 5 <= quiet + 2 <= 60
    assert losses[quiet + 1] - losses[-1] < 0.5 * (losses[0] - losses[-1])


def test_no_two_types_share_a_course() -> None:
    assert len({kind.loss.course.func for kind in JOB_TYPES}) >= 6
    assert len({repr(kind.loss.course) for kind in JOB_TYPES}) == len(JOB_TYPES)
