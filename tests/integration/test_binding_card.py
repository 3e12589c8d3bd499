"""Character cards: what the page's own scripts, run in a browser, make of a card's bytes."""

import base64
import json
import zlib

import pytest

from binding import card_chunk, cards_of, chunk, chunks_of, picture

SNAPSHOT = '{"packId":"p1","name":"Warm","params":{"pitch":1.50},"tag":"v1.\\u00e9"}'
EXTENSION = f'{{"modules":{{"speech":{{"voicePack":{SNAPSHOT}}}}}}}'
IN_EXTENSIONS = f'"airi":{EXTENSION}'


BIND = f"""
globalThis.bind = async (card) => {{
    const {{ openCard }} = await import("./card.js");
    const {{ CardError }} = await import("./card_error.js");
    try {{
        const {{ name, boundName, type, bind }} = openCard(Uint8Array.fromBase64(card));
        return {{ name, boundName, type, bytes: bind({json.dumps(SNAPSHOT)}).toBase64() }};
    }} catch (error) {{
        if (!(error instanceof CardError)) throw error;
        return {{ error: error.message }};
    }}
}}; 0
"""


@pytest.fixture(scope="module")
def card_page(session_site, browser):
    page = browser.open(session_site.url)
    page.evaluate(BIND)
    yield page
    assert not page.complaints()
    page.close()


@pytest.fixture
def bind(card_page):
    """A function: a card's bytes -> what the page's scripts make of them: its name, the voice it has, the bytes
    with the snapshot in it; or "error"."""

    def bind(card):
        told = card_page.evaluate(f'bind("{base64.b64encode(card).decode()}")')
        return told | ({"bytes": base64.b64decode(told["bytes"])} if "bytes" in told else {})

    return bind


# A JSON text, and the same with the snapshot bound: every other byte is kept.
TEXTS = {
    "V2 with empty extensions": (
        '{"spec":"chara_card_v2","spec_version":"2.0","data":{"name":"Mira","extensions":{}}}',
        f'{{"spec":"chara_card_v2","spec_version":"2.0","data":{{"name":"Mira","extensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "V3 with another program's extension": (
        '{"spec":"chara_card_v3","data":{"name":"Mira","extensions":{"depth_prompt":{"depth":4}}}}',
        f'{{"spec":"chara_card_v3","data":{{"name":"Mira","extensions":{{"depth_prompt":{{"depth":4}},{IN_EXTENSIONS}}}}}}}',
    ),
    "V2 without extensions": (
        '{"data":{"name":"Mira"}}',
        f'{{"data":{{"name":"Mira","extensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "V1, which has no data": (
        '{"name":"Mira","first_mes":"Hi"}',
        f'{{"name":"Mira","first_mes":"Hi","extensions":{{{IN_EXTENSIONS}}}}}',
    ),
    "V1 fields beside data, whose extensions are meant": (
        '{"name":"Old","extensions":{},"data":{"name":"Mira","extensions":{}}}',
        f'{{"name":"Old","extensions":{{}},"data":{{"name":"Mira","extensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "speech with settings of its own": (
        '{"data":{"name":"Mira","extensions":{"airi":{"modules":{"speech":{"voice_id":"a"},"vision":{}}}}}}',
        f'{{"data":{{"name":"Mira","extensions":{{"airi":{{"modules":{{"speech":{{"voice_id":"a","voicePack":{SNAPSHOT}}},"vision":{{}}}}}}}}}}}}',
    ),
    "a voice pack that is replaced": (
        '{"data":{"name":"Mira","extensions":{"airi":{"modules":{"speech":{"voicePack": {"name":"Old"} ,"x":1}}}}}}',
        f'{{"data":{{"name":"Mira","extensions":{{"airi":{{"modules":{{"speech":{{"voicePack": {SNAPSHOT} ,"x":1}}}}}}}}}}}}',
    ),
    "extensions that are null": (
        '{"data":{"name":"Mira","extensions":null}}',
        f'{{"data":{{"name":"Mira","extensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "numbers, escapes and repetitions that parsing would change": (
        '{"n":1.0e2,"big":12345678901234567890,"s":"\\u00e9\\/\\"}","n":2,"data":{"name":"Mira","extensions":{}},"z":[[],{"a":"]"}]}',
        '{"n":1.0e2,"big":12345678901234567890,"s":"\\u00e9\\/\\"}","n":2,"data":{"name":"Mira","extensions":{'
        + IN_EXTENSIONS
        + '}},"z":[[],{"a":"]"}]}',
    ),
    "of two members of a name the last, as it is parsed": (
        '{"data":{"name":"Not"},"data":{"name":"Mira","extensions":{"a":1},"extensions":{}}}',
        f'{{"data":{{"name":"Not"}},"data":{{"name":"Mira","extensions":{{"a":1}},"extensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "a name that is written with escapes": (
        '{"\\u0064ata":{"name":"Mira","\\u0065xtensions":{}}}',
        f'{{"\\u0064ata":{{"name":"Mira","\\u0065xtensions":{{{IN_EXTENSIONS}}}}}}}',
    ),
    "laid out in lines": (
        '{\n  "data": {\n    "name": "Mira",\n    "extensions": {\n      "x": 1\n    }\n  }\n}\n',
        f'{{\n  "data": {{\n    "name": "Mira",\n    "extensions": {{\n      "x": 1,\n      "airi":{EXTENSION}\n    }}\n  }}\n}}\n',
    ),
    "a byte order mark, and white space around": (
        '\ufeff \r\n{"data":{"name":"Mira","extensions":{ }}}\t\n',
        f'\ufeff \r\n{{"data":{{"name":"Mira","extensions":{{{IN_EXTENSIONS} }}}}}}\t\n',
    ),
    "characters of any length": (
        '{"data":{"name":"Mira","a":"é語🎙\\ud83c","extensions":{"é":"🎙"}}}',
        f'{{"data":{{"name":"Mira","a":"é語🎙\\ud83c","extensions":{{"é":"🎙",{IN_EXTENSIONS}}}}}}}',
    ),
}


