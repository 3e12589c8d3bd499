/*
 * For LD_PRELOAD: a resolver whose server does not answer. Names that end in
 * ".stall" take STALL_S and have no address, and those that end in ".here" are this
 * machine; all others go to the C library.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { STALL_S = 4 };

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    const char *end = name == NULL ? NULL : strrchr(name, '.');
    bool is_number_wanted = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;

    if (end != NULL && !is_number_wanted && strcmp(end, ".stall") == 0) {
        sleep(STALL_S);
        return EAI_AGAIN;
    }
    if (end != NULL && !is_number_wanted && strcmp(end, ".here") == 0)
        name = "127.0.0.1";
    /* ISO C has no cast from an object's pointer to a function's. */
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&next, &symbol, sizeof(next));
    return next(name, service, hints, out);
}
