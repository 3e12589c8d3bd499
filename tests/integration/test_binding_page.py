"""The binding page: how it is served, and what one does there, in a real browser."""

import base64
import hashlib
import json
import re

import pytest

from binding import MARKUP, card_chunk, cards_of, picture
from processes import ROOT, wait_until
from providers import sound
from scripts import answer, pause
from speech import MP3

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
    same = {key: value for key, value in reply.headers.items() if key not in ("x-request-id", "date", "connection", "transfer-encoding")}
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


# What one does there


def list_packs(site, page, key=None):
    page.node("textbox", "Caller key").fill(site.gateway.caller_key if key is None else key)
    page.node("button", "Show voice packs").click()
    page.wait_for("document.querySelector('#packs li') !== null")


def choose(page, pack, path):
    page.node("radio", pack).click()
    page.node("button", "Card file, PNG or JSON").choose_file(path)
    page.wait_for("document.querySelector('#card-note').textContent || document.querySelector('#error').textContent")


def told(page, selector, words):
    return page.wait_for(f"document.querySelector({selector!r}).textContent.includes({json.dumps(words)})")


@pytest.fixture
def downloads(page, tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    page.allow_downloads(folder)
    return folder


def downloaded(downloads, name):
    """A file, as soon as it is whole: until then it has another name."""
    wait_until((downloads / name).exists, f"{name} is downloaded", 30)
    return (downloads / name).read_bytes()


def axe_violations(page, node_folder):
    """What axe finds against WCAG 2.2 AA and its best practices."""
    page.evaluate((node_folder / "node_modules" / "axe-core" / "axe.min.js").read_text() + "; 0")
    found = page.evaluate("axe.run(document, {reporter: 'v2'}).then((result) => JSON.stringify(result.violations))")
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in json.loads(found)]


def test_enabled_packs_are_listed_with_their_tiers_and_nothing_of_their_provider(site, page):
    list_packs(site, page)
    assert [node.name for node in page.nodes("radio")] == ["Warm pro", "Bright lite", MARKUP + " premium"]
    assert [node.description for node in page.nodes("radio")] == ["A low voice.", "", ""]
    told(page, "#status", "Voice packs: 3.")
    classes = page.evaluate("Array.from(document.querySelectorAll('.tier'), (tier) => tier.className)")
    assert classes == ["tier tier-pro", "tier tier-lite", "tier tier-premium"]
    markup = page.evaluate("document.documentElement.outerHTML")
    for hidden in ("onyx", "speaks", "openai", "Gone"):
        assert hidden not in markup, hidden


def test_a_name_that_is_markup_is_a_name(site, page):
    list_packs(site, page)
    page.node("radio", MARKUP + " premium").click()
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_a_sample_is_heard(site, page):
    site.gateway.script("speaks", "k1", answer(200, sound.tone("mp3", 24000, 0.5), MP3))
    list_packs(site, page)
    page.node("textbox", "Text of the samples").fill("Sprich „leise“!")
    page.node("button", "Play a sample of Warm").click()
    page.wait_for("document.querySelector('#player').ended")
    assert 0.4 < page.evaluate("document.querySelector('#player').currentTime") < 0.7
    told(page, "#status", "A sample of “Warm”.")
    asked = json.loads(site.gateway.upstream.records[-1].body)
    assert (asked["input"], asked["voice"], asked["speed"]) == ("Sprich „leise“!", "onyx", 1.25)


def test_of_two_samples_the_one_that_was_asked_for_last_is_heard(site, page):
    late, soon = sound.tone("mp3", 24000, 0.5), sound.tone("mp3", 24000, 1.5)
    site.gateway.script("speaks", "k1", [pause(3), *answer(200, late, MP3)], answer(200, soon, MP3))
    list_packs(site, page)
    page.node("button", "Play a sample of Warm").click()
    wait_until(lambda: site.gateway.upstream.records, "the first one is asked for")
    page.node("button", "Play a sample of Bright").click()
    page.wait_for("document.querySelector('#player').ended")
    told(page, "#status", "A sample of “Bright”.")
    assert page.evaluate("document.querySelector('#player').currentTime") > 1.3


