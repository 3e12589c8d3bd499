"""llm-router-admin as a program under test, and what its tests have in common."""

import hashlib
import json
import secrets

from fastcgi import FastCgiCall, takes_connections
from gateway import Gateway, confinement
from operator_shell import Database, Directory
from processes import BROKEN, Process, program, wait_until

API = "/api/admin"
CONFIG = f"{API}/llm-router-config"
PATCH_TYPE = "application/merge-patch+json"


class Deployment(Gateway):
    """A gateway on a state directory, or on a database of its own."""

    def __init__(self, folder, base_urls, upstream, postgres=None, store=None, **options):
        self.store = store or (Database(postgres) if postgres is not None else Directory(folder / "state"))
        self.previous_key_file = folder / "previous.key"
        # No Redis answers here, which a strict /readyz would say.
        super().__init__(folder, base_urls, upstream, router_environment={"LLM_ROUTER_READY": "serving"}, **options)

    def environment(self):
        environment = super().environment() | self.store.environment
        if self.previous_key_file.exists():
            environment["LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE"] = str(self.previous_key_file)
        return environment

    def remove_entry(self, name):
        self.store.remove_value(name)

    def remove_entries(self):
        """All but the callers' keys."""
        for name in ("LLM_ROUTER_CONFIG", "DEFAULT_CHAT_MODEL", "DEFAULT_TTS_MODEL", "DEFAULT_TTS_VOICES"):
            self.remove_entry(name)

    def new_master_key(self):
        """Another master key for what starts from now on; the one so far is the previous one."""
        self.previous_key_file.write_text(self.master_key + "\n")
        self.master_key = self.ctl("keygen").strip()
        self.master_key_file.write_text(self.master_key + "\n")


class Admin:
    """llm-router-admin on a gateway's folders, and an administrator."""

    def __init__(self, gateway, flags=(), environment=None, name="llm-router-admin"):
        self.gateway = gateway
        self.socket = gateway.run_dir / (name + ".sock")
        self.token = f"admin-canary-{secrets.token_hex(16)}"
        self.token_file = gateway.folder / f"{name}.token"
        self.token_file.write_text(self.token + "\n")
        self.process = Process(
            [*confinement("llm-router-admin"), program("llm-router-admin"), "--listen", f"unix:{self.socket}", *flags],
            gateway.environment() | {"LLM_ROUTER_ADMIN_TOKEN_FILE": str(self.token_file)} | (environment or {}),
            gateway.folder / f"{name}.log",
        )

    def wait_for_socket(self):
        def listens():
            assert self.process.is_running(), self.process.log_text()
            return takes_connections(self.socket)

        wait_until(listens, "llm-router-admin listens")

    def ask(self, method, path=CONFIG, body=b"", headers=None, key="admin"):
        token = self.token if key == "admin" else key
        return self.gateway.call(method, path, body, headers, key=token).reply()

    def send(self, method, path, document, if_match=None, content_type="application/json"):
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = {"content-type": content_type} if content_type is not None else {}
        if if_match is not None:
            headers["if-match"] = if_match
        return self.ask(method, path, body, headers)

    def get(self, path=CONFIG):
        return self.ask("GET", path)

    def put(self, document, if_match=None, content_type="application/json"):
        return self.send("PUT", CONFIG, document, if_match, content_type)

    def patch(self, document, if_match=None, content_type=PATCH_TYPE):
        return self.send("PATCH", CONFIG, document, if_match, content_type)

    def restore(self, version, if_match="*"):
        return self.ask("POST", f"{CONFIG}/versions/{version}/restore", headers={"if-match": if_match})

    def audit(self, limit=1000):
        """The audit log, the newest line first."""
        reply = self.get(f"{API}/audit-log?limit={limit}")
        assert reply.status == 200, reply
        return reply.json()["entries"]

    def log_lines(self, event):
        lines = [json.loads(line) for line in self.process.log_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def wait_for_log(self, event, **members):
        """The last line of the event with these members: workers' lines take a moment to get there."""

        def lines():
            return [line for line in self.log_lines(event) if line.items() >= members.items()]

        return wait_until(lines, f"{event} with {members} is logged")[-1]

    def create(self, document):
        """Puts the document in place of any other; returns its entity tag."""
        reply = self.put(document, "*")
        assert reply.status == 200, reply
        return reply.headers["etag"]

    def stored(self):
        return json.loads(self.gateway.store.value("LLM_ROUTER_CONFIG"))

    def assert_unbroken(self):
        text = self.process.new_log_text()
        for word in (*BROKEN, '"child_died"'):
            assert word not in text, f"llm-router-admin is broken:\n{text}"


def new_key():
    return f"sk-canary-{secrets.token_hex(16)}"


def document(admin, *keys, name="m"):
    """A document with one model; without keys given, with one that is nobody's canary."""
    keys = keys or ({"id": "k1", "ciphertext": admin.gateway.keys.encrypt(name, "k1", "sk-any")},)
    upstream = {"id": "a", "baseURL": admin.gateway.upstream.base_url("a"), "keys": list(keys)}
    return {"llm": {"models": {name: {"upstreams": [upstream]}}}, "tts": {"models": {}}}


def keys_of(tree, name="m"):
    return tree["llm"]["models"][name]["upstreams"][0]["keys"]


def fingerprint(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def assert_error(reply, status, code):
    """The reply is this error in the seeds' form. Returns its details."""
    assert reply.status == status, reply
    assert reply.is_whole and reply.headers["content-type"] == "application/json"
    body = reply.json()
    assert set(body) <= {"error", "message", "details"}, body
    assert body["error"] == code and body["message"], body
    return body.get("details")


def paths_of(details):
    assert all(set(fault) == {"path", "message"} and fault["message"] for fault in details), details
    return [fault["path"] for fault in details]


def ask_directly(admin, method="GET", path=CONFIG, body=b"", token=None, **params):
    """Past lighttpd: status, headers and body."""
    variables = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "/api/admin",
        "PATH_INFO": path.removeprefix("/api/admin"),
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_AUTHORIZATION": f"Bearer {admin.token if token is None else token}",
    }
    call = FastCgiCall(admin.socket, variables | params)
    call.send_body(body)
    return call.read_reply()


def ask_as_user(admin, method="GET", path=CONFIG, body=b"", **params):
    """The same as from a web server that has authenticated the user."""
    return ask_directly(admin, method, path, body, token="", **params)
