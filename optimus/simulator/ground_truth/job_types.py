"""The nine job types of the paper's evaluation ([O] table 1), with what the paper leaves out.

Parameters and examples are the paper's. Arithmetic follows from each architecture: twice the
multiply-adds of an example, three times that with the backward pass. Batches are those of the
authors' job files (ResNet-50, ResNeXt-110) or of the models' common training scripts; an epoch of
120 steps over half of Caltech and one of 193 over MR, which the same laboratory reports elsewhere,
give 128 and 50 too. Requests are those of the authors' job files, less the GPU."""

from dataclasses import dataclass
from functools import partial
from math import log
from typing import Final

from optimus.resources import Resources
from optimus.simulator.ground_truth.losses import (
    FallingLoss,
    logarithmic,
    logistic,
    plateau,
    power,
    rate_drop,
    stretched,
    two_rates,
)
from optimus.simulator.ground_truth.testbed import GIB

PS: Final = Resources(cpu=3_000, memory=9 * GIB, pods=1)
WORKER: Final = Resources(cpu=2_000, memory=8 * GIB, pods=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """One model with its data set; ``blocks`` are (parameters of an array, number of arrays)."""

    name: str
    blocks: tuple[tuple[int, int], ...]
    examples: int
    gflop_per_example: float
    batch: int
    """Examples of a step of all workers in sync training."""
    loss: FallingLoss
    ps: Resources = PS
    worker: Resources = WORKER

    @property
    def parameters(self) -> int:
        """All parameters of the model."""
        return sum(size * count for size, count in self.blocks)

    @property
    def model_mb(self) -> float:
        """Size of the model in 10^6 bytes, four for each parameter."""
        return self.parameters * 4e-6

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of every array."""
        return tuple(size for size, count in self.blocks for _ in range(count))

    @property
    def async_batch(self) -> int:
        """Examples of a step of one worker in async training: a sixteenth of ``batch``.

        [O] table 2: 2.83 s of an async step of ResNet-50 are a worker's own, which leaves room for
        two images of 1.02 s each; its batch is 32.
        """
        return max(self.batch // 16, 1)


# fmt: off
_RESNET_50 = (
    (9_408, 1), (4_096, 1), (16_384, 6), (36_864, 3), (32_768, 1), (65_536, 7), (147_456, 4),
    (131_072, 2), (262_144, 11), (589_824, 6), (524_288, 2), (1_048_576, 5), (2_359_296, 3),
    (2_097_152, 1), (2_048_000, 1), (64, 14), (128, 16), (256, 32), (512, 22), (1_024, 14),
    (2_048, 8), (1_000, 1),
)
_RESNEXT_110 = (
    (432, 1), (2_304, 36), (4_608, 1), (9_216, 35), (18_432, 1), (36_864, 35), (32, 110), (650, 1),
)
_KAGGLE = (
    (2_400, 1), (41_000, 1), (83_000, 1), (166_000, 1), (900_000, 1), (124_000, 1), (15_500, 1),
)
# fmt: on
# An inception network's arrays between its smallest and largest; their exact split is not
# published.
_INCEPTION_BN = ((20_000, 24), (90_000, 22), (250_000, 14), (480_000, 10), (263_000, 1), (500, 138))

JOB_TYPES: Final = (
    JobType(
        name="ResNeXt-110",
        blocks=_RESNEXT_110,
        examples=60_000,
        gflop_per_example=1.5,  # 0.25 * 10^9 multiply-adds
        batch=128,
        ps=Resources(cpu=3_000, memory=10 * GIB, pods=1),
        worker=Resources(cpu=2_000, memory=10 * GIB, pods=1),
        loss=FallingLoss(
            log(10),
            0.1,
            partial(
                rate_drop, partial(stretched, 4.0, 1.0), 0.3, 8.0, partial(stretched, 5.0, 1.0)
            ),
        ),
    ),
    JobType(
        name="ResNet-50",
        blocks=_RESNET_50,
        examples=1_313_788,
        gflop_per_example=24.6,  # 4.1 * 10^9 multiply-adds
        batch=32,
        loss=FallingLoss(log(1000), 1.2, partial(power, 4.0, 1.5)),
    ),
    JobType(
        name="Inception-BN",
        blocks=_INCEPTION_BN,
        examples=30_607,
        gflop_per_example=12.0,  # 2.0 * 10^9 multiply-adds
        batch=128,
        loss=FallingLoss(log(257), 0.3, partial(stretched, 6.0, 0.7)),
    ),
    JobType(
        name="KAGGLE",
        blocks=_KAGGLE,
        examples=37_920,
        gflop_per_example=0.18,  # some 30 * 10^6 multiply-adds for an image of 48 x 48
        batch=64,
        loss=FallingLoss(log(121), 0.6, partial(two_rates, 0.6, 2.5, 15.0)),
    ),
    JobType(
        name="CNN-rand",
        blocks=((5_630_000, 1), (150_000, 1), (120_000, 1), (90_000, 1), (600, 1)),
        examples=10_662,
        gflop_per_example=0.12,  # 56 words, 360,000 weights of three convolutions over each
        batch=50,
        loss=FallingLoss(log(2), 0.05, partial(logistic, 5.0, 3.0)),
    ),
    JobType(
        name="DSSM",
        blocks=((600_000, 2), (120_000, 2), (38_000, 2)),
        examples=214_288,
        gflop_per_example=0.009,  # every weight once
        batch=512,
        loss=FallingLoss(log(6), 0.2, partial(logarithmic, 2.0)),
    ),
    JobType(
        name="RNN-LSTM-Dropout",
        blocks=((2_000_000, 2), (160_000, 4), (10_000, 1), (800, 8)),
        examples=1_002_000,
        gflop_per_example=0.016,  # one word: two cells of 200 units and 10,000 classes
        batch=1_120,  # 32 rows of 35 words
        loss=FallingLoss(log(10_000), 4.4, partial(power, 1.5, 0.8)),
    ),
    JobType(
        name="Seq2Seq",
        blocks=((2_560_000, 3), (180_000, 8), (10_000, 1)),
        examples=1_000_000,
        gflop_per_example=0.6,  # 25 words: four cells and 10,000 classes
        batch=64,
        # [O] figure 7: 1 / (0.21 k + 1.07) + 0.07 of the largest loss.
        loss=FallingLoss(log(10_000), 0.07 * log(10_000), partial(power, 1.07 / 0.21, 1.0)),
    ),
    JobType(
        name="DeepSpeech2",
        blocks=((14_400, 1), (236_000, 1), (3_100_000, 12), (46_000, 1), (1_600, 14)),
        examples=45_000,
        gflop_per_example=139.0,  # 12.3 s of speech, 50 frames a second, every weight for each
        batch=16,
        loss=FallingLoss(300.0, 30.0, partial(plateau, 2.0, 0.92, partial(stretched, 7.0, 1.0))),
    ),
)
