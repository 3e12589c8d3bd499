/*
 * Ogg Opus (RFC 3533, RFC 7845). Clips written one behind the other are a chained
 * stream, which is legal, and at whose first link many players stop. So all pages
 * become those of the first clip's stream: numbered on, timed on, the heads of
 * later clips left out, and only the last page says that it is the end.
 *
 * A page's time is counted from the packets themselves: a clip's own last page
 * takes off what its encoder padded, which only the end of a stream may do.
 */
#include "core/base/err.h"

#include "adapters/join_internal.h"

enum {
    PAGE_HEAD_BYTES = 27,
    PAGE_BYTES_MAX = PAGE_HEAD_BYTES + 255 + 255 * 255,
    AT_FLAGS = 5,
    AT_GRANULE = 6,
    AT_SERIAL = 14,
    AT_NUMBER = 18,
    AT_CRC = 22,
    AT_SEGMENTS = 26,
    FLAG_BEGIN = 2, /* of a stream */
    FLAG_END = 4,
    HEAD_PACKETS = 2, /* OpusHead and OpusTags */
    OPUS_HEAD_BYTES = 19,
    LACING_GOES_ON = 255,
    PACKET_SAMPLES_MAX = 5760, /* 120 ms */
};

static const uint64_t NO_GRANULE = UINT64_MAX; /* no packet ends on the page */

static void ogg_init(struct join *join)
{
    buf_init(&join->u.ogg.page, PAGE_BYTES_MAX);
    buf_init(&join->u.ogg.held, PAGE_BYTES_MAX);
}

static void ogg_free(struct join *join)
{
    buf_free(&join->u.ogg.page);
    buf_free(&join->u.ogg.held);
}

/* Little endian. */
static uint64_t get(const char *p, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)(unsigned char)p[i] << 8 * i;
    return value;
}

static void put(char *p, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)(value >> 8 * i & 0xFF);
}

/* Polynomial 0x04c11db7, neither reflected nor inverted; the page's own CRC counts as zero. */
static uint32_t page_crc(struct span page)
{
    static const uint32_t nibbles[16] = {
        0x00000000, 0x04C11DB7, 0x09823B6E, 0x0D4326D9, 0x130476DC, 0x17C56B6B, 0x1A864DB2, 0x1E475005,
        0x2608EDB8, 0x22C9F00F, 0x2F8AD6D6, 0x2B4BCB61, 0x350C9B64, 0x31CD86D3, 0x3C8EA00A, 0x384FBDBD,
    };
    uint32_t crc = 0;
    for (size_t i = 0; i < page.len; i++) {
        bool is_crc = i >= AT_CRC && i < AT_CRC + 4;
        crc ^= (uint32_t)(is_crc ? 0 : (unsigned char)page.ptr[i]) << 24;
        crc = crc << 4 ^ nibbles[crc >> 28];
        crc = crc << 4 ^ nibbles[crc >> 28];
    }
    return crc;
}

/* RFC 6716, section 3.1: samples at 48 kHz of a packet with these first bytes. */
static unsigned packet_samples(const unsigned char toc[2], size_t len)
{
    static const unsigned short silk[] = { 480, 960, 1920, 2880 }, celt[] = { 120, 240, 480, 960 };
    unsigned config = toc[0] >> 3, code = toc[0] & 3;
    unsigned frame = config >= 16 ? celt[config & 3] : config >= 12 ? silk[config & 1] : silk[config & 3];
    unsigned frames = code == 0 ? 1 : code < 3 ? 2 : len < 2 ? 0 : toc[1] & 0x3F;
    return len == 0 || frame * frames > PACKET_SAMPLES_MAX ? 0 : frame * frames;
}

/* What is on one page. */
struct page_facts {
    unsigned packets; /* that end on it */
    uint64_t samples; /* of these */
};

