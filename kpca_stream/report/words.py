"""Numbers as texts."""

from __future__ import annotations

import math
import time


def count(number: float, one: str = "", many: str = "") -> str:
    """A whole number with separators, and what it counts."""
    unit = one if number == 1 else many
    return f"{number:,.0f} {unit}".strip()


def number(value: float | None, digits: int = 4) -> str:
    """Some digits of `value`; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    whole = 10**digits <= abs(value) < 1e9
    return f"{value:,.0f}" if whole else f"{value:,.{digits}g}"


def share(value: float | None) -> str:
    """A share as percents, with more digits the smaller it is."""
    if value is None or not math.isfinite(value):
        return "–"
    percent = 100 * value
    digits = f"{percent:.1f}" if percent == 0 or percent >= 0.995 else f"{percent:.2g}"
    return f"{digits}\N{NO-BREAK SPACE}%"


def moment(seconds: float) -> str:
    """A time since 1970, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def date(stored: object) -> str:
    """A time of a manifest, to the minute."""
    return str(stored).replace("T", " ")[:16] if stored else "–"
