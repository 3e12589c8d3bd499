/* The output formats of Azure's speech service. Private to its adapter. */
#ifndef ADAPTERS_AZURE_FORMATS_H
#define ADAPTERS_AZURE_FORMATS_H

#include "adapters/adapter.h"

enum { AZURE_COMMON_FORMATS_COUNT = 4, AZURE_FORMATS_COUNT = 41 };

/* First those that callers know by OpenAI's names, then all by Azure's own. */
extern const struct adapter_format azure_formats[AZURE_FORMATS_COUNT];

/* Azure's own names; ends with NULL. */
extern const char *const azure_format_names[];

/* Of either name; NULL if there is none. */
const struct adapter_format *azure_format_find(struct span name);

#endif
