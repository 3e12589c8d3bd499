/* PNG as a list of chunks (the PNG specification, section 5). */
import { CardError } from "./card_error.js";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const FRAME_BYTES = 12; // of a chunk, besides its data: length, type, CRC

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, value) => {
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
    return value;
});

function crcOf(bytes) {
    let crc = 0xffffffff;
    for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
    return ~crc >>> 0;
}

const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function isPng(bytes) {
    return SIGNATURE.every((byte, i) => bytes[i] === byte);
}

/*
 * The chunks up to IEND: {start, end, type, data}; what follows that is nobody's.
 * CardError: the file ends inside one.
 */
export function listChunks(bytes) {
    const view = viewOf(bytes);
    const chunks = [];
    for (let start = SIGNATURE.length; ; ) {
        const end = start + FRAME_BYTES > bytes.length ? Infinity : start + FRAME_BYTES + view.getUint32(start);
        if (end > bytes.length) throw new CardError("The picture is cut short: it does not end as a PNG file does.");
        const type = String.fromCharCode(...bytes.subarray(start + 4, start + 8));
        chunks.push({ start, end, type, data: bytes.subarray(start + 8, end - 4) });
        if (type === "IEND") return chunks;
        start = end;
    }
}

/* Whether the chunk's data are what its CRC says. */
export function isIntact(bytes, chunk) {
    return crcOf(bytes.subarray(chunk.start + 4, chunk.end - 4)) === viewOf(bytes).getUint32(chunk.end - 4);
}

/* The bytes of a chunk with these data, which are a list of arrays. */
export function makeChunk(type, ...data) {
    const length = data.reduce((sum, part) => sum + part.length, 0);
    const bytes = new Uint8Array(FRAME_BYTES + length);
    const view = viewOf(bytes);
    view.setUint32(0, length);
    for (let i = 0; i < 4; i++) bytes[4 + i] = type.charCodeAt(i);
    let at = 8;
    for (const part of data) {
        bytes.set(part, at);
        at += part.length;
    }
    view.setUint32(at, crcOf(bytes.subarray(4, at)));
    return bytes;
}
