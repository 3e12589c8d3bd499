"""The web servers that stand in front of a gateway: each with the configuration that is shipped, at a place
of the test's, under the smallest main configuration that the server starts with."""

import grp
import os
import shutil
import tempfile
from pathlib import Path

from authority import Authority
from fastcgi import takes_connections
from processes import ROOT, KeptPort, Process, wait_until

SHIPPED = ROOT / "lighttpd"
USER = "www-data"  # Debian's web servers run as this one, if root starts them
IS_ROOT = os.geteuid() == 0

# As behind another proxy: the caller's address is what X-Forwarded-For says. llm-router, which looks for the
# caller's connection by it, does not find it, and has only the web server's word.
REWRITTEN = {
    "lighttpd": [('( "mod_fastcgi" )', '( "mod_fastcgi", "mod_extforward" )'),
                 ("# Replies go out", 'extforward.forwarder = ( "all" => "trust" )\n# Replies go out')],
    "nginx": [("gzip off;", "gzip off; set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;")],
    "Apache": [("SetEnv no-gzip 1", "SetEnv no-gzip 1\nRemoteIPHeader X-Forwarded-For")],
    "Caddy": [("env SERVER_ADDR {args.0}", "env SERVER_ADDR {args.0}\nenv REMOTE_ADDR {http.request.header.X-Forwarded-For}")],
}  # fmt: skip
CALLER = {"x-forwarded-for": "192.0.2.7"}


def edited(path, edits):
    """The text of a file, with these replacements, (text, other), each of which has something to replace."""
    text = path.read_text()
    for before, after in edits:
        assert before in text, f"{path.name} has no {before!r}"
        text = text.replace(before, str(after))
    return text


def escaped(text):
    """In a string of lighttpd's configuration."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


class WebServer:
    """One in front of a gateway, whose folder this is, and for whom it chooses port and run directory.
    edits: what is another in its configuration than in what is shipped, as (text, other)."""

    shipped = ""  # the name of the configuration
    socket_name = "llm-router.sock"  # of llm-router's workers, in the run directory
    ends_within_s = 10.0
    starts_instance = False  # of llm-router, and nobody else does: start_with
    starts_programs = False  # of llm-router, one for each request, which log where this server does: start_with

    def __init__(self, folder, edits=()):
        self._folder = folder
        self._edits = edits
        self._kept_port = KeptPort()
        self.port = self._kept_port.number
        self.run_dir = self._choose_run_dir()
        self.run_dir.mkdir(mode=0o700)

    @property
    def second_run_dir(self):
        """Where it looks for a second instance."""
        return self.run_dir.with_name(f"{self.run_dir.name}-2")

    def admit_to(self, path):
        """Lets the web server into a file or a folder, where it is another user."""

    def router_command(self, llm_router, socket, environment):
        """What starts llm-router, its socket and all, for who adds flags."""
        return [llm_router, "--listen", f"unix:{socket}"]

    def wait_for_router(self, process, socket):
        """Until it has begun, or has ended."""

    def start(self, environment):
        """Its process. environment: the gateway's."""
        raise NotImplementedError

    def start_with(self, command, flags, environment):
        """The same, which starts llm-router itself: by this command, with these flags and this whole environment."""
        raise NotImplementedError

    def close(self):
        """When it has ended."""
        self._kept_port.close()

    def _choose_run_dir(self):
        return self._folder / "run"


class Lighttpd(WebServer):
    """Of the user who runs the tests; TLS is another configuration's matter."""

    shipped = "lighttpd.conf"

    def start(self, environment):
        conf = SHIPPED / self.shipped
        if self._edits:
            conf = self._folder / self.shipped
            conf.write_text(edited(SHIPPED / self.shipped, self._edits))
        return Process(["lighttpd", "-D", "-f", str(conf)], environment, self._folder / "lighttpd.log")


class LighttpdAndSpawnFcgi(Lighttpd):
    """Which opens the socket, and passes it as fd 0."""

    def router_command(self, llm_router, socket, environment):
        return ["spawn-fcgi", "-n", "-s", str(socket), "-M", "0660", "-b", "4096", "--", llm_router]


class LighttpdAndSystemd(Lighttpd):
    """Which opens the socket, and passes it with its protocol when the first caller comes."""

    def router_command(self, llm_router, socket, environment):
        socket.unlink(missing_ok=True)  # of a master that was killed, whose workers would be called
        variables = (f"--setenv={name}" for name in environment)
        listening = ["systemd-socket-activate", f"--listen={socket}", "--fdname=llm-router.socket"]
        return ["env", "SYSTEMD_LOG_LEVEL=warning", *listening, *variables, llm_router]

    def wait_for_router(self, process, socket):
        wait_until(lambda: takes_connections(socket) or not process.is_running(), "systemd listens")


