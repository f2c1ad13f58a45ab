"""The colours: that they stand out, and differ for every reader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kpca_stream.report import DARK, LIGHT, Palette

Array = NDArray[Any]

palettes = pytest.mark.parametrize("palette", [LIGHT, DARK])


def linear(colour: str) -> Array:
    """Linear red, green and blue of a colour, 0 to 1."""
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


DICHROMATS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
"""Linear colours as such readers see them (Machado, Oliveira and Fernandes 2009, severity 1)."""


def lab(rgb: Array) -> Array:
    """CIELAB of linear colours."""
    xyz = rgb @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    ratio = np.clip(xyz, 0, None) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@palettes
def test_texts_and_marks_stand_out(palette: Palette) -> None:
    """Texts have a contrast of at least 7 and 4.5 to what is behind them, marks of at least 3."""
    assert contrast(palette.ink, palette.surface) >= 7
    assert contrast(palette.muted, palette.surface) >= 4.5
    for colour in (palette.first, palette.second, palette.third):
        assert contrast(colour, palette.surface) >= 3


@palettes
@pytest.mark.parametrize("reader", DICHROMATS)
def test_colours_differ_for_colour_blind_readers(palette: Palette, reader: str) -> None:
    """What is compared differs by over 20 in CIELAB for every kind of colour-blind reader."""
    seen = {
        name: lab(np.clip(linear(getattr(palette, name)) @ np.array(DICHROMATS[reader]).T, 0, 1))
        for name in ("first", "second", "ink")
    }
    assert np.linalg.norm(seen["first"] - seen["second"]) > 20
    assert np.linalg.norm(seen["first"] - seen["ink"]) > 20
    assert np.linalg.norm(seen["second"] - seen["ink"]) > 20


@palettes
def test_ramps_read_without_hue(palette: Palette) -> None:
    """From little to much, lightness goes one way, away from the page."""
    steps = np.array([luminance(colour) for colour in palette.ramp])
    behind = luminance(palette.surface)
    assert (np.diff(np.abs(steps - behind)) > 0).all()
    assert contrast(palette.ramp[0], palette.surface) > 1.4
