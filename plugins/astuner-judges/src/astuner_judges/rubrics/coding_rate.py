"""The coding rate of a set of vectors: how much they say without repeating each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILON = 0.5
"""The distortion up to which two vectors of length one count as the same."""


def coding_rate(vectors: NDArray[np.float64], dimensions: int, epsilon: float = EPSILON) -> float:
    """Return the nats that code the rows of an array (n, any) of vectors up to a distortion epsilon.

    R(Z, ε) = ½ log det(I + d/(n ε²) Z Zᵀ) for a d × n matrix Z: Ma, Derksen, Hong, Wright, "Segmentation of Multivariate Mixed
    Data via Lossy Data Coding and Compression", IEEE TPAMI 29(9), 2007, eq. (10), for zero mean; the same R as in Yu et al.,
    arXiv 2006.08558, eq. (1). It is computed from the n × n matrix of inner products, whose determinant is the same (Sylvester),
    so that any rotation of the vectors, and coordinates that are zero for all, do not matter: `dimensions` is d.
    """
    count = len(vectors)
    if count == 0:
        return 0.0
    inner = np.eye(count) + dimensions / (count * epsilon**2) * (vectors @ vectors.T)
    return float(0.5 * np.linalg.slogdet(inner)[1])


def rank_of_span(vectors: NDArray[np.float64]) -> int:
    """Return the dimension of the span of vectors; hashed n-grams have thousands of coordinates."""
    return int(np.linalg.matrix_rank(vectors)) if vectors.size else 0
