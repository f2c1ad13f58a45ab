"""Random faults in random small fits, for as long as asked: ``python -m tests.soak --minutes 60 --seed 1``.

A trial fits undisturbed; then some kills, damage, mixing, bad input and full disks befall the same fit in a
second store. What must be refused must be refused in one line that names it, with its exit code and all files
as it was. At last the disturbed fit must end with the same bits of eigenvalues and scores, started anew only
where its store was damaged or given to another fit; and a damaged basis must not score. ``--seed`` and
``--first`` repeat a trial, as far as moments can be; the folder of one that went wrong is kept.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.trial import KINDS, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--trials", type=int, help="at most so many")
    parser.add_argument("--only", choices=KINDS, nargs="+", default=list(KINDS), help="kinds of faults")
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    parent = Path(tempfile.mkdtemp(prefix="kpca-stream-soak-"))
    _, n_differences = soak(
        parent,
        asked.seed,
        asked.first,
        lambda done: time.monotonic() > end or (asked.trials is not None and done >= asked.trials),
        {kind: KINDS[kind] for kind in asked.only},
    )
    if not n_differences:
        shutil.rmtree(parent)
    return 1 if n_differences else 0


if __name__ == "__main__":
    sys.exit(main())
