#include "core/admit/addresses.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "core/base/span.h"

enum { IPV4_BYTES = 4, MAPPED_BYTES = 12, MEMBER_BYTES = 64 };

static bool is_mapped(const struct address *address)
{
    static const uint8_t prefix[MAPPED_BYTES] = { [10] = 0xff, [11] = 0xff };
    return address->len == ADDRESS_BYTES && memcmp(address->bytes, prefix, sizeof(prefix)) == 0;
}

static void unmap(struct address *address)
{
    memmove(address->bytes, address->bytes + MAPPED_BYTES, IPV4_BYTES);
    memset(address->bytes + IPV4_BYTES, 0, MAPPED_BYTES);
    address->len = IPV4_BYTES;
}

static bool read_as_written(const char *text, struct address *out)
{
    *out = (struct address){ .len = IPV4_BYTES };
    if (inet_pton(AF_INET, text, out->bytes) == 1)
        return true;
    out->len = ADDRESS_BYTES;
    return inet_pton(AF_INET6, text, out->bytes) == 1;
}

bool address_read(const char *text, struct address *out)
{
    if (!read_as_written(text, out))
        return false;
    if (is_mapped(out))
        unmap(out);
    return true;
}

/* --- networks --- */

/* Without the bits behind the first `bits`. */
static struct address cut(const struct address *address, unsigned bits)
{
    struct address first = { .len = address->len };
    for (size_t i = 0; i < first.len && bits > 0; i++) {
        unsigned here = bits < 8 ? bits : 8;
        first.bytes[i] = address->bytes[i] & (uint8_t)(0xff00 >> here);
        bits -= here;
    }
    return first;
}

static bool has(const struct address_network *network, const struct address *address)
{
    struct address first = cut(address, network->bits);
    return network->first.len == first.len && memcmp(network->first.bytes, first.bytes, first.len) == 0;
}

/* One to three digits; -1: it is something else. */
static int read_bits(const char *text)
{
    size_t len = strspn(text, "0123456789");
    int bits = 0;

    if (len == 0 || len > 3 || text[len] != '\0')
        return -1;
    for (size_t i = 0; i < len; i++)
        bits = bits * 10 + text[i] - '0';
    return bits;
}

static int refuse_bits_of_a_host(const char *member, const struct address_network *network, struct error *e)
{
    char text[INET6_ADDRSTRLEN];
    int family = network->first.len == IPV4_BYTES ? AF_INET : AF_INET6;

    inet_ntop(family, network->first.bytes, text, sizeof(text));
    return error_set(e, ERR_FORMAT, "\"%s\" is not the beginning of a network: that is %s/%u", member, text,
                     network->bits);
}

/* "ADDRESS" or "ADDRESS/BITS". */
static int read_network(const char *member, struct address_network *out, struct error *e)
{
    char text[MEMBER_BYTES];
    struct address address;

    snprintf(text, sizeof(text), "%s", member);
    char *slash = strchr(text, '/');
    if (slash != NULL)
        *slash = '\0';
    if (!read_as_written(text, &address))
        return error_set(e, ERR_FORMAT, "\"%s\" is no address or network, and neither loopback, all nor none",
                         member);
    int most = (int)address.len * 8, bits = slash != NULL ? read_bits(slash + 1) : most;
    if (bits < 0 || bits > most)
        return error_set(e, ERR_FORMAT, "\"%s\": a network's length is a number from 0 to %d", member, most);
    if (is_mapped(&address) && bits >= MAPPED_BYTES * 8) {
        unmap(&address);
        bits -= MAPPED_BYTES * 8;
    }
    *out = (struct address_network){ .first = cut(&address, (unsigned)bits), .bits = (unsigned)bits };
    bool is_first = memcmp(out->first.bytes, address.bytes, address.len) == 0;
    return is_first ? 0 : refuse_bits_of_a_host(member, out, e);
}

/* --- the list --- */

static int add(struct address_list *list, const char *member, struct error *e)
{
    static const char *const loopback[] = { "127.0.0.0/8", "::1" };
    const char *const *texts = &member;
    size_t n = 1;

    if (strcmp(member, "all") == 0) {
        list->is_all = true;
        return 0;
    }
    if (strcmp(member, "loopback") == 0) {
        texts = loopback;
        n = sizeof(loopback) / sizeof(loopback[0]);
    }
    if (list->n_networks + n > ADDRESS_NETWORKS_MAX)
        return error_set(e, ERR_LIMIT, "there are more than %d addresses and networks", ADDRESS_NETWORKS_MAX);
    for (size_t i = 0; i < n; i++) {
        int r = read_network(texts[i], &list->networks[list->n_networks], e);
        if (r != 0)
            return r;
        list->n_networks++;
    }
    return 0;
}

int address_list_read(const char *text, struct address_list *out, struct error *e)
{
    struct address_list list = { .n_networks = 0 };

    if (span_is(span_trim(span_cstr(text)), "none")) {
        *out = list;
        return 0;
    }
    for (const char *rest = text;; rest++) {
        char member[MEMBER_BYTES];
        size_t len = strcspn(rest, ",");
        struct span trimmed = span_trim(span_of(rest, len));
        if (trimmed.len == 0)
            return error_set(e, ERR_FORMAT, "a member is empty");
        snprintf(member, sizeof(member), "%.*s", (int)trimmed.len, trimmed.ptr);
        if (trimmed.len >= sizeof(member))
            return error_set(e, ERR_FORMAT, "\"%s...\" is no address or network", member);
        int r = add(&list, member, e);
        if (r != 0)
            return r;
        rest += len;
        if (*rest == '\0')
            break;
    }
    *out = list;
    return 0;
}

bool address_list_has(const struct address_list *list, const char *text)
{
    struct address address;

    if (list->is_all)
        return true;
    if (!address_read(text, &address))
        return false;
    for (size_t i = 0; i < list->n_networks; i++) {
        if (has(&list->networks[i], &address))
            return true;
    }
    return false;
}
