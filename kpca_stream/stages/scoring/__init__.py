"""Row blocks × basis → scores, in memory (`block`) and in files (`parts`)."""

from kpca_stream.stages.scoring.block import Scores, score_block, score_rows
from kpca_stream.stages.scoring.parts import (
    Examined,
    Known,
    PartResult,
    Written,
    examine,
    open_like,
    write_part,
)
from kpca_stream.stages.scoring.training import training_scores

__all__ = [
    "Examined",
    "Known",
    "PartResult",
    "Scores",
    "Written",
    "examine",
    "open_like",
    "score_block",
    "score_rows",
    "training_scores",
    "write_part",
]
