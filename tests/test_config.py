"""The configuration: checked values or mistakes with their places."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpca_stream.config import Config, json_schema, load_config, parse_share, parse_size
from kpca_stream.config.refit_schema import parse_duration
from kpca_stream.errors import ConfigError

MINIMAL = "name: digits\ndata:\n  train: {path: x.npy}\n"
QUICKSTART = Path(__file__).parents[1] / "configs" / "quickstart.yaml"
WORDS = [
    "name",
    "data",
    "train",
    "kernel",
    "gamma",
    "solver",
    "tol",
    "- ",
    ": ",
    "{",
    "[",
    "]",
    "}",
    "*a",
    "&a",
]
SYNTAX = [
    *WORDS,
    "\n",
    "  ",
    "!!int ",
    "!x ",
    "1e-3",
    ".inf",
    "0x_",
    '"\\ud800"',
    "'",
    "|\n",
    "<<",
    "?",
    "%YAML 1",
    "---",
]

Load = Callable[..., Config]
Mistakes = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def of(text: str | bytes, *overrides: str) -> Config:
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, overrides)

    return of


@pytest.fixture
def mistakes(load: Load, tmp_path: Path) -> Mistakes:
    def of(text: str | bytes, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(text, *overrides)
        return str(caught.value).replace(f"{tmp_path}/", "").splitlines()

    return of


def test_only_a_name_and_rows_must_be_given(load: Load) -> None:
    """All keys but the name and the path of the rows have defaults."""
    config = load(MINIMAL)
    assert (config.name, config.data.train.path) == ("digits", "x.npy")
    assert config.kernel.name == "rbf"
    assert config.kernel.gamma is None
    assert (config.solver.n_components, config.solver.tol) == (10, 1e-6)
    assert (config.limits.memory, config.limits.disk) == (4 * 2**30, 100 * 2**30)
    assert config.score is None


def test_the_quickstart_is_right() -> None:
    """The configuration that the README runs has no mistakes."""
    config = load_config(QUICKSTART)
    assert config.data.train.path == "sklearn:digits"
    assert config.data.train.rows == "0:1437"
    assert config.gram.storage == "zarr"
    assert config.score is not None
    assert config.score.input.part_rows == 60


def test_values_are_frozen(load: Load) -> None:
    """A configuration cannot be changed after it was checked."""
    with pytest.raises(ValueError, match="frozen"):
        load(MINIMAL).kernel.gamma = 2.0


@pytest.mark.parametrize(
    ("setting", "section", "key", "value"),
    [
        ("solver.tol=1e-3", "solver", "tol", 1e-3),
        ("solver.n_components=0.9", "solver", "n_components", 0.9),
        ("solver.n_components=90%", "solver", "n_components", 0.9),
        ("kernel.gamma=median", "kernel", "gamma", "median"),
        ("kernel.gamma=2", "kernel", "gamma", 2.0),
        ("kernel={name: polynomial, degree: 2}", "kernel", "name", "poly"),
        ("kernel.name='package.module:function'", "kernel", "name", "package.module:function"),
        ("data.columns=[width, 3]", "data", "columns", ("width", 3)),
        ("novelty.quantile=95%", "novelty", "quantile", 0.95),
        ("novelty.quantile=0.95", "novelty", "quantile", 0.95),
        ("limits.memory=1.5 GiB", "limits", "memory", 3 * 2**29),
        ("gram.tile_rows=512", "gram", "tile_rows", 512),
        ("cluster.n_workers=null", "cluster", "n_workers", None),
    ],
)
def test_a_setting_overrides_the_file(
    load: Load, setting: str, section: str, key: str, value: object
) -> None:
    """``--set a.b=c`` has YAML's values, and makes sections that the file does not have."""
    found = getattr(getattr(load(MINIMAL, setting), section), key)
    assert found == value
    assert type(found) is type(value)


def test_the_last_setting_wins(load: Load) -> None:
    """Settings are applied in order on top of the file."""
    config = load(
        MINIMAL + "seed: 1\n", "seed=2", "score.input.path=a.csv", "seed=3", "score.input.rows='0:9'"
    )
    assert config.seed == 3
    assert config.score is not None
    assert (config.score.input.path, config.score.input.rows) == ("a.csv", "0:9")


