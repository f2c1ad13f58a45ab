"""Stores that were crafted: refused in one line, before memory is taken, and nothing outside is touched."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import GzipCodec, ZstdCodec

from kpca_stream.errors import DataError, KpcaStreamError, KpcaStreamWarning
from kpca_stream.pipeline import fit_config, score_config
from kpca_stream.storage.basis import open_basis
from kpca_stream.storage.checkpoint import Checkpoints
from kpca_stream.storage.checkpoint import Ledger as PassLedger
from kpca_stream.storage.layout import RunStore
from kpca_stream.storage.ledger import Ledger
from kpca_stream.storage.place import Folder
from kpca_stream.storage.registry import Registry
from kpca_stream.storage.score_chunks import zarr_parts
from kpca_stream.storage.source import open_source
from kpca_stream.telemetry import silent
from kpca_stream.verification import verify_store
from tests.jobs import ROOT, configured
from tests.memory import traced_peak

MB = 10**6
MOST_BYTES = 48 * MB
"""That a refusal may take; every attack here asks for more."""

pytestmark = pytest.mark.filterwarnings(
    "ignore::zarr.errors.ZarrUserWarning", "ignore::zarr.errors.UnstableSpecificationWarning"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    X = np.random.default_rng(0).standard_normal((300, 4))
    np.save(folder / "train.npy", X)
    np.save(folder / "new.npy", X[:60] + 0.1)
    config = configured(folder)
    fit_config(config, silent())
    score_config(config, silent())
    return folder


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Path:
    """A fit, its store, its version, its scores and their ledger, to be spoilt."""
    import shutil

    folder = tmp_path / "job"
    shutil.copytree(made, folder)
    return folder


def basis_of(job: Path) -> Path:
    return Registry(job / "models" / "rows").basis_path(1)


def assert_refused(work: Callable[[], Any], match: str | None = None) -> None:
    """With exit code 65, in one line, and within little memory."""

    def attempt() -> None:
        with pytest.raises(KpcaStreamError, match=match) as caught:
            work()
        assert isinstance(caught.value, DataError)
        assert caught.value.exit_code == 65
        assert "\n" not in str(caught.value)

    assert traced_peak(attempt) < MOST_BYTES


def hashed(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def signed(path: Path, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
    """Change what a basis says of itself, and make all of its digests hold again."""
    described = json.loads((path / "zarr.json").read_text())
    content = described["attributes"]["kpca_stream"]
    for name in content["arrays"]:
        description = (path / name / "zarr.json").read_bytes()
        files = sorted(file for file in (path / name / "c").rglob("*") if file.is_file())
        content["arrays"][name] = {
            "shape": json.loads(description)["shape"],
            "dtype": str(zarr.open_array(path / name, mode="r").dtype),
            "digest": hashed(description),
            "checksums": hashed(b"".join(file.read_bytes()[-4:] for file in files)),
        }
    change(content)
    described["attributes"]["digest"] = hashed(json.dumps(content, sort_keys=True).encode())
    (path / "zarr.json").write_text(json.dumps(described))


def replaced(path: Path, name: str, values: Any, **options: Any) -> None:
    """Another array in place of one."""
    group = zarr.open_group(path, mode="a")
    given: dict[str, Any] = {"chunks": np.shape(values), **options}
    group.create_array(name, data=values, overwrite=True, **given)


def described(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the description of an array or a group."""
    value = json.loads((path / "zarr.json").read_text())
    change(value)
    (path / "zarr.json").write_text(json.dumps(value))


def of_shape(*shape: int, chunks: tuple[int, ...] | None = None) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        value["shape"] = list(shape)
        if chunks:
            value["chunk_grid"]["configuration"]["chunk_shape"] = list(chunks)

    return change


def test_a_signed_basis_is_opened(job: Path) -> None:
    """The tests' own signature is that of the package: what is refused below is refused for what it is."""
    signed(basis_of(job))
    assert open_basis(basis_of(job)).n_components == 3


HUGE: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "a component for every atom": ("eigenvalues", of_shape(10**15)),
    "many rows": ("row_means", of_shape(10**10)),
    "one huge chunk": ("row_means", of_shape(10**10, chunks=(10**10,))),
    "wide": ("coefficients", of_shape(300, 10**9, chunks=(300, 10**9))),
    "no rows": ("rows", of_shape(0, 4)),
    "quantiles": ("error_quantiles", of_shape(10**9)),
}


