/*
 * For LD_PRELOAD: a resolver whose server does not answer. Names that end in
 * ".stall" take STALL_S and have no address; all others go to the C library.
 */
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

enum { STALL_S = 4 };

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): glibc's are reserved names */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    static const char suffix[] = ".stall";
    int (*next)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    size_t len = name == NULL ? 0 : strlen(name);

    if (len >= sizeof(suffix) && strcmp(name + len - (sizeof(suffix) - 1), suffix) == 0) {
        sleep(STALL_S);
        return EAI_AGAIN;
    }
    /* ISO C has no cast from an object's pointer to a function's. */
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&next, &symbol, sizeof(next));
    return next(name, service, hints, out);
}
