"""llm-routerctl voices refresh, against an imitation of Azure's list."""

import json
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from processes import BUILD, ROOT

CTL = BUILD / "llm-routerctl"
COMPILE_VOICES = BUILD / "compile-voices"
PATH = "/cognitiveservices/voices/list"
KEY = "0123456789abcdef0123456789abcdef"
COLUMNS = (
    "id name gender age languages models type scenarios personalities status styles roles local_name hz words".split()
)


class AzureList(BaseHTTPRequestHandler):
    """As strict as the service: a wrong key is a 401 whose body is empty, the words are in the status line."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests.append((self.path, dict(self.headers)))
        if self.path != PATH:
            self.reply(404, "Resource Not Found", b"")
        elif self.headers.get("Ocp-Apim-Subscription-Key") != KEY or not self.headers.get("User-Agent"):
            self.reply(401, "Access denied due to invalid subscription key", b"")
        else:
            self.reply(*self.server.answer)

    def reply(self, status, reason, body, **headers):
        self.send_response(status, reason)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def azure():
    server = ThreadingHTTPServer(("127.0.0.1", 0), AzureList)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def catalog(tmp_path):
    copy = tmp_path / "azure.tsv"
    copy.write_bytes((ROOT / "voices" / "azure.tsv").read_bytes())
    return copy


def lines(catalog):
    for line in catalog.read_text().splitlines():
        if not line.startswith("#"):
            yield line.split("\t")


def live_list(catalog):
    """The list from which the catalog would have been made; members that a voice lacks are absent."""
    titles = {fields[1]: fields[2] for fields in lines(catalog) if fields[0] == "language"}
    voices = []
    for fields in lines(catalog):
        if fields[0] != "voice":
            continue
        v = dict(zip(COLUMNS, fields[1:] + [""] * len(COLUMNS)))
        own, *others = v["languages"].split(";")
        tag = {"TailoredScenarios": v["scenarios"], "VoicePersonalities": v["personalities"]}
        voice = {
            "Name": f"Microsoft Server Speech Text to Speech Voice ({v['id']})",
            "DisplayName": v["name"],
            "LocalName": v["local_name"],
            "ShortName": v["id"],
            "Gender": v["gender"].capitalize(),
            "Locale": own,
            "LocaleName": titles[own],
            "SampleRateHertz": v["hz"],
            "VoiceType": v["type"],
            "Status": v["status"],
            "WordsPerMinute": v["words"],
            "StyleList": v["styles"].split(";") if v["styles"] else None,
            "RolePlayList": v["roles"].split(";") if v["roles"] else None,
            "SecondaryLocaleList": others or None,
            "VoiceTag": {name: text.split(";") for name, text in tag.items() if text} or None,
        }
        voices.append({name: value for name, value in voice.items() if value})
    return voices


def answer(azure, voices):
    azure.answer = (200, "OK", json.dumps(voices).encode())


def refresh(azure, catalog, *options, stdin=KEY + "\n", provider="azure"):
    url = f"http://127.0.0.1:{azure.server_address[1]}{PATH}"
    command = [CTL, "voices", "refresh", provider, "--url", url, "--file", str(catalog), *options]
    done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=30)
    assert KEY not in done.stdout + done.stderr
    return done


def test_a_list_without_news_changes_nothing(azure, catalog):
    before = catalog.read_bytes()
    answer(azure, list(reversed(live_list(catalog))))
    done = refresh(azure, catalog, "--write")
    assert done.returncode == 0, done.stderr
    n = sum(fields[0] == "voice" for fields in lines(catalog))
    assert done.stdout == f"{n} voices: 0 added, 0 removed, 0 changed, 0 titles of languages differ\n"
    assert catalog.read_bytes() == before


def changed(voices):
    adri = next(v for v in voices if v["ShortName"] == "af-ZA-AdriNeural")
    adri |= {"StyleList": ["chat", "sad"], "Status": "Deprecated"}
    new = {
        "DisplayName": "Nua",
        "LocalName": " Núa ",
        "ShortName": "ga-IE-NuaNeural",
        "Gender": "Neutral",
        "Locale": "ga-IE",
        "LocaleName": "Irish (Ireland)",
        "SecondaryLocaleList": ["en-IE", "xx-XX", "en-IE"],
        "SampleRateHertz": 24000,
        "VoiceType": "NeuralHD",
        "VoiceTag": {"TailoredScenarios": ["Chat", "Assistant"], "VoicePersonalities": ["Warm"]},
    }
    return [v for v in voices if v["ShortName"] != "am-ET-AmehaNeural"] + [new]


def test_the_difference_is_shown_and_written_only_when_asked(azure, catalog):
    before = catalog.read_bytes()
    n = sum(fields[0] == "voice" for fields in lines(catalog))
    answer(azure, changed(live_list(catalog)))
    shown = refresh(azure, catalog)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "~ af-ZA-AdriNeural  status: GA -> Deprecated  styles: +chat +sad",
        "+ ga-IE-NuaNeural",
        "- am-ET-AmehaNeural",
        "+ language xx-XX: xx-XX",
        f"{n} voices: 1 added, 1 removed, 1 changed, 1 titles of languages differ",
    ]
    assert catalog.read_bytes() == before

    assert refresh(azure, catalog, "--write").stdout == shown.stdout
    new = ["voice", "ga-IE-NuaNeural", "Nua", "neutral", "", "ga-IE;en-IE;xx-XX", "v1", "NeuralHD", "Chat;Assistant"]
    assert [*new, "Warm", "", "", "", "Núa", "24000"] in list(lines(catalog))
    assert len(set(before.splitlines()) ^ set(catalog.read_bytes().splitlines())) == 5
    assert subprocess.run([COMPILE_VOICES, catalog], capture_output=True, timeout=30).returncode == 0
    assert refresh(azure, catalog).stdout.startswith(f"{n} voices: 0 added, 0 removed, 0 changed, 0 titles")


def test_a_list_that_lost_more_than_a_quarter_is_refused_unless_forced(azure, catalog):
    before = catalog.read_bytes()
    voices = live_list(catalog)
    least = -(-3 * len(voices) // 4)
    answer(azure, voices[: least - 1])
    done = refresh(azure, catalog, "--write")
    assert done.returncode == 1
    assert f"{least - 1} voices of {len(voices)} are left" in done.stderr and "--force" in done.stderr
    assert catalog.read_bytes() == before
    assert refresh(azure, catalog, "--write", "--force").returncode == 0
    assert sum(fields[0] == "voice" for fields in lines(catalog)) == least - 1


def test_a_list_that_lost_a_quarter_is_taken(azure, catalog):
    voices = live_list(catalog)
    answer(azure, voices[: -(-3 * len(voices) // 4)])
    assert refresh(azure, catalog, "--write").returncode == 0


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"[{}] []", "not JSON"),
        (b'["\xff"]', "not JSON"),
        (b"{}", "no list of voices"),
        (b"[]", "no list of voices"),
        (b"[1]", "item 0 of the list is no voice"),
        (b"[{}]", "id: missing"),
        (b" " * (16 * 1024 * 1024 + 1), "the reply has more than 16777216 bytes"),
    ],
)
def test_a_reply_that_is_no_list_changes_nothing(azure, catalog, body, message):
    before = catalog.read_bytes()
    azure.answer = (200, "OK", body)
    done = refresh(azure, catalog, "--write", "--force")
    assert done.returncode == 1 and message in done.stderr
    assert catalog.read_bytes() == before


@pytest.mark.parametrize(
    "member, value, message",
    [
        ("ShortName", "af-ZA-WillemNeural", "there twice"),
        ("ShortName", 'a" onload="', "id: unexpected"),
        ("DisplayName", None, "name: missing"),
        ("DisplayName", "a\nvoice\tb", "has a tab, a line's end or a semicolon"),
        ("DisplayName", "a\u0007", "with control characters"),
        ("Gender", "Robot", "gender: unexpected"),
        ("Locale", "", "languages: missing"),
        ("SampleRateHertz", "many", "sample rate: unexpected"),
        ("StyleList", ["a b"], "styles: unexpected"),
    ],
)
def test_a_voice_that_no_catalog_may_hold_changes_nothing(azure, catalog, member, value, message):
    before = catalog.read_bytes()
    voices = live_list(catalog)
    voices[0][member] = value
    answer(azure, voices)
    done = refresh(azure, catalog, "--write", "--force")
    assert done.returncode == 1 and message in done.stderr
    assert catalog.read_bytes() == before


def test_what_the_service_says_of_a_wrong_key_is_told(azure, catalog):
    done = refresh(azure, catalog, stdin="wrong\n")
    assert done.returncode == 1
    assert "401 Access denied due to invalid subscription key" in done.stderr


def test_a_key_does_not_follow_a_redirect(azure, catalog):
    azure.answer = (302, "Found", b"")
    done = refresh(azure, catalog)
    assert done.returncode == 1 and "302 Found" in done.stderr
    assert [path for path, _ in azure.requests] == [PATH]


def test_nobody_is_asked_without_a_key(azure, catalog):
    for stdin in ("", "\n", "two\nlines\n"):
        assert refresh(azure, catalog, stdin=stdin).returncode == 1
    assert azure.requests == []


def test_nobody_is_asked_about_a_file_that_cannot_be_read(azure, catalog):
    assert refresh(azure, catalog.with_name("none.tsv")).returncode == 1
    catalog.write_text("voice\n")
    done = refresh(azure, catalog)
    assert done.returncode == 1 and "azure.tsv:1: id: missing" in done.stderr
    assert azure.requests == []


def test_a_service_that_cannot_be_reached_is_told(catalog):
    command = [CTL, "voices", "refresh", "azure", "--url", f"http://127.0.0.1:1{PATH}", "--file", catalog]
    done = subprocess.run(command, input=KEY, text=True, capture_output=True, timeout=30)
    assert done.returncode == 1 and "no reply" in done.stderr


@pytest.mark.parametrize(
    "args, message",
    [
        ([], "PROVIDER is missing"),
        (["openai", "--region", "eastus"], 'no list of "openai"'),
        (["azure"], "either --region or --url"),
        (["azure", "--region", "eastus", "--url", "http://h"], "either --region or --url"),
        (["azure", "--region", "evil.example/"], "is no region"),
        (["azure", "--region", ""], "is no region"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_is_read(args, message):
    done = subprocess.run(
        [CTL, "voices", "refresh", *args], stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=20
    )
    assert done.returncode == 2 and message in done.stderr


def test_a_file_with_a_fault_does_not_compile(catalog):
    whole = catalog.read_text()
    at = whole.index("voice\taf-ZA-AdriNeural")
    n = whole[:at].count("\n") + 1
    for fault, message in [
        (whole.replace("\tNeural\t", "\t\t", 1), f"{n}: type: missing"),
        ("".join(f"{line}\n" for line in whole.splitlines()[:-1] + ["voice\tx"]), "name: missing"),
        (whole.replace("af-ZA-WillemNeural", "af-ZA-AdriNeural"), f"{n + 1}: id: there twice"),
        (whole.replace("147\n", "147\t\n", 1), "too many columns"),
        (whole + "format\tMP3\t.mp3\taudio/mpeg\t1\t1\tx\n", "not as it would be written"),
    ]:
        catalog.write_text(fault)
        done = subprocess.run([COMPILE_VOICES, catalog], text=True, capture_output=True, timeout=30)
        assert done.returncode == 1 and message in done.stderr, done.stderr
