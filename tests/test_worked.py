"""The worked examples, run as scripts; what they print is compared."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

RINGS = """\
rbf, gamma 0.1: 69%
rbf, gamma 1: 64%
rbf, gamma 5: 100%
rbf, gamma 100: 75%
plain PCA: 69%
pre-images, gamma 5: mean squared distance 0.277
"""


def printed(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-m", f"tests.worked.{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_two_rings() -> None:
    """Which γ tells two rings apart, and how far pre-images are from the rows, come out as they are known."""
    assert printed("rings") == RINGS


def test_digits_without_their_noise(tmp_path: Path) -> None:
    """Pre-images of noisy digits are less than half as far from the clean ones, and can be looked at."""
    pytest.importorskip("matplotlib")
    text = printed("denoising", "--pictures", str(tmp_path / "digits.png"))
    numbers = [float(number) for number in re.findall(r"\d+\.\d+", text)]
    assert len(numbers) == 7
    noisy, ridge, fixed = numbers[0], numbers[1::2], numbers[2::2]
    assert max(ridge + fixed) < 0.55 * noisy
    assert min(ridge) < 0.36 * noisy
    assert min(fixed) < 0.33 * noisy
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