def test_a_sample_that_fails_is_told_of(site, page):
    site.gateway.script("speaks", "k1", answer(400, json.dumps({"error": {"message": "Too long a text."}})))
    list_packs(site, page)
    page.node("button", "Play a sample of Warm").click()
    told(page, "#error", "Too long a text.")
    page.expect_complaint("400")


def test_what_is_no_sound_is_told_of(site, page):
    site.gateway.script("speaks", "k1", answer(200, b"ID3 this is none" * 100, MP3))
    list_packs(site, page)
    page.node("button", "Play a sample of Warm").click()
    told(page, "#error", "cannot play")


CARD = {"spec": "chara_card_v2", "spec_version": "2.0", "data": {"name": "Mira é", "extensions": {"other": 1}}}
AIRI = {"airi": {"modules": {"speech": {}}}}


def bound(card):
    """The snapshot in a card that has nothing else that is new."""
    snapshot = card["data"]["extensions"]["airi"]["modules"]["speech"].pop("voicePack")
    assert card["data"]["extensions"].pop("airi") == AIRI["airi"]
    assert card == CARD
    return snapshot


def assert_speaks(site, snapshot, name="Warm"):
    """The snapshot is one of the router's own: it speaks with it, and not with another."""
    assert (snapshot["name"], snapshot["tier"], snapshot["params"]) == (name, "pro", {"rate": 1.25})
    site.gateway.script("speaks", "k1", answer(200, sound.tone("mp3", 24000, 0.2), MP3))
    assert site.gateway.say("speaks", voice=..., model=..., voice_pack=snapshot).status == 200
    assert json.loads(site.gateway.upstream.records[-1].body)["voice"] == "onyx"
    other = snapshot | {"voiceId": "alloy"}
    assert site.gateway.say("speaks", voice=..., model=..., voice_pack=other).status == 400


def test_a_voice_is_bound_into_a_json_card(site, page, downloads, tmp_path):
    path = tmp_path / "Mira.json"
    path.write_text(json.dumps(CARD, indent=2))
    list_packs(site, page)
    choose(page, "Warm pro", path)
    told(page, "#card-note", "“Mira é” has no voice pack yet.")
    page.node("button", "Bind and download").click()
    told(page, "#status", "“Mira é” has the voice pack “Warm” now")
    assert_speaks(site, bound(json.loads(downloaded(downloads, "Mira.json"))))


def test_a_voice_is_bound_into_a_picture_and_replaced_there(site, page, downloads, tmp_path):
    path = tmp_path / "Mira.png"
    card = json.dumps(CARD)
    path.write_bytes(picture(card_chunk(b"chara", card), card_chunk(b"ccv3", card.replace("_v2", "_v3"))))
    list_packs(site, page)
    choose(page, "Bright lite", path)
    page.node("button", "Bind and download").click()
    first = tmp_path / "first.png"
    first.write_bytes(downloaded(downloads, "Mira.png"))
    choose(page, "Warm pro", first)
    told(page, "#card-note", "has the voice pack “Bright”, which will be replaced.")
    page.node("button", "Bind and download").click()
    cards = cards_of(downloaded(downloads, "first.png"))
    assert cards["ccv3"].pop("spec") == "chara_card_v3"
    cards["ccv3"]["spec"] = "chara_card_v2"
    snapshots = [bound(cards[keyword]) for keyword in ("chara", "ccv3")]
    assert snapshots[0] == snapshots[1]
    assert_speaks(site, snapshots[0])


