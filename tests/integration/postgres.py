"""A Postgres of the tests' own, on a unix socket, with a database for whoever asks."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from processes import ROOT, Process, program, wait_until

# As tools/private-postgres finds it: Debian's programs are not in the PATH.
BIN = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]


def find(name):
    path = shutil.which(name) or shutil.which(name, path=":".join(BIN))
    assert path, f"{name} is not installed"
    return path


class Postgres:
    def __init__(self):
        # Not below pytest's folder: root's Postgres runs as another user, who may not enter it.
        self.folder = Path(tempfile.mkdtemp(prefix="llm-router-postgres-"))
        self.log = self.folder.with_suffix(".log")
        self.process = None
        self._databases = 0
        self.start()

    def start(self, *options):
        # Its end is a process's, never a machine's: nothing need reach the disk.
        command = [str(ROOT / "tools" / "private-postgres"), str(self.folder), "-c", "fsync=off", *options]
        self.process = Process(command, None, self.log)
        wait_until(self._answers, "Postgres answers", timeout=60)

    def _answers(self):
        assert self.process.is_running(), self.log.read_text()
        return self._psql("llm_router", "SELECT 1").returncode == 0

    def _psql(self, database, sql):
        command = [find("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", self.address(database), "-f", "-"]
        return subprocess.run(command, input=sql, text=True, capture_output=True, timeout=60, check=False)

    def address(self, database="llm_router", user="postgres"):
        return f"postgresql:///{database}?host={self.folder}&user={user}"

    def sql(self, text, database="llm_router"):
        """Runs statements as the superuser; the rows, with columns between |."""
        done = self._psql(database, text)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def new_database(self, is_migrated=True):
        """The name of an empty database, with the tables or without."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        if is_migrated:
            subprocess.run([program("llm-routerctl"), "migrate"], env={"DATABASE_URL": self.address(name)},
                           check=True, capture_output=True, timeout=60)
        return name

    def drop(self, database):
        """Whoever is connected to it is not any more."""
        self.sql(f"DROP DATABASE {database} WITH (FORCE)")

    def dump(self, database):
        """Everything that is in a database, as text."""
        done = subprocess.run([find("pg_dump"), self.address(database)], capture_output=True, timeout=60, check=True)
        return done.stdout

    def end(self):
        """It is away until start()."""
        if self.process.is_running():
            self.process.signal(signal.SIGQUIT)  # neither waits for whoever is connected, nor for a checkpoint
            self.process.wait(30)

    def freeze(self):
        for pid in (self.process.pid, *self.process.children()):
            os.kill(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in (*self.process.children(), self.process.pid):
            os.kill(pid, signal.SIGCONT)

    def stop(self):
        self.end()
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)
