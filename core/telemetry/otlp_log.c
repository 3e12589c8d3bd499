#include "core/telemetry/otlp_log.h"

#include <json-c/json.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/telemetry/otlp_attributes.h"

static bool is_one_of(const char *name, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void add_members(json_object *event, struct otlp_attributes *a)
{
    static const char *const not [] = { "v", "event", "time" };

    json_object_object_foreach(event, name, value)
    {
        if (is_one_of(name, not, sizeof(not ) / sizeof(not [0])))
            continue;
        const char *key = arena_strdup(a->arena, name);
        if (json_object_is_type(value, json_type_string))
            otlp_add_text(a, key, json_object_get_string(value));
        else if (json_object_is_type(value, json_type_int))
            otlp_add_int(a, key, json_object_get_int64(value));
        else if (json_object_is_type(value, json_type_boolean))
            otlp_add_bool(a, key, json_object_get_boolean(value));
    }
}

/* NULL: it is no such event. */
static Otlp__LogRecord *tell(const struct otlp_settings *settings, json_object *event, struct arena *arena)
{
    json_object *name = NULL, *time = NULL;
    struct otlp_attributes a;

    if (!json_object_object_get_ex(event, "event", &name) || !json_object_is_type(name, json_type_string))
        return NULL;
    Otlp__LogRecord *record = arena_new_of(arena, Otlp__LogRecord);
    otlp__log_record__init(record);
    record->event_name = arena_strdup(arena, json_object_get_string(name));
    if (json_object_object_get_ex(event, "time", &time))
        record->time_unix_nano = (uint64_t)json_object_get_int64(time) * 1000;
    record->observed_time_unix_nano = clock_wall_us() * 1000;
    record->severity_number = OTLP__LOG_RECORD__SEVERITY_NUMBER__SEVERITY_NUMBER_INFO;
    record->severity_text = (char *)(uintptr_t) "INFO";
    otlp_attributes_begin(&a, arena, settings->log_value_limit, settings->log_count_limit);
    add_members(event, &a);
    record->n_attributes = a.n;
    record->attributes = otlp_attributes_list(&a);
    record->dropped_attributes_count = a.n_dropped;
    return record;
}

Otlp__LogsRequest *otlp_logs_request(const struct otlp_settings *settings, const char *instance,
                                     const struct span *lines, size_t n, struct arena *arena)
{
    struct json_tokener *tokener = json_tokener_new();
    Otlp__ScopeLogs *scope = arena_new_of(arena, Otlp__ScopeLogs);
    Otlp__ResourceLogs *resource = arena_new_of(arena, Otlp__ResourceLogs);
    Otlp__LogsRequest *request = arena_new_of(arena, Otlp__LogsRequest);

    otlp__scope_logs__init(scope);
    scope->scope = &otlp_scope;
    scope->log_records = arena_array_of(arena, Otlp__LogRecord *, n);
    for (size_t i = 0; i < n; i++) {
        json_tokener_reset(tokener);
        json_object *event = json_tokener_parse_ex(tokener, lines[i].ptr, (int)lines[i].len);
        Otlp__LogRecord *record = tell(settings, event, arena);
        if (record != NULL)
            scope->log_records[scope->n_log_records++] = record;
        json_object_put(event);
    }
    json_tokener_free(tokener);
    if (scope->n_log_records == 0)
        return NULL;
    otlp__resource_logs__init(resource);
    resource->resource = otlp_resource(settings, instance, arena);
    resource->n_scope_logs = 1;
    resource->scope_logs = arena_array_of(arena, Otlp__ScopeLogs *, 1);
    resource->scope_logs[0] = scope;
    otlp__logs_request__init(request);
    request->n_resource_logs = 1;
    request->resource_logs = arena_array_of(arena, Otlp__ResourceLogs *, 1);
    request->resource_logs[0] = resource;
    return request;
}