class LighttpdThatStarts(Lighttpd):
    """llm-router, and ends it again."""

    shipped = "bin-path.conf"
    socket_name = "started.sock-0"  # lighttpd adds the number of the process
    starts_instance = True

    def start_with(self, command, flags, environment):
        """Passes on what bin-path.conf does not, as who wants other settings would: only llm-router gets it."""
        last_flag, copied = "--drain-timeout-ms 2000", '    "bin-copy-environment"'
        shipped = (SHIPPED / self.shipped).read_text()
        more = {name: value for name, value in environment.items() if f'"{name}"' not in shipped}
        rows = ", ".join(f'"{name}" => "{escaped(value)}"' for name, value in more.items())
        self._edits = (
            *self._edits,
            ('include "lighttpd.conf"', f'include "{SHIPPED}/lighttpd.conf"'),
            (last_flag, " ".join([last_flag, *flags])),
            (copied, f'    "bin-environment" => ( {rows} ),\n{copied}'),
        )
        kept = {name: value for name, value in environment.items() if name not in more} | {"PORT": environment["PORT"]}
        return self.start(kept | {"LLM_ROUTER_PROGRAM": " ".join(command)})


class LighttpdOfCgi(Lighttpd):
    """Which starts a process for each request."""

    shipped = "cgi.conf"


class LighttpdOfCgiAtMounts(LighttpdOfCgi):
    """The same where callers look for it. An instance beside it answers probes, and administrators are served."""

    starts_programs = True

    def __init__(self, folder, edits=()):
        name = "env.LLM_ROUTER_PROGRAM"
        rest = """
var.admin = ( "socket" => env.LLM_ROUTER_RUN_DIR + "/llm-router-admin.sock", "check-local" => "disable", "disable-time" => 0 )
var.health = ( "socket" => env.LLM_ROUTER_RUN_DIR + "/health.sock", "check-local" => "disable", "disable-time" => 0 )
fastcgi.server = ( "/api/admin" => ( var.admin ), "/voice-packs" => ( var.admin ) )
$HTTP["url"] =~ "^/(livez|readyz|metrics|status)$" { fastcgi.server = ( "/" => ( var.health ) ) }
"""
        places = (
            (f'( "/llm-router" => {name} )', f'( "/v1" => {name}, "/api/v1/openai" => {name} )'),
            ('"mod_cgi" )', f'"mod_cgi", "mod_fastcgi" ){rest}'),
        )
        super().__init__(folder, (*places, *edits))

    def start_with(self, command, flags, environment):
        """Passes on whatever is not the default, as llm-router(8) says: of flags those that are variables, too."""
        last = '"LLM_ROUTER_MASTER_KEY_FILE" => env.LLM_ROUTER_MASTER_KEY_FILE'
        values = zip(flags[::2], flags[1::2], strict=True)
        settings = {f"LLM_ROUTER_{flag[2:].upper().replace('-', '_')}": value for flag, value in values}
        environment = settings | environment
        shipped = (SHIPPED / self.shipped).read_text()
        rows = [f'"{name}" => env.{name}' for name in environment if name not in ("PATH", "PORT") and f'"{name}"' not in shipped]
        self._edits = (*self._edits, (last, ",\n    ".join([last, *rows])))
        (program,) = command
        return self.start(environment | {"LLM_ROUTER_PROGRAM": program})


class ForeignServer(WebServer):
    """One with a user of its own, if root starts it: the run directory gives sockets the group of that user."""

    def __init__(self, folder, edits=()):
        super().__init__(folder, edits)
        self._kept_tls_port = KeptPort()
        self.tls_port = self._kept_tls_port.number
        self.folder = self.run_dir.parent / "server"
        self.folder.mkdir(mode=0o700)
        self.authority = Authority(self.folder, "front")
        self.certificate = self.authority.server_file()
        for path in (self.run_dir, self.certificate, self.folder):
            self.admit_to(path)

    def admit_to(self, path):
        if IS_ROOT:
            os.chown(path, -1, grp.getgrnam(USER).gr_gid)
            path.chmod(0o2770 if path.is_dir() else 0o640)

    def _choose_run_dir(self):
        if not IS_ROOT:
            return super()._choose_run_dir()
        self._place = Path(tempfile.mkdtemp(prefix="front-"))  # pytest's own folders are for its user alone
        self._place.chmod(0o711)
        return self._place / "run"

    def places(self):
        """Each place that the shipped configuration names, and where that is in the test."""
        raise NotImplementedError

    def site(self):
        """The shipped configuration, here."""
        return self._write(self.shipped, edited(SHIPPED / self.shipped, (*self._edits, *self.places())))

    def _run(self, command, environment):
        return Process(command, environment, self._folder / "server.log")

    def _write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def close(self):
        super().close()
        self._kept_tls_port.close()
        if IS_ROOT:
            shutil.rmtree(self._place)


