"""Routing trees for tests, written as the shapes that matter:

    Tree(
        model("two-keys", hostile("a", "k1", "k2")),
        model("refused-first", refused("a", "k1"), hostile("b", "k2")),
        perAttemptTimeoutMs=1000,
    )

Every key's plaintext is a canary: random, and found again wherever it leaks.
"""

import json
import secrets
import subprocess


class Address:
    """One upstream of a model; `where` names what answers there."""

    def __init__(self, where, name, keys, members):
        self.where = where
        self.name = name
        self.keys = keys
        self.members = members


def hostile(name, *keys, **members):
    return Address("hostile", name, keys, members)


def refused(name, *keys, **members):
    return Address("refused", name, keys, members)


def silent(name, *keys, **members):
    return Address("silent", name, keys, members)


def at(where, name, *keys, **members):
    """Any kind of upstream by its name in the fixture base_urls."""
    return Address(where, name, keys, members)


def elsewhere(base_url, name, *keys, **members):
    return Address(base_url, name, keys, members)


def model(name, *addresses, **members):
    return name, addresses, members


def speaker(name, provider, *addresses, **members):
    """A model of `tts`."""
    return name, addresses, {"provider": provider} | members


class Tree:
    def __init__(self, *models, speech=(), default=None, default_tts=None, **defaults):
        self.models = list(models)
        self.speech = list(speech)
        self.default = default
        self.default_tts = default_tts
        self.defaults = defaults


class KeyRing:
    """The plaintexts of all keys so far, and their ciphertexts under the master key."""

    def __init__(self, llm_routerctl, master_key_file):
        self._ctl = llm_routerctl
        self._master_key_file = master_key_file
        self._plaintexts = {}
        self._ciphertexts = {}

    def plaintext(self, model_name, key_id):
        """The key's plaintext; made at first sight."""
        return self._plaintexts.setdefault((model_name, key_id), f"sk-canary-{secrets.token_hex(16)}")

    def rotate(self, model_name, key_id):
        """A new plaintext for the key; the old one stays a canary."""
        old = self._plaintexts.pop((model_name, key_id))
        self._plaintexts[(model_name, key_id, len(self._plaintexts))] = old
        return self.plaintext(model_name, key_id)

    @property
    def canaries(self):
        return list(self._plaintexts.values())

    def ciphertext(self, model_name, key_id):
        return self.encrypt(model_name, key_id, self.plaintext(model_name, key_id))

    def encrypt(self, model_name, key_id, plaintext):
        place = (model_name, key_id, plaintext)
        if place not in self._ciphertexts:
            done = subprocess.run(
                [self._ctl, "encrypt", "--model", model_name, "--key-id", key_id],
                input=plaintext.encode(),
                env={"LLM_ROUTER_MASTER_KEY_FILE": str(self._master_key_file)},
                capture_output=True,
                timeout=20,
                check=False,
            )
            assert done.returncode == 0, f"llm-routerctl encrypt: {done.stderr.decode()}"
            self._ciphertexts[place] = done.stdout.decode().strip()
        return self._ciphertexts[place]


def render(tree, base_urls, key_ring):
    """The tree as LLM_ROUTER_CONFIG. base_urls: where -> function of an upstream's name."""
    document = {
        "llm": {"models": render_models(tree.models, base_urls, key_ring)},
        "tts": {"models": render_models(tree.speech, base_urls, key_ring)},
    }
    if tree.defaults:
        document["defaults"] = tree.defaults
    return json.dumps(document, indent=1)


def render_models(list_of_models, base_urls, key_ring):
    models = {}
    for name, addresses, members in list_of_models:
        upstreams = []
        for address in addresses:
            base_url = base_urls[address.where](address.name) if address.where in base_urls else address.where
            keys = [{"id": key, "ciphertext": key_ring.ciphertext(name, key)} for key in address.keys]
            upstreams.append({"id": address.name, "baseURL": base_url, "keys": keys} | address.members)
        models[name] = {"upstreams": upstreams} | members
    return models
