/* What the page asks of llm-router, which is at the same origin beside it. */
const MOUNT = new URL("../v1/", import.meta.url);

/* Why the router did not do it, in a sentence; status 0: there was no answer. */
export class RouterError extends Error {
    constructor(message, status) {
        super(message);
        this.status = status;
    }
}

async function failureOf(reply) {
    const told = await reply.json().then((body) => body.error?.message, () => undefined);
    return new RouterError(typeof told === "string" ? told : `The gateway answered ${reply.status}.`, reply.status);
}

/* The reply, if it is a good one. `body`: JSON text, or undefined. */
async function ask(key, method, path, body, signal) {
    // 401: it is the key's fault, as if the router had said so. A header could not even hold it.
    if (!/^[\x21-\x7e]*$/.test(key)) throw new RouterError("The key has characters that no key has.", 401);
    const headers = {};
    if (key !== "") headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    let reply;
    try {
        reply = await fetch(new URL(path, MOUNT), { method, headers, body, signal, cache: "no-store", redirect: "error" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new RouterError("The gateway does not answer.", 0);
    }
    if (!reply.ok) throw await failureOf(reply);
    return reply;
}

/* The text of a reply, and what it says, which has this member: what a proxy tells by itself has not. */
async function readJson(reply, member) {
    const text = await reply.text();
    let value;
    try {
        value = JSON.parse(text);
    } catch {
        value = undefined;
    }
    if (value?.[member] === undefined) throw new RouterError("What answered is not the gateway.", 0);
    return { text, value };
}

/* [{id, name, description?, tier}], those that are enabled and for this caller. */
export async function listVoicePacks(key) {
    return (await readJson(await ask(key, "GET", "voice-packs"), "voicePacks")).value.voicePacks;
}

/* The pack as it is now: {name, text}, the text being JSON as the router wrote it. */
export async function takeSnapshot(key, id) {
    const reply = await ask(key, "POST", `voice-packs/${encodeURIComponent(id)}/snapshot`, "{}");
    const { text, value } = await readJson(reply, "packId");
    return { text, name: value.name };
}

/* Audio of the text in the voice of a snapshot, as a Blob. */
export async function speak(key, snapshot, text, signal) {
    const body = `{"input":${JSON.stringify(text)},"voice_pack":${snapshot.text}}`;
    return (await ask(key, "POST", "audio/speech", body, signal)).blob();
}
