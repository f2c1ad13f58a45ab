"""Kernels: a kernel is its formula, its tile, its diagonal.

Centring removes any term that depends on one of the two rows alone, so that ``K`` and the *reduced*
kernel ``k'(x, y) = k(x, y) − a(x) − a(y)`` have the same centred Gram matrix. Every kernel here computes
``k'`` and names ``a``: a linear kernel of centred rows, and ``expm1`` in place of ``exp`` where the
matrix is nearly constant, keep the digits that float32 would otherwise lose.
"""

from kpca_stream.numerics.kernels.base import Kernel, Loadable, Operand, Preparation
from kpca_stream.numerics.kernels.distances import Laplacian, Rbf
from kpca_stream.numerics.kernels.own import Own, RowPairs
from kpca_stream.numerics.kernels.precomputed import MatrixOperand, Precomputed, as_landmarks, as_operand
from kpca_stream.numerics.kernels.products import Cosine, Linear, Polynomial, Sigmoid

__all__ = [
    "Cosine",
    "Kernel",
    "Laplacian",
    "Linear",
    "Loadable",
    "MatrixOperand",
    "Operand",
    "Own",
    "Polynomial",
    "Precomputed",
    "Preparation",
    "Rbf",
    "RowPairs",
    "Sigmoid",
    "as_landmarks",
    "as_operand",
]
