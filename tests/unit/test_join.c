/* Clips joined to one file: whole, byte by byte, and in odd pieces. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/join.h"
#include "adapters/wav.h"
#include "core/base/err.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { OUT_BYTES = 1 << 20, CLIPS_MAX = 4 };

static int note(void *ctx, struct span bytes)
{
    ck_assert_uint_gt(bytes.len, 0);
    return buf_append_span(ctx, bytes);
}

/* Joins the clips, each in pieces of `piece` bytes. 0 or the error. */
static int join_all(enum join_format format, const struct span *clips, size_t n_clips, size_t piece,
                    struct buf *out)
{
    const struct join_sink sink = { .ctx = out, .give = note };
    struct join join;
    int r = 0;
    buf_init(out, OUT_BYTES);
    join_init(&join, format);
    for (size_t i = 0; i < n_clips && r == 0; i++) {
        for (size_t at = 0; at < clips[i].len && r == 0; at += piece) {
            size_t left = clips[i].len - at;
            r = join_feed(&join, span_of(clips[i].ptr + at, left < piece ? left : piece), &sink);
        }
        if (r == 0)
            r = join_end_clip(&join, i + 1 == n_clips, &sink);
    }
    join_free(&join);
    return r;
}

/* The same in pieces of several sizes, which make no difference. */
static int join_somehow(enum join_format format, const struct span *clips, size_t n_clips, struct buf *out)
{
    static const size_t pieces[] = { OUT_BYTES, 1, 2, 3, 7, 64, 1000 };
    int r = join_all(format, clips, n_clips, pieces[0], out);
    for (size_t i = 1; i < COUNT(pieces); i++) {
        struct buf other;
        int r_other = join_all(format, clips, n_clips, pieces[i], &other);
        ck_assert_msg(r_other == r && (r != 0 || span_eq(buf_span(&other), buf_span(out))),
                      "pieces of %zu bytes give %d and %zu bytes, the whole %d and %zu", pieces[i], r_other,
                      other.len, r, out->len);
        buf_free(&other);
    }
    return r;
}

static void assert_bytes(const struct buf *found, struct span expected)
{
    ck_assert_msg(span_eq(buf_span(found), expected), "expected %zu bytes, found %zu", expected.len,
                  found->len);
}

/* --- PCM --- */

START_TEST(samples_follow_samples_and_half_ones_are_dropped)
{
    const struct span clips[] = { span_of("aabbc", 5), span_of("", 0), span_of("d", 1), span_of("ee", 2) };
    struct buf out;
    ck_assert_int_eq(join_somehow(JOIN_PCM16, clips, COUNT(clips), &out), 0);
    assert_bytes(&out, span_of("aabbee", 6));
    buf_free(&out);
}
END_TEST

/* --- WAV --- */

static void put_chunk(struct buf *out, const char *name, uint32_t size, struct span contents)
{
    const char bytes[] = { (char)size, (char)(size >> 8), (char)(size >> 16), (char)(size >> 24) };
    buf_append_cstr(out, name);
    buf_append(out, bytes, 4);
    buf_append_span(out, contents);
}

static const char FORMAT_24K[] = "\1\0\1\0\xC0\x5D\0\0\x80\xBB\0\0\2\0\x10";
static const char FORMAT_16K[] = "\1\0\1\0\x80\x3E\0\0\0\x7D\0\0\2\0\x10";

/* A clip with an odd list before its data and one behind. */
static void make_wav(struct buf *out, const char *format, struct span data, uint32_t data_size)
{
    buf_init(out, OUT_BYTES);
    put_chunk(out, "RIFF", 1, span_cstr("WAVE"));
    put_chunk(out, "LIST", 3, span_of("abc\0", 4));
    put_chunk(out, "fmt ", 16, span_of(format, 16));
    put_chunk(out, "data", data_size, data);
    if (data_size == data.len)
        put_chunk(out, "LIST", 2, span_cstr("no"));
}

START_TEST(wav_clips_get_one_head_that_leaves_the_length_open)
{
    struct buf first, second, out, expected;
    make_wav(&first, FORMAT_24K, span_cstr("aabb"), 4);
    make_wav(&second, FORMAT_24K, span_cstr("ccd"), (uint32_t)(_i == 0 ? 3U : _i == 1 ? 0U : UINT32_MAX));
    const struct span clips[] = { buf_span(&first), buf_span(&second) };
    ck_assert_int_eq(join_somehow(JOIN_WAV, clips, 2, &out), 0);
    buf_init(&expected, OUT_BYTES);
    wav_write_pcm16_head(&expected, 24000);
    ck_assert_uint_eq(expected.len, 44);
    buf_append_cstr(&expected, "aabbcc");
    assert_bytes(&out, buf_span(&expected));
    buf_free(&first);
    buf_free(&second);
    buf_free(&out);
    buf_free(&expected);
}
END_TEST

