"""The command line: arguments, output, exit codes."""

from __future__ import annotations

import dataclasses
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kpca_stream.cli import main
from kpca_stream.cli.invocation import Invocation
from kpca_stream.cli.render import render, size
from kpca_stream.errors import BusyError, ConvergenceError, DataError, KpcaStreamWarning
from kpca_stream.results import (
    Check,
    FitSummary,
    Output,
    Plan,
    RunResult,
    ScoreSummary,
    VerifyReport,
    as_json,
    json_schema,
)
from kpca_stream.telemetry import Reporter
from tests import faults

FIT = FitSummary(
    name="digits",
    source="sklearn:digits, rows 0:1437",
    n_samples=1437,
    n_features=64,
    n_dropped=3,
    fingerprint="0123456789abcdef" * 2,
    kernel="rbf",
    gamma=0.000471234567,
    precision="float64",
    storage="zarr",
    tile_rows=512,
    n_tiles=6,
    tiles_found=2,
    tiles_made=4,
    tiles_read=12,
    tiles_repaired=1,
    method="lanczos",
    n_passes=5,
    passes_resumed=2,
    eigenvalues=(56.8, 41.39, 1.25e-5),
    explained_variance_ratio=(0.25, 0.125, 0.0625),
    residual_norms=(1.2e-9, 3.4e-8, 5.6e-7),
    trace=227.2,
    seconds=83.0,
    peak_memory=123456789,
    store="work/gram.zarr",
    basis="models/digits/versions/12/basis.zarr",
    version=12,
    model="models/digits",
    reused=False,
    warnings=("fewer components than asked",),
)
SCORE = ScoreSummary(
    source="sklearn:digits, rows 1437:1797",
    n_files=1,
    n_rows=360,
    rows_written=240,
    n_parts=6,
    parts_written=4,
    parts_skipped=2,
    n_novel=5,
    output="scores/",
    model="models/digits",
    version=12,
    seconds=0.2,
)
PLAN = Plan(
    n_samples=1_000_000,
    n_features=50,
    kernel="rbf",
    precision="mixed",
    storage="zarr",
    method="lanczos",
    tile_rows=4096,
    n_tiles=30135,
    n_tasks=5000,
    disk_rows=4 * 10**8,
    disk_tiles=2 * 10**12,
    disk_vectors=10**8,
    disk_basis=5 * 10**8,
    disk_total=2 * 10**12 + 10**9,
    memory_client=10**9,
    memory_task=10**8,
    memory_total=12 * 10**8,
    evaluations=5 * 10**11,
    passes=6,
    seconds=36000.0,
    memory_limit=4 * 2**30,
    disk_limit=100 * 2**30,
)
REFUSED = dataclasses.replace(
    PLAN, refusals=("too much disk: set gram.storage: recompute", "too much memory")
)
SOUND = VerifyReport(path="b.zarr", kind="basis", checks=(Check(name="format", ok=True, detail="version 1"),))
FAULTY = dataclasses.replace(
    SOUND, checks=(*SOUND.checks, Check(name="orthonormality", ok=False, detail="off by 0.1"))
)
RESULTS = [RunResult(fit=FIT, score=SCORE), RunResult(fit=FIT), FIT, SCORE, PLAN, REFUSED, SOUND, FAULTY]
MINIMAL = "name: digits\ndata:\n  train: {path: x.npy}\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        Path("c.yaml").write_text(text)
        return "c.yaml"

    return write


def shown(result: Any, width: int) -> list[str]:
    stream = io.StringIO()
    render(result, stream, width=width)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def fails_with(error: BaseException) -> Callable[[Reporter], Any]:
    def call(_: Reporter) -> Any:
        raise error

    return call


def test_tiles_that_are_computed_again_are_told_apart() -> None:
    """No more tiles are made than there are; what later passes computed anew is a number of its own."""
    lines = shown(
        RunResult(fit=dataclasses.replace(FIT, tiles_found=0, tiles_made=18, tiles_repaired=0), score=SCORE),
        80,
    )
    assert "  tiles           6 (edge 512): 0 found, 6 made, 12 made again" in lines


