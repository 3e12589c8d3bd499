#include "core/store/redis_url_internal.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/arena.h"

#define DIGITS "0123456789"

enum { PORT_MAX = 65535, NUMBER_DIGITS_MAX = 5 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

/* In place. */
static bool decode_percent(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]), low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return true;
}

/* Ends the text before `at` and gives what follows it; NULL stays NULL. */
static char *cut(char *at)
{
    if (at == NULL)
        return NULL;
    *at = '\0';
    return at + 1;
}

static bool is_number(const char *text, long max)
{
    size_t len = strlen(text);
    return len > 0 && len <= NUMBER_DIGITS_MAX && strspn(text, DIGITS) == len &&
           strtol(text, NULL, 10) <= max;
}

static bool take_user(char *user, struct redis_address *out)
{
    char *password = cut(strchr(user, ':'));
    if (password == NULL || password[0] == '\0' || !decode_percent(user) || !decode_percent(password))
        return false;
    out->user = user[0] == '\0' ? NULL : user;
    out->password = password;
    return true;
}

static bool take_database(char *database, struct redis_address *out)
{
    if (database == NULL || database[0] == '\0')
        return true;
    out->database = database;
    return is_number(database, PORT_MAX);
}

/* A password may hold an "@" that nobody encoded: the last one is what separates. */
static bool take_authority(char *authority, char **host, struct redis_address *out)
{
    *host = cut(strrchr(authority, '@'));
    if (*host == NULL) {
        *host = authority;
        return true;
    }
    return take_user(authority, out);
}

static bool take_host(char *host, struct redis_address *out)
{
    char *port;
    if (host[0] == '[') {
        char *behind = cut(strchr(host, ']'));
        if (behind == NULL || (behind[0] != '\0' && behind[0] != ':'))
            return false;
        host++;
        port = behind[0] == ':' ? behind + 1 : NULL;
    } else {
        port = cut(strchr(host, ':'));
    }
    out->host = host;
    out->port = port == NULL ? "6379" : port;
    return host[0] != '\0' && is_number(out->port, PORT_MAX) && strtol(out->port, NULL, 10) > 0;
}

static bool parse_tcp(char *rest, struct redis_address *out)
{
    char *host, *database;
    if (strncmp(rest, "//", 2) != 0 || strpbrk(rest, "?#") != NULL)
        return false;
    rest += 2;
    /* The path begins behind the user's part, whose password may hold a slash. */
    char *at = strrchr(rest, '@');
    database = cut(strchr(at == NULL ? rest : at, '/'));
    return take_authority(rest, &host, out) && take_host(host, out) && take_database(database, out);
}

static bool parse_unix(char *rest, struct redis_address *out)
{
    char *query = cut(strrchr(rest, '?'));
    if (strncmp(rest, "//", 2) == 0 && rest[2] != '/') {
        rest += 2;
        char *path = strstr(rest, "@/");
        if (path == NULL)
            return false;
        path = cut(path);
        if (!take_user(rest, out))
            return false;
        rest = path;
    } else if (strncmp(rest, "//", 2) == 0) {
        rest += 2;
    }
    out->path = rest;
    if (rest[0] != '/' || rest[1] == '\0' || strlen(rest) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return false;
    if (query == NULL)
        return true;
    return strncmp(query, "db=", 3) == 0 && query[3] != '\0' && take_database(query + 3, out);
}

static const struct scheme {
    const char *prefix;
    bool is_tls;
    bool (*parse)(char *rest, struct redis_address *out);
} schemes[] = {
    { "redis:", false, parse_tcp },
    { "rediss:", true, parse_tcp },
    { "unix:", false, parse_unix },
};

int redis_address_parse(const char *url, struct redis_address *out, struct error *e)
{
    struct redis_address address = { .text = xstrdup(url), .text_bytes = strlen(url) };
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t len = strlen(schemes[i].prefix);
        if (strncmp(url, schemes[i].prefix, len) != 0)
            continue;
        address.is_tls = schemes[i].is_tls;
        if (!schemes[i].parse(address.text + len, &address))
            break;
        *out = address;
        return 0;
    }
    redis_address_wipe(&address);
    return error_set(e, ERR_FORMAT,
                     "the address of Redis is not redis://[user:password@]host[:port][/db], rediss://… or "
                     "unix:/path[?db=N]");
}

void redis_address_wipe(struct redis_address *address)
{
    if (address->text != NULL)
        OPENSSL_cleanse(address->text, address->text_bytes);
    free(address->text);
    *address = (struct redis_address){ .text = NULL };
}
