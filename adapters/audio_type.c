/* What audio is, by its first bytes: providers' headers are not always right. */
#include "adapters/adapter.h"

static bool has_at(struct span bytes, size_t offset, const char *mark)
{
    size_t len = strlen(mark);
    return bytes.len >= offset + len && memcmp(bytes.ptr + offset, mark, len) == 0;
}

/* An MPEG audio frame begins with eleven bits set; of the layers ADTS, which is
 * AAC, has none. */
static bool is_mpeg_sync(struct span bytes, bool is_adts)
{
    if (bytes.len < 2 || (unsigned char)bytes.ptr[0] != 0xff || ((unsigned char)bytes.ptr[1] & 0xe0) != 0xe0)
        return false;
    unsigned layer = ((unsigned char)bytes.ptr[1] >> 1) & 3;
    return is_adts ? layer == 0 && ((unsigned char)bytes.ptr[1] & 0xf0) == 0xf0 : layer != 0;
}

static bool is_id3(struct span b)
{
    return has_at(b, 0, "ID3");
}
static bool is_mp3(struct span b)
{
    return is_mpeg_sync(b, false);
}
static bool is_adts(struct span b)
{
    return is_mpeg_sync(b, true);
}
static bool is_ogg(struct span b)
{
    return has_at(b, 0, "OggS");
}
static bool is_flac(struct span b)
{
    return has_at(b, 0, "fLaC");
}
static bool is_wav(struct span b)
{
    return has_at(b, 0, "RIFF") && has_at(b, 8, "WAVE");
}
static bool is_webm(struct span b)
{
    return has_at(b, 0, "\x1a\x45\xdf\xa3");
}
static bool is_amr(struct span b)
{
    return has_at(b, 0, "#!AMR");
}

static const struct {
    bool (*is)(struct span bytes);
    bool is_weak; /* so short that samples may look like it */
    const char *type;
} marks[] = {
    { is_ogg, false, "audio/ogg" },   { is_wav, false, "audio/wav" }, { is_flac, false, "audio/flac" },
    { is_webm, false, "audio/webm" }, { is_amr, false, "audio/amr" }, { is_id3, true, "audio/mpeg" },
    { is_mp3, true, "audio/mpeg" },   { is_adts, true, "audio/aac" },
};

/* What providers call it, and what we do. Nothing else of theirs reaches a caller:
 * a header could hold anything. */
static const struct {
    const char *claimed, *type;
} known[] = {
    { "audio/mpeg", "audio/mpeg" },   { "audio/mp3", "audio/mpeg" },     { "audio/ogg", "audio/ogg" },
    { "audio/opus", "audio/opus" },   { "audio/aac", "audio/aac" },      { "audio/flac", "audio/flac" },
    { "audio/x-flac", "audio/flac" }, { "audio/wav", "audio/wav" },      { "audio/x-wav", "audio/wav" },
    { "audio/wave", "audio/wav" },    { "audio/vnd.wave", "audio/wav" }, { "audio/pcm", "audio/pcm" },
    { "audio/webm", "audio/webm" },   { "audio/mp4", "audio/mp4" },      { "audio/amr-wb", "audio/amr-wb" },
};

const char *adapter_known_type(struct span content_type)
{
    const char *end = content_type.len == 0 ? NULL : memchr(content_type.ptr, ';', content_type.len);
    if (end != NULL)
        content_type.len = (size_t)(end - content_type.ptr);
    content_type = span_trim(content_type);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (span_is_nocase(content_type, known[i].claimed))
            return known[i].type;
    return NULL;
}

/* Samples without a header. */
static bool is_bare(const char *type)
{
    return strncmp(type, "audio/pcm", 9) == 0 || strncasecmp(type, "audio/l16", 9) == 0 ||
           strncmp(type, "audio/x-", 8) == 0;
}

const char *adapter_call_type(const struct adapter_call *call, struct span first)
{
    const char *claimed = call->type != NULL ? call->type : call->format->type;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (!(marks[i].is_weak && is_bare(call->format->type)) && marks[i].is(first))
            return marks[i].type;
    return claimed;
}
