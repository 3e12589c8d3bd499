/*
 * MP3: frames follow each other, so that clips can be written one behind the
 * other, but for what encoders put around them: a tag before the first frame
 * (ID3v2), a first frame that holds no sound but the number of those that follow
 * (Xing, Info or VBRI: players would stop after the first clip), and a tag of 128
 * bytes at the end (ID3v1).
 */
#include "core/base/err.h"

#include "adapters/join_internal.h"

enum {
    ID3V2_BYTES = 10,
    ID3V1_BYTES = 128,
    FRAME_HEAD_BYTES = 4,
    FRAME_BYTES_MAX = 1441, /* MPEG 1 at 320 kbit/s and 32 kHz, padded: the longest there is */
};

enum state {
    STATE_HEAD,  /* collecting what shows how the clip begins */
    STATE_SKIP,  /* a tag is passed over */
    STATE_FRAME, /* the first frame, to see what it is */
    STATE_SOUND, /* all the rest */
};

static void mp3_init(struct join *join)
{
    join->u.mp3.state = STATE_HEAD;
    buf_init(&join->u.mp3.held, FRAME_BYTES_MAX + ID3V1_BYTES);
}

static void mp3_free(struct join *join)
{
    buf_free(&join->u.mp3.held);
}

/* The length of the layer III frame that begins with these bytes; 0: there begins none. */
static size_t frame_bytes(const unsigned char *p)
{
    static const unsigned short kbits[2][16] = {
        { 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0 },    /* MPEG 2 and 2.5 */
        { 0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0 } /* MPEG 1 */
    };
    static const unsigned rates_hz[] = { 44100, 48000, 32000 };
    unsigned version = p[1] >> 3 & 3, layer = p[1] >> 1 & 3; /* 3: MPEG 1, 2: 2, 0: 2.5; layer III is 1 */
    if (p[0] != 0xFF || (p[1] & 0xE0) != 0xE0 || version == 1 || layer != 1 || (p[2] >> 2 & 3) == 3)
        return 0;
    bool is_mpeg1 = version == 3;
    unsigned rate_hz = rates_hz[p[2] >> 2 & 3] >> (is_mpeg1 ? 0 : version == 2 ? 1 : 2);
    unsigned kbit = kbits[is_mpeg1][p[2] >> 4];
    return kbit == 0 ? 0 : (is_mpeg1 ? 144U : 72U) * kbit * 1000 / rate_hz + (p[2] >> 1 & 1);
}

/* Whether a first frame tells of the others. The tables stand behind the side
 * information, whose length depends on version and channels. */
static bool is_contents(struct span frame)
{
    const unsigned char *p = (const unsigned char *)frame.ptr;
    bool is_mpeg1 = (p[1] >> 3 & 3) == 3, is_mono = p[3] >> 6 == 3;
    size_t side = FRAME_HEAD_BYTES + (is_mpeg1 ? (is_mono ? 17U : 32U) : (is_mono ? 9U : 17U));
    size_t vbri = FRAME_HEAD_BYTES + 32;
    if (frame.len >= side + 4 && (memcmp(p + side, "Xing", 4) == 0 || memcmp(p + side, "Info", 4) == 0))
        return true;
    return frame.len >= vbri + 4 && memcmp(p + vbri, "VBRI", 4) == 0;
}

static size_t tag_bytes(const unsigned char *p)
{
    size_t size = (size_t)(p[6] & 0x7F) << 21 | (size_t)(p[7] & 0x7F) << 14 | (size_t)(p[8] & 0x7F) << 7 |
                  (p[9] & 0x7F);
    bool has_footer = (p[5] & 0x10) != 0;
    return ID3V2_BYTES + size + (has_footer ? ID3V2_BYTES : 0);
}

