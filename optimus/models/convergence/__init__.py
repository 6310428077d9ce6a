"""Convergence: the training loss over epochs or steps, and when a goal is met (section 3.1).

``curve`` is the product's model, a Bayesian average over ``courses`` of the loss: decays
(``posterior``), and what goes away with the learning rate where its ``schedule`` is declared.
``distribution`` is the one that it gives; ``paper_curve`` the paper's, as published. Both
take losses in training order and give a ``TimeToGoal``, or the reason why there is none."""

from optimus.models.convergence.curve import LossCurve
from optimus.models.convergence.distribution import TimeToGoal, TotalPrior
from optimus.models.convergence.paper_curve import PublishedCurve
from optimus.models.convergence.schedule import LearningRateSchedule
from optimus.models.convergence.series import (
    MEDIAN_OF,
    QUIET_EPOCHS,
    TARGET_EPOCHS,
    LossSeries,
    is_converged,
    meets,
    needed_plateau,
    plateau_epochs,
)

__all__ = [
    "MEDIAN_OF",
    "QUIET_EPOCHS",
    "TARGET_EPOCHS",
    "LearningRateSchedule",
    "LossCurve",
    "LossSeries",
    "PublishedCurve",
    "TimeToGoal",
    "TotalPrior",
    "is_converged",
    "meets",
    "needed_plateau",
    "plateau_epochs",
]
