"""What the processes of an instance hold, and whether that grows."""

import os
import statistics
from collections import namedtuple
from pathlib import Path

BLOCKS = 10
T_OF_8 = 2.306  # two-sided 95 %, for the slope of ten points

Holding = namedtuple("Holding", "role private_bytes pss_bytes page_table_bytes descriptors mappings")


def _members(path):
    """Lines "Name: 12 kB" of a file in /proc, in bytes."""
    lines = (line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}


def holding(pid, role):
    """Only root may ask. Private is what the process has written and no other has; clean pages are those of files,
    which the kernel takes and gives as it likes."""
    proc = Path(f"/proc/{pid}")
    memory = _members(proc / "smaps_rollup")
    return Holding(
        role,
        memory["Private_Dirty"],
        memory["Pss"],
        _members(proc / "status")["VmPTE"],
        len(os.listdir(proc / "fd")),
        len((proc / "maps").read_text(encoding="ascii", errors="replace").splitlines()),
    )


def holdings(router):
    """pid -> Holding, of the master and all that it started."""
    roles = {router.pid: "master"} | router.roles()
    return {pid: holding(pid, role) for pid, role in roles.items()}


def blocks(samples):
    """The samples in ten blocks that follow each other."""
    assert len(samples) >= 5 * BLOCKS, f"only {len(samples)} samples"
    cuts = [len(samples) * n // BLOCKS for n in range(BLOCKS + 1)]
    return [samples[a:b] for a, b in zip(cuts, cuts[1:])]


def slope(points):
    """(slope, what it may be off by) of y over x, by least squares with 95 % confidence; of ten points."""
    xs, ys = zip(*points)
    rise, rest = statistics.linear_regression(xs, ys)
    squares = sum((y - rise * x - rest) ** 2 for x, y in points)
    spread = sum((x - statistics.fmean(xs)) ** 2 for x in xs)
    return rise, T_OF_8 * (squares / (BLOCKS - 2) / spread) ** 0.5
