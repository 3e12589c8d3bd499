/* The page: what its controls do. */
import { openCard } from "./card.js";
import { CardError } from "./card_error.js";
import { RouterError, listVoicePacks, speak, takeSnapshot } from "./router_api.js";

const CARD_MAX_BYTES = 64 * 1024 * 1024; // a bound on the browser's memory; no card comes near
const TIERS = ["lite", "standard", "pro", "premium"];

const element = Object.fromEntries(
    ["key-form", "key", "bind-form", "packs", "sample-text", "player", "card", "card-note", "status", "error", "pack"].map(
        (id) => [id, document.getElementById(id)],
    ),
);

let chosenCard; // a promise of openCard's, with its file's name
let sampling = new AbortController(); // of the sample that is being made

const keyOf = () => element.key.value.trim();

function tell(text) {
    element.error.textContent = "";
    element.status.textContent = text;
}

/* What is no sentence for people is a mistake of ours, and belongs into the console, too. */
function tellError(error) {
    if (error.name === "AbortError") return;
    const isTold = error instanceof CardError || error instanceof RouterError;
    element.status.textContent = "";
    element.error.textContent = isTold ? error.message : `This page has failed: ${error.message}`;
    if (error.status === 401) element.key.focus();
    if (!isTold) console.error(error);
}

/* Does the action on submission, one at a time. */
function onSubmit(form, action) {
    form.addEventListener("submit", async (event) => {
        event.preventDefault();
        if (form.ariaBusy === "true") return;
        form.ariaBusy = "true";
        try {
            await action();
        } catch (error) {
            tellError(error);
        } finally {
            form.ariaBusy = "false";
        }
    });
}

function makePackItem(pack, index) {
    const item = element.pack.content.cloneNode(true);
    const [radio, label, tier, note, button] = ["input", "label", ".tier", ".note", "button"].map((selector) =>
        item.querySelector(selector),
    );
    for (const name of item.querySelectorAll(".name")) name.textContent = pack.name;
    radio.value = pack.id;
    radio.id = label.htmlFor = `pack-${index}`;
    note.id = `pack-note-${index}`;
    note.textContent = pack.description ?? "";
    radio.setAttribute("aria-describedby", note.id);
    tier.textContent = pack.tier;
    if (TIERS.includes(pack.tier)) tier.classList.add(`tier-${pack.tier}`);
    button.addEventListener("click", () => playSample(pack).catch(tellError));
    return item;
}

async function showPacks() {
    tell("Asking for the voice packs …");
    element["bind-form"].hidden = true;
    const packs = await listVoicePacks(keyOf());
    element.packs.replaceChildren(...packs.map(makePackItem));
    element["bind-form"].hidden = packs.length === 0;
    tell(packs.length === 0 ? "There are no voice packs." : `Voice packs: ${packs.length}.`);
}

async function playSample(pack) {
    sampling.abort();
    sampling = new AbortController();
    const { signal } = sampling;
    tell(`Making a sample of “${pack.name}” …`);
    const snapshot = await takeSnapshot(keyOf(), pack.id);
    signal.throwIfAborted();
    const audio = await speak(keyOf(), snapshot, element["sample-text"].value, signal);
    URL.revokeObjectURL(element.player.src);
    element.player.src = URL.createObjectURL(audio);
    element.player.hidden = false;
    tell(`A sample of “${pack.name}”.`);
    try {
        await element.player.play();
    } catch (error) {
        // Some browsers have forgotten the click by now; the controls are there.
        if (error.name !== "NotAllowedError") throw new RouterError("Your browser cannot play this sample.", 0);
        tell(`A sample of “${pack.name}” is there: start the player.`);
    }
}

async function readCard(file) {
    if (file.size > CARD_MAX_BYTES) throw new CardError("The file is larger than 64 MiB, which no card is.");
    return { ...openCard(new Uint8Array(await file.arrayBuffer())), fileName: file.name };
}

async function showCard() {
    const input = element.card;
    const [file] = input.files;
    chosenCard = undefined;
    element["card-note"].textContent = "";
    input.setCustomValidity("");
    input.ariaInvalid = "false";
    if (file === undefined) return;
    const reading = (chosenCard = readCard(file));
    try {
        const card = await reading;
        if (chosenCard !== reading) return; // another was chosen meanwhile
        element["card-note"].textContent =
            card.boundName === null
                ? `“${card.name}” has no voice pack yet.`
                : `“${card.name}” has the voice pack “${card.boundName}”, which will be replaced.`;
        tell("");
    } catch (error) {
        if (chosenCard !== reading) return;
        input.setCustomValidity(error.message);
        input.ariaInvalid = "true";
        tellError(error);
    }
}

function download(bytes, type, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function bindVoice() {
    const id = new FormData(element["bind-form"]).get("pack");
    tell("Binding …");
    const card = await chosenCard;
    const snapshot = await takeSnapshot(keyOf(), id);
    download(card.bind(snapshot.text), card.type, card.fileName);
    tell(`“${card.name}” has the voice pack “${snapshot.name}” now: ${card.fileName} is in your downloads.`);
}

onSubmit(element["key-form"], showPacks);
onSubmit(element["bind-form"], bindVoice);
element.card.addEventListener("change", showCard);
