"""Rows that arrive get their scores: looking, scoring, entering, and telling how it goes.

In a folder a file is in the hands of one scorer, which holds a lock for it; in a bucket several may score the
same object, and one of them enters it. Parts are written aside; when all of a file's are whole they are
entered in the ledger, and then get their names. Names depend on the file, the row where a part begins, the
content of its rows and the version of the model: who does again what was not entered makes the same files.
"""

from kpca_stream.scorer.looking import Scorer

__all__ = ["Scorer"]