/* Moves from `piece` to what is held, until that has `len` bytes; false if it has not. */
static bool collect(struct join_mp3 *mp3, struct span *piece, size_t len)
{
    if (mp3->held.len < len) {
        size_t n = len - mp3->held.len < piece->len ? len - mp3->held.len : piece->len;
        buf_append(&mp3->held, piece->ptr, n);
        *piece = span_of(piece->ptr + n, piece->len - n);
    }
    return mp3->held.len >= len;
}

static bool read_head(struct join_mp3 *mp3, struct span *piece)
{
    if (!collect(mp3, piece, ID3V2_BYTES))
        return false;
    const unsigned char *p = (const unsigned char *)mp3->held.data;
    if (memcmp(p, "ID3", 3) == 0) {
        mp3->skip_bytes = tag_bytes(p) - ID3V2_BYTES;
        buf_clear(&mp3->held);
        mp3->state = STATE_SKIP;
        return true;
    }
    mp3->state = frame_bytes(p) >= ID3V2_BYTES ? STATE_FRAME : STATE_SOUND;
    return true;
}

static void skip_tag(struct join_mp3 *mp3, struct span *piece)
{
    size_t n = piece->len < mp3->skip_bytes ? piece->len : (size_t)mp3->skip_bytes;
    *piece = span_of(piece->ptr + n, piece->len - n);
    mp3->skip_bytes -= n;
    if (mp3->skip_bytes == 0)
        mp3->state = STATE_HEAD;
}

static bool read_frame(struct join_mp3 *mp3, struct span *piece)
{
    size_t bytes = frame_bytes((const unsigned char *)mp3->held.data);
    if (!collect(mp3, piece, bytes))
        return false;
    if (is_contents(buf_span(&mp3->held)))
        buf_clear(&mp3->held);
    mp3->state = STATE_SOUND;
    return true;
}

/* All but the last bytes, which may turn out to be a tag. */
static int give_sound(struct join_mp3 *mp3, struct span piece, const struct join_sink *sink)
{
    int r = 0;
    size_t total = mp3->held.len + piece.len;
    size_t ready = total > ID3V1_BYTES ? total - ID3V1_BYTES : 0;
    size_t of_held = ready < mp3->held.len ? ready : mp3->held.len;

    r = join_give(sink, span_of(mp3->held.data, of_held));
    buf_consume(&mp3->held, of_held);
    if (r == 0)
        r = join_give(sink, span_of(piece.ptr, ready - of_held));
    if (piece.len > 0)
        buf_append(&mp3->held, piece.ptr + (ready - of_held), piece.len - (ready - of_held));
    return r;
}

static int mp3_feed(struct join *join, struct span piece, const struct join_sink *sink)
{
    struct join_mp3 *mp3 = &join->u.mp3;
    bool goes_on = true;
    while (goes_on && piece.len > 0 && mp3->state != STATE_SOUND) {
        if (mp3->state == STATE_SKIP)
            skip_tag(mp3, &piece);
        else if (mp3->state == STATE_HEAD)
            goes_on = read_head(mp3, &piece);
        else
            goes_on = read_frame(mp3, &piece);
    }
    return mp3->state == STATE_SOUND ? give_sound(mp3, piece, sink) : 0;
}

static int mp3_end_clip(struct join *join, bool is_last, const struct join_sink *sink)
{
    struct join_mp3 *mp3 = &join->u.mp3;
    struct span rest = buf_span(&mp3->held);
    bool is_whole = mp3->state == STATE_SOUND;
    (void)is_last;
    mp3->state = STATE_HEAD;
    if (rest.len >= ID3V1_BYTES && memcmp(rest.ptr + rest.len - ID3V1_BYTES, "TAG", 3) == 0)
        rest.len -= ID3V1_BYTES;
    int r = is_whole ? join_give(sink, rest) : ERR_FORMAT;
    buf_clear(&mp3->held);
    return r;
}

const struct join_functions join_mp3 = { mp3_init, mp3_free, mp3_feed, mp3_end_clip };