def test_all_of_it_is_done_with_keys_alone(site, page, downloads, tmp_path):
    """But for the dialogue in which a file is chosen, which is the system's."""
    site.gateway.script("speaks", "k1", answer(200, sound.tone("mp3", 24000, 0.3), MP3))
    path = tmp_path / "Mira.json"
    path.write_text(json.dumps(CARD))
    page.press("Tab")
    assert page.focused() == ("textbox", "Caller key")
    page.type(site.gateway.caller_key)
    page.press("Enter")
    page.wait_for("document.querySelector('#packs li') !== null")
    page.press("Tab", times=2)
    page.press(" ")
    assert page.focused() == ("radio", "Warm pro")
    page.press("ArrowDown")
    assert page.focused() == ("radio", "Bright lite")
    page.press("Tab")
    assert page.focused() == ("button", "Play a sample of Bright")
    page.press("Enter")
    page.wait_for("document.querySelector('#player').ended")
    seen = []
    while page.focused() != ("button", "Card file, PNG or JSON"):
        seen.append(page.focused())
        assert len(seen) < 30, seen
        page.press("Tab")
    page.node("button", "Card file, PNG or JSON").choose_file(path)
    told(page, "#card-note", "has no voice pack yet")
    page.press("Tab")
    assert page.focused() == ("button", "Bind and download")
    page.press("Enter")
    assert bound(json.loads(downloaded(downloads, "Mira.json")))["name"] == "Bright"


def test_what_has_the_focus_shows_it(site, page):
    list_packs(site, page)
    page.press("Tab", shift=True)
    for _ in range(8):
        page.press("Tab")
        style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", page.focused()


def test_a_wrong_key_is_told_of_and_asked_for_again(site, page):
    page.node("textbox", "Caller key").fill("sk-of-nobody")
    page.node("button", "Show voice packs").click()
    told(page, "#error", ".")
    assert page.node("alert", "").call("function () { return this.id; }") == "error"
    assert page.focused() == ("textbox", "Caller key")
    page.expect_complaint("401")
    list_packs(site, page)
    assert page.evaluate("document.querySelector('#error').textContent") == ""


@pytest.mark.parametrize("key", ["ключ", "with a blank"])
def test_what_cannot_be_a_key_is_no_request(page, key):
    page.node("textbox", "Caller key").fill(key)
    before = len(page.events("Network.requestWillBeSent"))
    page.node("button", "Show voice packs").click()
    told(page, "#error", "characters that no key has")
    assert len(page.events("Network.requestWillBeSent")) == before


def test_the_key_is_in_no_address_and_in_no_storage(site, page, downloads, tmp_path):
    path = tmp_path / "Mira.json"
    path.write_text(json.dumps(CARD))
    list_packs(site, page)
    choose(page, "Warm pro", path)
    page.node("button", "Bind and download").click()
    text = downloaded(downloads, "Mira.json").decode()
    key = site.gateway.caller_key
    requests = [event["request"] for event in page.events("Network.requestWillBeSent")]
    with_key = {request["url"] for request in requests if key in json.dumps(request["headers"])}
    assert {url.removeprefix(site.url.removesuffix("voice-packs/")).split("/")[0] for url in with_key} == {"v1"}
    assert not [request for request in requests if key in request["url"] + request.get("postData", "")]
    assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length + history.length") == 2
    assert key not in text + page.evaluate("location.href")
    page.go(site.url)
    assert page.evaluate("document.querySelector('#key').value") == ""


NO_CARDS = {
    "text.json": (b"hello", "The file is not JSON"),
    "plain.png": (picture(), "holds no character card"),
    "cut.png": (picture()[:60], "cut short"),
    "card.charx": (b"PK\x03\x04", "CHARX"),
}


