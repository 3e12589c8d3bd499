/* The provider's name that an upstream has unless its configuration says one. Pure. */
#ifndef CORE_CONFIG_PROVIDER_H
#define CORE_CONFIG_PROVIDER_H

/* From the table of hosts; a host that is not in it is its own provider. The
 * result is a constant or `host` itself. */
const char *provider_of_host(const char *host);

#endif
