"""Libraries put into the router with LD_PRELOAD: C files of this folder that change what it is told of the machine."""

import os
import subprocess
from pathlib import Path

from processes import asan_options


def preload(name, folder):
    """Builds `name`.c with the compiler of the machine; the environment in which it is loaded."""
    library = folder / f"{name}.so"
    source = Path(__file__).parent / f"{name}.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)} | asan_options("verify_asan_link_order=0")
