"""Models fitted to a job's progress: its convergence, its speed, and the forecast from both."""

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
