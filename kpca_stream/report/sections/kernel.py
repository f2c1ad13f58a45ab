"""Kernel values between some rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kpca_stream.report.kernel import draw_kernel, kernel_values
from kpca_stream.report.page import Part, Table
from kpca_stream.report.pictures import SQUARE, picture
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kpca_stream.report.palette import Palette


def kernel(subject: Subject) -> Part:
    """Kernel values between some rows."""
    basis = subject.basis
    values = kernel_values(basis)
    off = values[~np.eye(len(values), dtype=bool)]
    middle, least, most = (number(float(each), 3) for each in (np.median(off), off.min(), off.max()))
    of = "landmarks" if subject.is_approximate else "training rows"
    lead = (
        f"Kernel values between {len(values):,} of the {count(basis.n_rows)} {of}, in the order of their "
        "score on component 1. Blocks are groups that the kernel tells apart; one colour all over means a "
        "kernel that is nearly constant, a bare diagonal one that sees no two rows as alike."
    )
    alternative = (
        f"Heat map of {len(values):,} x {len(values):,} kernel values, rows ordered by component 1: between "
        f"different rows from {least} to {most}, half of them below {middle}."
    )
    levels = {
        "smallest": 0.0,
        "a quarter below": 0.25,
        "half below": 0.5,
        "three quarters below": 0.75,
        "largest": 1.0,
    }
    spread = [(name, number(float(np.quantile(off, level)))) for name, level in levels.items()]
    own = [("of a row with itself", number(float(np.diag(values).mean())))]
    table = Table("Between different rows", ("", "kernel value"), spread + own)

    def draw(ax: Axes, palette: Palette) -> Any:
        return draw_kernel(ax, values, palette=palette)

    shown = picture("Kernel values", draw, alternative, inches=SQUARE)
    return Part("kernel", "Kernel", lead, (shown,), (table,))
