/*
 * What a supervisor is told, by the protocol of sd_notify(3): datagrams to the socket
 * that NOTIFY_SOCKET names. Without one all of this does nothing.
 */
#ifndef FCGI_ENGINE_NOTIFY_H
#define FCGI_ENGINE_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1". A supervisor that does not read is not waited for. */
void notify_send(const char *state);

/* "RELOADING=1", with the time that goes with it; READY=1 is to follow. */
void notify_reloading(void);

/* How often this process is to send WATCHDOG=1, which is twice as often as it must: in
 * microseconds; 0: never. */
uint64_t notify_watchdog_us(void);

#endif
