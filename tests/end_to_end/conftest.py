"""A fixture that starts a real Slurm with two nodes once for all tests in this folder.

Its daemons use a folder and ports of their own. It needs
Debian's packages slurm-wlm and munge, and root, because the daemons run as root.
"""

import contextlib
import os
import shutil
import socket
import subprocess

import pytest

from tests.waiting import wait_until

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
SlurmctldPort={port}
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

NODES = ("n1", "n2")
# Of its GPU there is a file and nothing else.
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=2 RealMemory=64000 Gres=gpu:1"
)


@pytest.fixture(scope="package")
def slurm(tmp_path_factory):
    """Start the daemons, set SLURM_CONF, and stop the daemons at the end.

    Skip the test if a program or root is missing. The nodes have more CPUs than the machine,
    because the tests check only which job waits for which.
    """
    pytest.importorskip("submitit", reason="real Slurm: submitit not installed")
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        pytest.skip(
            f"real Slurm: {', '.join(missing)} not installed (slurm-wlm, munge)"
        )
    if os.getuid() != 0:
        pytest.skip("real Slurm: its daemons need root")
    root = tmp_path_factory.mktemp("slurm")
    root.chmod(0o755)
    for name in ("state", *(f"spool/{name}" for name in NODES)):
        (root / name).mkdir(parents=True)
    config, munge = root / "slurm.conf", root / "munge.socket"
    host = socket.gethostname().split(".")[0]
    *ports, controller = _free_ports(1 + len(NODES))
    nodes = [
        NODE.format(name=name, host=host, port=port)
        for name, port in zip(NODES, ports, strict=True)
    ]
    nodes = "\n".join(nodes)
    config.write_text(
        CONFIG.format(root=root, host=host, munge=munge, port=controller, nodes=nodes)
    )
    (root / "gres.conf").write_text("Name=gpu File=/dev/null\n")
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(config))

        def start(*command):
            log = stack.enter_context((root / f"{command[0]}.out").open("a"))
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=root)
            stack.callback(_stop, process)

        start("munged", "--foreground", "--force", *_munge_files(root, munge))
        wait_until(munge.exists, f"munge's socket; its log is in {root}")
        start("slurmctld", "-D", "-i")
        for node in NODES:
            start("slurmd", "-D", "-N", node)
        wait_until(_idle, f"idle nodes; the logs are in {root}")
        yield


def _munge_files(root, munge):
    """Write the key of munge. Return the options that name the files of munge."""
    key = root / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    files = {name: root / f"munge.{name}" for name in ("key", "pid", "log", "seed")}
    options = [f"--{name}-file={path}" for name, path in files.items()]
    return [f"--socket={munge}", *options]


def _stop(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _idle():
    command = ("sinfo", "-hN", "-ptest", "-o%T")
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.stdout.split() == ["idle"] * len(NODES)


def _free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
