"""Two whole instances on one Postgres and one Redis, and callers who ask both all the time."""

import base64
import contextlib
import hashlib
import hmac
import json
import time

import chat
from administrator import Admin
from gateway import Gateway
from load import Ask, Front, open_loop
from postgres import Postgres
from processes import wait_until
from redis import Redis
from scripts import answer, pause
from tree import Tree, hostile, model

WORKERS = 4
PREFIX = "plane:"
CHANNEL = f"{PREFIX}configkv:invalidate"
PER_SECOND = 15  # of each instance
LIMIT_S = 5.0  # what is promised


def tree(*keys):
    return Tree(model("m", hostile("a", *(keys or ("k1", "k2")))))


class Instance:
    def __init__(self, gateway, workers):
        self.gateway = gateway
        self._workers = workers
        self.admin = Admin(gateway)
        self.admin.wait_for_socket()

    def has_switched(self, version):
        """Every worker serves this version."""
        status = self.gateway.status()
        return status["version"] == version and status["workersCurrent"] == status["workersAlive"] == self._workers

    def front(self):
        return Front(self.gateway.caller_key, port=self.gateway.port)

    def counters(self):
        status = self.gateway.status()
        metrics = self.gateway.metrics()
        return status["reloads"] | {
            "refused": metrics["airi_gen_ai_gateway_config_invalid_hmac_total"],
            "connections": metrics["airi_gen_ai_gateway_redis_connections_total"],
            "generation": status["generation"],
        }

    def stop(self):
        self.admin.process.stop()
        self.gateway.stop()


class Plane:
    def __init__(self, folders, base_urls, upstream, workers=WORKERS, flags=(), clocks=(None, None), redis=None):
        self.upstream = upstream
        self.postgres = Postgres()
        self.redis = redis or Redis()
        self.database = self.postgres.new_database()
        self.servers = {
            "DATABASE_URL": self.postgres.address(self.database),
            "REDIS_URL": self.redis.address(),
            "LLM_ROUTER_REDIS_PREFIX": PREFIX,
        }
        self.instances = []
        peer = None
        for folder, clock in zip(folders, clocks):
            gateway = Gateway(
                folder, base_urls, upstream, workers=workers, flags=flags, servers=self.servers, peer=peer,
                router_environment=clock.environment if clock is not None else None,
            )
            gateway.start()
            self.instances.append(Instance(gateway, workers))
            peer = peer or gateway
        self.first, self.second = self.instances
        self.put(tree())

    def stop(self):
        for instance in self.instances:
            instance.stop()
        self.redis.stop()
        self.postgres.stop()

    # Changing

    def put(self, routing, by=None):
        """Puts a tree in force at one instance, and waits until both have switched: the seconds
        that this took from the request on, and the version."""
        by = by or self.first
        document, marker = by.gateway.render(routing)
        begun = time.monotonic()
        reply = by.admin.put(document.encode(), "*")
        assert reply.status == 200, reply
        version = reply.headers["etag"].strip('"')
        for instance in self.instances:
            wait_until(lambda one=instance: one.has_switched(version), f"{version} is in force everywhere", LIMIT_S)
        took = time.monotonic() - begun
        for instance in self.instances:
            assert marker in instance.gateway.model_names()
        return took, version

    def sources(self):
        return [instance.gateway.status()["source"] for instance in self.instances]

    def assert_told(self):
        """Both hear of a change through Redis. A look that comes first now and then is none the worse."""
        for _ in range(5):
            self.put(tree())
            if self.sources() == ["pubsub", "pubsub"]:
                return
        raise AssertionError(f"the changes were found, and not heard of: {self.sources()}")

    # Looking

    def wait_healthy(self, timeout=15):
        for instance in self.instances:
            wait_until(lambda one=instance: set(one.gateway.checks().values()) == {"ok"}, "all checks are ok", timeout)

    def wait_failing(self, *names, timeout=8):
        for instance in self.instances:
            def is_failing(one=instance):
                return {name for name, state in one.gateway.checks().items() if state == "fail"} == set(names)

            wait_until(is_failing, f"only {names} fail", timeout)
            assert instance.gateway.get("/readyz", key=None).status == (503 if names else 200)
            assert instance.gateway.get("/livez", key=None).status == 200

    @contextlib.contextmanager
    def load(self, *instances):
        """Callers who ask meanwhile, and are all served."""
        for key in ("k1", "k2"):
            self.first.gateway.script("m", key, [pause(0.02), *answer(200, chat.completion())])
        asks = [Ask("plain", "m"), Ask("seeds' mount", "m", mount="/api/v1/openai")]
        loads = [open_loop(instance.front(), asks, PER_SECOND) for instance in instances or self.instances]
        for load in loads:
            load.wait_begun()
        try:
            yield
        finally:
            results = [load.stop() for load in loads]
        for outcomes, _ in results:
            failed = [outcome for outcome in outcomes if not outcome.is_served]
            assert outcomes and not failed, f"{len(failed)} of {len(outcomes)}: {failed[:5]}"

    # Saying

    def message(self, key="LLM_ROUTER_CONFIG", version="any", published_ms=None, master_key=None):
        """A message as an instance would publish it."""
        published_ms = int(time.time() * 1000) if published_ms is None else published_ms
        master = base64.b64decode(master_key or self.first.gateway.master_key)
        # HKDF-SHA256 (RFC 5869) of 32 bytes
        extracted = hmac.new(b"llm-router-v1", master, hashlib.sha256).digest()
        signing_key = hmac.new(extracted, b"configkv-invalidate-hmac\x01", hashlib.sha256).digest()
        told = {"key": key, "version": version, "publishedAt": published_ms}
        text = json.dumps(told, separators=(",", ":"))
        told["hmac"] = hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()
        return json.dumps(told, separators=(",", ":"))

    def publish(self, message):
        assert self.redis.command("PUBLISH", CHANNEL, message) >= len(self.instances)
