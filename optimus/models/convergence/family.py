"""The courses that a falling loss can take: one family of decays, laid out once as tables over its
parameters.

    y(k) = Y (f + (1 - f) g(x) / g(1)),   g(x) = (1 + q c x)^(-1/q),   x = (k - start) / (seen -
    start)

Y is the level now (x = 1), f the part of it that is floor (the paper's b2), c how fast the loss
falls, q the form: q = 1 is the paper's hyperbola (Optimus, section 3.1, equation 1), q -> 0 the
exponential, q > 1 slower powers of k, q = -1 a straight line, which ends at its floor. In log space
Y is an additive constant, so that for each (q, c, f) it comes in closed form, and as x counts the
training seen as 1, the tables are the same for every curve."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from optimus.models.nnls import Matrix, Vector

_FORMS: Final = (-1.0, -0.5, -0.2, 0.02, 0.33, 0.66, 1.0, 1.5, 2.5, 4.0)
_SPEEDS: Final = tuple(np.geomspace(0.03, 200.0, 18))
_FLOORS: Final = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97)
_NO_FLOOR: Final = 0.5
"""Prior probability that there is no floor: a few noisy points never show the absence of one."""
_FORM_SPREAD: Final = (1.0, 3.0)
"""The prior of q is normal about the exponential, so wide below and above it: few losses end at
their floor."""
PAST_BINS: Final = 48
_AHEAD: Final = (1e-3, 2e3, 100)
"""How far ahead the tables look: from, to (in parts of the training seen), number of points; evenly
in logarithms."""
_GONE: Final = 1e-9
_LEAST_LOG: Final = -40.0


@dataclass(frozen=True, slots=True)
class Laws:
    """Decays, one for each row: their form q, speed c and floor f, each (laws, 1)."""

    form: Matrix
    speed: Matrix
    floor: Matrix

    def log_course(self, x: Vector) -> Matrix:
        """log y(x) - log Y for each law and each x (places,); shape (laws, places)."""
        return np.asarray(
            np.log(self.floor + (1 - self.floor) * np.exp(self._log_decay(x))), dtype=np.float64
        )

    def steepness(self, x: Vector) -> Matrix:
        """The fall of log y for each unit of x, (laws, places)."""
        above = (1 - self.floor) * np.exp(self._log_decay(x))
        inner = 1 + self.form * self.speed * x
        rate = np.where(inner > _GONE, self.speed / np.maximum(inner, _GONE), 0.0)
        return np.asarray(rate * above / (self.floor + above), dtype=np.float64)

    def _log_decay(self, x: Vector) -> Matrix:
        inner, now = 1 + self.form * self.speed * x, 1 + self.form * self.speed
        return np.maximum(-np.log(np.maximum(inner, _GONE) / now) / self.form, _LEAST_LOG)

    def __getitem__(self, rows: NDArray[np.intp]) -> "Laws":
        return Laws(self.form[rows], self.speed[rows], self.floor[rows])


@dataclass(frozen=True, slots=True)
class Family:
    """All laws with their prior, and their courses: (laws, 48) over the past, (laws, 100) over the
    time ahead.

    ``past_edges`` are those of the bins of x; ``ahead`` is the time ahead in parts of the training
    seen."""

    laws: Laws
    log_prior: Vector
    past_edges: Vector
    past: Matrix
    past_squared: Matrix
    ahead: Vector
    future: Matrix
    future_steepness: Matrix


@cache
def family() -> Family:
    """The one family, built when it is first asked for."""
    form, speed, floor = (
        each.ravel() for each in np.meshgrid(_FORMS, _SPEEDS, _FLOORS, indexing="ij")
    )
    running = (
        1 + 1.02 * form * speed > 0
    )  # a line that has ended is no course of a loss that is still falling
    form, speed, floor = form[running], speed[running], floor[running]
    with_floor = (1 - _NO_FLOOR) / (len(_FLOORS) - 1)
    spread = np.where(form < 0, *_FORM_SPREAD)
    log_prior = np.log(np.where(floor > 0, with_floor, _NO_FLOOR)) - (form / spread) ** 2 / 2
    laws = Laws(form[:, np.newaxis], speed[:, np.newaxis], floor[:, np.newaxis])
    edges = np.linspace(0.0, 1.0, PAST_BINS + 1)
    past, ahead = laws.log_course((edges[1:] + edges[:-1]) / 2), np.geomspace(*_AHEAD)
    future = laws.log_course(1 + ahead)
    return Family(laws, log_prior, edges, past, past**2, ahead, future, laws.steepness(1 + ahead))
