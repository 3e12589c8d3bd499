/*
 * A list of addresses and networks, as an operator writes it: separated by commas,
 * each one of
 *
 *   loopback          127.0.0.0/8 and ::1
 *   192.0.2.1         an address
 *   2001:db8::/32     a network
 *   all               everybody
 *   none              nobody; it stands alone
 *
 * An IPv4 address that is mapped into IPv6 (::ffff:192.0.2.1) is that IPv4 address,
 * in the list and in what is looked up; otherwise a network of one has no address of
 * the other.
 */
#ifndef CORE_ADMIT_ADDRESSES_H
#define CORE_ADMIT_ADDRESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum { ADDRESS_BYTES = 16, ADDRESS_NETWORKS_MAX = 64 };

struct address {
    size_t len; /* bytes: 4 of IPv4, 16 of IPv6 */
    uint8_t bytes[ADDRESS_BYTES];
};

struct address_list {
    bool is_all;
    size_t n_networks;
    struct address_network {
        struct address first;
        unsigned bits; /* that all of its addresses have in common with the first */
    } networks[ADDRESS_NETWORKS_MAX];
};

/* IPv4 or IPv6 as text, without a port or a zone. False: it is neither. */
bool address_read(const char *text, struct address *out);

/* ERR_FORMAT with the member that is wrong, ERR_LIMIT. */
int address_list_read(const char *text, struct address_list *out, struct error *e);

/* Whether the list has the address; what is none is in the list of all only. */
bool address_list_has(const struct address_list *list, const char *address);

#endif
