"""Scorers of a bucket that die before any request, or between two of which somebody else scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca_stream.addresses import Address
from kpca_stream.errors import BusyError
from kpca_stream.pipeline import fit_config
from kpca_stream.scorer import Scorer
from kpca_stream.storage import bucket_shelf, objects
from kpca_stream.storage.whole import remove
from kpca_stream.telemetry import silent
from tests.jobs import configured, contents
from tests.scorings import KINDS, X, as_csv, fitted, scoring
from tests.test_bucket_scorer import check_bucket, held, sent

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
            remove(path)
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


class Back(Changed):
    """The other rows are those that come back."""

    def others(self, folder: Path) -> None:
        self.after(folder)
        as_csv(folder / "in" / "a.csv", X[1:8])


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


def test_rows_that_come_back_before_any_request(folder: Path, bucket: str) -> None:
    """Whichever request of a scorer comes after old rows are back and scored, each row is there once."""
    case = Back()

    def back(place: str) -> None:
        case.others(folder)
        scorer_of(folder, place).work_off()

    for place in each_request(folder, bucket, case, back):
        case.others(folder)
        scorer_of(folder, place).work_off()
        check_bucket(folder, place, {**case.files, "a.csv": X[1:8]}, version=2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_outage_before_any_request(folder: Path, bucket: str, kind: str) -> None:
    """Whichever request the store does not answer, the command ends with that, and no object is set aside."""
    for path in (folder / "in").iterdir():
        remove(path)
    KINDS[kind](folder / "in" / f"a.{kind}", X[:9])
    sent(folder / "in", f"{bucket}/in")

    def out() -> None:
        raise BusyError("the store does not answer")

    for request in itertools.count(1):
        place = f"{bucket}/{request}"
        changes = {"score.output": place, "score.input.path": f"{bucket}/in/"}
        with before(request, out) as count:
            try:
                found = Scorer(scoring(folder, changes), silent()).work_off()
            except BusyError:
                found = None
        if len(count) < request:
            break
        assert found is None, f"request {request}: {found}"
        assert not any(b'"fault": "' in data for key, data in held(place).items() if "_ledger" in key)
    assert found is not None
    assert (request > 10, found.n_rows) == (True, 9)


@pytest.mark.parametrize("end", [Death, BusyError])
def test_a_fit_that_ends_before_any_request(tmp_path: Path, bucket: str, end: type[BaseException]) -> None:
    """Whichever request of a fit is its last, the next one finds its tiles, and ends with the same bits."""
    np.save(tmp_path / "train.npy", X)
    basic = {"score": None, "gram.tile_rows": 128}
    expected = fit_config(configured(tmp_path, basic), silent())
    tiles = contents(tmp_path / "gram.zarr" / "tiles")

    def stop() -> None:
        raise end("here")

    for request in itertools.count(1):
        place, work = f"{bucket}/{request}.zarr", tmp_path / f"{request}"
        changes = {"gram.path": place, "gram.work": str(work / "w"), "models.path": str(work / "m")}
        config = configured(tmp_path, basic | changes)
        with before(request, stop) as count, suppress(end):
            fit_config(config, silent())
        there = sum(key.startswith("tiles/c/") for key in held(place))
        if len(count) < request:
            break
        found = fit_config(config, silent())
        assert (found.tiles_found, found.tiles_made) == (there, expected.n_tiles - there)
        assert (found.eigenvalues, found.residual_norms) == (expected.eigenvalues, expected.residual_norms)
        named = {key: data for key, data in held(place).items() if key != "zarr.json"}
        assert named == {f"tiles/{key}": data for key, data in tiles.items()}
    assert request > 20
