"""The Gram matrix: its tiles, where they are between passes, and its products."""

from kpca_stream.stages.gram.blocks import TileCounts
from kpca_stream.stages.gram.operator import Gram, Storage

__all__ = ["Gram", "Storage", "TileCounts"]
