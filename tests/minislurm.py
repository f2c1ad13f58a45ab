"""A one-node Slurm on loopback that lives as long as the tests that need it.

Three daemons: munged (who is who), slurmctld (the queue) and slurmd (the node); all keep their files in one
folder and end with it. Needs root, since slurmd starts jobs as their users.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
SEARCHED = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
CPUS, MEMORY_MB = 4, 8192
"""What the node claims: jobs of tests wait for nobody."""
START_SECONDS, END_SECONDS = 60, 30
LONGEST_SOCKET = 80

CONF = """\
ClusterName=tests
SlurmctldHost={node}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.sock
SlurmctldPort={port}
SlurmdPort={next_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory}
PartitionName=main Nodes={node} Default=YES DefMemPerCPU=256
"""


def why_not() -> str | None:
    """What is missing for a Slurm on this machine; None where it can be started."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=SEARCHED) is None]
    if missing:
        return f"Slurm is not installed: no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    try:
        if socket.gethostbyname(socket.gethostname()) != "127.0.0.1":
            return "the host's name does not resolve to 127.0.0.1, where the tests' Slurm listens"
    except OSError:
        return "the host's name does not resolve"
    return None


@dataclass(frozen=True)
class MiniSlurm:
    """A running Slurm; its commands find it by the environment."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": SEARCHED, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout.strip()

    def submit(self, script: Path, *options: str, arguments: Sequence[str] = ()) -> str:
        """The number of the new job."""
        return self.call("sbatch", "--parsable", *options, str(script), *arguments)

    def jobs(self) -> list[str]:
        """Those that wait or run."""
        return self.call("squeue", "--noheader", "--format=%A").split()

    def exit_code(self, job: str) -> int:
        """Of a job that has ended, as ``scontrol`` tells it."""
        told = dict(
            item.split("=", 1) for item in self.call("scontrol", "show", "job", job).split() if "=" in item
        )
        code, number = map(int, told["ExitCode"].split(":"))
        return code or -number

    def wait(self, job: str, seconds: float = 240) -> int:
        """Wait for the end of a job; its exit code."""
        end = time.monotonic() + seconds
        while job in self.jobs():
            assert time.monotonic() < end, f"job {job} goes on: {self.call('scontrol', 'show', 'job', job)}"
            time.sleep(0.3)
        return self.exit_code(job)


@contextmanager
def minislurm(folder: Path) -> Iterator[MiniSlurm]:
    """A Slurm whose jobs and daemons end with the block."""
    assert len(str(folder)) <= LONGEST_SOCKET, f"too long for a socket: {folder}"
    found = MiniSlurm(folder)
    try:
        _start(found)
        yield found
    finally:
        _end(found)


def _start(slurm: MiniSlurm) -> None:
    folder = slurm.folder
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    port = _two_free_ports()
    text = CONF.format(
        node=socket.gethostname().partition(".")[0],
        user="root",
        folder=folder,
        port=port,
        next_port=port + 1,
        cpus=CPUS,
        memory=MEMORY_MB,
    )
    (folder / "slurm.conf").write_text(text)
    slurm.call("mungekey", "--create", "--keyfile", f"{folder}/munge.key")
    files = [f"--key-file={folder}/munge.key", f"--socket={folder}/munge.sock"]
    files += [f"--{kind}-file={folder}/munge.{kind}" for kind in ("seed", "log")]
    _daemon(slurm, "munged", "--force", f"--pid-file={folder}/munged.pid", *files)
    _daemon(slurm, "slurmctld", "-c", "-f", f"{folder}/slurm.conf")
    _daemon(slurm, "slurmd", "-f", f"{folder}/slurm.conf")
    _wait_until_idle(slurm)


def _daemon(slurm: MiniSlurm, *command: str) -> None:
    with (slurm.folder / f"{command[0]}.started").open("wb") as log:
        program = str(shutil.which(command[0], path=SEARCHED))
        subprocess.run(
            [program, *command[1:]],
            env=slurm.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )


def _wait_until_idle(slurm: MiniSlurm) -> None:
    end = time.monotonic() + START_SECONDS
    command: Sequence[str] = ("sinfo", "--noheader", "--format=%t")
    while True:
        done = subprocess.run(command, env=slurm.environment, capture_output=True, text=True, check=False)
        if done.stdout.strip() == "idle":
            return
        logs = "\n".join(path.read_text()[-2000:] for path in slurm.folder.glob("slurm*.log"))
        assert time.monotonic() < end, f"the node is {done.stdout or done.stderr}\n{logs}"
        time.sleep(0.2)


def _end(slurm: MiniSlurm) -> None:
    with suppress(AssertionError):
        slurm.call("scancel", "--user=root")
        end = time.monotonic() + END_SECONDS
        while slurm.jobs() and time.monotonic() < end:
            time.sleep(0.3)
    for name in ("slurmd", "slurmctld", "munged"):
        _end_daemon(slurm.folder, name)


def _end_daemon(folder: Path, name: str) -> None:
    try:
        pid = int((folder / f"{name}.pid").read_text())
    except (OSError, ValueError):
        return
    end = time.monotonic() + END_SECONDS
    # A daemon that has ended may stay for a while as a process without a command line.
    while name in _command_line(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if time.monotonic() < end else signal.SIGKILL)
        time.sleep(0.2)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def _two_free_ports() -> int:
    for port in range(17100, 17300, 2):
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no free ports from 17100 to 17300")
