"""The complement of a direction keeps the spectrum of a matrix that this direction is null to."""

from __future__ import annotations

import numpy as np
import pytest

from kpca_stream.numerics.reflection import Reflection


@pytest.mark.parametrize("n_rows", [2, 3, 40])
def test_only_the_null_direction_is_lost(n_rows: int) -> None:
    """Eigenvalues but for the zero of u stay, and eigenvectors come back orthogonal to u."""
    rng = np.random.default_rng(n_rows)
    u = rng.random(n_rows)
    u /= np.linalg.norm(u)
    P = np.eye(n_rows) - np.outer(u, u)
    B = rng.standard_normal((n_rows, n_rows))
    A = P @ (B + B.T) @ P
    reflection = Reflection.of(u)
    values, Y = np.linalg.eigh(reflection.compress(A))
    expected = np.linalg.eigvalsh(A)
    expected = np.delete(expected, np.abs(expected).argmin())
    np.testing.assert_allclose(values, expected, atol=1e-13 * n_rows)
    V = reflection.expand(Y)
    np.testing.assert_allclose(u @ V, 0, atol=1e-15 * n_rows)
    np.testing.assert_allclose(V.T @ V, np.eye(n_rows - 1), atol=1e-13)
    np.testing.assert_allclose(A @ V, V * values, atol=1e-13 * n_rows)


def test_the_matrix_itself_is_not_changed() -> None:
    """Compressing writes to no input."""
    A, u = np.eye(5), np.full(5, 5**-0.5)
    Reflection.of(u).compress(A)
    np.testing.assert_array_equal(A, np.eye(5))
    np.testing.assert_array_equal(u, np.full(5, 5**-0.5))