/* Reads the page's packets; one may have begun on the page before, or go on on the next. */
static void read_packets(struct join_ogg *ogg, struct page_facts *facts)
{
    const unsigned char *page = (const unsigned char *)ogg->page.data;
    size_t n_segments = page[AT_SEGMENTS];
    const unsigned char *p = page + PAGE_HEAD_BYTES + n_segments;

    *facts = (struct page_facts){ 0 };
    for (size_t i = 0; i < n_segments; i++) {
        size_t len = page[PAGE_HEAD_BYTES + i];
        for (size_t k = 0; k < len && ogg->packet_len + k < sizeof(ogg->toc); k++)
            ogg->toc[ogg->packet_len + k] = p[k];
        ogg->packet_len += len;
        p += len;
        if (len == LACING_GOES_ON)
            continue;
        facts->packets++;
        facts->samples += packet_samples(ogg->toc, ogg->packet_len);
        ogg->packet_len = 0;
    }
}

/* Gives the held page out, as the next one of the stream that is made. */
static int give_held(struct join_ogg *ogg, bool is_end, const struct join_sink *sink)
{
    char *page = ogg->held.data;
    if (ogg->held.len == 0)
        return 0;
    unsigned flags = (unsigned char)page[AT_FLAGS] & ~(unsigned)(FLAG_BEGIN | FLAG_END);
    flags |= ogg->n_pages == 0 ? FLAG_BEGIN : 0;
    flags |= is_end ? FLAG_END : 0;
    page[AT_FLAGS] = (char)flags;
    if (is_end && ogg->has_audio)
        put(page + AT_GRANULE, ogg->total_samples - ogg->clip_trim, 8);
    put(page + AT_SERIAL, ogg->serial_out, 4);
    put(page + AT_NUMBER, ogg->n_pages++, 4);
    put(page + AT_CRC, page_crc(buf_span(&ogg->held)), 4);
    int r = join_give(sink, buf_span(&ogg->held));
    buf_clear(&ogg->held);
    return r;
}

/* The page becomes the held one. */
static int keep_page(struct join_ogg *ogg, uint64_t granule, const struct join_sink *sink)
{
    int r = give_held(ogg, false, sink);
    put(ogg->page.data + AT_GRANULE, granule, 8);
    buf_append_span(&ogg->held, buf_span(&ogg->page));
    return r;
}

/* The first page of a clip. */
static int begin_clip(struct join *join)
{
    struct join_ogg *ogg = &join->u.ogg;
    struct span page = buf_span(&ogg->page);
    const char *head = page.ptr + PAGE_HEAD_BYTES + 1;

    if (page.len < PAGE_HEAD_BYTES + 1 + OPUS_HEAD_BYTES || page.ptr[AT_SEGMENTS] != 1 ||
        memcmp(head, "OpusHead", 8) != 0)
        return ERR_FORMAT;
    unsigned char channels = (unsigned char)head[9], mapping = (unsigned char)head[18];
    ogg->is_first_link = ogg->n_pages == 0 && ogg->held.len == 0;
    if (ogg->is_first_link) {
        ogg->serial_out = (uint32_t)get(page.ptr + AT_SERIAL, 4);
        ogg->channels = channels;
        ogg->mapping = mapping;
    }
    ogg->serial_in = (uint32_t)get(page.ptr + AT_SERIAL, 4);
    ogg->is_in_clip = true;
    ogg->n_heads = 0;
    ogg->packet_len = 0;
    ogg->clip_samples = 0;
    return channels == ogg->channels && mapping == ogg->mapping ? 0 : ERR_FORMAT;
}

