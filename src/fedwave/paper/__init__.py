"""Figures, theorems and claims of Lee & Lee; written on the public names of fedwave alone."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]
