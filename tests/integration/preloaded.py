"""Libraries put into programs with LD_PRELOAD: C files of this folder that change what they are told of the machine."""

import os
import struct
import subprocess
import time
from pathlib import Path

from processes import asan_options


def preload(name, folder):
    """Builds `name`.c with the compiler of the machine; the environment in which it is loaded."""
    library = folder / f"{name}.so"
    source = Path(__file__).parent / f"{name}.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)} | asan_options("verify_asan_link_order=0")


class Clock:
    """The clock of the day of programs that are started with `environment`."""

    def __init__(self, folder):
        self._path = folder / "clock"
        self._path.write_bytes(bytes(8))
        self.environment = preload("moved_clock", folder) | {"MOVED_CLOCK": str(self._path)}

    def move(self, seconds):
        """From now on it is ahead by so much of the machine's."""
        with self._path.open("r+b") as file:
            file.write(struct.pack("q", seconds))

    def is_about(self, time_us, ahead_s):
        return abs(time_us / 1e6 - time.time() - ahead_s) < 60
