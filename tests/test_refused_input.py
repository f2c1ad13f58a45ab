"""What is wrong with the input is told in one line, with the remedy, and leaves nothing half-written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from kpca_stream.cli import main
from kpca_stream.storage.whole import written_whole
from tests.disturb import write_yaml
from tests.jobs import command, contents

X = np.random.default_rng(4).standard_normal((80, 3))
HEADER = "a,b,c\n"


def rows_of(text_or_rows: Any) -> Callable[[], None]:
    """Writes the training file."""

    def write() -> None:
        text = text_or_rows
        if not isinstance(text, str):
            lines = (",".join(map(str, row)) for row in np.asarray(text))
            text = HEADER + "".join(f"{line}\n" for line in lines)
        Path("x.csv").write_text(text)

    return write


def matrix(change: Callable[[Any], Any]) -> Callable[[], None]:
    return lambda: np.save("K.npy", change(X[:40] @ X[:40].T))


def asymmetric(K: Any) -> Any:
    K[3, 7] += 1.0
    K[20, 9] += 2.5
    return K


def changed(row: int, column: int, value: Any) -> Any:
    """The rows with one entry replaced."""
    text = X.astype(object)
    text[row, column] = value
    return text


def without_columns() -> None:
    np.save("empty.npy", np.ones((5, 0)))


OWN_PLACE = ("data.train.path, which is x.csv, got 'x.csv', expected a place of its own",)
GIVEN = ["kernel={name: precomputed}", "data.train.path=K.npy"]
BAD: dict[str, tuple[Callable[[], None], list[str], int, tuple[str, ...]]] = {
    "NaN": (rows_of(changed(41, 1, "nan")), [], 65, ("x.csv", "row 41", "column 'b'", "on_missing: drop")),
    "infinity": (rows_of(changed(7, 2, "-inf")), [], 65, ("x.csv", "row 7", "column 'c'", "got -inf")),
    "text column": (
        rows_of(changed(7, 2, "blue")),
        ["data.columns=[a, c]"],
        65,
        ("x.csv", "'c'", "blue", "expected"),
    ),
    "empty file": (rows_of(""), [], 65, ("x.csv", "expected")),
    "header alone": (rows_of(HEADER), [], 65, ("x.csv", "expected")),
    "one row": (rows_of(X[:1]), [], 65, ("x.csv", "got 1 row", "expected at least 2")),
    "zero columns": (without_columns, ["data.train.path=empty.npy"], 65, ("empty.npy", "expected")),
    "ragged": (rows_of(HEADER + "1,2,3\n4,5\n6,7,8\n"), [], 65, ("x.csv", "row 1", "expected 3")),
    "missing file": (rows_of(X), ["data.train.path=gone.csv"], 2, ("gone.csv", "expected")),
    "folder for a file": (
        lambda: Path("x.csv").mkdir(),
        [],
        65,
        ("x.csv", "expected"),
    ),
    "unknown kernel": (rows_of(X), ["kernel.name=rbff"], 2, ("kernel.name", "'rbff'", "did you mean 'rbf'")),
    "gamma": (rows_of(X), ["kernel.gamma=0"], 2, ("kernel.gamma", "got 0", "expected")),
    "degree": (
        rows_of(X),
        ["kernel={name: poly, degree: 2.5}"],
        2,
        ("kernel.degree", "got 2.5", "expected"),
    ),
    "not square": (matrix(lambda K: K[:, :30]), GIVEN, 65, ("K.npy", "(40, 30)", "expected a square matrix")),
    "asymmetric": (
        matrix(asymmetric),
        GIVEN,
        65,
        ("not symmetric", "2.5", "expected"),
    ),
    "scores as input": (rows_of(X), ["score={input: {path: y.csv}, output: x.csv}"], 2, OWN_PLACE),
    "store as input": (rows_of(X), ["score=null", "gram.path=x.csv"], 2, OWN_PLACE),
    "number as text": (rows_of(X), ["solver.tol='1e-3'"], 2, ("solver.tol", "'1e-3'", "expected a number")),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    sections = {
        "name": "rows",
        "data": {"train": {"path": "x.csv"}},
        "kernel": {"name": "rbf", "gamma": 0.1},
        "solver": {"method": "lanczos", "n_components": 2},
        "gram": {"storage": "zarr", "path": "gram.zarr", "tile_rows": 32},
        "score": {"input": {"path": "x.csv"}, "output": "scores"},
    }
    write_yaml(Path("c.yaml"), sections)
    return tmp_path


@pytest.fixture
def fitted(folder: Path) -> Path:
    rows_of(X)()
    assert main(["fit", "c.yaml", "--quiet"]) == 0
    return folder


def one_line(err: str, parts: tuple[str, ...]) -> None:
    (line,) = (line for line in err.splitlines() if not line.startswith("warning"))
    assert line.startswith("error: ")
    assert [part for part in parts if part not in line] == [], line


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_with_the_training_input_is_one_line(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, row, column or key, what was expected and the remedy are told, and no file is written."""
    write, settings, code, parts = BAD[what]
    write()
    before = contents(folder)
    assert main(["run", "c.yaml", "--quiet", *(p for s in settings for p in ("--set", s))]) == code
    out, err = capsys.readouterr()
    assert out == ""
    one_line(err, parts)
    assert contents(folder) == before