def test_every_mistake_is_told_with_its_place(mistakes: Mistakes) -> None:
    """All mistakes of a file come at once, each a line with file, line, column and key."""
    text = MINIMAL + "kernel: {name: rbff, gama: 1}\nsolver:\n  tol: -1\n  max_passes: '50'\nsover: {}\n"
    places = [line.split(" ", 2)[:2] for line in mistakes(text)]
    assert places == [
        ["c.yaml:4:22:", "kernel.gama:"],
        ["c.yaml:6:8:", "solver.tol:"],
        ["c.yaml:7:15:", "solver.max_passes:"],
        ["c.yaml:8:1:", "sover:"],
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "sover: {}",
            r"4:1: sover: unknown key, got 'sover', did you mean 'solver'\? expected name, seed, data.*",
        ),
        (
            "score: {input: {path: a}, ouput: 3}",
            r"4:27: score.ouput: unknown key, got 'ouput', did you mean 'output'\?.*",
        ),
        (
            "score: {}",
            "4:8: score.input: missing key, got none, expected a section with path, rows, part_rows.*",
        ),
        ("kernel: {name: rbff}", r"4:16: kernel.name: unknown kernel, got 'rbff', did you mean 'rbf'\?.*"),
        ("kernel: {gamma: 0}", "4:17: kernel.gamma: .* got 0.0, expected a number > 0.*"),
        ("kernel: {name: poly, gamma: median}", "4:29: kernel.gamma: no median rule for the poly kernel.*"),
        (
            "kernel: {name: poly, degree: 2.5}",
            "4:30: kernel.degree: .* got 2.5, expected a whole number >= 1",
        ),
        ("kernel: {name: poly, coef0: -1}", "4:29: kernel.coef0: .* got -1.0, expected a number >= 0"),
        (
            "kernel: {name: linear}\nkernel: {}",
            "5:1: kernel: duplicate key, got it at 4:1 too, expected it once",
        ),
        ("seed: '1'", "4:7: seed: wrong value, got the text '1', expected a whole number"),
        ("seed: 1.0", "4:7: seed: wrong value, got 1.0, expected a whole number"),
        ("seed: yes", "4:7: seed: wrong value, got the text 'yes', expected a whole number"),
        ("seed: true", "4:7: seed: wrong value, got true, expected a whole number"),
        ("seed:", "4:1: seed: wrong value, got null, expected a whole number"),
        (
            "solver: {n_components: 1.0}",
            "4:24: solver.n_components: .* got 1.0, expected a whole number >= 1, or.*",
        ),
        (
            "solver: {n_components: 0}",
            "4:24: solver.n_components: .* got 0, expected a whole number >= 1, or.*",
        ),
        (
            "solver: {n_components: 100%}",
            "4:24: solver.n_components: .* got the text '100%', expected .* such as 0.9 or 90%",
        ),
        ("solver: {method: lanczoz}", "4:18: .* got the text 'lanczoz', expected auto, dense, .*nystrom"),
        ("solver: {tol: .nan}", "4:15: solver.tol: wrong value, got nan, expected a finite number"),
        ("solver: {max_passes: 0}", "4:22: solver.max_passes: wrong value, got 0, expected a number >= 1"),
        (
            "limits: {memory: 4Gb}",
            "4:18: limits.memory: wrong value, got the text '4Gb', expected .* such as 4GiB.*",
        ),
        ("limits: {disk: 0}", "4:16: limits.disk: wrong value, got 0, expected .*"),
        ("novelty: {quantile: 100%}", "4:21: novelty.quantile: .* got the text '100%', expected a share.*"),
        ("models: 3", "4:9: models: wrong value, got 3, expected a section of keys"),
        ("gram: &g {}\nscore: *g", "4:7: unsupported, got an alias of this value, expected the value itself"),
        (
            "seed: !!python/name:os.system",
            "4:7: unsupported, got the tag 'python/name:os.system', expected.*",
        ),
        ("seed: 0x" + "f" * 9000, "4:7: not a value, got 9002 digits, expected at most 100"),
        ("? [a]\n: b", "4:3: not a key, got a list, expected a word"),
    ],
)
def test_a_mistake_says_what_was_got_and_expected(mistakes: Mistakes, text: str, line: str) -> None:
    """A wrong value, key or piece of syntax is told in a line of one form."""
    (found,) = mistakes(MINIMAL + text + "\n")
    assert re.fullmatch(f"c.yaml:{line}", found), found


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "c.yaml:1:1: name: missing key, got none, expected a text"),
        ("[1]", "c.yaml:1:1: not a configuration, got a list, expected sections of keys"),
        ("name", "c.yaml:1:1: not a configuration, got 'name', expected sections of keys"),
        ("name: [1,", "c.yaml:1:10: not YAML, got: .*, expected keys and values"),
        ("[" * 9000, "c.yaml: nested too deeply, expected sections of keys"),
        (b"name: \xff", "c.yaml: not YAML, got: .*, expected UTF-8 text"),
        (b"#" * 2**18 + b"\n", "c.yaml: too large, got over 262144 bytes, expected a configuration"),
        (
            "name: ../x\ndata: {train: {path: a}}",
            "c.yaml:1:7: name: wrong value, got the text '../x', expected letters.*",
        ),
    ],
)
def test_what_is_no_configuration_is_told_so(mistakes: Mistakes, content: str | bytes, line: str) -> None:
    """Broken files are one-line errors, whatever they hold."""
    assert re.fullmatch(line, mistakes(content)[0])


