"""Any bytes as a configuration or as a basis, random or damaged: right, or a clean error."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import few_and_many, for_all
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import Damage, damages

from kpca_stream import load_basis
from kpca_stream.cli import main
from kpca_stream.errors import ConfigError, DataError
from kpca_stream.fitsettings import FitSettings
from kpca_stream.fitting import fit
from kpca_stream.numerics.resolve import KernelSpec
from kpca_stream.storage import frozen
from kpca_stream.storage.basis import save_basis
from kpca_stream.storage.source import open_source

Array = NDArray[Any]

QUICKSTART = Path(__file__).parents[1] / "configs" / "quickstart.yaml"
SECTIONS = ("data", "kernel", "solver", "gram", "novelty", "cluster", "limits", "models", "score")
KEYS = (
    *("name", "gamma", "degree", "coef0", "method", "n_components", "tol", "precision", "storage"),
    *("tile_rows", "memory", "disk", "kind", "quantile", "scale", "columns", "path"),
)
X = np.random.default_rng(0).standard_normal((40, 3)) * [3.0, 2.0, 1.0] + 1.0
X_NEW = np.random.default_rng(1).standard_normal((5, 3)) + 1.0

# Zarr tells of folders and of metadata that it does not know: no faults.
pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")

positions = st.integers(0, 2**20)


@dataclass(frozen=True)
class Stored:
    """A basis on disk, the bytes of its files, and what it says of new rows."""

    path: Path
    files: dict[Path, bytes]
    scores: Array
    errors: Array
    novelty: Array

    def check(self) -> bool:
        """Whether the basis still gives the scores that it gave; otherwise it is refused in one line."""
        try:
            found = load_basis(self.path).score(X_NEW)
        except (DataError, ConfigError) as error:
            message = str(error)
            assert self.path.name in message
            assert len(message.splitlines()) == 1
            return False
        np.testing.assert_array_equal(found.scores, self.scores)
        np.testing.assert_array_equal(found.reconstruction_error, self.errors)
        np.testing.assert_array_equal(found.novelty, self.novelty)
        return True

    def file(self, number: int) -> Path:
        """Any of the files."""
        return sorted(self.files)[number % len(self.files)]

    def restore(self) -> None:
        """Make all files what they were."""
        for file, content in self.files.items():
            if not file.is_file() or file.read_bytes() != content:
                shutil.rmtree(file, ignore_errors=True)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)


def stored(path: Path, X: Array, gamma: float = 0.1) -> Stored:
    settings = FitSettings(kernel=KernelSpec("rbf", gamma), n_components=3, scale=True)
    save_basis(fit(open_source(X), settings, weights=1 + np.arange(len(X)) % 3).basis, path)
    found = load_basis(path).score(X_NEW)
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return Stored(path, files, found.scores, np.asarray(found.reconstruction_error), found.novelty)


@pytest.fixture
def basis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A basis with weights, standardised rows, and several chunks to an array."""
    monkeypatch.setattr(frozen, "CHUNK_ROWS", 16)
    return stored(tmp_path / "basis.zarr", X)


@few_and_many
def test_damaged_bytes_of_a_basis(n_examples: int, basis: Stored) -> None:
    """Whatever happens to the bytes of up to three files, the basis is refused or gives the same bits."""

    def law(hits: list[tuple[int, Damage]]) -> None:
        for number, damage in hits:
            file = basis.file(number)
            file.write_bytes(damage.to(file.read_bytes()))
        basis.check()
        basis.restore()

    for_all(n_examples, law, st.lists(st.tuples(positions, damages()), min_size=1, max_size=3))
    assert basis.check()


