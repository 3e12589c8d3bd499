#include "adapters/ssml.h"

#include <ctype.h>

#include "adapters/characters.h"

enum { VOICE_BYTES_MAX = 128 };

static const char *entity_of(uint32_t code)
{
    static const struct {
        uint32_t code;
        const char *entity;
    } ENTITIES[] = {
        { '&', "&amp;" },
        { '<', "&lt;" },
        { '>', "&gt;" },
        { '"', "&quot;" },
        { '\'', "&apos;" },
        /* A parser would read it as a line feed, or as a blank in an attribute. */
        { '\r', "&#13;" },
    };
    for (size_t i = 0; i < sizeof(ENTITIES) / sizeof(ENTITIES[0]); i++)
        if (ENTITIES[i].code == code)
            return ENTITIES[i].entity;
    return NULL;
}

/* XML 1.0, production 2: with others, the whole document is refused. */
static bool is_allowed(uint32_t code)
{
    if (code < 0x20)
        return code == '\t' || code == '\n' || code == '\r';
    return code != 0xFFFE && code != 0xFFFF;
}

void ssml_escape(struct buf *out, struct span text)
{
    const char *kept = text.ptr; /* from here on nothing has been written yet */
    while (text.len > 0) {
        const char *at = text.ptr;
        uint32_t code = character_take(&text);
        if (code > '>' && code < 0xFFFD)
            continue; /* nearly all of a text */
        const char *entity = entity_of(code);
        if (entity == NULL && code != 0xFFFD && is_allowed(code))
            continue;
        buf_append(out, kept, (size_t)(at - kept));
        buf_append_cstr(out, entity != NULL ? entity : code == 0xFFFD ? "\xEF\xBF\xBD" : "");
        kept = text.ptr;
    }
    buf_append(out, kept, (size_t)(text.ptr - kept));
}

bool ssml_has_text(struct span text)
{
    while (text.len > 0) {
        uint32_t code = character_take(&text);
        if (code > ' ' && is_allowed(code))
            return true;
    }
    return false;
}

static void write_attribute(struct buf *out, const char *name, struct span value)
{
    if (value.len == 0)
        return;
    buf_printf(out, " %s=\"", name);
    ssml_escape(out, value);
    buf_append_cstr(out, "\"");
}

/* express-as may hold prosody, and prosody may not hold express-as. */
void ssml_write(struct buf *out, const struct ssml_speech *speech)
{
    bool is_expressive = speech->style.len > 0 || speech->role.len > 0;
    bool has_prosody = speech->rate.len > 0 || speech->pitch.len > 0 || speech->volume.len > 0;

    buf_append_cstr(out, "<speak version=\"1.0\" xmlns=\"http://www.w3.org/2001/10/synthesis\"");
    if (is_expressive)
        write_attribute(out, "xmlns:mstts", span_cstr("https://www.w3.org/2001/mstts"));
    write_attribute(out, "xml:lang", speech->locale);
    buf_append_cstr(out, "><voice");
    write_attribute(out, "name", speech->voice);
    buf_append_cstr(out, ">");
    if (is_expressive) {
        buf_append_cstr(out, "<mstts:express-as");
        write_attribute(out, "style", speech->style);
        write_attribute(out, "styledegree", speech->style_degree);
        write_attribute(out, "role", speech->role);
        buf_append_cstr(out, ">");
    }
    if (has_prosody) {
        buf_append_cstr(out, "<prosody");
        write_attribute(out, "rate", speech->rate);
        write_attribute(out, "pitch", speech->pitch);
        write_attribute(out, "volume", speech->volume);
        buf_append_cstr(out, ">");
    }
    ssml_escape(out, speech->text);
    buf_append_cstr(out, has_prosody ? "</prosody>" : "");
    buf_append_cstr(out, is_expressive ? "</mstts:express-as>" : "");
    buf_append_cstr(out, "</voice></speak>");
}

static bool is_all(struct span text, int (*is_of)(int))
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_of((unsigned char)text.ptr[i]) || (unsigned char)text.ptr[i] >= 0x80)
            return false;
    return text.len > 0;
}

/* The part before the next "-"; *is_last if there is none. */
static struct span take_part(struct span *rest, bool *is_last)
{
    const char *dash = rest->len == 0 ? NULL : memchr(rest->ptr, '-', rest->len);
    struct span part = span_of(rest->ptr, dash == NULL ? rest->len : (size_t)(dash - rest->ptr));
    *is_last = dash == NULL;
    *rest = span_of(rest->ptr + part.len + !*is_last, rest->len - part.len - !*is_last);
    return part;
}

/* A voice's name begins with a capital and goes on in small letters, so that what
 * comes before it is told by its case: a script ("Latn", before a region), a
 * region ("CN", "419"), a dialect ("liaoning"). */
struct span ssml_locale(struct span voice)
{
    struct span rest = voice;
    size_t len;
    bool is_last, has_region = false;
    struct span part = take_part(&rest, &is_last);

    if (is_last || part.len < 2 || part.len > 3 || !is_all(part, islower))
        return span_of(voice.ptr, 0);
    len = part.len;
    while (!is_last) {
        part = take_part(&rest, &is_last);
        bool is_region = !has_region && ((part.len == 2 && is_all(part, isupper)) ||
                                         (part.len == 3 && is_all(part, isdigit)));
        bool is_script = !has_region && part.len == 4 && rest.len > 2 && rest.ptr[2] == '-';
        bool is_dialect = has_region && is_all(part, islower);
        if (is_last || (!is_region && !is_script && !is_dialect))
            break;
        has_region |= is_region;
        len += 1 + part.len;
    }
    return span_of(voice.ptr, has_region ? len : 0);
}

bool ssml_is_voice(struct span text)
{
    if (text.len > VOICE_BYTES_MAX || span_trim(text).len != text.len)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x80 || (!isalnum(c) && (c == '\0' || strchr("-:_.() ", c) == NULL)))
            return false;
    }
    return text.len > 0;
}
