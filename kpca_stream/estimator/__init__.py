"""KernelPCA, the scikit-learn face of the pipeline."""

from __future__ import annotations

from kpca_stream.estimator.kernelpca import KernelPCA

__all__ = ["KernelPCA"]