@pytest.mark.parametrize("path", ["missing.yaml", ".", "a\0b"])
def test_an_unreadable_file_is_named(path: str) -> None:
    """A path that cannot be read is an error of the configuration."""
    with pytest.raises(ConfigError, match="unreadable, got"):
        load_config(path)


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        ("solver.tl=1", r"--set solver.tl: solver.tl: unknown key, got 'tl', did you mean 'tol'\?.*"),
        ("solver.tol=x", "--set solver.tol: solver.tol: wrong value, got the text 'x', expected a number"),
        ("solver={tol: x}", "--set solver: solver.tol: wrong value, got the text 'x', expected a number"),
        ("solver.tol=[", "--set solver.tol:1:2: not YAML, got: .*"),
        ("solver.tol", "--set: not a setting, got 'solver.tol', expected section.key=value"),
        ("solver..tol=1", "--set: not a setting, got 'solver..tol=1', expected section.key=value"),
        ("name.x=1", "--set name.x: no section to set a key of, got name = 'digits', expected a section"),
    ],
)
def test_a_wrong_setting_is_placed_at_the_setting(mistakes: Mistakes, setting: str, line: str) -> None:
    """A mistake in ``--set`` names the setting, not the file."""
    (found,) = mistakes(MINIMAL, setting)
    assert re.fullmatch(line, found), found


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(SYNTAX), max_size=30).map(lambda w: "".join(w).encode())
)
def test_any_bytes_are_a_configuration_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    """No bytes whatever make anything else than a configuration or a ConfigError of printable lines."""
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(MINIMAL.encode() * (len(content) % 2) + content)
    try:
        load_config(path)
    except ConfigError as error:
        assert all(line.isprintable() for line in str(error).splitlines())  # noqa: PT017  both ends are right


@given(st.text(max_size=40))
def test_any_setting_is_a_value_or_an_error(tmp_path_factory: pytest.TempPathFactory, setting: str) -> None:
    """No setting whatever makes anything else than a configuration or a ConfigError."""
    path = tmp_path_factory.getbasetemp() / "minimal.yaml"
    path.write_text(MINIMAL)
    for text in (setting, f"solver.tol={setting}", f"{setting}=1", f"kernel.name={setting}"):
        try:
            load_config(path, [text])
        except ConfigError as error:
            assert str(error)  # noqa: PT017  both ends are right