START_TEST(wav_clips_that_differ_or_are_none_are_refused)
{
    struct buf first, second, out, long_head;
    make_wav(&first, FORMAT_24K, span_cstr("aabb"), 4);
    make_wav(&second, FORMAT_16K, span_cstr("cc"), 2);
    buf_init(&long_head, OUT_BYTES);
    put_chunk(&long_head, "RIFF", 1, span_cstr("WAVE"));
    put_chunk(&long_head, "LIST", 1000000, span_cstr(""));
    const struct {
        struct span clips[2];
        const char *what;
    } rows[] = {
        { { buf_span(&first), buf_span(&second) }, "another rate" },
        { { buf_span(&first), span_cstr("RIFFxxxxWAVE") }, "no data" },
        { { buf_span(&first), span_of("", 0) }, "nothing" },
        { { buf_span(&first), span_cstr("ID3 this is no WAV at all") }, "another format" },
        { { buf_span(&first), span_cstr("RIFFxxxxWAVEdata\1\0\0\0x") }, "data without format" },
        { { buf_span(&long_head), buf_span(&first) }, "a head without end" },
        { { span_cstr("RIFFxxxxWAVEfmt \2\0\0\0aadata\1\0\0\0x"), buf_span(&first) }, "a short format" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ck_assert_msg(join_somehow(JOIN_WAV, rows[i].clips, 2, &out) == ERR_FORMAT, "%s", rows[i].what);
        buf_free(&out);
    }
    buf_free(&first);
    buf_free(&second);
    buf_free(&long_head);
}
END_TEST

/* --- MP3 --- */

/* 24 kHz, 48 kbit/s, mono, MPEG 2: 144 bytes. */
static void put_frame(struct buf *out, const char *mark, size_t mark_at, char fill)
{
    char frame[144];
    memset(frame, fill, sizeof(frame));
    memcpy(frame, "\xFF\xF3\x64\xC0", 4);
    memcpy(frame + mark_at, mark, strlen(mark));
    buf_append(out, frame, sizeof(frame));
}

static void put_id3v2(struct buf *out)
{
    buf_append(out, "ID3\4\0\0\0\0\1\2", 10); /* 130 bytes */
    for (int i = 0; i < 130; i++)
        buf_append_char(out, 't');
}

static void put_id3v1(struct buf *out)
{
    buf_append_cstr(out, "TAG");
    for (int i = 0; i < 125; i++)
        buf_append_char(out, '1');
}

static const struct {
    const char *what;
    bool has_id3v2, has_id3v1;
    const char *mark; /* of the first frame */
    size_t mark_at;
} MP3_CLIPS[] = {
    { "bare frames", false, false, NULL, 0 },        { "a tag in front", true, false, NULL, 0 },
    { "a tag at the end", false, true, NULL, 0 },    { "a table of contents", false, false, "Xing", 13 },
    { "a count of frames", true, true, "Info", 13 }, { "another encoder's table", false, false, "VBRI", 36 },
};

START_TEST(mp3_clips_lose_what_is_no_sound)
{
    struct buf clip, out, expected;
    buf_init(&clip, OUT_BYTES);
    buf_init(&expected, OUT_BYTES);
    if (MP3_CLIPS[_i].has_id3v2)
        put_id3v2(&clip);
    if (MP3_CLIPS[_i].mark != NULL)
        put_frame(&clip, MP3_CLIPS[_i].mark, MP3_CLIPS[_i].mark_at, '\0');
    put_frame(&clip, "", 4, 'a');
    put_frame(&clip, "", 4, 'b');
    if (MP3_CLIPS[_i].has_id3v1)
        put_id3v1(&clip);
    for (int i = 0; i < 3; i++) {
        put_frame(&expected, "", 4, 'a');
        put_frame(&expected, "", 4, 'b');
    }
    const struct span clips[] = { buf_span(&clip), buf_span(&clip), buf_span(&clip) };
    int r = join_somehow(JOIN_MP3, clips, 3, &out);
    ck_assert_msg(r == 0 && span_eq(buf_span(&out), buf_span(&expected)),
                  "%s: %d, expected %zu bytes, found %zu", MP3_CLIPS[_i].what, r, expected.len, out.len);
    buf_free(&clip);
    buf_free(&out);
    buf_free(&expected);
}
END_TEST

START_TEST(an_mp3_clip_without_a_whole_frame_is_refused)
{
    static const struct span parts[] = { { "", 0 },
                                         { "\xFF\xF3\x64\xC0", 4 },
                                         { "\xFF\xF3\x64\xC0xxxxxxxxx", 13 },
                                         { "ID3\4\0\0\0\0\1\2only a tag", 20 } };
    for (size_t i = 0; i < COUNT(parts); i++) {
        struct buf out;
        ck_assert_msg(join_somehow(JOIN_MP3, &parts[i], 1, &out) == ERR_FORMAT, "row %zu", i);
        buf_free(&out);
    }
}
END_TEST

/* --- Ogg Opus --- */

enum { BEGIN = 2, END = 4, GOES_ON = 1, TOC_20_MS = 0x78, SAMPLES_20_MS = 960 };

/* By the letter of RFC 3533: bit by bit. */
static uint32_t crc_of(const char *p, size_t len)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint32_t)(unsigned char)p[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x80000000U) != 0 ? crc << 1 ^ 0x04C11DB7U : crc << 1;
    }
    return crc;
}

