"""What `verify` finds in healthy Nyström bases, and in those of which one number was changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream import KernelPCA
from kpca_stream.results import VerifyReport
from kpca_stream.storage.basis import open_basis, save_basis
from kpca_stream.storage.frozen import Basis
from kpca_stream.storage.rows import ArrayRows
from kpca_stream.telemetry import silent
from kpca_stream.verification import verify_store

X = np.random.default_rng(0).standard_normal((400, 3)) * [3.0, 1.0, 0.2] + 5.0
CHECKS = {
    "arrays",
    "eigenpairs",
    "centring",
    "centre",
    "grand mean",
    "row means",
    "trace",
    "residual trace",
    "rows counted",
}
Change = Callable[[Basis], Basis]

pytestmark = pytest.mark.filterwarnings("ignore::kpca_stream.errors.KpcaStreamWarning")


def model(n_components: int | None = 3, **changes: Any) -> KernelPCA:
    given = {"kernel": "rbf", "gamma": 0.05, "n_landmarks": 40, "eigen_solver": "nystrom", **changes}
    return KernelPCA(n_components, **given)


def verified(found: KernelPCA, path: Path) -> VerifyReport:
    found.save(path)
    return verify_store(path, silent())


def failed(report: VerifyReport) -> set[str]:
    return {check.name for check in report.checks if not check.ok}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("gamma", [1e-9, 1e-4, 0.05, 2.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "laplacian", "sigmoid", "cosine"])
def test_healthy_bases_pass(kernel: str, gamma: float, precision: str, tmp_path: Path) -> None:
    """Whatever kernel, width and precision: what a fit made passes all checks, down to the last component."""
    found = model(None, kernel=kernel, gamma=gamma, precision=precision).fit(X)
    report = verified(found, tmp_path / "b")
    assert failed(report) == set(), report.checks
    assert {check.name for check in report.checks} == CHECKS


def test_bases_that_rows_were_added_to_pass(tmp_path: Path) -> None:
    """Weighted rows, and rows that came later, keep all laws."""
    found = model().partial_fit(X[:200], sample_weight=np.linspace(1, 3, 200)).partial_fit(X[200:])
    assert verified(found, tmp_path / "b").ok


def test_a_basis_without_components_passes(tmp_path: Path) -> None:
    """Where rows do not differ for the kernel nothing is kept, and nothing is wrong."""
    found = model(kernel="sigmoid", gamma=2.0).fit(X)
    assert found.eigenvalues_.shape == (0,)
    assert verified(found, tmp_path / "b").ok


def stored(name: str, place: Any = 1) -> Change:
    """Change one number of an array by a thousandth, or by the larger part of nothing."""

    def change(basis: Basis) -> Basis:
        values = getattr(basis, name)
        array = np.array(values.load() if hasattr(values, "load") else values)
        array[place] += 1e-3 * max(abs(array[place]), 1e-2)
        return replace(basis, **{name: ArrayRows(array) if hasattr(values, "load") else array})

    return change


def scaled(name: str) -> Change:
    return lambda basis: replace(basis, **{name: getattr(basis, name) * 1.001})


def summed(**changes: Callable[[Any], Any]) -> Change:
    def change(basis: Basis) -> Basis:
        held = basis.accumulated
        assert held is not None
        new = {name: function(getattr(held, name)) for name, function in changes.items()}
        return replace(basis, accumulated=replace(held, **new))

    return change


def moved(rows: ArrayRows) -> ArrayRows:
    """The same products but for one."""
    G = np.array(rows.load())
    G[2, 2] *= 1.001
    return ArrayRows(G)


def told(**facts: Any) -> Change:
    return lambda basis: replace(basis, facts={**basis.facts, **facts})


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (stored("coefficients", (7, 1)), "eigenpairs"),
        (stored("eigenvalues"), "eigenpairs"),
        (stored("centring"), "centring"),
        (stored("weights"), "centre"),
        (scaled("reduced_grand_mean"), "grand mean"),
        (scaled("grand_mean"), "grand mean"),
        (stored("row_means", 5), "row means"),
        (scaled("trace"), "trace"),
        (scaled("total_weight"), "rows counted"),
        (summed(total=lambda total: total + 1), "rows counted"),
        (summed(G=moved), "eigenpairs"),
        (summed(s=lambda s: s * 1.001), "row means"),
        (summed(tau=lambda tau: tau * 1.001), "trace"),
        (summed(offset=lambda _: 0.1), "row means"),
        (told(residual_trace_share=1e-4), "residual trace"),
    ],
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_changed_number_is_found(change: Change, check: str, precision: str, tmp_path: Path) -> None:
    """A number of a basis that does not belong to the others fails the law that binds it."""
    model(precision=precision).fit(X).save(tmp_path / "b")
    save_basis(change(open_basis(tmp_path / "b")), tmp_path / "changed")
    assert check in failed(verify_store(tmp_path / "changed", silent()))


def test_a_smaller_certified_bound_is_found(tmp_path: Path) -> None:
    """A certificate that promises more than the sums do fails."""
    model().fit(X).save(tmp_path / "b")
    basis = open_basis(tmp_path / "b")
    first = basis.facts["certificates"][0]
    better = told(certificates=[{**first, "bound": first["bound"] / 2}])(basis)
    save_basis(better, tmp_path / "changed")
    assert failed(verify_store(tmp_path / "changed", silent())) == {"residual trace"}


@pytest.mark.parametrize("name", ["products", "sample", "rows", "coefficients"])
def test_a_flipped_bit_is_told(name: str, tmp_path: Path) -> None:
    """Damaged sums, drawn rows, landmarks or coefficients cannot be read, and the check says so."""
    model().fit(X).save(tmp_path / "b")
    file = next(path for path in (tmp_path / "b" / name / "c").rglob("*") if path.is_file())
    content = bytearray(file.read_bytes())
    content[60] ^= 8
    file.write_bytes(content)
    assert failed(verify_store(tmp_path / "b", silent())) == {"arrays"}


@pytest.mark.parametrize("landmarks", ["rpcholesky", "uniform", np.arange(300, 100, -5)])
def test_bases_of_a_given_matrix(landmarks: Any, tmp_path: Path) -> None:
    """Of a precomputed kernel, which keeps no sums, what its numbers say of each other is checked."""
    K = np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=-1))
    found = model(kernel="precomputed", gamma=None, landmarks=landmarks).fit(K)
    report = verified(found, tmp_path / "b")
    assert failed(report) == set(), report.checks
    assert {check.name for check in report.checks} == {"arrays", "landmarks", "trace", "centring"}
    basis = open_basis(tmp_path / "b")
    for number, (change, checks) in enumerate(
        [
            (stored("centring"), {"centring"}),
            (stored("row_means", 5), {"centring"}),
            (lambda b: replace(b, trace=b.eigenvalues.sum() / 2), {"trace"}),
            (told(n_landmarks=10), {"landmarks"}),
        ]
    ):
        save_basis(change(basis), tmp_path / f"{number}")
        assert failed(verify_store(tmp_path / f"{number}", silent())) == checks