@few_and_many
def test_files_of_a_basis_that_are_mixed_up(n_examples: int, basis: Stored) -> None:
    """Files swapped, removed, or taken from another basis of the same shape are never scored with."""
    other = stored(basis.path.with_name("other.zarr"), X[::-1] + 0.5, gamma=0.2)

    def law(first: int, second: int, kind: str) -> None:
        one, two = basis.file(first), basis.file(second)
        if kind == "swap":
            one.write_bytes(basis.files[two])
            two.write_bytes(basis.files[one])
        elif kind == "remove":
            one.unlink()
        elif kind == "folder":
            one.unlink()
            one.mkdir()
        else:
            one.write_bytes(other.files[other.path / one.relative_to(basis.path)])
        basis.check()
        basis.restore()

    kinds = st.sampled_from(["swap", "remove", "folder", "of the other"])
    for_all(n_examples, law, positions, positions, kinds)
    assert basis.check()


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@few_and_many
def test_descriptions_that_say_something_else(n_examples: int, basis: Stored) -> None:
    """Any value in place of any other in a JSON file of a basis: refused, or the same bits."""
    descriptions = sorted(file for file in basis.files if file.suffix == ".json")

    def law(number: int, place: int, value: Any) -> None:
        file = descriptions[number % len(descriptions)]
        content = json.loads(basis.files[file])
        places = list(leaves(content))
        parent, key = places[place % len(places)]
        parent[key] = value
        file.write_text(json.dumps(content))
        basis.check()
        basis.restore()

    for_all(n_examples, law, positions, positions, values)
    assert basis.check()


def leaves(content: Any) -> Any:
    """Parents and keys of all values."""
    keys = content.keys() if isinstance(content, dict) else range(len(content))
    for key in keys:
        yield content, key
        if isinstance(content[key], dict | list):
            yield from leaves(content[key])


@few_and_many
def test_any_bytes_are_no_basis(n_examples: int, tmp_path: Path) -> None:
    """A file of any bytes, or a folder with one named as a basis has it, is refused by its name."""

    def law(content: bytes, as_text: Any, *, in_folder: bool) -> None:
        path = tmp_path / "basis.zarr"
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        file = path
        if in_folder:
            path.mkdir()
            file = path / "zarr.json"
        file.write_bytes(content if as_text is None else json.dumps(as_text).encode())
        with pytest.raises((DataError, ConfigError), match=r"basis\.zarr"):
            load_basis(path)

    def by_position(content: bytes, as_text: Any, in_folder: Any) -> None:
        law(content, as_text, in_folder=in_folder)

    group = st.fixed_dictionaries(
        {"zarr_format": st.just(3) | values, "node_type": st.sampled_from(["group", "array"]) | values},
        optional={"attributes": st.dictionaries(st.just("kpca_stream") | st.text(max_size=3), values)},
    )
    for_all(n_examples, by_position, st.binary(max_size=80), st.none() | values | group, st.booleans())


@few_and_many
def test_damaged_configurations(
    n_examples: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration of which bytes were changed is planned by, or refused in lines that name it."""
    monkeypatch.chdir(tmp_path)
    whole = QUICKSTART.read_bytes()

    def law(hits: list[Damage]) -> None:
        content = whole
        for damage in hits:
            content = damage.to(content)
        check_configuration(content, capsys)

    for_all(n_examples, law, st.lists(damages(), min_size=1, max_size=3))


@few_and_many
def test_any_bytes_as_a_configuration(
    n_examples: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any bytes, alone or after a sound beginning, are planned by, or refused with the file's name."""
    monkeypatch.chdir(tmp_path)
    words = st.sampled_from(["nan", ".inf", "-1", "0", "1e400", "1e-400", "9" * 90, "[]", "{}", "~", "null"])
    line = st.tuples(st.sampled_from(SECTIONS), st.sampled_from(KEYS), words | st.text(max_size=8))
    lines = st.lists(line, min_size=1, max_size=3).map(
        lambda found: "".join(f"{a}: {{{b}: {c}}}\n" for a, b, c in found).encode("utf-8", "surrogatepass")
    )

    def law(content: bytes) -> None:
        check_configuration(b"name: x\n" + content, capsys)

    for_all(n_examples, law, lines | st.binary(max_size=120))


def check_configuration(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Plan by a configuration; nothing but a plan or mistakes may come of it."""
    Path("c.yaml").write_bytes(content)
    code = main(["plan", "c.yaml", "--shape", "5000x5", "--quiet", "--set", "cluster={kind: threads}"])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert code in {0, 2}, err
    if code == 2 and not out:
        assert err.startswith("error: ")
        assert err.splitlines()[1:] == [] or "c.yaml" in err
