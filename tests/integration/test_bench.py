"""What is in tests/bench runs: each program there begins, measures one short round (BENCH_BRIEF) and ends well. What it
measured is no matter here."""

import os
import subprocess
import sys

import pytest

from processes import ROOT, is_sanitized

FOLDER = ROOT / "tests" / "bench"
PROGRAMS = sorted(path.name for path in FOLDER.iterdir() if path.is_file() and os.access(path, os.X_OK))

pytestmark = pytest.mark.skipif(is_sanitized(), reason="nobody measures sanitized programs")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_benchmark_begins_measures_and_ends_well(name):
    done = subprocess.run(
        [sys.executable, FOLDER / name], env=os.environ | {"BENCH_BRIEF": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.strip()
