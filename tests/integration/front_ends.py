"""The same gateway behind other front ends than lighttpd over FastCGI."""

from cgi_program import CgiCall
from fastcgi import FastCgiCall, meta_variables
from gateway import Gateway
from processes import BROKEN, ROOT, Process, program, wait_until


class SpawnedGateway(Gateway):
    """Started by spawn-fcgi with the listening socket as fd 0; no web server."""

    def start(self):
        self.start_router()
        wait_until(self._answers, "the bare socket answers")

    def _router_command(self):
        return ["spawn-fcgi", "-n", "-s", str(self.run_dir / "spawned.sock"), "--", program("llm-router")]

    def _answers(self):
        assert self.router.is_running(), f"llm-router ended: {self.router.log_text()}"
        try:
            return self.get("/readyz", key=None).status == 200
        except OSError:
            return False

    def _send(self, method, path, headers, payload, **_):
        call = FastCgiCall(self.run_dir / "spawned.sock", meta_variables(method, path, headers, len(payload)))
        try:
            call.send_body(payload)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has answered without it
        return call


class CgiGateway(Gateway):
    """Beside a running instance, whose configuration it takes."""

    @property
    def log(self):
        return self.folder / "cgi.log"

    def start(self):
        self.start_router()
        wait_until(lambda: self.get("/readyz", key=None).status == 200, "the instance is ready")

    def _send(self, method, path, headers, payload, arguments=(), environment=None, **_):
        params = meta_variables(method, path, headers, len(payload)) | (environment or {})
        return CgiCall(params, payload, self.environment(), self.log, arguments)

    def assert_unbroken(self):
        if self.router is not None:
            super().assert_unbroken()
        text = self.log.read_text()
        assert not [word for word in BROKEN if word in text], text


class LoneCgiGateway(CgiGateway):
    """No instance runs: each process reads the state directory for itself."""

    def start(self):
        pass

    def reload(self):
        pass


class LighttpdCgiGateway(LoneCgiGateway):
    """As a CGI program of lighttpd's, with the configuration that is shipped."""

    def start(self):
        self.lighttpd = Process(
            ["lighttpd", "-D", "-f", str(ROOT / "lighttpd" / "cgi.conf")],
            self.environment() | {"LLM_ROUTER_PROGRAM": program("llm-router")},
            self.folder / "lighttpd.log",
        )
        wait_until(self._answers, "/llm-router/livez answers")

    def _answers(self):
        assert self.lighttpd.is_running(), f"lighttpd ended: {self.lighttpd.log_text()}"
        try:
            return self.get("/livez", key=None).status == 200
        except OSError:
            return False

    def _send(self, method, path, headers, payload, **options):
        return Gateway._send(self, method, f"/llm-router{path}", headers, payload, **options)

    @property
    def log(self):
        return self.lighttpd.log  # where CGI programs of lighttpd's write, unless it has a log file


FRONT_ENDS = {
    "lighttpd": Gateway,
    "spawn-fcgi": SpawnedGateway,
    "CGI beside an instance": CgiGateway,
    "CGI alone": LoneCgiGateway,
    "CGI of lighttpd": LighttpdCgiGateway,
}