@pytest.mark.parametrize("width", [60, 100])
@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_result_fits_the_terminal(result: Any, width: int) -> None:
    """No line is wider than the terminal, none is cut, and each fact has its line."""
    lines = shown(result, width)
    assert max(len(line) for line in lines) <= width
    assert not [line for line in lines if "…" in line]


def test_a_run_tells_what_was_done() -> None:
    """Rows, tiles, passes, memory, components, places and the next command can all be read."""
    lines = shown(RunResult(fit=FIT, score=SCORE), 60)
    for fact in (
        "  rows x columns  1,437 x 64, 3 more dropped",
        "  kernel          rbf, gamma 0.000471235",
        "  tiles           6 (edge 512): 2 found, 4 made, 1 repaired",
        "  storage         zarr, 12 tiles read",
        "  solver          lanczos, float64, 5 passes (2 resumed)",
        "  peak memory     118 MiB",
        "  version 12      models/digits/versions/12/basis.zarr",
        "  parts           6: 4 written, 2 there already",
        "  novel           5 rows, 1.4%",
        "  kpca-stream verify models/digits/versions/12/basis.zarr",
    ):
        assert fact in lines
    assert [line.split() for line in lines if re.match(r"\s+[1-3] ", line)] == [
        ["1", "56.8", "25.00%", "25.00%", "1.2e-09"],
        ["2", "41.39", "12.50%", "37.50%", "3.4e-08"],
        ["3", "1.25e-05", "6.25%", "43.75%", "5.6e-07"],
    ]


def test_many_components_are_shortened() -> None:
    """Beyond twenty components the table says how many more there are."""
    many = dataclasses.replace(
        FIT,
        eigenvalues=(1.0,) * 25,
        explained_variance_ratio=(0.01,) * 25,
        residual_norms=(0.0,) * 25,
    )
    assert "  and 5 more: --json lists all" in shown(many, 60)


def test_a_fit_with_nothing_to_do_says_so() -> None:
    """A version that was there already is named."""
    assert "  nothing to do   version 12 was fitted already" in shown(
        dataclasses.replace(FIT, reused=True), 60
    )


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1023.6 * 2**20, "1 GiB"),
        (2**40, "1 TiB"),
    ],
)
def test_sizes_are_short(n_bytes: int, text: str) -> None:
    """A size has about three digits and a binary unit."""
    assert size(n_bytes) == text


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_json_is_one_object_that_meets_the_schema(result: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json standard output is one object of the published schema, with the result's own values."""
    code = Invocation("run", as_json=True).perform(lambda _: result)
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json_schema())
    assert printed["result"] == json.loads(json.dumps(as_json(result)))
    assert ("error" in printed) == (code != 0)


def test_the_result_schema_is_strict_enough() -> None:
    """The schema refuses an object whose numbers are texts."""
    printed = as_json(Output(command="score", result=SCORE))
    jsonschema.Draft202012Validator.check_schema(json_schema())
    jsonschema.validate(printed, json_schema())
    printed["result"]["n_rows"] = "many"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(printed, json_schema())


def test_numpy_numbers_become_json() -> None:
    """NumPy's numbers and paths are written as plain ones."""
    import numpy as np

    fit = dataclasses.replace(
        FIT, n_passes=np.int64(5), gamma=np.float32(0.5), reused=np.bool_(0), store=Path("a/b")
    )
    printed = json.loads(json.dumps(as_json(fit)))
    assert (printed["n_passes"], printed["gamma"], printed["reused"], printed["store"]) == (
        5,
        0.5,
        False,
        "a/b",
    )


