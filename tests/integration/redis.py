"""A Redis of the tests' own, on a unix socket (and on a port, over TLS), with a password."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from urllib.parse import quote

from processes import KeptPort, Process, wait_until


class Redis:
    def __init__(self, certificate=None, authority=None, environment=None):
        """certificate: a file with the key and certificate of 127.0.0.1, for TLS; environment: besides ours."""
        # Not below pytest's folder: root's Redis runs as another user, who may not enter it.
        self.folder = Path(tempfile.mkdtemp(prefix="llm-router-redis-"))
        self.log = self.folder.with_suffix(".log")
        self.password = f"redis/canary@{secrets.token_hex(8)}"
        self.tls_port = self._kept_port = None
        self._as_user = []
        self._environment = os.environ | (environment or {})
        options = {
            "port": 0,
            "unixsocket": self.folder / "redis.sock",
            "dir": self.folder,
            "save": '""',
            "requirepass": self.password,
        }
        if certificate is not None:
            self._kept_port = KeptPort()
            self.tls_port = self._kept_port.number
            shutil.copy(certificate, self.folder / "server.pem")
            shutil.copy(authority.file, self.folder / "ca.pem")
            options |= {
                "tls-port": self.tls_port,
                "tls-cert-file": self.folder / "server.pem",
                "tls-key-file": self.folder / "server.pem",
                "tls-ca-cert-file": self.folder / "ca.pem",
                "tls-auth-clients": "no",
            }
        (self.folder / "redis.conf").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
        if os.geteuid() == 0:
            user = pwd.getpwnam("redis")
            self._as_user = ["setpriv", "--reuid", "redis", "--regid", "redis", "--init-groups"]
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, user.pw_uid, user.pw_gid)
        self.process = None
        self.start()

    def address(self):
        return f"unix://:{quote(self.password, safe='')}@{self.folder}/redis.sock"

    def tls_address(self):
        return f"rediss://:{quote(self.password, safe='')}@127.0.0.1:{self.tls_port}/1"

    # Its life

    def start(self):
        command = [*self._as_user, "setpriv", "--pdeathsig", "KILL", "redis-server", str(self.folder / "redis.conf")]
        self.process = Process(command, self._environment, self.log)
        wait_until(self._answers, "Redis answers", timeout=30)

    def _answers(self):
        assert self.process.is_running(), self.log.read_text()
        try:
            return self.command("PING") == "PONG"
        except OSError:
            return False

    def end(self):
        """It is away until start()."""
        if self.process.is_running():
            self.process.signal(signal.SIGKILL)
            self.process.wait()
        (self.folder / "redis.sock").unlink(missing_ok=True)

    def freeze(self):
        self.process.signal(signal.SIGSTOP)

    def thaw(self):
        self.process.signal(signal.SIGCONT)

    def stop(self):
        self.end()
        if self._kept_port is not None:
            self._kept_port.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.log.unlink(missing_ok=True)

    # What it is told

    def connect(self):
        return Client(self.folder / "redis.sock", self.password)

    def command(self, *words):
        client = self.connect()
        try:
            return client.command(*words)
        finally:
            client.close()

    def commands_seen(self):
        """The names of the commands that clients have sent since CONFIG RESETSTAT."""
        lines = self.command("INFO", "commandstats").splitlines()
        return {line.split(":")[0].removeprefix("cmdstat_") for line in lines if line.startswith("cmdstat_")}


class Client:
    """One connection, and RESP2 as far as the tests need it."""

    def __init__(self, path, password):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rb")
        assert self.command("AUTH", password) == "OK"

    def close(self):
        self._file.close()
        self._socket.close()

    def command(self, *words):
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(encoded), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)]
        self._socket.sendall(b"".join(parts))
        return self.read()

    def read(self):
        line = self._file.readline()
        assert line, "Redis closed the connection"
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise AssertionError(rest)
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        assert kind == b"*", line
        return [self.read() for _ in range(int(rest))]
