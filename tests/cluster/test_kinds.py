"""Every stage on every kind of cluster that runs on one machine, with the bits of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kpca_stream.cluster import forecast_workers
from kpca_stream.config import Cluster, Config
from kpca_stream.errors import BusyError, ConfigError
from kpca_stream.pipeline import fit_config, plan_config, score_config
from kpca_stream.results import FitSummary
from kpca_stream.telemetry import silent
from tests.disturb import write_yaml
from tests.jobs import command, configured, contents
from tests.schedulers import Processes, processes

pytestmark = pytest.mark.cluster

METHODS = ("lanczos", "dense", "nystrom")
N_ROWS = 1500


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((6, 8))
    X = centres[rng.integers(0, 6, N_ROWS)] + 0.5 * rng.standard_normal((N_ROWS, 8))
    np.save(folder / "train.npy", X)
    np.save(folder / "new.npy", X[:90] + 0.1)
    return folder


def job(folder: Path, data: Path, method: str, cluster: dict[str, Any]) -> Config:
    folder.mkdir(exist_ok=True)
    return configured(
        folder,
        {
            "data.train.path": str(data / "train.npy"),
            "score.input.path": str(data / "new.npy"),
            "solver.method": method,
            "gram.tile_rows": 128,
            "nystrom.landmarks": 60,
            "cluster": cluster,
        },
    )


def outcome(config: Config, folder: Path) -> tuple[FitSummary, dict[str, bytes], list[Any]]:
    """The fit, all that scoring needs as bytes, and the scores."""
    found = fit_config(config, silent())
    score_config(config, silent())
    basis = contents(folder / "models" / "rows" / "versions" / "1" / "basis.zarr")
    scores = [pq.read_table(path) for path in sorted((folder / "scores").glob("*.parquet"))]
    return found, basis, scores


@pytest.fixture(scope="module", params=METHODS)
def on_threads(request: pytest.FixtureRequest, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("threads")
    config = job(folder, data, request.param, {"kind": "threads", "n_workers": 2})
    return request.param, *outcome(config, folder)


def section(name: str, two: Processes, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    if name == "variable":
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", two.address)
    sections: dict[str, dict[str, Any]] = {
        "local": {"kind": "local", "n_workers": 2},
        "adaptive": {"kind": "local", "adapt": {"minimum": 1, "maximum": 2}},
        "address": {"kind": "address", "address": two.address, "min_workers": 2},
        "scheduler file": {"kind": "address", "scheduler_file": str(two.scheduler_file)},
        "variable": {"kind": "address"},
        "class": {
            "class": "distributed.LocalCluster",
            "kwargs": {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"},
        },
    }
    return sections[name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", "adaptive", "address", "scheduler file", "variable", "class"])
def test_every_stage_has_the_bits_of_threads(
    kind: str,
    on_threads: Any,
    data: Path,
    two_workers: Processes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fit and scoring leave the same basis and the same scores, to the bit, on every kind."""
    method, expected, basis, scores = on_threads
    config = job(tmp_path, data, method, section(kind, two_workers, monkeypatch))
    found, found_basis, found_scores = outcome(config, tmp_path)
    assert found.eigenvalues == expected.eigenvalues
    assert found.n_passes == expected.n_passes
    assert set(found_basis) == set(basis)
    different = [name for name in basis if found_basis[name] != basis[name]]
    assert different == []
    assert len(scores) > 1
    assert all(one.equals(other) for one, other in zip(found_scores, scores, strict=True))


