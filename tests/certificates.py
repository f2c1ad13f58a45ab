"""An authority of certificates that a test makes for itself."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OPENSSL = shutil.which("openssl")


@dataclass(frozen=True)
class Certificates:
    """The files of one authority and of one certificate that it signed."""

    folder: Path

    @classmethod
    def made_in(cls, folder: Path) -> Certificates:
        folder.mkdir(parents=True)
        found = cls(folder)
        subject = ["-subj", "/CN=authority of the tests", "-days", "2"]
        found._call("req", "-x509", *found._new("ca"), *subject)
        found._call("req", *found._new("cert"), "-subj", "/CN=127.0.0.1")
        authority = ["-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca-key.pem"), "-CAcreateserial"]
        request = ["-in", str(folder / "cert.pem"), "-out", str(folder / "signed.pem"), "-days", "2"]
        found._call("x509", "-req", *request, *authority)
        return found

    @property
    def section(self) -> dict[str, str]:
        """As ``cluster.tls`` has them."""
        names = {"ca": "ca.pem", "cert": "signed.pem", "key": "cert-key.pem"}
        return {key: str(self.folder / name) for key, name in names.items()}

    @property
    def options(self) -> list[str]:
        """As Dask's commands take them."""
        names = {"ca": "--tls-ca-file", "cert": "--tls-cert", "key": "--tls-key"}
        given = [word for key, path in self.section.items() for word in (names[key], path)]
        return ["--protocol", "tls", *given]

    def _new(self, name: str) -> list[str]:
        key = str(self.folder / ("ca-key.pem" if name == "ca" else f"{name}-key.pem"))
        return ["-newkey", "rsa:2048", "-noenc", "-keyout", key, "-out", str(self.folder / f"{name}.pem")]

    @staticmethod
    def _call(*arguments: str) -> None:
        subprocess.run([str(OPENSSL), *arguments], capture_output=True, check=True)
