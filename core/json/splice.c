#include "core/json/splice.h"

#include <string.h>

#include "core/base/err.h"

void splice_init(struct splice *splice, struct span body)
{
    *splice = (struct splice){ .body = body };
}

static size_t end_of(const struct splice_edit *edit)
{
    return edit->offset + edit->len;
}

int splice_add(struct splice *splice, size_t offset, size_t len, struct span with)
{
    struct splice_edit *edits = splice->edits;
    if (offset > splice->body.len || len > splice->body.len - offset)
        return ERR_FORMAT;
    size_t at = splice->n_edits;
    /* An insertion goes before what is left out at the same offset, so that
     * edits at one place never overlap because of their order. */
    while (at > 0 && (edits[at - 1].offset > offset ||
                      (edits[at - 1].offset == offset && len == 0 && edits[at - 1].len > 0)))
        at--;
    if (at > 0 && end_of(&edits[at - 1]) > offset)
        return ERR_FORMAT;
    if (at < splice->n_edits && offset + len > edits[at].offset)
        return ERR_FORMAT;
    if (splice->n_edits == SPLICE_EDITS_MAX)
        return ERR_LIMIT;
    memmove(&edits[at + 1], &edits[at], (splice->n_edits - at) * sizeof(edits[0]));
    edits[at] = (struct splice_edit){ offset, len, with };
    splice->n_edits++;
    return 0;
}

size_t splice_size(const struct splice *splice)
{
    size_t size = splice->body.len;
    for (size_t i = 0; i < splice->n_edits; i++)
        size += splice->edits[i].with.len - splice->edits[i].len;
    return size;
}

static size_t count_pieces(const struct splice *splice)
{
    return 2 * splice->n_edits + 1;
}

static struct span piece_at(const struct splice *splice, size_t piece)
{
    size_t i = piece / 2;
    if (piece % 2 == 1)
        return splice->edits[i].with;
    size_t from = i == 0 ? 0 : end_of(&splice->edits[i - 1]);
    size_t to = i == splice->n_edits ? splice->body.len : splice->edits[i].offset;
    return to == from ? span_of(NULL, 0) : span_of(splice->body.ptr + from, to - from);
}

size_t splice_read(const struct splice *splice, struct splice_cursor *cursor, char *out, size_t room)
{
    size_t done = 0;
    while (done < room && cursor->piece < count_pieces(splice)) {
        struct span piece = piece_at(splice, cursor->piece);
        if (cursor->offset >= piece.len) {
            *cursor = (struct splice_cursor){ cursor->piece + 1, 0 };
            continue;
        }
        size_t n = piece.len - cursor->offset;
        if (n > room - done)
            n = room - done;
        memcpy(out + done, piece.ptr + cursor->offset, n);
        cursor->offset += n;
        done += n;
    }
    return done;
}
