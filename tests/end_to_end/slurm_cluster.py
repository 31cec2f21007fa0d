"""A real Slurm of two nodes for the tests, with its daemons below one folder and its own ports.

It asks for Debian's packages slurm-wlm and munge, and for root, whose daemons these are. Where
slurmdbd and mariadb-server are installed too, it keeps accounts.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
# cred_expire: Slurm starts a requeued job no earlier than its old credential has expired.
# No cgroups: a container may lack them.
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={munge},cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
GresTypes=gpu
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,bf_interval=2,sched_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
KillWait=20
MinJobAge=300
MessageTimeout=3
MaxArraySize=16
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldPort={ports[0]}
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
{accounting}
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 State=UP
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=9 State=UP
"""

ACCOUNTING_PROGRAMS = ("mariadbd", "mariadb", "mariadb-install-db", "slurmdbd", "sacct")
NODES = ("n1", "n2")
# Of its GPU there is a file and nothing else.
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=2 RealMemory=64000 Gres=gpu:1"
)

ACCOUNTING = """\
AccountingStorageEnforce=limits,qos
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={ports[0]}
AccountingStoragePass={munge}"""
DATABASE_CONFIG = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=localhost
DbdPort={ports[0]}
SlurmUser=root
LogFile={root}/slurmdbd.log
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports[1]}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
"""
GRANT = "grant all on slurm_acct_db.* to slurm@'127.0.0.1' identified by 'x'"


def keeps_accounts() -> bool:
    """Whether the cluster will have accounting."""
    return all(shutil.which(name) for name in ACCOUNTING_PROGRAMS)


class Cluster(NamedTuple):
    """The folder of its daemons, and what stops them."""

    root: Path
    stack: contextlib.ExitStack

    def start(self, *command: str) -> None:
        """Start a daemon."""
        log = self.stack.enter_context((self.root / f"{command[0]}.out").open("a"))
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.root)
        self.stack.callback(_stop, process)

    def until_idle(self) -> None:
        """Wait until every node takes jobs."""
        idle = ["idle"] * len(NODES)
        command = ("sinfo", "-hN", "-ptest", "-o%T")
        _until(lambda: _told(*command).split() == idle, "idle nodes", self.root)


@contextlib.contextmanager
def cluster(root: Path) -> Iterator[Cluster]:
    """Start the daemons, point SLURM_CONF at them, stop them; skips by name where that cannot be.

    The nodes have more CPUs than the machine: what the tests are about is who waits for whom.
    """
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(
            f"real Slurm: {', '.join(missing)} not installed (slurm-wlm, munge)"
        )
    if os.getuid() != 0:
        pytest.skip("real Slurm: its daemons need root")
    root.chmod(0o755)
    for name in ("state", *(f"spool/{name}" for name in NODES)):
        (root / name).mkdir(parents=True)
    config = root / "slurm.conf"
    host = socket.gethostname().split(".")[0]
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        accounting = "AccountingStorageType=accounting_storage/none"
        started = Cluster(root, stack)
        munge = _start_munge(started)
        patch.setenv("SLURM_CONF", str(config))
        if keeps_accounts():
            accounting = _start_accounting(started, munge)
        *ports, controller = _free_ports(1 + len(NODES))
        nodes = [
            NODE.format(name=name, host=host, port=port)
            for name, port in zip(NODES, ports, strict=True)
        ]
        facts = {"root": root, "host": host, "munge": munge, "accounting": accounting}
        config.write_text(
            CONFIG.format(ports=[controller], nodes="\n".join(nodes), **facts)
        )
        (root / "gres.conf").write_text("Name=gpu File=/dev/null\n")
        started.start("slurmctld", "-D", "-i")
        for node in NODES:
            started.start("slurmd", "-D", "-N", node)
        started.until_idle()
        yield started


def _start_munge(cluster: Cluster) -> Path:
    """Its socket."""
    root = cluster.root
    key, sock = root / "munge.key", root / "munge.socket"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    files = {"key": key, "pid": root / "munged.pid", "log": root / "munged.log"}
    options = [f"--{name}-file={path}" for name, path in files.items()]
    seed = f"--seed-file={root / 'munged.seed'}"
    cluster.start(
        "munged", "--foreground", "--force", seed, f"--socket={sock}", *options
    )
    _until(sock.exists, "munge's socket", root)
    return sock


def _start_accounting(cluster: Cluster, munge: Path) -> str:
    """A database and Slurm's door to it; the lines of slurm.conf that lead there."""
    root = cluster.root
    facts = {"root": root, "munge": munge, "ports": _free_ports(2)}
    data = root / "database"
    data.mkdir()
    # As root, like everything here: another user may not reach the folder of a test.
    ours = ["--no-defaults", "--user=root", f"--datadir={data}"]
    plain = "--auth-root-authentication-method=normal"
    subprocess.run(
        ["mariadb-install-db", *ours, plain], check=True, capture_output=True
    )
    ask = ["mariadb", "--no-defaults", "-uroot", f"--socket={data / 'socket'}", "-e"]
    where = [f"--socket={data / 'socket'}", f"--port={facts['ports'][1]}"]
    cluster.start("mariadbd", *ours, *where, "--bind-address=127.0.0.1")
    _until(lambda: _told(*ask, "select 1"), "a database", root)
    for order in ("create database slurm_acct_db", GRANT):
        subprocess.run([*ask, order], check=True, capture_output=True)
    config = root / "slurmdbd.conf"
    config.write_text(DATABASE_CONFIG.format(**facts))
    config.chmod(0o600)
    cluster.start("slurmdbd", "-D")
    log = root / "slurmdbd.log"
    _until(
        lambda: log.exists() and "slurmdbd version" in log.read_text(),
        "its accounts",
        root,
    )
    return ACCOUNTING.format(**facts)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until(condition, what: str, root: Path) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in root.glob("*.log"))
            raise AssertionError(f"Slurm has not brought {what}:\n{logs}")
        time.sleep(0.1)


def _told(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
