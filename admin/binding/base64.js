/* Base64 (RFC 4648) of bytes. Browsers have it for texts whose characters are bytes. */
const STEP = 0x8000; // a function takes so many arguments everywhere

export function bytesOf(text) {
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
}

export function encodeBase64(bytes) {
    let text = "";
    for (let at = 0; at < bytes.length; at += STEP) text += String.fromCharCode(...bytes.subarray(at, at + STEP));
    return btoa(text);
}

/* An exception if it is none. */
export function decodeBase64(text) {
    return bytesOf(atob(text));
}