def test_relative_paths_are_those_of_the_command(
    data: Path, two_workers: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers in other folders read and write where the command was run."""
    from kpca_stream.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel_of_mine.py").write_text("def product(X, Y):\n    return X @ Y.T\n")
    np.save("x.npy", np.load(data / "train.npy"))
    (tmp_path / "c.yaml").write_text(
        "name: here\ndata: {train: {path: x.npy}}\nsolver: {n_components: 2}\n"
        'kernel: {name: "kernel_of_mine:product"}\ngram: {tile_rows: 256, path: g.zarr, storage: zarr}\n'
        f"cluster: {{kind: address, address: '{two_workers.address}'}}\n"
        "score: {input: {path: x.npy, part_rows: 500}, output: out}\n"
    )
    assert main(["run", "c.yaml", "--quiet"]) == 0
    assert len(list(Path("out").glob("*.parquet"))) == 3
    assert Path("g.zarr/tiles").is_dir()


def fit_on(folder: Path, data: Path, cluster: dict[str, Any]) -> None:
    fit_config(job(folder, data, "dense", cluster), silent())


def test_no_scheduler_is_a_cluster_for_later(data: Path, tmp_path: Path) -> None:
    """Where nobody answers, the command ends after its time limit with the address."""
    cluster = {"kind": "address", "address": "tcp://127.0.0.1:9", "wait_seconds": 0.3}
    with pytest.raises(BusyError, match=r"no scheduler answers at tcp://127.0.0.1:9"):
        fit_on(tmp_path, data, cluster)


def test_a_kubernetes_that_does_not_answer_is_a_cluster_for_later(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Kubernetes is not reached, whose errors are of no common type, the command may succeed later."""
    pytest.importorskip("dask_kubernetes")
    (tmp_path / "kube").write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
        "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "users: [{name: u, user: {token: x}}]\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kube"))
    sections = {
        "name": "away",
        "data": {"train": {"path": str(data / "train.npy")}},
        "solver": {"n_components": 2},
        "cluster": {"kind": "kubernetes", "kubernetes": {"image": "none"}, "wait_seconds": 5},
        "models": {"path": "models"},
    }
    write_yaml(tmp_path / "c.yaml", sections)
    # In a process of its own: as it ends, the library tries to close what did not start, and says so.
    done = command(tmp_path, "fit", "c.yaml", "--quiet")
    assert done.returncode == 75, done.stderr
    told = done.stderr.splitlines()[0]
    assert told.startswith("error: the cluster's processes did not start (kind kubernetes), got: ")
    assert told.endswith("; try again, or look whether it is up")


def test_too_few_workers_are_told(data: Path, two_workers: Processes, tmp_path: Path) -> None:
    """Where fewer workers come than asked for, the command ends and says how many there are."""
    cluster = {"kind": "address", "address": two_workers.address, "min_workers": 3, "wait_seconds": 0.3}
    with pytest.raises(BusyError, match=r"got 2 of 3 workers .*after 0.3 s"):
        fit_on(tmp_path, data, cluster)


def test_a_scheduler_file_is_waited_for(data: Path, tmp_path: Path) -> None:
    """A file that does not appear is named; one that is no scheduler's is a mistake."""
    missing = {"kind": "address", "scheduler_file": str(tmp_path / "s.json"), "wait_seconds": 0.2}
    with pytest.raises(BusyError, match=r"s.json: no such file after 0.2 s"):
        fit_on(tmp_path, data, missing)
    (tmp_path / "s.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"s.json is no scheduler's"):
        fit_on(tmp_path, data, missing)


def test_an_address_must_be_given(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address, a file and the variable the message names all three."""
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=r"scheduler_file, or the variable DASK_SCHEDULER_ADDRESS"):
        fit_on(tmp_path, data, {"kind": "address"})


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ({"class": "distributed.NoSuch"}, "cluster.class: .*'distributed.NoSuch'"),
        ({"class": "no_such_module.Cluster"}, "cluster.class: No module named"),
        ({"class": "distributed.SpecCluster", "kwargs": {"n_wrkers": 1}}, "cluster.kwargs: .*n_wrkers"),
    ],
)
def test_classes_are_found_or_named(cluster: Any, expected: str, data: Path, tmp_path: Path) -> None:
    """A class that is not there, or does not take what is given, is a mistake of the configuration."""
    with pytest.raises(ConfigError, match=expected):
        fit_on(tmp_path, data, cluster)


def test_workers_with_too_little_memory_are_refused(data: Path, tmp_path: Path) -> None:
    """A worker whose limit is below limits.memory is named before any task runs."""
    with processes(tmp_path / "small", 1) as small:
        small.start_worker(1, "--memory-limit", "1GiB")
        cluster = {"kind": "address", "address": small.address, "min_workers": 2}
        with pytest.raises(ConfigError, match=r"a memory limit of 1024 MiB, expected .* 4096 MiB"):
            fit_on(tmp_path, data, cluster)


@pytest.mark.parametrize(
    ("cluster", "workers"),
    [
        ({"kind": "threads", "n_workers": 3}, (3, 0)),
        ({"kind": "local", "n_workers": 3, "threads_per_worker": 2}, (6, 3)),
        ({"kind": "slurm", "slurm": {"interface": "lo"}, "n_workers": 50}, (50, 50)),
        ({"kind": "kubernetes", "kubernetes": {"image": "i"}, "adapt": {"maximum": 9}}, (9, 9)),
    ],
)
def test_a_plan_starts_no_cluster(
    cluster: dict[str, Any], workers: tuple[int, int], data: Path, tmp_path: Path
) -> None:
    """What a plan must know of a cluster that is yet to be started is in its section."""
    assert forecast_workers(Cluster.model_validate(cluster)) == workers
    assert plan_config(job(tmp_path, data, "dense", cluster), silent()).n_samples == N_ROWS