@pytest.mark.parametrize("before, after", TEXTS.values(), ids=TEXTS.keys())
def test_a_json_card_gets_the_snapshot_and_keeps_every_other_byte(bind, before, after):
    told = bind(before.encode())
    assert (told["name"], told["type"]) == ("Mira", "application/json")
    assert told["bytes"].decode() == after
    again = bind(told["bytes"])
    assert (again["boundName"], again["bytes"]) == ("Warm", told["bytes"]), "bound once more, it is the same"


@pytest.mark.parametrize("before, after", TEXTS.values(), ids=TEXTS.keys())
def test_a_png_card_gets_the_snapshot_and_keeps_every_other_byte(bind, before, after):
    told = bind(picture(card_chunk(b"chara", before), behind=b"what follows"))
    assert (told["name"], told["type"]) == ("Mira", "image/png")
    assert told["bytes"] == picture(card_chunk(b"chara", after), behind=b"what follows")
    assert chunks_of(told["bytes"])[1] == b"what follows"


V2, V3 = '{"data":{"name":"Of V2","extensions":{}}}', '{"data":{"name":"Of V3","extensions":{"v3":1}}}'


def test_of_a_png_with_both_versions_both_are_bound_and_the_third_is_shown(bind):
    told = bind(picture(card_chunk(b"chara", V2), card_chunk(b"ccv3", V3)))
    assert told["name"] == "Of V3"
    cards = cards_of(told["bytes"])
    assert list(cards) == ["chara", "ccv3"]
    for card in cards.values():
        assert card["data"]["extensions"]["airi"]["modules"]["speech"]["voicePack"] == json.loads(SNAPSHOT)
    assert cards["ccv3"]["data"]["extensions"]["v3"] == 1


TEXT_CHUNKS = {
    "tEXt": (b"tEXt", b"chara", b"\0"),
    "tEXt in capitals": (b"tEXt", b"Chara", b"\0"),
    "iTXt": (b"iTXt", b"ccv3", b"\0\0\0\0\0"),
    "iTXt with a language and a translated keyword": (b"iTXt", b"ccv3", b"\0\0\0en\0Karte \xc3\xa9\0"),
}


@pytest.mark.parametrize("kind, keyword, between", TEXT_CHUNKS.values(), ids=TEXT_CHUNKS.keys())
def test_a_text_chunk_stays_what_it_is(bind, kind, keyword, between):
    before, after = TEXTS["V2 with empty extensions"]
    told = bind(picture(card_chunk(keyword, before, kind, between)))
    assert told["bytes"] == picture(card_chunk(keyword, after, kind, between))


def test_every_chunk_of_a_name_is_bound_as_readers_take_the_first_or_the_last(bind):
    before, after = TEXTS["V2 with empty extensions"]
    told = bind(picture(card_chunk(b"chara", before), card_chunk(b"chara", before)))
    assert told["bytes"] == picture(card_chunk(b"chara", after), card_chunk(b"chara", after))


def test_a_card_of_a_megabyte_is_bound(bind):
    card = json.dumps({"data": {"name": "Mira", "book": ["\\\"é" * 50] * 2000, "extensions": {}}})
    told = bind(picture(card_chunk(b"ccv3", card)))
    bound = cards_of(told["bytes"])["ccv3"]["data"]
    assert bound.pop("extensions")["airi"]["modules"]["speech"]["voicePack"] == json.loads(SNAPSHOT)
    assert bound["book"] == ["\\\"é" * 50] * 2000