static void put_number(char *p, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (char)(value >> 8 * i & 0xFF);
}

/* A page; `lacing` are the lengths of its segments. */
static void put_page(struct buf *out, unsigned flags, uint64_t granule, uint32_t serial, uint32_t number,
                     struct span lacing, struct span contents)
{
    size_t at = out->len;
    char head[27] = "OggS";
    head[5] = (char)flags;
    put_number(head + 6, granule, 8);
    put_number(head + 14, serial, 4);
    put_number(head + 18, number, 4);
    head[26] = (char)lacing.len;
    buf_append(out, head, sizeof(head));
    buf_append_span(out, lacing);
    buf_append_span(out, contents);
    put_number(out->data + at + 22, crc_of(out->data + at, out->len - at), 4);
}

static const char OPUS_HEAD[] = "OpusHead\1\1\x38\1\xC0\x5D\0\0\0\0";

static void put_heads(struct buf *out, uint32_t serial, const char *head)
{
    put_page(out, BEGIN, 0, serial, 0, span_of("\x13", 1), span_of(head, 19));
    put_page(out, 0, 0, serial, 1, span_of("\x10", 1), span_of("OpusTags\0\0\0\0\0\0\0\0", 16));
}

/* A clip of two pages, each of two packets of 20 ms; its end takes off `trim` samples. */
static void make_ogg(struct buf *out, uint32_t serial, const char *head, char fill, uint64_t trim)
{
    const char packets[] = { TOC_20_MS, fill, fill, TOC_20_MS, fill, fill };
    buf_init(out, OUT_BYTES);
    put_heads(out, serial, head);
    put_page(out, 0, 2 * SAMPLES_20_MS, serial, 2, span_of("\3\3", 2), span_of(packets, 6));
    put_page(out, END, 4 * SAMPLES_20_MS - trim, serial, 3, span_of("\3\3", 2), span_of(packets, 6));
}

START_TEST(ogg_clips_become_one_stream_whose_pages_and_times_go_on)
{
    const char a[] = { TOC_20_MS, 'a', 'a', TOC_20_MS, 'a', 'a' },
               b[] = { TOC_20_MS, 'b', 'b', TOC_20_MS, 'b', 'b' };
    struct buf first, second, out, expected;
    make_ogg(&first, 77, OPUS_HEAD, 'a', 300);
    make_ogg(&second, 78, OPUS_HEAD, 'b', 100);
    const struct span clips[] = { buf_span(&first), buf_span(&second) };
    ck_assert_int_eq(join_somehow(JOIN_OGG_OPUS, clips, 2, &out), 0);
    buf_init(&expected, OUT_BYTES);
    put_heads(&expected, 77, OPUS_HEAD);
    put_page(&expected, 0, 2 * SAMPLES_20_MS, 77, 2, span_of("\3\3", 2), span_of(a, 6));
    put_page(&expected, 0, 4 * SAMPLES_20_MS, 77, 3, span_of("\3\3", 2), span_of(a, 6));
    put_page(&expected, 0, 6 * SAMPLES_20_MS, 77, 4, span_of("\3\3", 2), span_of(b, 6));
    put_page(&expected, END, 8 * SAMPLES_20_MS - 100, 77, 5, span_of("\3\3", 2), span_of(b, 6));
    assert_bytes(&out, buf_span(&expected));
    buf_free(&first);
    buf_free(&second);
    buf_free(&out);
    buf_free(&expected);
}
END_TEST

