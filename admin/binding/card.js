/*
 * A character card as a file: JSON, or a PNG picture with the JSON in base64 in a text
 * chunk (character card specification V2: "chara"; V3: "ccv3", and "chara" for readers of V2).
 *
 * A card's own data and those of every program are kept to the byte; what is written is one member.
 */
import { bytesOf, decodeBase64, encodeBase64 } from "./base64.js";
import { CardError } from "./card_error.js";
import { withValueAt } from "./json_text.js";
import { isIntact, isPng, listChunks, makeChunk } from "./png.js";

const VOICE_PACK = ["extensions", "airi", "modules", "speech", "voicePack"];
const KEYWORDS = ["ccv3", "chara"]; // a reader that knows both takes the first
const TEXT_CHUNKS = ["tEXt", "iTXt", "zTXt"];

const BYTE_ORDER_MARK = "\ufeff";

const OTHERS = [
    { begins: [0x50, 0x4b, 0x03, 0x04], text: "This is a CHARX (zip) file. Export the card as PNG or JSON, and choose that." },
    { begins: [0xff, 0xd8, 0xff], text: "This is a JPEG picture, which cannot hold a card. Choose the card's PNG or JSON file." },
    { begins: [0x52, 0x49, 0x46, 0x46], text: "This is a WebP picture. Choose the card's PNG or JSON file." },
];

/* ignoreBOM: it is not taken away, as it is a part of the file. */
function textOf(bytes, what) {
    try {
        return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
        throw new CardError(`${what} is not text in UTF-8.`);
    }
}

/* A card's JSON text: {name, boundName, bind(snapshot)}. */
function readCardText(text, what) {
    const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : "";
    const json = text.slice(mark.length);
    let card;
    try {
        card = JSON.parse(json);
    } catch (error) {
        throw new CardError(`${what} is not JSON: ${error.message}.`);
    }
    const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
    if (!isObject(card)) throw new CardError(`${what} is no character card: it is not a JSON object.`);
    // V2 and V3 have all of it in `data`. V1 has not, nor have AIRI's own cards: it looks beside the name.
    const isWrapped = Object.hasOwn(card, "data") || Object.hasOwn(card, "spec");
    const data = isWrapped ? card.data : card;
    if (!isObject(data) || typeof data.name !== "string") {
        throw new CardError(`${what} is no character card: it has no ${isWrapped ? "data.name" : "name"}.`);
    }
    const bound = VOICE_PACK.reduce((value, name) => value?.[name], data);
    return {
        name: data.name,
        boundName: typeof bound?.name === "string" ? bound.name : null,
        bind: (snapshot) => mark + withValueAt(json, isWrapped ? ["data", ...VOICE_PACK] : VOICE_PACK, snapshot),
    };
}

function readJsonFile(bytes) {
    const card = readCardText(textOf(bytes, "The file"), "The file");
    return { ...card, type: "application/json", bind: (snapshot) => new TextEncoder().encode(card.bind(snapshot)) };
}

const latin1Of = (bytes) => new TextDecoder("latin1").decode(bytes);

/* The keyword of a text chunk if it is one of a card, else null. Readers do not look at its case. */
function cardKeyword(chunk) {
    const end = TEXT_CHUNKS.includes(chunk.type) ? chunk.data.indexOf(0) : -1;
    const keyword = latin1Of(chunk.data.subarray(0, Math.max(end, 0))).toLowerCase();
    return KEYWORDS.includes(keyword) ? keyword : null;
}

/* Where the text of a chunk begins. iTXt: keyword, 0, whether it is compressed, method, language, 0, keyword again, 0. */
function textStart(chunk, what) {
    let at = chunk.data.indexOf(0) + 1;
    if (chunk.type === "zTXt" || (chunk.type === "iTXt" && chunk.data[at] !== 0)) {
        throw new CardError(
            `${what} is compressed, which the card format does not allow. Export the card again from where it was made.`,
        );
    }
    if (chunk.type === "iTXt") {
        for (let zeros = 0, from = at + 2; zeros < 2; zeros++) {
            from = at = chunk.data.indexOf(0, from) + 1;
            if (at === 0) throw new CardError(`${what} is damaged: its head is incomplete.`);
        }
    }
    return at;
}

function textOfBase64(text, what) {
    let bytes;
    try {
        bytes = decodeBase64(text);
    } catch {
        throw new CardError(`${what} is not base64.`);
    }
    return textOf(bytes, what);
}

/* A chunk with a card: that card, and bind(snapshot) makes the chunk's bytes. */
function readCardChunk(bytes, chunk, keyword) {
    const what = `The picture's chunk “${keyword}”`;
    if (!isIntact(bytes, chunk)) throw new CardError(`${what} is damaged: its checksum is another.`);
    const start = textStart(chunk, what);
    const card = readCardText(textOfBase64(latin1Of(chunk.data.subarray(start)), what), what);
    const bind = (snapshot) => {
        const text = encodeBase64(new TextEncoder().encode(card.bind(snapshot)));
        return makeChunk(chunk.type, chunk.data.subarray(0, start), bytesOf(text));
    };
    return { ...card, keyword, chunk, bind };
}

function join(parts) {
    const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
    }
    return bytes;
}

function readPngFile(bytes) {
    const cards = [];
    for (const chunk of listChunks(bytes)) {
        const keyword = cardKeyword(chunk);
        if (keyword !== null) cards.push(readCardChunk(bytes, chunk, keyword));
    }
    if (cards.length === 0) throw new CardError("The picture holds no character card.");
    const shown = KEYWORDS.flatMap((keyword) => cards.filter((card) => card.keyword === keyword))[0];

    // Every one of them, as readers choose differently.
    const bind = (snapshot) => {
        const parts = [];
        let at = 0;
        for (const card of cards) {
            parts.push(bytes.subarray(at, card.chunk.start), card.bind(snapshot));
            at = card.chunk.end;
        }
        return join([...parts, bytes.subarray(at)]);
    };
    return { name: shown.name, boundName: shown.boundName, type: "image/png", bind };
}

/*
 * A card of a file's bytes:
 *   name       the character's
 *   boundName  of the voice pack that it has; null: none
 *   type       the file's media type
 *   bind(snapshot)  the bytes of the file with this voice pack's snapshot, which is JSON text
 * CardError, here and from bind: it is no card, or a damaged one.
 */
export function openCard(bytes) {
    if (isPng(bytes)) return readPngFile(bytes);
    const other = OTHERS.find(({ begins }) => begins.every((byte, i) => bytes[i] === byte));
    if (other !== undefined) throw new CardError(other.text);
    return readJsonFile(bytes);
}
