#include "core/store/postgres_address_internal.h"

#include <arpa/inet.h>
#include <postgresql/libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/span.h"
#include "core/store/lookup_internal.h"

enum { HOSTS_MAX = 8, LIST_BYTES = 16 * 1024, PARAMETERS_MAX = 80 };

struct host {
    struct span name, port;
    struct lookup *lookup; /* begun, and not taken yet */
};

struct postgres_address {
    PQconninfoOption *options;
    struct host hosts[HOSTS_MAX];
    size_t n_hosts; /* 0: libpq's default, or hostaddr is given */
};

/* What replaces or completes what the address says. */
static const struct addition {
    const char *keyword, *value;
    bool is_default; /* only where the address says nothing */
} additions[] = {
    { "client_encoding", "UTF8", false },
    { "fallback_application_name", "llm-router", true },
    { "gssencmode", "disable", true }, /* it would ask Kerberos, and wait for it */
};

static const char not_an_address[] =
    "the address of the database is not one of libpq's: postgresql://USER:PASSWORD@HOST:PORT/DATABASE or "
    "\"host=… dbname=…\"; in a user or a password, @ : / ? # and % are written %40 %3A %2F %3F %23 and %25";

static const char *option(const struct postgres_address *address, const char *keyword)
{
    for (const PQconninfoOption *o = address->options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL && o->val[0] != '\0' ? o->val : NULL;
    }
    return NULL;
}

/* The next item of a comma-separated list; the last one again when it is used up. */
static struct span take_item(const char **list)
{
    size_t len = strcspn(*list, ",");
    struct span item = span_of(*list, len);
    if ((*list)[len] == ',')
        *list += len + 1;
    return item;
}

static bool is_socket(struct span name)
{
    return name.len == 0 || name.ptr[0] == '/' || name.ptr[0] == '@';
}

/* An '@' or '/' in a password that was not escaped makes libpq take the rest of it for a
 * host, a port or a database, which messages would then name. */
static bool is_plausible_host(struct span name)
{
    return is_socket(name) ||
           (memchr(name.ptr, '@', name.len) == NULL && memchr(name.ptr, '/', name.len) == NULL);
}

static bool is_plausible(const struct postgres_address *address)
{
    const char *port = option(address, "port"), *database = option(address, "dbname");
    return (port == NULL || strspn(port, "0123456789,") == strlen(port)) &&
           (database == NULL || strpbrk(database, "@:/?#") == NULL);
}

/* False: too many, or one that cannot be. */
static bool split_hosts(struct postgres_address *address)
{
    const char *names = option(address, "host"), *ports = option(address, "port");
    if (names == NULL || option(address, "hostaddr") != NULL)
        return true;
    for (bool is_last = false; !is_last;) {
        if (address->n_hosts == HOSTS_MAX)
            return false;
        is_last = strchr(names, ',') == NULL;
        struct span name = take_item(&names);
        if (!is_plausible_host(name))
            return false;
        address->hosts[address->n_hosts++] = (struct host){
            .name = name,
            .port = ports == NULL ? span_cstr("5432") : take_item(&ports),
        };
    }
    return true;
}

int postgres_address_parse(const char *url, struct postgres_address **out, struct error *e)
{
    char *ignored = NULL; /* quotes the address */
    struct postgres_address *address = xcalloc(1, sizeof(*address));
    address->options = PQconninfoParse(url, &ignored);
    PQfreemem(ignored);
    if (address->options == NULL || !is_plausible(address) || !split_hosts(address)) {
        postgres_address_free(address);
        return error_set(e, ERR_FORMAT, "%s", not_an_address);
    }
    *out = address;
    return 0;
}

void postgres_address_free(struct postgres_address *address)
{
    if (address == NULL)
        return;
    for (size_t i = 0; i < address->n_hosts; i++)
        lookup_end(address->hosts[i].lookup);
    for (PQconninfoOption *o = address->options; o != NULL && o->keyword != NULL; o++)
        if (o->val != NULL)
            explicit_bzero(o->val, strlen(o->val));
    PQconninfoFree(address->options);
    free(address);
}

const char *postgres_address_password(const struct postgres_address *address)
{
    return option(address, "password");
}

