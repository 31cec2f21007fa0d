"""Cases with damaged outputs folders, read by every command that reads them.

A command may succeed or refuse in a sentence. It must not print a traceback, run for ever, write
outside its folder, or give a number that differs from the one that was measured.
"""

import csv
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sweeper.__main__ import main
from tests.faults.commands import Command, undisturbed, verdicts
from tests.faults.files import MEMORY
from tests.faults.sweep import Count, fork
from tests.twins import PLANTED
from tests.twins import arguments as twins

PATIENCE_S = 60
MOST_BYTES = 64 * 10**6
NOT_MEASURED = ("state", "reason")  # words on a run, which damage may change
RETRAINED = (*NOT_MEASURED, "seconds", "waited_seconds", "tokens_per_second")
SWEEPS = 20  # one of so many damaged folders is also continued by sweep.py

Row = dict[str, str]


@dataclass(frozen=True)
class Victim:
    """A finished sweep that decided a claim.

    Attributes:
        line: the arguments of its sweep.
        outputs: its outputs folder.
        rows: its table, by arm, point and seed.
        answers: its verdicts.
    """

    line: list[str]
    outputs: Path
    rows: dict[tuple[str, ...], Row]
    answers: list[Any]


@contextmanager
def victim() -> Iterator[Victim]:
    """Train the sweep."""
    with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        outputs = place / "outputs"
        line = twins(place / "conf", PLANTED)
        undisturbed(outputs, line)
        with redirect_stdout(
            io.StringIO()
        ):  # this loads what the forks of this process share
            assert main(["report", "--outputs", str(outputs)]) == 0
        yield Victim(line, outputs, rows_of(outputs), answers_of(outputs))


def rows_of(outputs: Path) -> dict[tuple[str, ...], Row]:
    found: dict[tuple[str, ...], Row] = {}
    for path in (outputs / "tables").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[(row["arm"], row["point"], row["seed"])] = row
    return found


def answers_of(outputs: Path) -> list[Any]:
    """Return the verdicts without their numbers."""
    return [verdict[:3] for verdict in verdicts(outputs)]


def damaged_outputs(victim: Callable[[], Victim], seed: int, *, files: int) -> Count:
    """Damage a file of an outputs folder, then type every command that reads the folder."""
    count, rng, whole = Count("damaged outputs", seed), random.Random(seed), victim()
    kinds = files_by_kind(whole.outputs)
    for number in range(files):
        with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
            outputs = Path(folder) / "outputs"
            shutil.copytree(whole.outputs, outputs)
            for made in (
                "tables",
                "figures",
            ):  # else a refused command leaves the right ones
                shutil.rmtree(outputs / made)
            path = outputs / rng.choice(kinds[rng.choice(sorted(kinds))])
            damage = rng.choice(sorted(DAMAGES))
            if path.exists():
                DAMAGES[damage](path, rng)
            said = f"{seed}/{number}: {damage} {path.relative_to(outputs)}"
            count.injected += 1
            for line in (["status", "--json"], ["collect"], ["report"]):
                where = f"{said}: {line[0]}"
                code = typed(count, Path(folder), line, where, outputs)
                if line[0] == "collect":
                    check_numbers(count, whole, outputs, code, where)
            if number % SWEEPS == 0:
                continue_sweep(count, whole, outputs, said)
    return count


def files_by_kind(outputs: Path) -> dict[str, list[str]]:
    """Return the files below an outputs folder, as paths below it, by what they are."""
    found = defaultdict(list)
    for path in sorted(outputs.rglob("*")):
        name = str(path.relative_to(outputs))
        if path.is_file():
            parts = name.split("/")
            kind = parts[0] if parts[0] in ("code", "data", "figures") else parts[-1]
            found["plan" if parts[0] == "plans" else kind].append(name)
    return found


