"""Scorers of a bucket that die before any request, or between two of which somebody else scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kpca_stream.addresses import Address
from kpca_stream.pipeline import fit_config
from kpca_stream.scorer import Scorer
from kpca_stream.storage import bucket_shelf, objects
from kpca_stream.telemetry import silent
from tests.jobs import configured
from tests.scorings import X, as_csv, fitted, scoring
from tests.test_bucket_scorer import check_bucket

pytestmark = pytest.mark.slow


class Death(BaseException):
    """As a kill: nothing is cleaned up."""


@contextmanager
def before(request: int, then: Callable[[], None]) -> Iterator[list[int]]:
    """Have something happen before the request of this number; the list grows with each request."""
    opened, count = objects.opened, []

    def counted(address: Address) -> Any:
        count.append(1)
        if len(count) == request:
            then()
        return opened(address)

    objects.opened = counted  # type: ignore[assignment]
    try:
        yield count
    finally:
        objects.opened = opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions, of which the second one serves."""
    folder = tmp_path_factory.mktemp("interleaved")
    fitted(folder)
    other = {"score": None, "kernel.gamma": 0.1, "gram.path": str(folder / "g2.zarr")}
    fit_config(configured(folder, other), silent())
    (folder / "in").mkdir()
    return folder


def scorer_of(folder: Path, place: str) -> Scorer:
    changes = {"score.output": place, "score.input.part_rows": 5, "score.on_changed": "rescore"}
    return Scorer(scoring(folder, changes), silent())


class Fresh:
    """Two files of which nothing was scored."""

    files = {"a.csv": X[:9], "b.csv": X[20:23]}  # noqa: RUF012

    def before(self, folder: Path, place: str) -> None:  # noqa: ARG002 - nothing was scored there
        self.after(folder)

    def after(self, folder: Path) -> None:
        for path in (folder / "in").iterdir():
            path.unlink()
        for name, rows in self.files.items():
            as_csv(folder / "in" / name, rows)


class Grown(Fresh):
    """One of the files had fewer rows when it was scored."""

    def before(self, folder: Path, place: str) -> None:
        self.after(folder)
        as_csv(folder / "in" / "a.csv", X[:7])
        scorer_of(folder, place).work_off()
        self.after(folder)


class Changed(Fresh):
    """One of the files had other rows when it was scored."""

    def before(self, folder: Path, place: str) -> None:
        self.after(folder)
        as_csv(folder / "in" / "a.csv", X[1:8])
        scorer_of(folder, place).work_off()
        self.after(folder)


@pytest.fixture(params=[Fresh, Grown, Changed])
def case(request: pytest.FixtureRequest) -> Fresh:
    found: Fresh = request.param()
    return found


def each_request(folder: Path, bucket: str, case: Fresh, then: Callable[[str], None]) -> Iterator[str]:
    """A place for each request of a scorer, in front of which something happened; after it has ended."""
    for request in itertools.count(1):
        place = f"{bucket}/{request}"
        case.before(folder, place)
        with before(request, lambda place=place: then(place)) as count, suppress(Death):  # type: ignore[misc]
            scorer_of(folder, place).work_off()
        yield place
        if len(count) < request:
            break
    assert request > 20


def test_a_death_before_any_request(
    folder: Path, bucket: str, case: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever request is the last one of a scorer, the next one ends with each row once."""

    def die(_: str) -> None:
        raise Death

    monkeypatch.setattr(bucket_shelf, "LEFTOVER_SECONDS", 0.0)
    for place in each_request(folder, bucket, case, die):
        scorer_of(folder, place).work_off()
        check_bucket(folder, place, case.files, version=2)


def test_another_scorer_before_any_request(folder: Path, bucket: str, case: Fresh) -> None:
    """Whichever request of a scorer another one comes before with all of its own, each row is there once."""
    for place in each_request(
        folder, bucket, case, lambda place: scorer_of(folder, place).work_off() and None
    ):
        check_bucket(folder, place, case.files, version=2)
