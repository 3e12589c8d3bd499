"""llm-routerctl as an operator runs it: on one store, with master keys in files, and with
plaintext keys that must show up nowhere."""

import base64
import json
import os
import secrets
import subprocess

from processes import contents_of, program


class Directory:
    """The store in a state directory, as seen from behind."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {"LLM_ROUTER_STATE_DIR": str(folder)}

    def _path(self, entry):
        return self.folder / "configkv" / f"{entry}.json"

    def value(self, entry):
        return self._path(entry).read_text()

    def set_value(self, entry, text):
        self._path(entry).write_text(text)

    def remove_value(self, entry):
        self._path(entry).unlink(missing_ok=True)

    def audit(self):
        """The audit log, the oldest line first."""
        text = (self.folder / "admin_audit_log.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines() if line]

    def contents(self):
        return contents_of(self.folder)

    def remove(self):
        """The folder is pytest's."""


class Database:
    """The store in a database of a private Postgres; no Redis answers."""

    def __init__(self, postgres):
        self._postgres = postgres
        self.name = postgres.new_database()
        self.environment = {"DATABASE_URL": postgres.address(self.name), "REDIS_URL": "unix:/nonexistent/redis.sock"}

    def _sql(self, text):
        return self._postgres.sql(text, self.name)

    def value(self, entry):
        return "\n".join(self._sql(f"SELECT value FROM config_kv WHERE key = '{entry}'"))

    def set_value(self, entry, text):
        quoted = text.replace("'", "''")
        self._sql(f"UPDATE config_kv SET value = '{quoted}' WHERE key = '{entry}'")

    def remove_value(self, entry):
        self._sql(f"DELETE FROM config_kv WHERE key = '{entry}'")

    def audit(self):
        return [json.loads(line) for line in self._sql(
            "SELECT json_build_object('actor', actor, 'action', action, 'object', object, 'changes', changes::jsonb)"
            " FROM admin_audit_log ORDER BY id")]

    def contents(self):
        return {self.name: self._postgres.dump(self.name)}

    def remove(self):
        self._postgres.drop(self.name)


class Operator:
    def __init__(self, folder, store):
        self.folder = folder
        self.store = store
        self.canaries = []
        self.master_key = self._new_key_file("master")
        self._environment = {"LLM_ROUTER_MASTER_KEY_FILE": str(self.master_key)}

    def _new_key_file(self, name):
        text = base64.b64encode(secrets.token_bytes(32)).decode()
        path = self.folder / f"{name}-{len(self.canaries)}.key"
        path.write_text(text + "\n")
        path.chmod(0o600)
        self.canaries.append(text)
        return path

    def use_master_key(self, file):
        """Of a gateway that has one already."""
        self.master_key = file
        self._environment = {"LLM_ROUTER_MASTER_KEY_FILE": str(file)}

    def new_master_key(self):
        """Another master key becomes the current one, and the one so far the previous one."""
        old, self.master_key = self.master_key, self._new_key_file("master")
        self._environment = {
            "LLM_ROUTER_MASTER_KEY_FILE": str(self.master_key),
            "LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE": str(old),
        }

    def forget_previous_master_key(self):
        self._environment.pop("LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE")

    def new_key(self):
        """A provider's key."""
        self.canaries.append(f"sk-canary-{secrets.token_hex(16)}")
        return self.canaries[-1]

    def environment(self, **more):
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        return kept | self.store.environment | self._environment | more

    def start(self, *args, **options):
        return subprocess.Popen([program("llm-routerctl"), *args], env=self.environment(), **options)

    def start_with_key_in_environment(self, *args, **options):
        """The same with the master key itself in the environment."""
        environment = self.environment(LLM_ROUTER_MASTER_KEY=self.master_key.read_text().strip())
        del environment["LLM_ROUTER_MASTER_KEY_FILE"]
        return subprocess.Popen([program("llm-routerctl"), *args], env=environment, **options)

    def run(self, *args, stdin="", shows_keys=False, **environment):
        done = subprocess.run(
            [program("llm-routerctl"), *map(str, args)],
            input=stdin if isinstance(stdin, str) else json.dumps(stdin),
            env=self.environment(**environment),
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        for canary in self.canaries:
            assert canary not in done.stderr
            assert shows_keys or canary not in done.stdout
        return done

    def do(self, *args, **options):
        """run, which must succeed; what it printed."""
        done = self.run(*args, **options)
        assert done.returncode == 0, f"llm-routerctl {' '.join(map(str, args))}: {done.stderr}"
        return done.stdout

    def refused(self, *args, **options):
        """run, which must be refused; why."""
        done = self.run(*args, **options)
        assert done.returncode == 1, f"llm-routerctl {' '.join(map(str, args))}: {done.returncode} {done.stderr}"
        assert done.stdout == ""
        return done.stderr

    def put(self, document):
        """Puts a document in force; its version."""
        return self.do("config", "put", "--force", stdin=document).strip()

    def edit_stored(self, edit):
        """Changes the tree behind everybody's back."""
        tree = json.loads(self.store.value("LLM_ROUTER_CONFIG"))
        edit(tree)
        self.store.set_value("LLM_ROUTER_CONFIG", json.dumps(tree))

    def tree(self):
        return json.loads(self.do("config", "get"))

    def versions(self):
        lines = self.do("config", "versions").splitlines()
        return [dict(zip(("version", "time", "author", "state"), line.split("\t"))) for line in lines]
