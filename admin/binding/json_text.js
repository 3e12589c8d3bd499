/*
 * A JSON text is changed where it has to be and nowhere else: parsing and writing it
 * again would change numbers, escapes, repeated members and the layout of the rest.
 * Every text here has been accepted by JSON.parse before.
 */
import { CardError } from "./card_error.js";

const SPACE = " \t\n\r";
const ENDS_LITERAL = SPACE + ",:]}";

function skipSpace(text, at) {
    while (at < text.length && SPACE.includes(text[at])) at++;
    return at;
}

function endOfString(text, at) {
    for (at++; text[at] !== '"'; at++) {
        if (text[at] === "\\") at++;
    }
    return at + 1;
}

function endOfLiteral(text, at) {
    while (at < text.length && !ENDS_LITERAL.includes(text[at])) at++;
    return at;
}

function endOfValue(text, at) {
    let depth = 0;
    do {
        const c = text[at];
        if (c === '"') at = endOfString(text, at);
        else if (c === "{" || c === "[") (depth++, at++);
        else if (c === "}" || c === "]") (depth--, at++);
        else if (ENDS_LITERAL.includes(c)) at++;
        else at = endOfLiteral(text, at);
    } while (depth > 0);
    return at;
}

/*
 * The member of the object that begins at `open`, the last of several with the name, as JSON.parse
 * has it: {start, end} of its value, or null; and where another one would be put: behind what, after which space.
 */
function findMember(text, open, name) {
    const found = { value: null, behind: open + 1, space: "", isEmpty: true };
    let at = open + 1;
    for (;;) {
        const nameStart = skipSpace(text, at);
        if (text[nameStart] === "}") return found;
        found.space = text.slice(at, nameStart);
        const nameEnd = endOfString(text, nameStart);
        const start = skipSpace(text, skipSpace(text, nameEnd) + 1);
        const end = endOfValue(text, start);
        if (JSON.parse(text.slice(nameStart, nameEnd)) === name) found.value = { start, end };
        found.behind = end;
        found.isEmpty = false;
        at = skipSpace(text, end);
        if (text[at] === "}") return found;
        at++;
    }
}

function splice(text, start, end, inserted) {
    return text.slice(0, start) + inserted + text.slice(end);
}

const nest = (path, value) => path.reduceRight((inner, name) => `{${JSON.stringify(name)}:${inner}}`, value);

const KINDS = { "[": "a list", '"': "a text", t: "true", f: "false" };

/*
 * The text with `value`, which is JSON, at the path: a member of a member … of the object
 * that the text is. What is missing on the way, or null, is made. CardError: something on the way is no object.
 */
export function withValueAt(text, path, value) {
    let open = skipSpace(text, 0);
    for (let depth = 0; depth < path.length; depth++) {
        const member = findMember(text, open, path[depth]);
        const inner = nest(path.slice(depth + 1), value);
        if (member.value === null) {
            const added = `${member.isEmpty ? "" : ","}${member.space}${JSON.stringify(path[depth])}:${inner}`;
            return splice(text, member.behind, member.behind, added);
        }
        const { start, end } = member.value;
        if (depth === path.length - 1 || text.slice(start, end) === "null") return splice(text, start, end, inner);
        if (text[start] !== "{") {
            const what = KINDS[text[start]] ?? "a number";
            throw new CardError(`The card's ${path.slice(0, depth + 1).join(".")} is ${what}, and not an object.`);
        }
        open = start;
    }
    throw new TypeError("a path has a name");
}