@pytest.mark.parametrize("attack", HUGE)
def test_a_shape_larger_than_its_files_is_refused(attack: str, job: Path) -> None:
    """An array of a basis that says it is larger than what is stored is not read."""
    name, change = HUGE[attack]
    described(basis_of(job) / name, change)
    signed(basis_of(job))
    assert_refused(lambda: open_basis(basis_of(job)))


@pytest.mark.parametrize("codec", [GzipCodec(level=9), ZstdCodec(level=9)])
@pytest.mark.parametrize("name", ["row_means", "coefficients"])
def test_a_chunk_that_grows_is_refused(codec: Any, name: str, job: Path) -> None:
    """A chunk that is compressed, and may decompress to anything, is not read."""
    shape = (300,) if name == "row_means" else (300, 3)
    replaced(basis_of(job), name, np.zeros((20_000_000, *shape[1:])), compressors=[codec])
    described(basis_of(job) / name, of_shape(*shape))
    signed(basis_of(job))
    assert_refused(lambda: open_basis(basis_of(job)), "codecs")


ODD_TYPES = {
    "text": np.array(["a"] * 3),
    "bytes": np.array([b"a"] * 3),
    "records": np.zeros(3, [("a", "f8"), ("b", "i4")]),
    "times": np.zeros(3, "M8[s]"),
    "whole numbers": np.zeros(3, "i8"),
    "complex": np.zeros(3, "c16"),
    "truths": np.zeros(3, bool),
}


@pytest.mark.parametrize("kind", ODD_TYPES)
def test_other_types_are_refused(kind: str, job: Path) -> None:
    """Eigenvalues that are no floating-point numbers are not read."""
    replaced(basis_of(job), "eigenvalues", ODD_TYPES[kind])
    signed(basis_of(job))
    assert_refused(lambda: open_basis(basis_of(job)), "got type")


NUMBERS: dict[str, tuple[str, Any]] = {
    "negative rows": ("n_rows", -300),
    "enormous rows": ("n_rows", 10**30),
    "rows as text": ("n_rows", "300"),
    "half a row": ("n_rows", 299.5),
    "a truth for rows": ("n_rows", True),
    "weight of nothing": ("total_weight", 0),
    "enormous trace": ("trace", 10**400),
    "no columns": ("columns", []),
    "columns of lists": ("columns", [[[]], 1, {}, None]),
    "precision": ("precision", "float8"),
    "a list for facts": ("thresholds", [1, 2]),
    "no kernel": ("kernel", {}),
    "gamma as text": ("kernel", {"name": "rbf", "gamma": "1e-2"}),
    "nested arrays": ("arrays", {"eigenvalues": []}),
}


@pytest.mark.parametrize("attack", NUMBERS)
def test_numbers_that_no_fit_writes_are_refused(attack: str, job: Path) -> None:
    """What a basis says of itself is checked, also where its digest holds."""
    key, value = NUMBERS[attack]
    signed(basis_of(job), lambda content: content.update({key: value}))
    assert_refused(lambda: open_basis(basis_of(job)))


@pytest.mark.parametrize(
    "key", ["n_rows", "columns", "arrays", "kernel", "thresholds", "facts", "accumulated", "precision"]
)
def test_absent_fields_are_refused(key: str, job: Path) -> None:
    """A field that is missing is told in one line."""
    signed(basis_of(job), lambda content: content.pop(key))
    assert_refused(lambda: open_basis(basis_of(job)))


def test_names_of_arrays_do_not_lead_outside(job: Path) -> None:
    """A basis that names an array elsewhere is refused before that is looked at."""
    signed(basis_of(job), lambda c: c["arrays"].update({"../../../secret": c["arrays"]["rows"]}))
    assert_refused(lambda: open_basis(basis_of(job)), "secret")


LINKS = ("row_means/c/0", "rows/c", "coefficients", "rows/zarr.json")


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("target", ["/dev/zero", "elsewhere"])
def test_links_within_a_basis_are_refused(name: str, target: str, job: Path) -> None:
    """A link in place of a file or a folder is refused, also one to what never ends."""
    path = basis_of(job) / name
    elsewhere = job / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(target if target.startswith("/") else elsewhere)
    assert_refused(lambda: open_basis(basis_of(job)), "link")


def test_a_pipe_is_refused(job: Path) -> None:
    """A pipe in place of a chunk does not keep the reader waiting."""
    path = basis_of(job) / "row_means" / "c" / "0"
    path.unlink()
    os.mkfifo(path)
    assert_refused(lambda: open_basis(basis_of(job)), "pipe")


