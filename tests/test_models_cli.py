"""The commands of the registry."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from kpca_stream import model_versions
from kpca_stream.cli import main
from kpca_stream.errors import DataError
from kpca_stream.pipeline import fit_config
from kpca_stream.results import json_schema
from kpca_stream.storage.place import Folder
from kpca_stream.storage.registry import Registry
from kpca_stream.telemetry import silent
from tests.disturb import write_yaml
from tests.fits import rows
from tests.jobs import configured
from tests.storage.versions import tagged

Told = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three versions: of 100 rows, of these and 60 more, and of two components only."""
    folder = tmp_path_factory.mktemp("models")
    X = rows(160, 4) * [3.0, 2.0, 1.0, 0.5]
    for name, some in (("train", X[:100]), ("more", X)):
        np.save(folder / f"{name}.npy", some)
    for changes in (
        {},
        {"data.train": {"path": str(folder / "more.npy")}},
        {"solver.n_components": 2},
    ):
        fit_config(configured(folder, changes), silent(), restart=True)
    write_yaml(folder / "c.yaml", configured(folder).model_dump(mode="json", exclude_unset=True))
    return folder


@pytest.fixture
def folder(fitted: Path, tmp_path: Path) -> Path:
    """A copy of it, with its configuration."""
    shutil.copytree(fitted / "models", tmp_path / "models")
    text = (fitted / "c.yaml").read_text().replace(str(fitted), str(tmp_path))
    (tmp_path / "c.yaml").write_text(text)
    for name in ("train.npy", "more.npy"):
        shutil.copy(fitted / name, tmp_path / name)
    return tmp_path


@pytest.fixture(params=["c.yaml", "models/rows"])
def model(request: pytest.FixtureRequest, folder: Path) -> str:
    """Both ways to name a model."""
    return str(folder / request.param)


@pytest.fixture
def asked(told: Told) -> Told:
    """Runs a command and checks what it prints against the published schema."""

    def run(*arguments: str, code: int = 0) -> dict[str, Any]:
        printed = told("models", *arguments, code=code)
        jsonschema.validate(printed, json_schema())
        assert printed["command"] == f"models {arguments[0]}"
        found: dict[str, Any] = printed["result"] if code == 0 else printed["error"]
        return found

    return run


def test_versions_are_listed_with_what_names_them(model: str, asked: Told) -> None:
    """Each version tells its rows, components, standing and aliases, and aliases tell the way back."""
    found = asked("list", model)
    assert found["aliases"] == [{"name": "champion", "version": 3, "before": [2, 1]}]
    versions = found["versions"]
    assert [each["version"] for each in versions] == [1, 2, 3]
    assert [each["n_samples"] for each in versions] == [100, 160, 100]
    assert [len(each["eigenvalues"]) for each in versions] == [3, 3, 2]
    assert [each["aliases"] for each in versions] == [[], [], ["champion"]]
    assert {each["standing"] for each in versions} == {"sound"}
    assert all(each["n_bytes"] > 1000 and Path(each["basis"]).is_dir() for each in versions)


