"""How much a cluster lets its user hand in, by its own commands, and what it says when full."""

from __future__ import annotations

import getpass
import itertools
import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from sweeper.run.slurm.options import Options
from sweeper.run.slurm.queue import rows_of

ENOUGH = sys.maxsize
LATER = re.compile(
    "Submit\\w*Limit"  # AssocMaxSubmitJobLimit, QOSMaxSubmitJobPerUserLimit, QOSGrpSubmitJobsLimit
    "|temporarily|job queue full|contact slurm controller|timed out|Connection refused"
    "|Zero Bytes|not responding|connection failure|standby|Transport endpoint",
    re.IGNORECASE,
)
"""What sbatch says of a job that it will take once others have left, or once Slurm is back."""


class Limits(NamedTuple):
    """Of one array, and of all jobs of this user that wait or run."""

    array: int
    jobs: int


def limits(options: Options) -> Limits:
    """What the cluster's configuration and accounts say; where they say nothing, no limit.

    Jobs that somebody else, or another sweep, hands in count too: sbatch may refuse one before.
    """
    told = {row[0].split()[0]: row[0].split()[-1] for row in _told("scontrol", "show", "config")}
    array = _least([told.get("MaxArraySize", "")])
    of_user, qos = _association(options)
    fields = "format=MaxSubmitJobsPerUser,MaxSubmitJobsPerAccount,GrpSubmitJobs"
    names = ",".join([options.qos or qos or "normal", *_of_partitions(options)])
    of_qos = _told(*_ASK, "qos", "where", f"name={names}", fields)
    numbers = [told.get("MaxJobCount", ""), of_user, *itertools.chain(*of_qos)]
    return Limits(max(1, array), max(1, _least(numbers)))


_ASK = ("sacctmgr", "--noheader", "--parsable2", "show")


def _association(options: Options) -> tuple[str, str]:
    """What the account that jobs count for lets the user queue, and its QOS; empty if untold."""
    fields = "format=Account,DefaultAccount,Partition,MaxSubmitJobs,DefaultQOS"
    user = ("user", "where", f"name={getpass.getuser()}", "withassoc", fields)
    for account, default, partition, most, qos in _told(*_ASK, *user):
        if account == (options.account or default) and partition in ("", options.partition):
            return most, qos
    return "", ""


def _of_partitions(options: Options) -> list[str]:
    """The QOS that hold for every job of the partitions that are asked for, or of the usual one."""
    asked = (options.partition or "").split(",")
    rows = _told("scontrol", "--oneliner", "show", "partition")
    known = [dict(word.split("=", 1) for word in row[0].split() if "=" in word) for row in rows]
    usual = [facts["PartitionName"] for facts in known if facts.get("Default") == "YES"]
    meant = [facts for facts in known if facts["PartitionName"] in (asked if any(asked) else usual)]
    return [facts["QoS"] for facts in meant if facts.get("QoS", "N/A") != "N/A"]


def _told(*command: str) -> list[list[str]]:
    return [row for row in rows_of(list(command)) or [] if row[0] or len(row) > 1]


def _least(numbers: Iterable[str]) -> int:
    """The smallest of the numbers that are given."""
    return min((int(number) for number in numbers if number.isdecimal()), default=ENOUGH)