START_TEST(an_ogg_clip_that_is_a_chain_itself_is_joined_too)
{
    struct buf first, second, chain, from_chain, from_clips;
    make_ogg(&first, 1, OPUS_HEAD, 'a', 0);
    make_ogg(&second, 2, OPUS_HEAD, 'b', 0);
    buf_init(&chain, OUT_BYTES);
    buf_append_span(&chain, buf_span(&first));
    buf_append_span(&chain, buf_span(&second));
    const struct span clips[] = { buf_span(&first), buf_span(&second) }, whole = buf_span(&chain);
    ck_assert_int_eq(join_somehow(JOIN_OGG_OPUS, clips, 2, &from_clips), 0);
    ck_assert_int_eq(join_somehow(JOIN_OGG_OPUS, &whole, 1, &from_chain), 0);
    assert_bytes(&from_chain, buf_span(&from_clips));
    buf_free(&first);
    buf_free(&second);
    buf_free(&chain);
    buf_free(&from_chain);
    buf_free(&from_clips);
}
END_TEST

/* RFC 6716, tables 2 and following: what the first bytes of a packet say of its length. */
static const struct {
    unsigned char toc[2];
    size_t len;
    unsigned samples;
} PACKETS[] = {
    { { 0 << 3 }, 2, 480 },
    { { 1 << 3 }, 2, 960 },
    { { 2 << 3 }, 2, 1920 },
    { { 3 << 3 }, 2, 2880 },
    { { 11 << 3 }, 2, 2880 },
    { { 12 << 3 }, 2, 480 },
    { { 13 << 3 }, 2, 960 },
    { { 15 << 3 }, 2, 960 },
    { { 16 << 3 }, 2, 120 },
    { { 17 << 3 }, 2, 240 },
    { { 18 << 3 }, 2, 480 },
    { { 31 << 3 }, 2, 960 },
    { { 31 << 3 | 1 }, 3, 1920 },
    { { 31 << 3 | 2 }, 3, 1920 },
    { { 31 << 3 | 3, 3 }, 5, 2880 },
    { { 31 << 3 | 3, 0xC6 }, 9, 5760 },
    /* Longer than 120 ms, or cut short: there is no such packet, and it takes no time. */
    { { 3 << 3 | 3, 3 }, 5, 0 },
    { { 31 << 3 | 3 }, 1, 0 },
};

START_TEST(the_time_of_a_page_is_that_of_its_packets)
{
    char packet[16] = { 0 };
    char lacing[] = { (char)PACKETS[_i].len };
    struct buf clip, out, expected;
    memcpy(packet, PACKETS[_i].toc, 2);
    buf_init(&clip, OUT_BYTES);
    buf_init(&expected, OUT_BYTES);
    put_heads(&clip, 5, OPUS_HEAD);
    put_heads(&expected, 5, OPUS_HEAD);
    /* A stream that counts from elsewhere. */
    put_page(&clip, END, 1000000, 5, 2, span_of(lacing, 1), span_of(packet, PACKETS[_i].len));
    put_page(&expected, END, PACKETS[_i].samples, 5, 2, span_of(lacing, 1), span_of(packet, PACKETS[_i].len));
    const struct span clips = buf_span(&clip);
    ck_assert_int_eq(join_somehow(JOIN_OGG_OPUS, &clips, 1, &out), 0);
    ck_assert_msg(span_eq(buf_span(&out), buf_span(&expected)), "row %d: expected %u samples, found %u", _i,
                  PACKETS[_i].samples,
                  (unsigned)((unsigned char)out.data[out.len - PACKETS[_i].len - 22] |
                             (unsigned char)out.data[out.len - PACKETS[_i].len - 21] << 8));
    buf_free(&clip);
    buf_free(&out);
    buf_free(&expected);
}
END_TEST

START_TEST(a_packet_over_several_pages_is_timed_where_it_ends)
{
    char packet[600];
    struct buf clip, out;
    memset(packet, 'x', sizeof(packet));
    packet[0] = TOC_20_MS;
    buf_init(&clip, OUT_BYTES);
    put_heads(&clip, 5, OPUS_HEAD);
    put_page(&clip, 0, UINT64_MAX, 5, 2, span_of("\xFF", 1), span_of(packet, 255));
    put_page(&clip, GOES_ON, UINT64_MAX, 5, 3, span_of("\xFF", 1), span_of(packet + 255, 255));
    put_page(&clip, GOES_ON | END, SAMPLES_20_MS, 5, 4, span_of("\x5A", 1), span_of(packet + 510, 90));
    const struct span whole = buf_span(&clip);
    ck_assert_int_eq(join_somehow(JOIN_OGG_OPUS, &whole, 1, &out), 0);
    assert_bytes(&out, whole);
    buf_free(&clip);
    buf_free(&out);
}
END_TEST

