"""Convergence: the training loss over epochs or steps, and when a goal is met (Optimus, section
3.1).

``curve`` is the product's model, a Bayesian average over a family of decays; ``hyperbola`` the
paper's, as published. Both take losses in training order and answer with an ``Arrival``, or say why
not."""

from optimus.models.convergence.curve import LossCurve
from optimus.models.convergence.paper_curve import PublishedCurve
from optimus.models.convergence.series import MEDIAN_OF, QUIET_EPOCHS, LossSeries
from optimus.models.convergence.time_to_goal import Arrival

__all__ = ["MEDIAN_OF", "QUIET_EPOCHS", "Arrival", "LossCurve", "LossSeries", "PublishedCurve"]