@pytest.mark.parametrize(
    ("text", "size"),
    [("1KiB", 1024), ("1kB", 1000), ("2 TB", 2 * 10**12), ("0.5MiB", 2**19), ("17", 17), (17, 17), ("3B", 3)],
)
def test_sizes_are_bytes(text: str | int, size: int) -> None:
    """A size has a binary or a decimal unit, or none."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "4 gib", "1.2.3GB", "0", True, "0.1B", "1 GiB x"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """A size that could be misread is an error."""
    with pytest.raises(ValueError, match="not a size, got"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "99", "%", "100%", "0%", "-1%", 0, 1, 1.5, True, "x%", "nan%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    """A share lies between 0 and 1 or has a percent sign."""
    with pytest.raises(ValueError, match=r"not a share|could not convert"):
        parse_share(text)


def test_the_schema_accepts_what_the_checks_accept() -> None:
    """The published schema is valid, takes the quickstart and refuses an unknown key."""
    from ruamel.yaml import YAML

    schema = json.loads(json.dumps(json_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    values = YAML(typ="safe", pure=True).load(QUICKSTART.read_text())
    jsonschema.validate(values, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values | {"sover": {}}, schema)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7 days", 604_800),
        ("1 week", 604_800),
        ("1.5hours", 5400),
        ("90 minutes", 5400),
        (30, 30),
        (0.5, 0.5),
    ],
)
def test_times_are_seconds(text: str | float, seconds: float) -> None:
    """Numbers with a unit of time, or plain ones, are seconds."""
    assert parse_duration(text) == seconds


def test_refits_have_defaults(load: Load) -> None:
    """Without a section a tenth of new rows makes a re-fit due, and the gate is not open."""
    refit = load(MINIMAL).refit
    assert (refit.when.new_rows, refit.when.max_age, refit.align) == (0.1, None, "rotation")
    assert refit.gate.max_novelty is not None
    assert load(MINIMAL, "refit.gate.min_rows=99%").refit.gate.min_rows == 0.99
    assert load(MINIMAL, "refit.gate.min_rows=1000").refit.gate.min_rows == 1000


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("refit.when.max_age=soon", "expected a time such as 12 hours or 7 days"),
        ("refit.when.max_age=0", "expected a time such as"),
        ("refit.when.new_rows=110%", "expected a share between 0 and 1"),
        ("refit.when.error_ratio=0.5", "expected a number > 1"),
        ("refit.when.drfit=0.2", "did you mean 'drift'?"),
        ("refit.gate.max_angle=91", "expected a number <= 90"),
        ("refit.gate.min_rows=0", "expected a whole number >= 1, or a share of the champion's rows"),
        ("refit.align=rotate", "expected none, signs or rotation"),
        ("refit.keep=0", "expected a number >= 1"),
    ],
)
def test_mistakes_in_refits_are_told(setting: str, told: str, mistakes: Mistakes) -> None:
    """What is wrong with a re-fit's settings is told with what was expected."""
    (line,) = mistakes(MINIMAL, setting)
    assert told in line


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        (["gram.path=x.npy"], "gram.path", "at or inside data.train.path, which is x.npy, got 'x.npy'"),
        (["gram.path=./y/../x.npy"], "gram.path", "at or inside data.train.path"),
        (["data.train.path=rows", "gram.path=rows/work/g"], "gram.path", "at or inside data.train.path"),
        (["data.train.path=rows", "models.path=rows/m"], "models.path", "at or inside data.train.path"),
        (["data.train.path=models/digits"], "models.path", "at or inside data.train.path"),
        (["data.train.path=rows.h5::x", "gram.path=rows.h5"], "gram.path", "at or inside data.train.path"),
        (["data.train.path=work/gram.zarr/rows"], "data.train.path", "at or inside gram.path"),
        (["score={input: {path: n.npy}, output: n.npy}"], "score.output", "at or inside score.input.path"),
        (["score={input: {path: new}, output: new/s}"], "score.output", "at or inside score.input.path"),
        (["score={input: {path: n}, output: work/gram.zarr}"], "score.output", "at or inside gram.path"),
        (["models.path=work/gram.zarr"], "models.path", "at or inside gram.path"),
    ],
)
def test_what_is_read_and_what_is_written_lie_apart(
    settings: list[str], key: str, message: str, mistakes: Mistakes
) -> None:
    """A place that would be overwritten, or read as rows, is told with the place that it clashes with."""
    (line,) = mistakes(MINIMAL, *settings)
    assert f": {key}: {message}" in line
    assert "expected a place of its own" in line


@pytest.mark.parametrize(
    "settings",
    [
        ["gram.path=rows/gram.zarr", "data.train.path=rows/x.npy"],
        ["data.train.path=sklearn:digits", "gram.path=sklearn:digits"],
        ["data.train.path=rows", "gram.path=rows2"],
        ["score={input: {path: x.npy}, output: .}"],
    ],
)
def test_places_side_by_side_are_right(settings: list[str], load: Load) -> None:
    """Files of one folder, and names that begin alike, do not clash."""
    assert load(MINIMAL, *settings).name == "digits"


@pytest.mark.parametrize("value", ["0", "-1", ".inf", "soon"])
def test_checkpoints_need_some_time_between_them(value: str, mistakes: Mistakes) -> None:
    """The time between checkpoints is a number above zero."""
    (line,) = mistakes(MINIMAL, f"gram.checkpoint_seconds={value}")
    assert "gram.checkpoint_seconds: wrong value" in line