/* The three lists that libpq reads side by side. */
struct lists {
    struct buf names, addresses, ports;
};

static void add_host(struct lists *lists, const struct host *host, const char *address)
{
    const char *comma = lists->ports.len > 0 ? "," : "";
    buf_printf(&lists->names, "%s%.*s", comma, (int)host->name.len, host->name.ptr);
    buf_printf(&lists->addresses, "%s%s", comma, address);
    buf_printf(&lists->ports, "%s%.*s", comma, (int)host->port.len, host->port.ptr);
}

static void add_found(struct lists *lists, const struct host *host, const struct addrinfo *found)
{
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        char text[INET6_ADDRSTRLEN];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), NULL, 0, NI_NUMERICHOST) == 0)
            add_host(lists, host, text);
    }
}

/* Where each host is; what is not found is left out while there is another one. */
static int find_hosts(struct postgres_address *address, uint64_t deadline_us, struct arena *arena,
                      struct lists *lists, struct error *e)
{
    for (size_t i = 0; i < address->n_hosts; i++) {
        struct host *host = &address->hosts[i];
        if (!is_socket(host->name))
            lookup_go_on(&host->lookup, arena_span(arena, host->name), arena_span(arena, host->port));
    }
    for (size_t i = 0; i < address->n_hosts; i++) {
        struct host *host = &address->hosts[i];
        struct addrinfo *found;
        const char *why;
        uint64_t now_us = clock_monotonic_us();
        if (is_socket(host->name)) {
            add_host(lists, host, "");
            continue;
        }
        lookup_wait(host->lookup, now_us < deadline_us ? (unsigned)((deadline_us - now_us) / US_PER_MS) : 0);
        if (!lookup_take(host->lookup, &found, &why))
            return error_set(e, ERR_SYSTEM, "the address of Postgres at %.*s was not found in time",
                             (int)host->name.len, host->name.ptr);
        lookup_end(host->lookup);
        host->lookup = NULL;
        if (found == NULL)
            error_set(e, ERR_SYSTEM, "Postgres at %.*s: %s", (int)host->name.len, host->name.ptr, why);
        else
            add_found(lists, host, found);
        freeaddrinfo(found);
    }
    return lists->ports.len > 0 ? 0 : ERR_SYSTEM;
}

static void add_parameter(struct postgres_parameters *out, size_t *n, const char *keyword, const char *value)
{
    if (*n < PARAMETERS_MAX) {
        out->keywords[*n] = keyword;
        out->values[(*n)++] = value;
    }
}

int postgres_address_resolve(struct postgres_address *address, uint64_t deadline_us, struct arena *arena,
                             struct postgres_parameters *out, struct error *e)
{
    struct lists lists;
    size_t n = 0;
    buf_init(&lists.names, LIST_BYTES);
    buf_init(&lists.addresses, LIST_BYTES);
    buf_init(&lists.ports, LIST_BYTES);
    int r = address->n_hosts == 0 ? 0 : find_hosts(address, deadline_us, arena, &lists, e);
    if (r != 0)
        goto out;
    out->keywords = arena_array_of(arena, const char *, PARAMETERS_MAX + 1);
    out->values = arena_array_of(arena, const char *, PARAMETERS_MAX + 1);
    for (const PQconninfoOption *o = address->options; o->keyword != NULL; o++)
        if (option(address, o->keyword) != NULL)
            add_parameter(out, &n, o->keyword, o->val);
    for (size_t i = 0; i < sizeof(additions) / sizeof(additions[0]); i++)
        if (!additions[i].is_default || option(address, additions[i].keyword) == NULL)
            add_parameter(out, &n, additions[i].keyword, additions[i].value);
    if (address->n_hosts > 0) { /* of two with one keyword, libpq takes the later */
        add_parameter(out, &n, "host", arena_span(arena, buf_span(&lists.names)));
        add_parameter(out, &n, "hostaddr", arena_span(arena, buf_span(&lists.addresses)));
        add_parameter(out, &n, "port", arena_span(arena, buf_span(&lists.ports)));
    }
out:
    buf_free(&lists.names);
    buf_free(&lists.addresses);
    buf_free(&lists.ports);
    return r;
}