def test_a_huge_description_is_refused(job: Path) -> None:
    """JSON that is larger than any description is not parsed."""
    with (basis_of(job) / "zarr.json").open("ab") as file:
        file.truncate(10**9)
    assert_refused(lambda: open_basis(basis_of(job)), "bytes of JSON")


@pytest.mark.parametrize("name", ["tiles/c/0/0", "rows", "tiles", "checkpoints", "row_means/c/0"])
def test_links_within_a_runs_store_are_refused(name: str, job: Path) -> None:
    """Neither a fit nor a check follows a link out of a run's store."""
    path = job / "gram.zarr" / name
    if path.exists():
        path.rename(job / "elsewhere")
    path.symlink_to(job / "elsewhere")
    assert_refused(lambda: verify_store(job / "gram.zarr", silent()), "link")
    assert_refused(lambda: RunStore.open(job / "gram.zarr"), "link")


def test_huge_means_of_a_store_are_not_read(job: Path) -> None:
    """Row means that say they are larger than their file are a check that fails, within little memory."""
    described(job / "gram.zarr" / "row_means", of_shape(10**10))
    found: list[Any] = []
    assert traced_peak(lambda: found.append(verify_store(job / "gram.zarr", silent()))) < MOST_BYTES
    assert [check.ok for check in found[0].checks if check.name == "means"] == [False]


@pytest.mark.parametrize("chunks", [(64, 64), (10**6, 10**6)])
def test_tiles_of_a_huge_matrix_are_not_looked_for(chunks: tuple[int, int], job: Path) -> None:
    """A store that says it has 10¹⁴ tiles, or tiles of terabytes, fails its check at once."""
    described(job / "gram.zarr" / "tiles", of_shape(10**9, 10**9, chunks=chunks))
    found: list[Any] = []
    assert traced_peak(lambda: found.append(verify_store(job / "gram.zarr", silent()))) < MOST_BYTES
    assert not found[0].ok


def test_nothing_stored_is_unpickled(job: Path, tmp_path: Path) -> None:
    """A checkpoint with objects is no checkpoint: what it would run does not run."""
    mark = tmp_path / "ran"
    checkpoints = Checkpoints(job / "gram.zarr" / "checkpoints")
    checkpoints.folder.mkdir(exist_ok=True)
    contents = np.array(json.dumps({"arrays": ["sums"], "facts": {}}))
    np.savez(checkpoints.folder / "a.npz", contents=contents, sums=np.array([Runs(str(mark))], dtype=object))
    (checkpoints.folder / "b.npz").write_bytes(pickle.dumps(Runs(str(mark))))
    for name in ("a", "b"):
        with pytest.warns(KpcaStreamWarning, match="cannot be read"):
            assert checkpoints.load(name) is None
    assert not mark.exists()
    pickle.loads((checkpoints.folder / "b.npz").read_bytes())  # noqa: S301  our own bytes
    assert mark.exists()


PICKLED: list[dict[str, Any]] = [
    {"filters": [{"id": "pickle"}]},
    {"filters": [{"id": "zlib", "level": 1}, {"id": "pickle"}]},
    {"compressor": {"id": "pickle"}},
    {"dtype": "|O", "filters": [{"id": "pickle"}], "fill_value": None},
]


@pytest.mark.parametrize("codecs", PICKLED)
def test_no_source_is_unpickled(codecs: dict[str, Any], tmp_path: Path) -> None:
    """A Zarr array of version 2 whose chunks are pickles is refused as a source, and runs nothing."""
    path, mark = tmp_path / "x.zarr", tmp_path / "ran"
    path.mkdir()
    plain = {"order": "C", "fill_value": 0, "compressor": None, "filters": None, "dtype": "<f8"}
    array = {"zarr_format": 2, "shape": [4, 2], "chunks": [4, 2], **plain, **codecs}
    (path / ".zarray").write_text(json.dumps(array))
    (path / "0.0").write_bytes(pickle.dumps(Runs(str(mark))))
    assert_refused(lambda: list(open_source(path).blocks(0, 4)))
    assert not mark.exists()


