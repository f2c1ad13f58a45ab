"""``python -m kpca_stream`` is ``kpca-stream``."""

from __future__ import annotations

import sys

from kpca_stream.cli import main

if __name__ == "__main__":
    sys.exit(main())
