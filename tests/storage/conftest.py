"""What tests of what is stored share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def models(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where models lie: a folder, or with the mark `anywhere` a bucket too."""
    if getattr(request, "param", "folder") == "bucket":
        return f"{request.getfixturevalue('bucket')}/models"
    return str(tmp_path)
