"""Runs a program under the system call filter of a systemd unit: confine.py UNIT PROGRAM [ARGUMENTS…]

What the unit refuses ends the process here: then nothing that it does, seen or not, would be
refused there. systemd itself need not run; systemd-analyze says what its sets of calls are.
"""

import ctypes
import errno
import functools
import os
import subprocess
import sys
from pathlib import Path

ALLOW, KILL, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x00050000 | errno.ENOSYS
EQUAL, MASKED_EQUAL = 4, 7
PROT_WRITE, PROT_EXEC = 2, 4
PR_SET_NO_NEW_PRIVS = 38
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
NAMESPACES = 0x7E020080  # CLONE_NEW…
BY_ARGUMENT = {"socket", "mmap", "mprotect", "pkey_mprotect", "shmat", "clone", "clone3", "unshare", "setns"}


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def settings(unit):
    """(name, value) of each line of the unit."""
    lines = [line.strip() for line in Path(unit).read_text().splitlines()]
    return [tuple(line.split("=", 1)) for line in lines if line and line[0] not in "#[" and "=" in line]


@functools.cache
def sets():
    """The words of each of systemd's sets of calls, in one run of systemd-analyze."""
    listed = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    words = {}
    for line in listed.splitlines():
        if line.startswith("@"):
            words[line] = inside = []
        elif line.strip() and not line.strip().startswith("#"):
            inside.append(line.strip())
    return words


def expand(name):
    """The calls that a set of systemd's has, with those of the sets in it."""
    return set().union(*(expand(word) for word in sets()[name])) if name.startswith("@") else {name}


def allowed_calls(unit):
    allowed = set()
    for name, value in settings(unit):
        if name == "SystemCallFilter":
            calls = set().union(*(expand(word) for word in value.lstrip("~").split()))
            allowed = allowed - calls if value.startswith("~") else allowed | calls
    assert allowed, f"{unit} has no SystemCallFilter"
    return allowed


class Filter:
    def __init__(self):
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._filter = ctypes.c_void_p(self._library.seccomp_init(ctypes.c_uint32(KILL)))

    def allow(self, call, *comparisons, action=ALLOW):
        number = self._library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            return  # of another architecture, or newer than the library
        rows = (Comparison * max(len(comparisons), 1))(*comparisons)
        done = self._library.seccomp_rule_add_array(
            self._filter, ctypes.c_uint32(action), number, ctypes.c_uint(len(comparisons)), rows
        )
        assert done == 0, f"{call}: {os.strerror(-done)}"

    def load(self):
        done = self._library.seccomp_load(self._filter)
        assert done == 0, os.strerror(-done)


def confine(unit):
    values = dict(settings(unit))
    calls, filter_ = allowed_calls(unit), Filter()
    for call in sorted(calls - BY_ARGUMENT):
        filter_.allow(call)
    for family in values["RestrictAddressFamilies"].split():
        filter_.allow("socket", Comparison(0, EQUAL, FAMILIES[family], 0))
    assert values["MemoryDenyWriteExecute"] == "yes"
    for protection in (0, PROT_WRITE, PROT_EXEC):
        filter_.allow("mmap", Comparison(2, MASKED_EQUAL, PROT_WRITE | PROT_EXEC, protection))
    filter_.allow("mprotect", Comparison(2, MASKED_EQUAL, PROT_EXEC, 0))
    assert values["RestrictNamespaces"] == "yes"
    filter_.allow("clone", Comparison(0, MASKED_EQUAL, NAMESPACES, 0))
    filter_.allow("clone3", action=NO_SUCH_CALL)  # whose flags no filter sees; the C library takes clone then
    assert values["NoNewPrivileges"] == "yes"
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), errno.errorcode[ctypes.get_errno()])
    filter_.load()


if __name__ == "__main__":
    confine(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