static int take_audio_page(struct join_ogg *ogg, const struct page_facts *facts, const struct join_sink *sink)
{
    uint64_t granule = get(ogg->page.data + AT_GRANULE, 8);
    bool is_end = ((unsigned char)ogg->page.data[AT_FLAGS] & FLAG_END) != 0;

    ogg->clip_samples += facts->samples;
    uint64_t trim = ogg->clip_samples - granule;
    int r = keep_page(ogg, facts->packets == 0 ? NO_GRANULE : ogg->total_samples + facts->samples, sink);
    ogg->total_samples += facts->samples;
    ogg->has_audio = facts->packets > 0;
    /* A stream whose time does not begin at 0 trims nothing that we could tell. */
    ogg->clip_trim =
        is_end && granule != NO_GRANULE && granule <= ogg->clip_samples && trim <= facts->samples ? trim : 0;
    return r;
}

/* A page of the clip's two heads. Those of the first clip are those of the file. */
static int take_head_page(struct join_ogg *ogg, const struct page_facts *facts, bool is_first,
                          const struct join_sink *sink)
{
    ogg->n_heads += facts->packets;
    if (ogg->n_heads > HEAD_PACKETS)
        return ERR_FORMAT; /* audio begins on a page of its own */
    return is_first ? keep_page(ogg, facts->packets == 0 ? NO_GRANULE : 0, sink) : 0;
}

static int take_page(struct join *join, const struct join_sink *sink)
{
    struct join_ogg *ogg = &join->u.ogg;
    const char *page = ogg->page.data;
    struct page_facts facts;
    int r = 0;

    if (page_crc(buf_span(&ogg->page)) != get(page + AT_CRC, 4))
        return ERR_FORMAT;
    if (((unsigned char)page[AT_FLAGS] & FLAG_BEGIN) != 0)
        r = begin_clip(join);
    else if (!ogg->is_in_clip || get(page + AT_SERIAL, 4) != ogg->serial_in)
        r = ERR_FORMAT;
    if (r != 0)
        return r;
    read_packets(ogg, &facts);
    if (ogg->n_heads < HEAD_PACKETS)
        return take_head_page(ogg, &facts, ogg->is_first_link, sink);
    return take_audio_page(ogg, &facts, sink);
}

/* How long the page is, as far as what came of it tells. */
static size_t page_bytes(struct span page)
{
    size_t len = PAGE_HEAD_BYTES;
    if (page.len < len)
        return len;
    size_t n_segments = (unsigned char)page.ptr[AT_SEGMENTS];
    len += n_segments;
    if (page.len < len)
        return len;
    for (size_t i = 0; i < n_segments; i++)
        len += (unsigned char)page.ptr[PAGE_HEAD_BYTES + i];
    return len;
}

static bool is_page_begin(struct span page)
{
    return page.len < 5 || memcmp(page.ptr, "OggS", 5) == 0; /* the version, 0, is the fifth byte */
}

static int ogg_feed(struct join *join, struct span piece, const struct join_sink *sink)
{
    struct join_ogg *ogg = &join->u.ogg;
    int r = 0;
    while (piece.len > 0 && r == 0) {
        size_t want = page_bytes(buf_span(&ogg->page)) - ogg->page.len;
        size_t n = want < piece.len ? want : piece.len;
        buf_append(&ogg->page, piece.ptr, n);
        piece = span_of(piece.ptr + n, piece.len - n);
        if (!is_page_begin(buf_span(&ogg->page)))
            return ERR_FORMAT;
        if (page_bytes(buf_span(&ogg->page)) > ogg->page.len)
            continue;
        r = take_page(join, sink);
        buf_clear(&ogg->page);
    }
    return r;
}

static int ogg_end_clip(struct join *join, bool is_last, const struct join_sink *sink)
{
    struct join_ogg *ogg = &join->u.ogg;
    bool is_whole = ogg->is_in_clip && ogg->page.len == 0 && ogg->packet_len == 0;
    ogg->is_in_clip = false;
    if (!is_whole)
        return ERR_FORMAT;
    return is_last ? give_held(ogg, true, sink) : 0;
}

const struct join_functions join_ogg = { ogg_init, ogg_free, ogg_feed, ogg_end_clip };