START_TEST(ogg_clips_that_are_broken_or_differ_are_refused)
{
    static const char stereo[] = "OpusHead\1\2\x38\1\xC0\x5D\0\0\0\0",
                      vorbis[] = "\1vorbis\0\0\0\0\1\x44\xAC\0\0\0\0\0";
    struct buf good, other, damaged, foreign, tagless, out;
    make_ogg(&good, 1, OPUS_HEAD, 'a', 0);
    make_ogg(&other, 2, stereo, 'b', 0);
    make_ogg(&damaged, 2, OPUS_HEAD, 'b', 0);
    damaged.data[damaged.len - 1] = (char)(damaged.data[damaged.len - 1] ^ 1);
    make_ogg(&foreign, 2, vorbis, 'b', 0);
    buf_init(&tagless, OUT_BYTES);
    put_page(&tagless, BEGIN, 0, 1, 0, span_of("\x13", 1), span_of(OPUS_HEAD, 19));
    put_page(&tagless, 0, 0, 9, 1, span_of("\3", 1),
             span_of("\x78"
                     "aa",
                     3));
    const struct {
        struct span clips[2];
        const char *what;
    } rows[] = {
        { { buf_span(&good), buf_span(&other) }, "other channels" },
        { { buf_span(&good), buf_span(&damaged) }, "a damaged byte" },
        { { buf_span(&good), buf_span(&foreign) }, "another codec" },
        { { buf_span(&good), span_of(good.data, good.len - 1) }, "a page that is cut" },
        { { buf_span(&good), span_of("", 0) }, "nothing" },
        { { buf_span(&good), span_cstr("RIFFxxxxWAVE") }, "another format" },
        { { span_of(good.data + 27 + 1 + 19, 60), buf_span(&good) }, "a page before the head" },
        { { buf_span(&tagless), buf_span(&good) }, "a page of another stream" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int r = join_somehow(JOIN_OGG_OPUS, rows[i].clips, 2, &out);
        ck_assert_msg(r == ERR_FORMAT, "%s: %d", rows[i].what, r);
        buf_free(&out);
    }
    buf_free(&good);
    buf_free(&other);
    buf_free(&damaged);
    buf_free(&foreign);
    buf_free(&tagless);
}
END_TEST

static int refuse(void *ctx, struct span bytes)
{
    (void)ctx;
    (void)bytes;
    return ERR_CLIENT_GONE;
}

START_TEST(a_sink_that_fails_ends_the_joining)
{
    struct buf clips[4];
    make_wav(&clips[JOIN_WAV], FORMAT_24K, span_cstr("aabb"), 4);
    make_ogg(&clips[JOIN_OGG_OPUS], 1, OPUS_HEAD, 'a', 0);
    buf_init(&clips[JOIN_MP3], OUT_BYTES);
    put_frame(&clips[JOIN_MP3], "", 4, 'a');
    buf_init(&clips[JOIN_PCM16], OUT_BYTES);
    buf_append_cstr(&clips[JOIN_PCM16], "aabb");
    for (size_t i = 0; i < COUNT(clips); i++) {
        const struct join_sink sink = { .ctx = NULL, .give = refuse };
        struct join join;
        join_init(&join, (enum join_format)i);
        ck_assert_int_eq(join_feed(&join, buf_span(&clips[i]), &sink), ERR_CLIENT_GONE);
        join_free(&join);
        buf_free(&clips[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("join");
    TCase *tests = tcase_create("join");
    tcase_add_test(tests, samples_follow_samples_and_half_ones_are_dropped);
    tcase_add_loop_test(tests, wav_clips_get_one_head_that_leaves_the_length_open, 0, 3);
    tcase_add_test(tests, wav_clips_that_differ_or_are_none_are_refused);
    tcase_add_loop_test(tests, mp3_clips_lose_what_is_no_sound, 0, (int)COUNT(MP3_CLIPS));
    tcase_add_test(tests, an_mp3_clip_without_a_whole_frame_is_refused);
    tcase_add_test(tests, ogg_clips_become_one_stream_whose_pages_and_times_go_on);
    tcase_add_test(tests, an_ogg_clip_that_is_a_chain_itself_is_joined_too);
    tcase_add_loop_test(tests, the_time_of_a_page_is_that_of_its_packets, 0, (int)COUNT(PACKETS));
    tcase_add_test(tests, a_packet_over_several_pages_is_timed_where_it_ends);
    tcase_add_test(tests, ogg_clips_that_are_broken_or_differ_are_refused);
    tcase_add_test(tests, a_sink_that_fails_ends_the_joining);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
