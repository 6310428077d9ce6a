"""Convergence: the training loss over epochs or steps, and when a goal is met (section 3.1).

``curve`` is the product's model, a Bayesian average over a family of decays; ``annealed`` the same
where the run's end and the schedule of its learning rate are declared (``schedule``);
``paper_curve`` the paper's, as published. All take losses in training order and give a
``TimeToGoal``, or the reason why there is none."""

from optimus.models.convergence.annealed import AnnealedCurve
from optimus.models.convergence.curve import LossCurve, TimeToGoal
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
    "AnnealedCurve",
    "LearningRateSchedule",
    "LossCurve",
    "LossSeries",
    "PublishedCurve",
    "TimeToGoal",
    "is_converged",
    "meets",
    "needed_plateau",
    "plateau_epochs",
]