@pytest.mark.parametrize("what", ["one row", "asymmetric"])
def test_bad_input_in_a_process_of_its_own(what: str, folder: Path) -> None:
    """The command itself, started by a shell, ends so too: code, one line, no traceback, no file."""
    write, settings, code, parts = BAD[what]
    write()
    before = contents(folder)
    done = command(folder, "run", "c.yaml", "--quiet", *(p for s in settings for p in ("--set", s)))
    assert (done.returncode, done.stdout) == (code, "")
    one_line(done.stderr, parts)
    assert contents(folder) == before


def with_format(path: Path, version: Any) -> None:
    """Give a store, or a basis, another format version, with digests that hold."""
    from kpca_stream.storage import basis, naming

    group = zarr.open_group(path, mode="a")
    attributes: dict[str, Any] = dict(group.attrs)
    if "identity" in attributes:
        attributes["identity"]["format_version"] = version
        attributes |= naming.attributes_of(attributes["identity"], attributes["fit"])
    else:
        attributes["kpca_stream"]["format_version"] = version
        attributes["digest"] = basis._digest(attributes["kpca_stream"])
    group.attrs.update(attributes)


def test_a_store_of_another_format(fitted: Path) -> None:
    """A run's store of a version that is not known is refused with both versions, and stays as it is."""
    with_format(Path("gram.zarr"), 99)
    before = contents(fitted)
    done = command(fitted, "fit", "c.yaml", "--quiet", "--set", "solver.n_components=1")
    assert (done.returncode, done.stdout) == (65, "")
    one_line(done.stderr, ("gram.zarr", "format_version: 99 there, 1 now", "--restart"))
    assert contents(fitted) == before


def test_a_basis_of_another_format(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A basis of a version that is not known scores nothing and is not verified; the version is named."""
    basis = Path("models/rows/versions/1/basis.zarr")
    for version in (99, "1", None):
        with_format(basis, version)
        before = contents(fitted)
        done = command(fitted, "score", "c.yaml", "--quiet")
        capsys.readouterr()
        assert (done.returncode, done.stdout, main(["verify", str(basis), "--quiet"])) == (65, "", 65)
        for err in (done.stderr, capsys.readouterr().err):
            one_line(err, ("basis.zarr", f"format version {version!r}", "expected 1", "fit again"))
        assert contents(fitted) == before


NEW: dict[str, tuple[str, tuple[str, ...]]] = {
    "fewer columns": ("a,b\n1,2\n", ("new.csv", "'c'", "expected")),
    "other names": ("a,b,d\n1,2,3\n", ("new.csv", "'c'", "expected")),
    "a text": ("a,b,c\n1,2,red\n", ("new.csv", "'c'", "expected")),
    "NaN": ("a,b,c\n1,2,3\n1,nan,3\n", ("new.csv", "row 1", "column 'b'")),
    "ragged": ("a,b,c\n1,2,3\n1,2\n", ("new.csv", "row 1", "expected 3")),
    "empty": ("", ("new.csv", "expected")),
}


@pytest.mark.parametrize("what", NEW)
def test_what_is_wrong_with_rows_to_score_is_one_line(
    what: str, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns that are missing, named or typed otherwise, and bad rows, are named; no part is written."""
    text, parts = NEW[what]
    Path("new.csv").write_text(text)
    before = contents(fitted)
    capsys.readouterr()
    assert main(["score", "c.yaml", "--quiet", "--set", "score.input.path=new.csv"]) == 65
    out, err = capsys.readouterr()
    assert out == ""
    one_line(err, parts)
    left = contents(fitted)
    assert {path: left[path] for path in left if "_ledger" not in str(path)} == before


def test_columns_without_names_are_counted(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of another width in a file without names are refused with both numbers."""
    np.save("new.npy", X[:5, :2])
    capsys.readouterr()
    assert main(["score", "c.yaml", "--quiet", "--set", "score.input.path=new.npy"]) == 65
    one_line(capsys.readouterr().err, ("new.npy has no column 'a'", "expected one of 0, 1"))
    assert not list(fitted.glob("scores/*.parquet"))


def test_columns_in_another_order_are_found_by_name(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The order of named columns, and more columns beside them, change no score."""
    pandas = pytest.importorskip("pandas")
    lines = "".join(f"{c},9,{a},{b}\n" for a, b, c in X[:9].tolist())
    Path("new.csv").write_text("c,more,a,b\n" + lines)
    Path("old.csv").write_text(HEADER + "".join(f"{a},{b},{c}\n" for a, b, c in X[:9].tolist()))
    found = []
    for name in ("new", "old"):
        settings = ["--set", f"score.input.path={name}.csv", "--set", f"score.output={name}"]
        capsys.readouterr()
        assert main(["score", "c.yaml", "--quiet", "--json", *settings]) == 0
        assert json.loads(capsys.readouterr().out)["result"]["n_rows"] == 9
        found.append(pandas.read_parquet(fitted / name).drop(columns="source"))
    pandas.testing.assert_frame_equal(*found, check_exact=True)


def test_an_address_of_the_web_is_no_bucket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an address with another scheme the message says what an address is."""
    write_yaml(tmp_path / "c.yaml", {"name": "web", "data": {"train": {"path": "http://example.com/x.csv"}}})
    assert main(["fit", str(tmp_path / "c.yaml"), "--set", f"gram.path={tmp_path}/g.zarr"]) == 2
    assert "expected data there; of a bucket an address such as s3://bucket/rows" in capsys.readouterr().err


def test_a_file_does_not_take_the_place_of_a_folder(tmp_path: Path) -> None:
    """What is written whole names the folder that it was to replace, which stays."""
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(IsADirectoryError) as caught, written_whole(place) as file:
        file.write(b"x")
    assert caught.value.filename == str(place)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