@pytest.mark.parametrize(
    ("result", "code", "message"),
    [
        (FIT, 0, ""),
        (SOUND, 0, ""),
        (REFUSED, 2, "error: too much disk: set gram.storage: recompute\nerror: too much memory\n"),
        (FAULTY, 65, "error: b.zarr: 1 of 2 checks failed: orthonormality\n"),
    ],
    ids=["fit", "sound", "refused", "faulty"],
)
def test_a_result_has_its_exit_code(
    result: Any, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refused plan and a faulty store are printed, and are failures."""
    assert Invocation("plan", quiet=True).perform(lambda _: result) == code
    out, err = capsys.readouterr()
    assert out.strip()
    assert err.replace("warning: fewer components than asked\n", "") == message


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (DataError("x.csv, row 3: text"), 65, "x.csv, row 3: text"),
        (BusyError("locked by process 7"), 75, "locked by process 7"),
        (ConvergenceError("2 of 10 converged"), 1, "2 of 10 converged"),
        (
            OSError(errno.ENOSPC, "No space left on device", "work/c"),
            2,
            (
                "work/c: No space left on device; make room and run the same command again: it goes on where "
                "it stopped"
            ),
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "work"),
            2,
            (
                "work: Permission denied; expected a place that may be written to: choose another path, or "
                "allow it"
            ),
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "work"),
            2,
            (
                "work: Is a directory; expected no file for a folder, nor a folder for a file: choose "
                "another path, or move it away"
            ),
        ),
        (OSError(errno.EIO, "Input/output error", "work"), 1, "work: Input/output error"),
        (MemoryError(), 1, "out of memory (MemoryError): lower limits.memory, or use fewer workers"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_one_line_with_its_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a user can mend, or did, ends without a traceback, and with --json in one object too."""
    assert Invocation("fit").perform(fails_with(error)) == code
    assert capsys.readouterr() == ("", f"error: {message}\n")
    assert Invocation("fit", as_json=True).perform(fails_with(error)) == code
    out, err = capsys.readouterr()
    printed = json.loads(out)
    jsonschema.validate(printed, json_schema())
    assert printed["error"] == {"kind": type(error).__name__, "message": message, "exit_code": code}
    assert err == f"error: {message}\n"


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """With --debug a user's mistake has a traceback too."""
    assert Invocation("fit", debug=True).perform(fails_with(DataError("bad"))) == 65
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("error: bad\n")


def test_a_bug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """An error that nobody foresaw keeps its traceback, and exits 1."""
    assert Invocation("fit", as_json=True).perform(fails_with(ZeroDivisionError("oops"))) == 1
    out, err = capsys.readouterr()
    assert "Traceback" in err
    assert json.loads(out)["error"]["kind"] == "ZeroDivisionError"


@pytest.mark.parametrize("quiet", [False, True])
def test_our_warnings_are_lines(*, quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning is told once as a line, quiet or not, and listed in the JSON."""

    def call(told: Reporter) -> RunResult:
        told.step("tiles")(1, 1)
        for _ in range(2):
            warnings.warn("gamma is far too large", KpcaStreamWarning, stacklevel=2)
        return RunResult(fit=FIT)

    assert Invocation("run", as_json=True, quiet=quiet).perform(call) == 0
    out, err = capsys.readouterr()
    told = ["gamma is far too large", "fewer components than asked"]
    assert json.loads(out)["warnings"] == told
    assert [line for line in err.splitlines() if line.startswith("warning")] == [
        f"warning: {t}" for t in told
    ]
    assert ("tiles: 1 of 1" in err) != quiet


@pytest.mark.parametrize("command", ["run", "plan", "fit", "score", "config check"])
def test_mistakes_in_a_configuration_exit_2(
    command: str, config: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that takes a configuration tells its mistakes, a line each, and exits 2."""
    path = config(MINIMAL + "kernel: {gama: 1}\nsolver: {tol: -1}\n")
    assert main([*command.split(), path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("error: c.yaml:4:10: kernel.gama: unknown key, got 'gama', did you mean 'gamma'?")
    assert second == "error: c.yaml:5:15: solver.tol: wrong value, got -1, expected a number >= 0.0"


def test_a_sound_configuration_is_said_to_be_so(
    config: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """``config check`` names the file, in JSON too, and takes settings."""
    path = config(MINIMAL)
    assert main(["config", "check", path, "--set", "solver.tol=1e-8"]) == 0
    assert capsys.readouterr() == ("c.yaml: no mistakes\n", "")
    assert main(["config", "check", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == {"path": "c.yaml", "name": "digits"}
    assert main(["config", "check", path, "--set", "solver.tol=x"]) == 2
    assert "--set solver.tol: solver.tol: wrong value" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "title"), [([], "configuration"), (["--output", "result"], "result")])
def test_schemas_are_printed(arguments: list[str], title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``config schema`` prints the schema of configurations or of results."""
    assert main(["config", "schema", *arguments]) == 0
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(printed)
    assert printed["title"] == f"kpca-stream {title}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'"),
        (["run"], "Missing argument 'CONFIG'"),
        (["run", "c.yaml", "--jsn"], "No such option"),
        (["plan", "c.yaml", "--shape", "12"], "got '12', expected ROWSxCOLUMNS such as 1000000x50"),
        (["plan", "c.yaml", "--shape", "0x5"], "got '0x5', expected ROWSxCOLUMNS"),
    ],
)
def test_wrong_arguments_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake in the arguments is told with the usage, and with --json in one object too."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert main([*arguments, "--json"]) == 2
    printed = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json_schema())
    assert printed["error"]["exit_code"] == 2


def test_a_missing_configuration_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is a mistake of the configuration."""
    assert main(["run", "missing.yaml"]) == 2
    assert capsys.readouterr().err.startswith("error: missing.yaml: unreadable, got: No such file")


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["config", "schema", "--help"]])
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself."""
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Usage: kpca-stream" in out
    assert ("  75   try again: the store is in use" in out) == (arguments == ["--help"])


def started(code: str, **options: Any) -> subprocess.Popen[str]:
    """A process that runs `code` with this process's modules."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        **options,
    )


WAITING = """
import signal, sys, time
from kpca_stream.cli.invocation import Invocation

def call(told):
    try:
        print("begun", file=sys.stderr, flush=True)
        time.sleep(30)
    finally:
        print("cleaned up", file=sys.stderr, flush=True)

# What runs in the background inherits that Ctrl-C is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(Invocation("run", as_json=True).perform(call))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cleans_up(number: signal.Signals, code: int) -> None:
    """Ctrl-C and SIGTERM close what is open, are told in a line, and have their exit codes."""
    with started(WAITING) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert process.returncode == code
    assert err.splitlines() == ["cleaned up", "error: interrupted" if code == 130 else "error: terminated"]
    assert json.loads(out)["error"]["exit_code"] == code


def test_a_reader_that_leaves_is_no_error() -> None:
    """Output into a pipe that nobody reads ends quietly."""
    code = "import sys, time; time.sleep(0.3); from kpca_stream.cli import main; main(['config', 'schema'])"
    with started(code) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""


def test_the_module_is_the_command(config: Callable[[str], str]) -> None:
    """``python -m kpca_stream`` does what ``kpca-stream`` does."""
    done = subprocess.run(
        [sys.executable, "-m", "kpca_stream", "config", "check", config(MINIMAL)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "c.yaml: no mistakes\n")
    assert done.stderr == ""


@pytest.fixture
def quickstart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The README's configuration, called in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return str(Path(__file__).parents[1] / "configs" / "quickstart.yaml")


def printed_by(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """The JSON object of a command, which meets the schema and has the exit code."""
    assert main([*arguments, "--json"]) == code
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.validate(printed, json_schema())
    return printed


def test_the_quickstart_does_the_main_job(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first run publishes version 1 and scores all parts; the second finds nothing to do."""
    first = printed_by(capsys, "run", quickstart)["result"]
    assert (first["fit"]["n_samples"], first["fit"]["n_features"]) == (1437, 64)
    assert (first["fit"]["n_tiles"], first["fit"]["tiles_made"]) == (6, 6)
    assert (first["fit"]["version"], first["fit"]["reused"]) == (1, False)
    assert max(first["fit"]["residual_norms"]) <= 1e-6
    assert (first["score"]["n_rows"], first["score"]["n_parts"], first["score"]["parts_written"]) == (
        360,
        6,
        6,
    )
    assert Path(first["fit"]["basis"]) == Path("models/digits/versions/1/basis.zarr")
    assert len(list(Path("scores").glob("*.parquet"))) == 6
    second = printed_by(capsys, "run", quickstart)["result"]
    assert (second["fit"]["reused"], second["score"]["parts_skipped"]) == (True, 6)
    assert second["fit"]["eigenvalues"] == first["fit"]["eigenvalues"]


def test_a_newcomer_sees_what_was_done(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The run prints rows, tiles, ten components, places and a next command that works."""
    assert main(["run", quickstart]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"rows x columns +1,437 x 64\b", out)
    assert re.search(r"tiles +6 \(edge 512\): 0 found, 6 made", out)
    assert len(re.findall(r"(?m)^ +\d+ +\d\S* +\d+\.\d\d% +\d+\.\d\d% +\d\.\de-\d\d$", out)) == 10
    assert not [line for line in err.splitlines() if line.startswith(("error", "warning"))]
    following = out.split("Next\n")[1].split()
    assert following[0] == "kpca-stream"
    assert main(following[1:]) == 0
    assert main(["verify", "work/gram.zarr"]) == 0


def test_the_stages_run_one_by_one(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``fit`` and ``score`` do what ``run`` does; ``score`` alone says what is missing."""
    assert main(["score", quickstart]) in {2, 65}
    assert len(capsys.readouterr().err.splitlines()) == 1
    fitted = printed_by(capsys, "fit", quickstart)["result"]
    scored = printed_by(capsys, "score", quickstart)["result"]
    assert (fitted["version"], scored["version"], scored["parts_written"]) == (1, 1, 6)
    assert main(["score", quickstart, "--set", "score=null"]) == 2
    assert "score: missing section" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("data.train.path=missing.npy", 2),
        ("data.columns=[99]", 2),
        ("data.train.rows='0:0'", 2),
        ("limits.memory=1MiB", 2),
        ("kernel.name=missing_module:function", 2),
        ("models.path=occupied", 2),
        ("gram.path=occupied", 2),
    ],
)
def test_what_stops_a_run_is_one_line(
    quickstart: str, setting: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that cannot be done says why in one line, and leaves no version."""
    Path("occupied").write_text("a file where a folder must be")
    assert main(["run", quickstart, "--quiet", "--set", setting]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1, err
    assert not list(Path().glob("models/digits/versions/*/manifest.json"))


def test_a_plan_needs_no_data(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan of a million rows is refused with the way out; the way out is accepted."""
    arguments = ["plan", quickstart, "--shape", "1000000x50", "--set", "data.train.path=missing.npy"]
    refused = printed_by(capsys, *arguments, code=2)
    assert refused["result"]["n_samples"] == 1_000_000
    assert "gram.storage: recompute" in refused["error"]["message"]
    plan = printed_by(capsys, *arguments, "--set", "gram.storage=recompute")["result"]
    assert plan["refusals"] == []
    assert plan["disk_tiles"] == 0
    assert not Path("work").exists()


def test_a_damaged_basis_exits_65(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A flipped bit of a published basis is found and named."""
    basis = Path(printed_by(capsys, "fit", quickstart)["result"]["basis"])
    chunk = next(path for path in sorted((basis / "coefficients").rglob("*")) if path.parent.name == "0")
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    assert main(["verify", str(basis)]) == 65
    out, err = capsys.readouterr()
    assert "FAILED" in out
    assert err.splitlines()[-1].startswith(f"error: {basis}: ")


def test_a_function_of_the_current_folder_is_a_kernel(
    quickstart: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kernel ``module:function`` is found in the folder that the command is called in."""
    Path("folder_kernel.py").write_text("def plus(X, Y):\n    return X @ Y.T + (X @ Y.T) ** 2\n")
    settings = ["--set", "kernel.name='folder_kernel:plus'", "--set", "data.train.path=x.npy"]
    settings += ["--set", "data.train.rows=null", "--set", "solver.n_components=2", "--set", "score=null"]
    import numpy as np

    np.save("x.npy", np.array([[-1.0], [0.0], [1.0]]))
    fitted = printed_by(capsys, "fit", quickstart, *settings)["result"]
    assert fitted["eigenvalues"] == pytest.approx([2, 2 / 3], rel=1e-12)
    assert fitted["explained_variance_ratio"][0] == pytest.approx(3 / 4, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("raises", ("kernel bad_kernels:raises raised LinAlgError", "expected")),
        ("shape", ("kernel bad_kernels:shape returned shape", "expected")),
        ("nan", ("kernel bad_kernels:nan returned NaN or infinity", "expected")),
        ("words", ("kernel bad_kernels:words", "type", "expected")),
        ("complex", ("kernel bad_kernels:complex", "of type complex128", "expected")),
        ("rows", ("kernel bad_kernels:rows", "expected")),
    ],
)
def test_a_kernel_that_fails_is_one_line(
    name: str, parts: tuple[str, ...], config: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A function that raises or returns no matrix of numbers is named in one line, with what was expected."""
    import numpy as np

    Path("bad_kernels.py").write_text(faults.KERNELS)
    np.save("x.npy", np.random.default_rng(0).standard_normal((50, 3)))
    path = config(f"{MINIMAL}kernel: {{name: 'bad_kernels:{name}'}}\n")
    assert main(["fit", path, "--quiet"]) == 65
    (line,) = capsys.readouterr().err.splitlines()
    assert [part for part in parts if part not in line] == []
    assert not list(Path("models").rglob("manifest.json"))


@pytest.mark.parametrize("command", ["config check", "plan", "fit", "run"])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("{name: rbff}", "c.yaml:4:16: kernel.name: unknown kernel, got 'rbff', did you mean 'rbf'?"),
        ("{name: rbf, gamma: 0}", "c.yaml:4:28: kernel.gamma: not a scale of the rbf kernel, got 0"),
        ("{name: poly, degree: 2.5}", "c.yaml:4:30: kernel.degree: makes poly indefinite, got 2.5"),
        ("{name: 'no.module:f'}", "c.yaml:4:16: kernel.name: 'no.module:f' cannot be found (ModuleNotFound"),
        ("{name: 'broken:f'}", "c.yaml:4:16: kernel.name: 'broken:f' cannot be found (SyntaxError"),
        ("{name: 'os:nope'}", "c.yaml:4:16: kernel.name: 'os:nope' cannot be found (AttributeError"),
        ("{name: 'os:name'}", "c.yaml:4:16: kernel.name: 'os:name' is a str"),
    ],
)
def test_a_wrong_kernel_is_told_at_its_place(
    command: str,
    kernel: str,
    message: str,
    config: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A kernel that does not exist, or must not be, is told at its place before anything is read."""
    Path("broken.py").write_text("def f(X, Y:\n")
    path = config(f"{MINIMAL}kernel: {kernel}\n")
    assert main([*command.split(), path]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"error: {message}")
    assert "expected" in line
    assert not Path("work").exists()


def test_a_locked_store_exits_75(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A second fit in one store is told to try again."""
    from kpca_stream.storage.lock import locked

    Path("work/gram.zarr").mkdir(parents=True)
    with locked(Path("work/gram.zarr")):
        assert main(["fit", quickstart, "--quiet"]) == 75
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")


@pytest.mark.cluster
def test_processes_give_the_bits_of_threads(quickstart: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``cluster.kind: local`` publishes the eigenvalues of threads, to the bit."""
    threads = printed_by(capsys, "fit", quickstart)["result"]
    elsewhere = ["--set", "gram.path=work/other.zarr", "--set", "models.path=other"]
    local = printed_by(capsys, "fit", quickstart, *elsewhere, "--set", "cluster={kind: local, n_workers: 2}")[
        "result"
    ]
    assert not local["reused"]
    assert local["eigenvalues"] == threads["eigenvalues"]