class Runs:
    """Whose pickle makes a file when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_every_loader_refuses_pickles() -> None:
    """Every call of NumPy's loader in the package says that pickles are refused; nothing imports pickle."""
    import kpca_stream

    root = Path(kpca_stream.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for line in path.read_text().splitlines():
            assert "np.load(" not in line or "allow_pickle=False" in line, path
            assert not line.strip().startswith(("import pickle", "from pickle", "import dill")), path


def test_checkpoints_that_grow_are_refused(tmp_path: Path) -> None:
    """A compressed archive, or one with an array larger than it, is unreadable, within little memory."""
    checkpoints = Checkpoints(tmp_path)
    contents = np.array(json.dumps({"arrays": ["sums"], "facts": {}}))
    np.savez_compressed(tmp_path / "grows.npz", contents=contents, sums=np.zeros(20_000_000))
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        for name, values in (("contents", contents), ("sums", np.zeros(4))):
            with archive.open(f"{name}.npy", "w") as member:
                header = np.lib.format.header_data_from_array_1_0(values)
                header["shape"] = (10**9,) if name == "sums" else ()
                np.lib.format.write_array_header_1_0(member, header)
                member.write(values.tobytes())

    def load(name: str) -> None:
        with pytest.warns(KpcaStreamWarning, match="cannot be read"):
            assert checkpoints.load(name) is None

    for name in ("grows", "huge"):
        assert traced_peak(lambda name=name: load(name)) < MOST_BYTES


@pytest.mark.parametrize("n_folded", [-3, "2", 2.5, None, True])
def test_checkpoints_of_other_counts_are_of_no_pass(n_folded: Any, tmp_path: Path) -> None:
    """A number of tasks that no pass has folded, or sums of another shape, are not gone on with."""
    ledger = PassLedger(Checkpoints(tmp_path), "pass", [1])
    ledger.checkpoints.save("pass", {"sums": np.zeros((4, 2))}, {"belongs_to": [1], "n_folded": n_folded})  # type: ignore[union-attr]
    assert ledger.restored({"sums": (4, 2)}) is None
    ledger.save({"sums": np.zeros((4, 2))}, 2)
    assert ledger.restored({"sums": (4, 2)}) is not None
    assert ledger.restored({"sums": (5, 2)}) is None


PARTS: dict[str, dict[str, Any]] = {
    "a file outside": {"file": "../secret.parquet"},
    "a file by its path": {"file": "/secret.parquet"},
    "no name": {"file": ""},
    "a name that is none": {"file": ["a"]},
    "negative rows": {"start": -1},
    "enormous rows": {"stop": 10**30},
    "rows as text": {"n_rows": "20"},
    "more than a part has": {"more": 1},
}


ENTRIES: dict[str, dict[str, Any]] = {
    "to be shown as a file outside": {"aside": {"../secret.parquet": "a.parquet"}},
    "aside outside": {"aside": {"a.parquet": "../../secret.parquet"}},
    "aside without a name": {"aside": {"a.parquet": 3}},
    "to be removed outside": {"gone": ["../secret.parquet"]},
    "to be removed by its path": {"gone": ["/secret.parquet"]},
}


@pytest.mark.parametrize("attack", [*PARTS, *ENTRIES])
def test_a_ledger_does_not_lead_outside(attack: str, job: Path) -> None:
    """An entry that names a part elsewhere, or counts what is no number, is damaged; nothing is removed."""
    secret = job / "secret.parquet"
    secret.write_text("kept")
    folder = job / "scores" / "_ledger"
    for path in folder.glob("*.json"):
        entry = json.loads(path.read_text())
        if "parts" in entry:
            entry["parts"][0].update(PARTS.get(attack, {}))
            entry.update(ENTRIES.get(attack, {}))
            path.write_text(json.dumps(entry))
    assert_refused(lambda: list(Ledger(Folder(folder), "scores").entries()), "damaged")
    config = configured(
        job, {"score.on_new_version": "rescore", "gram.path": str(job / "g"), "kernel.gamma": 0.06}
    )
    fit_config(config, silent())
    assert_refused(lambda: score_config(config, silent()), "damaged")
    assert secret.read_text() == "kept"


@pytest.mark.parametrize(
    "names",
    [{"gone": ["../secret.parquet"]}, {"aside": {"a.parquet": "../s"}}, {"aside": {"/a": "a.parquet"}}],
)
def test_what_a_ledger_moves_and_removes_lies_inside(names: dict[str, Any], job: Path) -> None:
    """An entry that would move or remove a file elsewhere is damaged, and its file stays."""
    secret = job / "secret.parquet"
    secret.write_text("kept")
    for path in (job / "scores" / "_ledger").glob("*.json"):
        entry = json.loads(path.read_text())
        if "parts" in entry:
            path.write_text(json.dumps(entry | names))
    assert_refused(lambda: score_config(configured(job), silent()), "damaged")
    assert secret.read_text() == "kept"


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"parts": 3}', "[" * 100_000, '{"parts": [[1]]}'])
def test_entries_of_other_forms_are_damaged(text: str, job: Path) -> None:
    """An entry that is no entry is told in one line."""
    folder = job / "scores" / "_ledger"
    for path in folder.glob("*.json"):
        if path.name != "ledger.json":
            path.write_text(text)
    assert_refused(lambda: list(Ledger(Folder(folder), "scores").entries()), "damaged")