def check_numbers(
    count: Count,
    whole: Victim,
    made: Path,
    code: int,
    said: str,
    but: Collection[str] = NOT_MEASURED,
) -> None:
    """Count cells of tables that differ from what was measured, and verdicts that follow.

    `but`: columns that may differ.
    """
    rows = rows_of(made)
    wrong = [
        f"{key} {column} {cell!r} not {whole.rows.get(key, {}).get(column)!r}"
        for key, row in rows.items()
        for column, cell in row.items()
        if column not in but and cell and cell != whole.rows.get(key, {}).get(column)
    ]
    if rows == whole.rows and code == 0 and answers_of(made) != whole.answers:
        wrong.append(f"{answers_of(made)}")
    if wrong:
        count.wrong += 1
        complain(f"{said} is wrong ({code}): {wrong[:3]}")


def continue_sweep(count: Count, whole: Victim, outputs: Path, said: str) -> None:
    """Type the sweep again: it refuses in a sentence, or ends with the numbers measured before."""
    command = Command(outputs, whole.line)
    try:
        code = command.finish(PATIENCE_S * 2)
    except subprocess.TimeoutExpired:
        command.kill()
        count.hung += 1
        complain(f"{said}: sweep hung")
        return
    log = command.log()
    if code not in (0, 1, 2) or "Traceback" in log:
        count.complaints += 1
        complain(f"{said}: sweep ended with {code}: {log[-1500:]}")
    elif code == 0:
        check_numbers(count, whole, outputs, code, f"{said}: sweep", RETRAINED)
        rows = rows_of(outputs)
        if lost := [
            key for key in whole.rows if not rows.get(key, {}).get("test/perplexity")
        ]:
            count.wrong += 1
            complain(f"{said}: the sweep says that it is done, without {lost[:3]}")


def typed(
    count: Count, folder: Path, line: Sequence[str], said: str, outputs: Path
) -> int:
    """Run a command in a fork; count a traceback, an odd exit code, and a wait without end."""
    log = folder / "command.log"
    log.unlink(missing_ok=True)

    def work() -> int:
        signal.alarm(PATIENCE_S)  # which ends it
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        os.chdir(folder)
        return main([*line, "--outputs", str(outputs)])

    code = os.waitstatus_to_exitcode(os.waitpid(fork(work, log), 0)[1])
    text = log.read_text(errors="replace")
    if code == -signal.SIGALRM:
        count.hung += 1
        complain(f"{said} hung")
    elif "Traceback" in text or code not in (0, 1, 2) or "File too large" in text:
        count.complaints += 1
        complain(f"{said} ended with {code}: {text[-1500:]}")
    return code


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def flip(path: Path, rng: random.Random) -> None:
    """Flip up to eight bits."""
    content = bytearray(path.read_bytes() or b"\0")
    for _ in range(rng.randint(1, 8)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def replaced(path: Path, rng: random.Random) -> None:
    """Put nothing, a folder, a pipe, an empty file or a link in its place."""
    path.unlink()
    how = rng.choice(["nothing", "folder", "pipe", "file", "link"])
    if how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "file":
        path.touch()
    elif how == "link":
        path.symlink_to("/etc/passwd")


VALUES: tuple[Any, ...] = (None, -1, 10**400, 1e300, "", "../../evil", [], {})


def edited(path: Path, rng: random.Random) -> None:
    """Delete or replace fields of JSON, and leave its checksum or remove it."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return flip(path, rng)
    for _ in range(rng.randint(1, 3)):
        if places := [*fields(value)]:
            holder, key = rng.choice(places)
            if rng.random() < 0.3:
                del holder[key]
            else:
                holder[key] = rng.choice(VALUES)
    if isinstance(value, dict) and rng.random() < 0.5:
        value.pop("sha256", None)
    path.write_text(json.dumps(value))
    return None


def fields(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every field as the object or list that holds it, and its name or place."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from fields(value[key])


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    function.__name__: function for function in (flip, cut, replaced, edited)
}
