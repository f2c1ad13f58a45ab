"""Rows that arrive get their scores: looking, scoring, entering, and telling how it goes.

A file is in the hands of one scorer, which holds a lock for it. Its parts are written aside, get their names
when all of them are whole, and are then entered in the ledger. Names depend on the file, the row where a part
begins and the version of the model: whoever does again what was not entered writes over the same files.
"""

from kpca_stream.scorer.looking import Scorer

__all__ = ["Scorer"]