@pytest.mark.parametrize("name", NO_CARDS)
def test_what_is_no_card_is_refused_before_anything_is_asked(site, page, downloads, tmp_path, name):
    content, words = NO_CARDS[name]
    (tmp_path / name).write_bytes(content)
    list_packs(site, page)
    choose(page, "Warm pro", tmp_path / name)
    told(page, "#error", words)
    assert page.node("button", "Card file, PNG or JSON").properties.get("invalid") == "true"
    before = len(page.events("Network.requestWillBeSent"))
    page.node("button", "Bind and download").click()
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))")
    assert len(page.events("Network.requestWillBeSent")) == before
    (tmp_path / "Mira.json").write_text(json.dumps(CARD))
    page.node("button", "Card file, PNG or JSON").choose_file(tmp_path / "Mira.json")
    told(page, "#card-note", "“Mira é” has no voice pack yet.")
    page.node("button", "Bind and download").click()
    assert bound(json.loads(downloaded(downloads, "Mira.json")))["name"] == "Warm"


def test_without_a_pack_or_a_card_nothing_is_asked(site, page):
    list_packs(site, page)
    before = len(page.events("Network.requestWillBeSent"))
    page.node("button", "Bind and download").click()
    assert page.focused() == ("radio", "Warm pro")
    page.node("radio", "Warm pro").click()
    page.node("button", "Bind and download").click()
    assert page.focused() == ("button", "Card file, PNG or JSON")
    assert len(page.events("Network.requestWillBeSent")) == before


def test_a_pack_that_was_disabled_meanwhile_is_not_bound(site, page, downloads, tmp_path):
    path = tmp_path / "Mira.json"
    path.write_text(json.dumps(CARD))
    list_packs(site, page)
    choose(page, "Warm pro", path)
    with site.without("Warm"):
        page.node("button", "Bind and download").click()
        told(page, "#error", "no voice pack with this id")
    assert not list(downloads.iterdir())
    page.expect_complaint("404")


def test_without_packs_it_says_so(site, page):
    with site.without("Warm", "Bright", MARKUP):
        page.node("textbox", "Caller key").fill(site.gateway.caller_key)
        page.node("button", "Show voice packs").click()
        told(page, "#status", "There are no voice packs.")
    assert not page.nodes("radio") and not page.nodes("button", "Bind and download")


def test_a_gateway_that_does_not_answer_is_told_of(site, page):
    offline = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    page.command("Network.emulateNetworkConditions", **offline)
    page.node("button", "Show voice packs").click()
    told(page, "#error", "The gateway does not answer.")
    page.expect_complaint("ERR_INTERNET_DISCONNECTED")


def answer_instead(page, body):
    """Answers the page's next request with 200 and this, as a proxy on the way might."""
    paused = page.wait_event("Fetch.requestPaused")
    encoded = base64.b64encode(body).decode()
    page.command("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=200, body=encoded)


@pytest.mark.parametrize("body", [b"<html>Please log in</html>", b"[]", b"null", b"{}", b""])
def test_what_is_not_the_gateways_answer_is_neither_shown_nor_bound(site, page, downloads, tmp_path, body):
    path = tmp_path / "Mira.json"
    path.write_text(json.dumps(CARD))
    list_packs(site, page)
    choose(page, "Warm pro", path)
    page.command("Fetch.enable", patterns=[{"urlPattern": "*/v1/*"}])
    for button in ("Bind and download", "Show voice packs"):
        page.node("button", button).click()
        answer_instead(page, body)
        told(page, "#error", "What answered is not the gateway.")
        page.evaluate("document.querySelector('#error').textContent = ''; 0")
    assert not list(downloads.iterdir())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_in_each_state_and_scheme(site, page, tmp_path, node_folder, scheme):
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    assert axe_violations(page, node_folder) == []
    list_packs(site, page)
    (tmp_path / "none.json").write_text("[]")
    choose(page, "Warm pro", tmp_path / "none.json")
    page.evaluate("document.querySelector('#player').hidden = false; 0")
    assert axe_violations(page, node_folder) == []
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(26, 28, 31)"
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("width", [320, 1280])
def test_it_fits_a_small_screen_and_a_large_one(site, page, width):
    page.command("Emulation.setDeviceMetricsOverride", width=width, height=600, deviceScaleFactor=1, mobile=False)
    list_packs(site, page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