def test_a_version_that_goes_meanwhile_is_not_listed(
    folder: Path, asked: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken away while versions are listed is left out, and the others are told."""
    measured = model_versions.size_of

    def late(path: Path) -> int:
        shutil.rmtree(folder / "models" / "rows" / "versions" / "2", ignore_errors=True)
        return measured(path)

    monkeypatch.setattr(model_versions, "size_of", late)
    assert [each["version"] for each in asked("list", str(folder / "c.yaml"))["versions"]] == [1, 3]


def test_each_manifest_is_read_once(folder: Path, asked: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list versions costs one read of each manifest, and of each alias."""
    read, keys = Folder.read, list[str]()

    def counted(self: Folder, key: str) -> bytes | None:
        keys.append(key)
        return read(self, key)

    monkeypatch.setattr(Folder, "read", counted)
    asked("list", str(folder / "c.yaml"))
    assert sorted(key for key in keys if not key.startswith("refused/")) == [
        "aliases/champion",
        *(f"versions/{version}/manifest.json" for version in (1, 2, 3)),
    ]


def test_a_version_is_shown_by_number_or_alias(model: str, asked: Told) -> None:
    """Without a version the champion is shown, with all of its manifest."""
    assert asked("show", model)["facts"]["version"] == 3
    found = asked("show", model, "2")
    assert found["facts"]["version"] == 2
    assert found["manifest"]["summary"]["n_samples"] == 160
    asked("promote", model, "2", "--alias", "shadow")
    assert asked("show", model, "shadow")["facts"]["aliases"] == ["shadow"]


def test_promotion_and_the_way_back(model: str, asked: Told) -> None:
    """Promoting and rolling back tell both versions, and what was rolled back comes again only by force."""
    found = asked("promote", model, "1")
    assert (found["before"], found["version"], found["alias"]) == (3, 1, "champion")
    assert asked("promote", model, "1")["before"] == 1
    found = asked("rollback", model, "--reason", "false alarms")
    assert (found["action"], found["before"], found["version"]) == ("rollback", 1, 3)
    refused = asked("promote", model, "1", code=65)
    assert "was refused: false alarms" in refused["message"]
    assert asked("list", model)["versions"][0]["reason"].startswith("false alarms (20")
    assert asked("promote", model, "1", "--force")["before"] == 3
    assert asked("list", model)["versions"][0]["standing"] == "sound"


def test_versions_are_compared(model: str, asked: Told) -> None:
    """Facts that differ, changes of variances, angles, and how far scores move, aligned or not."""
    found = asked("diff", model, "1", "2")
    changed = {change["name"]: (change["first"], change["second"]) for change in found["changes"]}
    assert changed["n_samples"] == (100, 160)
    assert not {"seconds", "eigenvalues", "version"} & changed.keys()
    assert len(found["angles"]) == len(found["eigenvalue_changes"]) == 3
    assert 0 < found["angles"][-1] < 60
    assert found["angles_exact"]
    assert found["displacement_aligned"] <= found["displacement"]
    assert found["n_rows"] == 100
    same = asked("diff", model, "2", "2")
    assert same["changes"] == []
    np.testing.assert_allclose(same["angles"], 0, atol=0.1)
    assert same["displacement"] == 0
    assert len(asked("diff", model, "1", "champion")["angles"]) == 2


def test_bases_of_other_columns_differ_in_facts_only(folder: Path, asked: Told) -> None:
    """Where the same rows cannot be scored by both, that is said, and facts are told still."""
    registry = Registry.of(folder / "models", "rows")
    registry.publish(tagged(4), lambda number: {"fit": "x", "summary": {"n_samples": number}})
    found = asked("diff", str(registry.folder), "1", "4")
    assert (found["angles"], found["not_compared"]) == (None, "they are of other columns")
    assert {"name": "n_samples", "first": 100, "second": 4} in found["changes"]


def test_old_versions_go(model: str, asked: Told) -> None:
    """A dry run tells what would go, the command takes just this away, and young versions stay unasked."""
    asked("promote", model, "1")
    asked("promote", model, "3")
    assert asked("gc", model)["removed"] == []
    would = asked("gc", model, "--keep", "1", "--days", "0", "--dry-run")
    assert (would["removed"], would["dry_run"]) == ([2], True)
    found = asked("gc", model, "--keep", "1", "--days", "0")
    assert found == {**would, "dry_run": False}
    assert [kept["version"] for kept in found["kept"]] == [1, 3]
    assert [each["version"] for each in asked("list", model)["versions"]] == [1, 3]


def test_a_damaged_version_is_listed_as_such(model: str, folder: Path, asked: Told) -> None:
    """Its damage is told, the others are listed, and it cannot be shown or promoted."""
    path = folder / "models" / "rows" / "versions" / "2" / "manifest.json"
    path.write_text('{"version": 2, "created": NaN}')
    assert [each["standing"] for each in asked("list", model)["versions"]] == ["sound", "damaged", "sound"]
    assert "damaged" in asked("list", model)["versions"][1]["reason"]
    for command in ("show", "promote"):
        assert "manifest.json is damaged" in asked(command, model, "2", code=65)["message"]


def test_a_manifest_of_anything_is_printed(model: str, folder: Path, asked: Told) -> None:
    """What a manifest says in other types than expected is left out, not printed as a fact."""
    path = folder / "models" / "rows" / "versions" / "2" / "manifest.json"
    summary = {"n_samples": "many", "gamma": True, "eigenvalues": [1, "x", None], "source": 3}
    path.write_text(json.dumps({"created": 5, "fit": [], "summary": summary, "more": {"a": [1, {}]}}))
    facts = asked("show", model, "2")["facts"]
    assert [facts[key] for key in ("n_samples", "gamma", "created", "fit", "source")] == [None] * 5
    assert facts["eigenvalues"] == [1.0]
    asked("list", model)
    asked("diff", model, "1", "2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "9"), "has no version 9; there are \\[1, 2, 3\\]"),
        (("show", "nobody"), "no version and no alias 'nobody'"),
        (("promote", "²"), "no version and no alias"),
        (("promote", "1", "--alias", "../x"), "cannot be a name"),
        (("rollback", "--alias", "shadow"), "has named no other version"),
        (("gc", "--keep", "0"), "expected at least 1"),
        (("gc", "--days", "-1"), "no negative age"),
        (("gc", "--days", "nan"), "no negative age"),
    ],
)
def test_what_is_not_there_is_told(model: str, asked: Told, arguments: tuple[str, ...], message: str) -> None:
    """A version, alias or name that is wrong exits 2 with what there is."""
    command, *rest = arguments
    error = asked(command, model, *rest, code=2)
    assert error["kind"] == "ConfigError"
    assert re.search(message, error["message"]), error["message"]


