"""What the README and the guides tell to type is typed here, and what they say is printed is compared."""

from __future__ import annotations

import doctest
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from kpca_stream.config import Config
from kpca_stream.pipeline import fit_config
from kpca_stream.telemetry import silent
from tests.documents import RUNNABLE, Block, blocks, dialogue
from tests.jobs import ROOT, configured, environment_with_program

README = ROOT / "README.md"
GUIDES = sorted((ROOT / "configs").glob("*.md"))
PAGES = [README, *GUIDES]
BLOCKS = [block for page in PAGES for block in blocks(page)]
RUN_BY = {
    "run": (".ci/run", "run_command_of_readme run"),
    "test": (".ci/run", "run_command_of_readme test"),
    "report": (".ci/run", "run_command_of_readme report"),
    "merge": ("tests/test_nystrom_merge.py", 'command_of_readme("merge")'),
}
"""Where commands are run that need an environment of their own, or that another test compares."""
SEVEN = 7
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def seven_versions(folder: Path) -> None:
    """Of the model digits."""
    for version in range(1, SEVEN + 1):
        changes = {
            "name": "digits",
            "data": {"train": {"path": "sklearn:digits", "rows": f"0:{100 + version}"}},
            "solver": {"n_components": 2},
            "kernel": {"name": "rbf", "gamma": 2e-4},
            "gram": {"path": str(folder / f"{version}.zarr")},
            "score": None,
        }
        fit_config(configured(folder, changes), silent())


PREPARED: dict[str, Callable[[Path], None]] = {"versions": seven_versions}
"""Named commands that are run here, and what must be there before."""


def typed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as a reader types it, with what it prints to either stream in order."""
    environment = {**environment_with_program(folder / "bin"), "COLUMNS": "120", "MPLBACKEND": "agg"}
    shell = ["bash", "-euo", "pipefail", "-c", command]
    return subprocess.run(
        shell,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def in_checkout(folder: Path) -> None:
    """What a reader finds in the folder."""
    (folder / "configs").symlink_to(ROOT / "configs")


def alike(wanted: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(wanted, printed, LIKE)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in RUNNABLE], ids=str)
def test_every_command_is_run_or_says_why_not(block: Block) -> None:
    """A block that can be typed is run here, or where its name says, or bears a reason why it is not."""
    if block.name in RUN_BY:
        path, call = RUN_BY[block.name]
        assert call in (ROOT / path).read_text()
    elif block.page == README and block.language == "sh":
        assert block.name in PREPARED or len(block.reason) > 10
    elif block.language in ("sh", "bash"):
        assert len(block.reason) > 10


def test_every_name_and_every_language_is_known() -> None:
    """No name is given that nothing is run by, and no block is in a language that nobody looks at."""
    assert {block.name for block in BLOCKS if block.name} == {*RUN_BY, *PREPARED}
    assert {block.language for block in BLOCKS} <= {*RUNNABLE, "text", "yaml", "diff"}


@pytest.mark.parametrize("name", PREPARED)
def test_a_command_of_the_readme_runs_as_it_stands(name: str, tmp_path: Path) -> None:
    """Line by line, in a folder where what it names is there."""
    PREPARED[name](tmp_path)
    found = next(block for block in BLOCKS if block.name == name)
    done = typed(found.text, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which the README's first command was called, and what it printed."""
    folder = tmp_path_factory.mktemp("quickstart")
    in_checkout(folder)
    done = typed("kpca-stream run configs/quickstart.yaml --quiet", folder)
    assert done.returncode == 0, done.stdout
    return folder, done.stdout


def test_the_first_command_prints_what_the_readme_shows(quickstart: tuple[Path, str]) -> None:
    """All but times, memory and rounding is as it stands there."""
    text = README.read_text(encoding="utf-8").split("<!-- output: run -->\n```text\n")[1].split("```")[0]
    assert steady(quickstart[1]) == steady(text)


def steady(printed: str) -> list[str]:
    """Lines without what differs from run to run: times, memory and residuals."""
    varying = r"\d+\.\d+s|\d+ MiB|\d\.\de[-+]\d+"
    return [re.sub(varying, "#", line).rstrip() for line in printed.strip().splitlines()]


@pytest.mark.slow
def test_python_of_the_readme_runs_as_it_stands(quickstart: tuple[Path, str]) -> None:
    """Block after block in one session, after the first command; a warning is an error."""
    found = [block for block in blocks(README) if block.language == "python"]
    script = quickstart[0] / "session.py"
    script.write_text("\n".join(block.text for block in found))
    done = typed("python -W error session.py", quickstart[0])
    assert done.returncode == 0, done.stdout
    assert len(found) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and Python, one after the other in one folder, print what stands below them."""
    in_checkout(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.language == "console":
            for command, wanted in dialogue(block.text):
                printed = typed(f"{command} || true", tmp_path).stdout
                assert alike(wanted, printed), f"{block}\n{command}\n{printed}"
        elif block.language == "pycon":
            example = doctest.DocTestParser().get_doctest(
                block.text, names, str(block), str(page), block.line
            )
            told: list[str] = []
            doctest.DocTestRunner(optionflags=LIKE).run(example, out=told.append, clear_globs=False)
            names = example.globs
            assert told == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_configurations_on_a_page_are_sound(block: Block) -> None:
    """Sections that a page shows have no mistakes, beside the two keys that must be there."""
    least = {"name": "digits", "data": {"train": {"path": "sklearn:digits"}}}
    Config.model_validate({**least, **YAML(typ="safe", pure=True).load(block.text)})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link within the checkout leads to a file, and one to a heading to a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_python_modules_that_a_page_calls_are_there() -> None:
    """Whatever ``python -m`` is said to run can be run, also where that takes too long for here."""
    for page in PAGES:
        for name in re.findall(r"python -m (tests[.\w]*)", page.read_text(encoding="utf-8")):
            path = ROOT / name.replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name
