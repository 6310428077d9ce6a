"""Distribution functions of scipy, which is loaded at the first use: it takes half a second, and
commands that only show a profile load the models without computing with them."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def normal_cdf(sigmas: Vector) -> Vector:
    """The standard normal distribution function, element by element."""
    from scipy.special import ndtr

    return np.asarray(ndtr(sigmas), dtype=np.float64)


def student_t_quantile(degrees: float, probability: float) -> float:
    """The quantile of Student's t distribution with so many degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))