def test_deep_nesting_is_no_matter(bind):
    depth = 3000
    told = bind(('{"data":{"name":"Mira","x":' + "[" * depth + "]" * depth + "}}").encode())
    assert told["bytes"].decode() == f'{{"data":{{"name":"Mira","x":{"[" * depth}{"]" * depth},"extensions":{{{IN_EXTENSIONS}}}}}}}'


def damaged(png, at):
    return png[:at] + bytes([png[at] ^ 1]) + png[at + 1 :]


WHOLE = picture(card_chunk(b"chara", V2))
PLACE = WHOLE.index(b"chara\0")


def at(path, value):
    """A card with this value at the path."""
    for name in reversed(path.split(".")):
        value = f'{{"{name}":{value}}}'
    return value.replace('"data":{', '"data":{"name":"Mira",').encode()


REFUSED = {
    "an empty file": (b"", "is not JSON"),
    "no JSON": (b'{"data":', "is not JSON"),
    "JSON that is cut": (b'{"data":{"name":"M"}', "is not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "a text": (b'"chara"', "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "another object": (b'{"models":[]}', "has no name"),
    "a card that says V2 and has nothing in it": (b'{"spec":"chara_card_v2","name":"M"}', "has no data.name"),
    "data that is a list": (b'{"data":[]}', "has no data.name"),
    "a name that is a number": (b'{"data":{"name":1}}', "has no data.name"),
    "another encoding": ('{"data":{"name":"é"}}'.encode("latin-1"), "not text in UTF-8"),
    "UTF-16": ('{"data":{"name":"M"}}'.encode("utf-16"), "not text in UTF-8"),
    "extensions that are a list": (at("data.extensions", "[]"), "card's data.extensions is a list"),
    "airi that is a text": (at("data.extensions.airi", '"x"'), "card's data.extensions.airi is a text"),
    "modules that are true": (at("data.extensions.airi.modules", "true"), "data.extensions.airi.modules is true"),
    "modules that are false": (at("data.extensions.airi.modules", "false"), "data.extensions.airi.modules is false"),
    "speech that is a number": (at("data.extensions.airi.modules.speech", "-1"), "modules.speech is a number"),
    "a CHARX file": (b"PK\x03\x04 and so on", "CHARX"),
    "a JPEG picture": (b"\xff\xd8\xff\xe0 and so on", "JPEG"),
    "a WebP picture": (b"RIFF\0\0\0\0WEBP", "WebP"),
    "a picture without a card": (picture(), "holds no character card"),
    "a picture that is cut before a chunk": (WHOLE[: WHOLE.index(b"IEND") - 4], "cut short"),
    "a picture that is cut inside a chunk": (WHOLE[: PLACE + 20], "cut short"),
    "a picture of nothing": (WHOLE[:8], "cut short"),
    "a chunk whose length is beyond the file": (WHOLE[:8] + b"\xff\xff\xff\xff" + WHOLE[12:], "cut short"),
    "a card that is damaged": (damaged(WHOLE, PLACE + 12), "damaged"),
    "a checksum that is damaged": (damaged(WHOLE, WHOLE.index(b"chRd") - 5), "damaged"),
    "a card that is compressed": (picture(chunk(b"zTXt", b"chara\0\0" + zlib.compress(b"e30="))), "compressed"),
    "an iTXt that is compressed": (picture(chunk(b"iTXt", b"ccv3\0\1\0\0\0" + zlib.compress(b"e30="))), "compressed"),
    "an iTXt whose head is cut": (picture(chunk(b"iTXt", b"ccv3\0\0\0en")), "head is incomplete"),
    "a card that is not base64": (picture(chunk(b"tEXt", b"chara\0*")), "not base64"),
    "base64 of something else": (picture(card_chunk(b"chara", b"\xff\xfe")), "not text in UTF-8"),
    "base64 of no JSON": (picture(card_chunk(b"chara", b"{")), "is not JSON"),
    "base64 of another object": (picture(card_chunk(b"ccv3", b"{}")), "“ccv3” is no character card"),
    "of two cards one that is damaged": (picture(card_chunk(b"ccv3", V3), card_chunk(b"chara", "{")), "“chara”"),
    "in a picture, extensions that are a list": (
        picture(card_chunk(b"chara", at("data.extensions", "[]"))),
        "card's data.extensions is a list",
    ),
}


@pytest.mark.parametrize("card, words", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_card_is_told_precisely(bind, card, words):
    told = bind(card)
    assert words in told.get("error", ""), told
    assert told["error"].endswith(".")