class Nginx(ForeignServer):
    shipped = "nginx.conf"

    def places(self):
        return (
            ("/run/llm-router/", f"{self.run_dir}/"),
            ("/run/llm-router-2/", f"{self.second_run_dir}/"),
            ("listen 127.0.0.1:8080;", f"listen 127.0.0.1:{self.port};"),
            ("listen 443 ", f"listen 127.0.0.1:{self.tls_port} "),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def start(self, environment):
        temporary = "\n".join(
            f"    {kind}_temp_path {self.folder}/{kind};"
            for kind in ("client_body", "fastcgi", "proxy", "scgi", "uwsgi")
        )
        main = self._write("main.conf", f"""
{f"user {USER};" if IS_ROOT else ""}
worker_processes 2;
daemon off;
pid {self.folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off;
{temporary}
    include {self.site()};
}}
""")
        return self._run(["nginx", "-e", "stderr", "-c", str(main)], environment)


class Apache(ForeignServer):
    shipped = "apache.conf"
    ends_within_s = 30.0  # for nine seconds it waits for what is in hand
    modules = (
        "mpm_event remoteip authz_core authz_host env setenvif socache_shmcb slotmem_shm proxy proxy_fcgi proxy_balancer lbmethod_byrequests "
        "macro ssl http2 reqtimeout"
    ).split()

    def places(self):
        return (
            ("/run/llm-router/", f"{self.run_dir}/"),
            ("/run/llm-router-2/", f"{self.second_run_dir}/"),
            ("127.0.0.1:8080", f"127.0.0.1:{self.port}"),
            ("Listen 443", f"Listen 127.0.0.1:{self.tls_port}"),
            ("*:443", f"*:{self.tls_port}"),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def start(self, environment):
        loads = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in self.modules)
        main = self._write("main.conf", f"""
ServerRoot {self.folder}
ServerName localhost
DefaultRuntimeDir {self.folder}
PidFile {self.folder}/apache.pid
ErrorLog /dev/stderr
LogLevel warn
KeepAliveTimeout 250ms
{loads}
{f"User {USER}" if IS_ROOT else ""}
{f"Group {USER}" if IS_ROOT else ""}
Include {self.site()}
""")
        return self._run(["apache2", "-D", "FOREGROUND", "-f", str(main)], environment)


class Caddy(ForeignServer):
    shipped = "Caddyfile"

    def places(self):
        return (
            ("unix//run/llm-router/", f"unix/{self.run_dir}/"),
            ("unix//run/llm-router-2/", f"unix/{self.second_run_dir}/"),
            ("http://:8080", f"http://:{self.port}"),
            ("127.0.0.1 8080", f"127.0.0.1 {self.port}"),
            ("https://llm.example.org", f"https://127.0.0.1:{self.tls_port}"),
            ("192.0.2.1 443", f"127.0.0.1 {self.tls_port}"),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def start(self, environment):
        main = self._write("main", f"""
{{
	admin off
	auto_https disable_redirects
	grace_period 1s
	storage file_system {self.folder}
}}
import {self.site()}
""")
        as_user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"] if IS_ROOT else []
        command = [*as_user, "caddy", "run", "--adapter", "caddyfile", "--config", str(main)]
        return self._run(command, environment | {"HOME": str(self.folder)})


WEB_SERVERS = {"lighttpd": Lighttpd, "nginx": Nginx, "Apache": Apache, "Caddy": Caddy}
IN_FRONT = WEB_SERVERS | {
    "spawn-fcgi": LighttpdAndSpawnFcgi,
    "systemd": LighttpdAndSystemd,
    "bin-path": LighttpdThatStarts,
    "CGI": LighttpdOfCgiAtMounts,
}

# Who stands in front of every gateway whose test does not choose for itself.
NAMED = os.environ.get("FRONT_END", "lighttpd")
CHOSEN = next((name for name in IN_FRONT if name.lower() == NAMED.lower()), None)
assert CHOSEN, f"FRONT_END is {NAMED!r}, but must be one of {', '.join(IN_FRONT)}"
