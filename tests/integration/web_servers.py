"""The same gateway behind other web servers than lighttpd: each with the configuration that is shipped,
at a place of the test's, under the smallest main configuration that the server starts with."""

import grp
import os
import shutil
import tempfile
from pathlib import Path

from authority import Authority
from gateway import Gateway, edited
from processes import ROOT, KeptPort, Process

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


class WebServerGateway(Gateway):
    """Its run directory gives sockets the web server's group, where that is another user."""

    shipped = ""  # the name of the configuration

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.tls_port = KeptPort()
        self.server_folder = self.run_dir.parent / "server"
        self.server_folder.mkdir()
        self.authority = Authority(self.server_folder, "front")
        self.certificate = self.authority.server_file()
        for path in (self.run_dir, self.certificate, self.server_folder):
            self.give_to_web_server(path)

    def give_to_web_server(self, path):
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

    def _run(self, command, **environment):
        return Process(command, self.environment() | environment, self.folder / "server.log")

    def _write(self, name, text):
        path = self.server_folder / name
        path.write_text(text)
        path.chmod(0o644)
        return path

    def stop(self):
        super().stop()
        self.tls_port.close()
        if IS_ROOT:
            shutil.rmtree(self._place)


class NginxGateway(WebServerGateway):
    shipped = "nginx.conf"

    def places(self):
        return (
            ("/run/llm-router/", f"{self.run_dir}/"),
            ("/run/llm-router-2/", f"{self.second_run_dir}/"),
            ("listen 127.0.0.1:8080;", f"listen 127.0.0.1:{self.port};"),
            ("listen 443 ", f"listen 127.0.0.1:{self.tls_port.number} "),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def _start_web_server(self):
        temporary = "\n".join(
            f"    {kind}_temp_path {self.server_folder}/{kind};"
            for kind in ("client_body", "fastcgi", "proxy", "scgi", "uwsgi")
        )
        main = self._write("main.conf", f"""
{f"user {USER};" if IS_ROOT else ""}
worker_processes 2;
daemon off;
pid {self.server_folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off;
{temporary}
    include {self.site()};
}}
""")
        return self._run(["nginx", "-e", "stderr", "-c", str(main)])


class ApacheGateway(WebServerGateway):
    shipped = "apache.conf"
    modules = (
        "mpm_event remoteip authz_core authz_host env setenvif socache_shmcb slotmem_shm proxy proxy_fcgi proxy_balancer lbmethod_byrequests "
        "macro ssl http2 reqtimeout"
    ).split()

    def places(self):
        return (
            ("/run/llm-router/", f"{self.run_dir}/"),
            ("/run/llm-router-2/", f"{self.second_run_dir}/"),
            ("127.0.0.1:8080", f"127.0.0.1:{self.port}"),
            ("Listen 443", f"Listen 127.0.0.1:{self.tls_port.number}"),
            ("*:443", f"*:{self.tls_port.number}"),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def _start_web_server(self):
        loads = "\n".join(f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in self.modules)
        main = self._write("main.conf", f"""
ServerRoot {self.server_folder}
ServerName localhost
DefaultRuntimeDir {self.server_folder}
PidFile {self.server_folder}/apache.pid
ErrorLog /dev/stderr
LogLevel warn
KeepAliveTimeout 250ms
{loads}
{f"User {USER}" if IS_ROOT else ""}
{f"Group {USER}" if IS_ROOT else ""}
Include {self.site()}
""")
        return self._run(["apache2", "-D", "FOREGROUND", "-f", str(main)])


class CaddyGateway(WebServerGateway):
    shipped = "Caddyfile"

    def places(self):
        return (
            ("unix//run/llm-router/", f"unix/{self.run_dir}/"),
            ("unix//run/llm-router-2/", f"unix/{self.second_run_dir}/"),
            ("http://:8080", f"http://:{self.port}"),
            ("127.0.0.1 8080", f"127.0.0.1 {self.port}"),
            ("https://llm.example.org", f"https://127.0.0.1:{self.tls_port.number}"),
            ("192.0.2.1 443", f"127.0.0.1 {self.tls_port.number}"),
            ("/etc/ssl/certs/llm-router.pem", self.certificate),
            ("/etc/ssl/private/llm-router.key", self.certificate),
        )

    def _start_web_server(self):
        main = self._write("main", f"""
{{
	admin off
	auto_https disable_redirects
	grace_period 1s
	storage file_system {self.server_folder}
}}
import {self.site()}
""")
        as_user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"] if IS_ROOT else []
        return self._run(
            [*as_user, "caddy", "run", "--adapter", "caddyfile", "--config", str(main)], HOME=str(self.server_folder)
        )
