"""Eigenvalues, with what is certain of them, and shares of the variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any

from kpca_stream.report.page import Part, Table
from kpca_stream.report.pictures import picture
from kpca_stream.report.spectrum import Bracket, brackets, explained, scree
from kpca_stream.report.subject import Subject
from kpca_stream.report.words import count, number, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kpca_stream.report.palette import Palette

MOST_COMPONENTS = 50


def components(subject: Subject) -> Part:
    """Eigenvalues, with what is certain of them, and shares of the variance."""
    basis = subject.basis
    known, total = brackets(basis), float(basis.explained_variance_ratio.sum())
    at_least = "at least " if known else ""
    lead = (
        f"The {count(basis.n_components, 'component', 'components')} explain {at_least}{share(total)} of "
        f"the variance. {_certainty(subject, known)}"
    )
    scree_note = (
        "An approximate eigenvalue is never above the exact one; a bracket reaches to where that may be."
        if known
        else "Of the centred Gram matrix, not divided by the number of rows."
    )
    shares_note = "Shares of the whole trace, of which the components that are not kept are a part."
    pictures = (
        picture("Eigenvalues", _drawing(scree, basis), _told_values(subject, known), scree_note),
        picture("Explained variance", _drawing(explained, basis), _told_shares(subject), shares_note),
    )
    return Part("components", "Components", lead, pictures, (_component_table(subject, known),))


def _drawing(plot: Callable[..., Any], value: Any) -> Callable[[Axes, Palette], Any]:
    return lambda ax, palette: plot(value, ax, palette=palette)


def _certainty(subject: Subject, known: Sequence[Bracket]) -> str:
    if not known:
        residuals = subject.basis.facts.get("residual_norms") or [float("nan")]
        return f"Their largest residual is {number(max(residuals), 2)} of the first eigenvalue."
    certified = [each for each in known if each.certificate.certified]
    tightest, first = certified[-1].certificate, float(subject.basis.eigenvalues[0])
    return (
        f"They are approximate: the exact eigenvalues are higher by at most {number(tightest.bound)} "
        f"(bound: {tightest.kind}), {share(tightest.bound / first)} of the first."
    )


def _told_values(subject: Subject, known: Sequence[Bracket]) -> str:
    values = subject.basis.eigenvalues
    text = (
        f"Scree plot: {count(len(values), 'eigenvalue', 'eigenvalues')}, falling from {number(values[0])} to "
        f"{number(values[-1])}"
    )
    for certificate, limits in known:
        name = (
            f"by the {certificate.kind} bound, at most" if certificate.certified else "by an estimate, about"
        )
        text += f"; the first is, {name} {number(limits[0, 1])}"
    return f"{text}."


def _told_shares(subject: Subject) -> str:
    shares = subject.basis.explained_variance_ratio
    return (
        f"Bars of the variance that each component explains, {share(shares[0])} by the first and "
        f"{share(shares[-1])} by the last, and a line that adds them up to {share(shares.sum())}."
    )


def _component_table(subject: Subject, known: Sequence[Bracket]) -> Table:
    basis = subject.basis
    shares = basis.explained_variance_ratio
    if known:
        last = [f"at most ({each.certificate.kind})" for each in known]
        cells = [[number(each.limits[j, 1], 6) for each in known] for j in range(len(shares))]
    else:
        last = ["residual"]
        residuals = basis.facts.get("residual_norms", ())
        cells = [[f"{residual:.1e}"] for residual in residuals] or [["–"]] * len(shares)
    rows = [
        (f"{j}", number(value, 6), share(part), share(total), *more)
        for j, (value, part, total, more) in enumerate(
            zip(basis.eigenvalues, shares, accumulate(shares), cells, strict=False), start=1
        )
    ]
    header = ("no.", "eigenvalue", "explained", "added up", *last)
    cut = f", the first {MOST_COMPONENTS}" if len(rows) > MOST_COMPONENTS else ""
    return Table(f"Components{cut}", header, tuple(islice(rows, MOST_COMPONENTS)))
