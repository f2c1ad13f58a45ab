"""Who may talk to a cluster: processes with a certificate, and otherwise this machine only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import get_client

from kpca_stream.cluster import connect_as
from kpca_stream.config import Cluster
from kpca_stream.errors import BusyError, ConfigError
from tests.certificates import OPENSSL, Certificates
from tests.schedulers import Processes, processes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        OPENSSL is None, reason="the tests' certificates are made by openssl, which is missing"
    ),
]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made_in(tmp_path_factory.mktemp("ours") / "tls")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made_in(tmp_path_factory.mktemp("others") / "tls")


@pytest.fixture(scope="module")
def encrypted(ours: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with processes(tmp_path_factory.mktemp("cluster"), 1, ours.options) as found:
        yield found


def sums_on(section: dict[str, Any]) -> tuple[str, int]:
    """The address of the scheduler, and what a worker makes of a sum."""
    with connect_as(Cluster.model_validate(section), memory=2**20):
        client = get_client()
        return str(client.scheduler_info()["address"]), int(client.submit(sum, [1, 2, 3]).result())


def test_local_processes_talk_encrypted(ours: Certificates) -> None:
    """With ``cluster.tls`` the processes of this machine have addresses of TLS, and work."""
    address, found = sums_on({"kind": "local", "n_workers": 1, "tls": ours.section})
    assert address.startswith("tls://127.0.0.1:")
    assert found == 6


def test_a_scheduler_elsewhere_is_talked_to_with_a_certificate(
    encrypted: Processes, ours: Certificates
) -> None:
    """A scheduler that asks for certificates takes a client that shows one of its authority."""
    assert sums_on({"kind": "address", "address": encrypted.address, "tls": ours.section})[1] == 6


def test_strangers_are_turned_away(encrypted: Processes, others: Certificates) -> None:
    """A certificate of another authority, or none, does not get a word out of the scheduler."""
    stranger = {"kind": "address", "address": encrypted.address, "wait_seconds": 1, "tls": others.section}
    with pytest.raises(BusyError, match="no scheduler answers at tls://"):
        sums_on(stranger)
    stranger.pop("tls")
    with pytest.raises(BusyError, match="no scheduler answers at tls://"):
        sums_on(stranger)
    stranger["address"] = encrypted.address.replace("tls://", "tcp://")
    with pytest.raises(BusyError, match="no scheduler answers at tcp://"):
        sums_on(stranger)


@pytest.mark.parametrize("key", ["ca", "cert", "key"])
def test_missing_files_are_named(key: str, ours: Certificates, tmp_path: Path) -> None:
    """A file of the section that is not there is a mistake of the configuration."""
    section = ours.section | {key: str(tmp_path / "none.pem")}
    with pytest.raises(ConfigError, match=rf"cluster.tls.{key}: got '.*none.pem', expected a PEM file"):
        sums_on({"kind": "local", "n_workers": 1, "tls": section})


def listening() -> set[tuple[str, int]]:
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    places = [one for process in family for one in process.net_connections() if one.status == "LISTEN"]
    return {(one.laddr.ip, one.laddr.port) for one in places}


EVERYWHERE = "0.0.0.0"  # noqa: S104  what is asked for in one case


@pytest.mark.parametrize(
    ("dashboard", "expected"),
    [({}, {"127.0.0.1"}), ({"dashboard": f"{EVERYWHERE}:0"}, {"127.0.0.1", EVERYWHERE})],
)
def test_only_what_is_asked_for_is_reachable(dashboard: dict[str, Any], expected: set[str]) -> None:
    """All listen on loopback, and the dashboard elsewhere only where that is asked for."""
    section = Cluster.model_validate({"kind": "local", "n_workers": 1, **dashboard})
    before = listening()
    with connect_as(section, memory=2**20):
        assert {ip for ip, _ in listening() - before} == expected