def test_scores_of_huge_shapes_are_not_read(job: Path) -> None:
    """Scores in Zarr that say they are larger than their files give what is there, within little memory."""
    config = configured(job, {"score.format": "zarr", "score.output": str(job / "zarr")})
    score_config(config, silent())
    path = job / "zarr" / "scores.zarr"
    expected = [(part.start, part.n_rows) for part in zarr_parts(path)]
    for name in ("scores", "model_version", "reconstruction_error", "hotelling_t2"):
        described(path / name, lambda value: value.update(shape=[10**14, *value["shape"][1:]]))
    found: list[Any] = []
    assert traced_peak(lambda: found.extend(zarr_parts(path))) < MOST_BYTES
    assert [(part.start, part.n_rows) for part in found] == expected


def test_scores_that_are_just_written_are_read_as_far_as_they_go(job: Path) -> None:
    """An array that is longer than others, a chunk in the making, and arrays not made yet are no damage."""
    config = configured(job, {"score.format": "zarr", "score.output": str(job / "zarr")})
    score_config(config, silent())
    path = job / "zarr" / "scores.zarr"
    expected = [(part.start, part.n_rows) for part in zarr_parts(path)]
    scores = zarr.open_array(path / "scores")
    scores.resize((scores.shape[0] + 5, *scores.shape[1:]))
    (path / "model_version" / "c" / "0.0123abcd.partial").write_bytes(b"half")
    assert [(part.start, part.n_rows) for part in zarr_parts(path)] == expected
    shutil.rmtree(path / "model_version")
    assert zarr_parts(path) == []


@pytest.mark.parametrize("name", ["model_version", "scores"])
def test_scores_of_other_types_are_refused(name: str, job: Path) -> None:
    """Scores in Zarr of text, or compressed, are not read."""
    config = configured(job, {"score.format": "zarr", "score.output": str(job / "zarr")})
    score_config(config, silent())
    replaced(job / "zarr" / "scores.zarr", name, np.array(["x"] * 60))
    assert_refused(lambda: zarr_parts(job / "zarr" / "scores.zarr"), "got type")


MANIFESTS = (
    "{}",
    "[]",
    '{"version": 2}',
    '{"version": 1, "fit": {}}',
    "[" * 100_000,
    '{"version": -1}',
    "\x00",
)


@pytest.mark.parametrize("text", MANIFESTS)
@pytest.mark.parametrize(
    "action", [["models", "show"], ["models", "list"], ["score", "c.yaml"], ["fit", "c.yaml"]]
)
def test_manifests_of_other_forms_are_told_in_one_line(
    action: list[str],
    text: str,
    job: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a manifest holds: done, or one line and an exit code that is not 1."""
    from kpca_stream.cli import main

    monkeypatch.chdir(job)
    Path("c.yaml").write_text(json.dumps(configured(job).model_dump(mode="json")))
    (basis_of(job).parent / "manifest.json").write_text(text)
    given = [*action, "models/rows"] if action[0] == "models" else action
    if given[1] == "show":
        given.append("1")
    code = main([*given, "--quiet"] if action[0] != "models" else given)
    err = capsys.readouterr().err
    assert code in (0, 2, 65), err
    assert "Traceback" not in err


VERIFIED = """
import sys
from kpca_stream.cli import main
from kpca_stream.telemetry import peak_memory

code = main(["verify", sys.argv[1], "--quiet"])
print(peak_memory())
sys.exit(code)
"""


@pytest.mark.slow
def test_the_command_refuses_with_65(job: Path) -> None:
    """The command ends with 65 and one line, and takes no more memory than it does for a sound basis."""
    sound, sound_peak = ended(job)
    assert sound.returncode == 0
    described(basis_of(job) / "row_means", of_shape(10**10))
    signed(basis_of(job))
    found, peak = ended(job)
    assert found.returncode == 65
    assert len(found.stderr.splitlines()) == 1
    assert peak < sound_peak + MOST_BYTES


def ended(job: Path) -> tuple[Any, int]:
    """What `verify` ended with, and the peak of its process."""
    done = subprocess.run(
        [sys.executable, "-c", VERIFIED, str(basis_of(job))],
        capture_output=True,
        text=True,
        cwd=job,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    return done, int(done.stdout.splitlines()[-1])
