"""The binding page: how it is served, and what one does there, in a real browser."""

import hashlib
import re

import pytest

import front_ends
from administrator import Admin
from http_client import Call
from processes import ROOT
from tree import Tree, hostile, model

FILES = {path.name: path for path in (ROOT / "admin" / "binding").iterdir() if path.suffix != ".md"}
NAMES = sorted("" if name == "index.html" else name for name in FILES)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def file_of(name):
    return FILES[name or "index.html"]


# How it is served


@pytest.mark.parametrize("name", NAMES)
def test_each_file_is_served_to_anybody_with_its_type_and_tag(site, name):
    text = file_of(name).read_bytes()
    reply = site.get(f"/{name}")
    assert (reply.status, reply.is_whole, reply.body) == (200, True, text)
    assert reply.headers["content-type"] == TYPES[file_of(name).suffix]
    assert reply.headers["etag"] == f'"{hashlib.sha256(text).hexdigest()[:32]}"'
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-content-type-options"] == "nosniff"
    head = site.get(f"/{name}", method="HEAD", connection="close")
    same = {key: value for key, value in reply.headers.items() if key not in ("x-request-id", "date", "connection")}
    assert (head.status, head.body) == (200, b"")
    assert {key: head.headers.get(key) for key in same} == same


def test_its_policy_runs_nothing_but_files_of_its_own(site):
    policy = site.get("/").headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    text = file_of("").read_text()
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?! type=\"module\" src=)|javascript:", text)


TAG = '"{tag}"'
CONDITIONS = {
    "the tag": (TAG, 304),
    "the tag, weak as from what compresses": (f"W/{TAG}", 304),
    "the tag among others": (f'"x", {TAG} ,"y"', 304),
    "any": ("*", 304),
    "another tag": ('"0123456789abcdef0123456789abcdef"', 200),
    "a part of it": ('"{short}"', 200),
    "the tag without quotes": ("{tag}", 200),
    "nothing": ("", 200),
    "only commas": (", ,,", 200),
}


@pytest.mark.parametrize("condition, status", CONDITIONS.values(), ids=CONDITIONS.keys())
def test_who_has_it_already_is_not_sent_it_again(site, condition, status):
    tag = site.get("/page.js").headers["etag"].strip('"')
    reply = site.get("/page.js", **{"if-none-match": condition.format(tag=tag, short=tag[:-1])})
    assert reply.status == status
    assert reply.body == (b"" if status == 304 else file_of("page.js").read_bytes())
    assert reply.headers["etag"] == f'"{tag}"'
    assert {"content-security-policy", "cache-control"} <= reply.headers.keys()


NOT_THERE = [
    "/index.html",
    "/README.md",
    "/nothing",
    "/page.js/",
    "/page.js%00",
    "/PAGE.JS",
    "/../../../../etc/passwd",
    "/..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/.",
    "/.git/config",
]


@pytest.mark.parametrize("path", NOT_THERE)
def test_no_path_leads_to_another_file(site, path):
    reply = site.get(path)
    assert reply.status in (400, 404) or (reply.status, reply.body) == (200, file_of("").read_bytes())
    assert b"root:" not in reply.body
    assert not [line for line in site.admin.log_lines("authentication_failed") if line["request_id"] == reply.headers.get("x-request-id")]


def test_without_its_slash_it_leads_to_itself(site):
    reply = site.get("")
    assert (reply.status, reply.headers["location"]) == (308, "voice-packs/")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_can_only_be_read(site, method):
    reply = site.get("/", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/voice-packsX/", "/voice-packs.js", "/api/admin/x/voice-packs/", "/api/admin/voice-packs/page.js"])
def test_what_only_looks_like_it_is_the_administrators(site, path):
    assert site.gateway.call("GET", path, key=None).reply().status in (401, 404)
