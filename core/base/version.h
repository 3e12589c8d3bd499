/* The version of all programs of this repository. */
#ifndef CORE_BASE_VERSION_H
#define CORE_BASE_VERSION_H

#define LLM_ROUTER_VERSION "0.1.0"

#endif