def test_what_is_no_model_is_told(folder: Path, asked: Told) -> None:
    """A folder without versions, a file that is not there, and settings on top of a folder exit 2."""
    assert "holds no versions" in asked("list", str(folder / "models"), code=2)["message"]
    assert "unreadable" in asked("list", str(folder / "nowhere.yaml"), code=2)["message"]
    folder_and_set = ("list", str(folder / "models" / "rows"), "--set", "name=x")
    assert "expected none with a folder" in asked(*folder_and_set, code=2)["message"]
    other = ("list", str(folder / "c.yaml"), "--set", "name=other")
    assert "other holds no versions" in asked(*other, code=2)["message"]


def test_a_fit_does_not_bring_back_what_was_rolled_back(folder: Path) -> None:
    """The same fit again finds its version refused, says so, and leaves the champion."""
    registry = Registry.of(folder / "models", "rows")
    config = configured(folder, {"solver.n_components": 2})
    assert fit_config(config, silent(), restart=False).reused
    assert registry.rollback() == (3, 2)
    with pytest.raises(DataError, match=r"version 3 .* was refused: rolled back to version 2"):
        fit_config(config, silent())
    assert registry.resolve() == 2
    assert fit_config(config, silent(), restart=True).version == 4
    assert registry.resolve() == 4


def test_tables_tell_the_same(model: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has a table that fits 80 columns and names versions and reasons."""
    Registry.of(folder / "models", "rows").refuse(2, "a poisoned week")
    expected = {
        ("list",): ["2 is refused: a poisoned week", "champion", "lanczos"],
        ("show", "2"): ["refused: a poisoned week", "rbf, gamma 0.05", "160"],
        ("diff", "1", "2"): ["n_samples", "angles", "scores move", "aligned"],
        ("diff", "1", "1"): ["the same"],
        ("promote", "1"): ["names version 1 now, version 3 before"],
        ("rollback",): ["Rolled back", "names version 3 now, version 1 before"],
        ("gc", "--days", "0", "--keep", "1"): ["taken away      1 ", "freed", "named by champion"],
    }
    for (command, *rest), words in expected.items():
        assert main(["models", command, model, *rest]) == 0
        out = capsys.readouterr().out
        assert all(word in out for word in words), out
        assert max(len(line) for line in out.splitlines() if "poisoned" not in line and "/" not in line) <= 80
