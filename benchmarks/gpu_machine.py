"""Use a machine with a GPU for a fixed time: `python benchmarks/gpu_machine.py OUTPUTS ...`.

The machine needs a checkout and outputs folders that were planned elsewhere (docs/clusters.md). It
needs no network. The script installs wheels from a folder, prints the device, runs the tests that
need a GPU, and trains the planned runs of each folder in the given order. When the time ends,
running jobs save. If you repeat the command, it continues them.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SAVE_S = 20.0  # the seconds that running jobs get for saving before the time ends
DEVICE = """
import torch
names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
print(names or "no GPU", "torch", torch.__version__)
"""


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("outputs", nargs="+", type=Path, metavar="OUTPUTS")
    parser.add_argument(
        "--seconds", type=float, default=840, help="longest time in total"
    )
    parser.add_argument(
        "--test-seconds", type=float, default=120, help="longest time of tests"
    )
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to install")
    parser.add_argument("--jobs-per-device", type=int, default=3)
    return parser.parse_args()


class Machine:
    """A machine that may be used until a deadline."""

    def __init__(self, seconds: float) -> None:
        self.begun = time.monotonic()
        self.deadline = self.begun + seconds
        self.environment = dict(os.environ)

    def run(self, name: str, command: list[str], seconds: float = float("inf")) -> int:
        """Run a Python command in the checkout, and print its exit code and its duration.

        When the command's time ends, it receives SIGTERM, so that jobs can save. This happens at
        least SAVE_S seconds before the deadline.

        Args:
            name: the name of the command in the printed line.
            command: the arguments of Python.
            seconds: the longest duration of the command. The deadline may shorten it.

        Returns:
            The exit code, or 1 if no time was left.
        """
        begun = time.monotonic()
        end = min(begun + seconds, self.deadline - SAVE_S)
        if end <= begun:
            print(f"== {name}: not started, no time left", flush=True)
            return 1
        process = subprocess.Popen(
            [sys.executable, *command], cwd=CHECKOUT, env=self.environment
        )
        try:
            code = process.wait(timeout=end - begun)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            code = process.wait()
        taken = time.monotonic() - begun
        left = self.deadline - time.monotonic()
        print(
            f"== {name}: exit code {code}, {taken:.0f} s, {left:.0f} s left", flush=True
        )
        return code

    def install(self, wheels: Path) -> None:
        """Install the wheels into a separate folder, and add it to PYTHONPATH of later commands."""
        site = wheels / "installed"
        command = (
            "-m pip install --quiet --no-index --no-deps --upgrade --target".split()
        )
        found = sorted(map(str, wheels.glob("*.whl")))
        self.run("wheels", [*command, str(site), *found])
        path = [str(site), self.environment.get("PYTHONPATH", "")]
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))


def main() -> int:
    """Install, test and train. Return 0 if every planned run is done, otherwise 1."""
    options = arguments()
    machine = Machine(options.seconds)
    if options.wheels:
        machine.install(options.wheels.resolve())

    machine.run("device", ["-c", DEVICE])
    tests = (
        "-m pytest -m gpu -n 4 -q -p no:cacheprovider tests/tasks/training/test_gpu.py"
    )
    machine.run("tests on the GPU", tests.split(), options.test_seconds)

    codes = []
    for outputs in options.outputs:
        command = ["-m", "sweeper", "train", "--outputs", str(outputs.resolve())]
        shared = ["--jobs-per-device", str(options.jobs_per_device)]
        codes.append(machine.run(f"training {outputs}", [*command, *shared]))
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
