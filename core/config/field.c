#include "core/config/field.h"

#include "core/base/arena.h"

const char *field_choice(const struct field *field, size_t i)
{
    return field->choice_at != NULL ? field->choice_at(i) : field->choices[i];
}

static const char *expect_choices(const struct field *field, struct arena *arena)
{
    const char *text = arena_printf(arena, "\"%s\"", field_choice(field, 0)), *choice;
    for (size_t i = 1; (choice = field_choice(field, i)) != NULL; i++)
        text = arena_printf(arena, "%s or \"%s\"", text, choice);
    return text;
}

const char *field_expectation(const struct field *field, struct arena *arena)
{
    switch (field->kind) {
    case FIELD_TEXT:
        return arena_printf(arena, "%s, %lld to %lld bytes", field->rule->words, field->min, field->max);
    case FIELD_INT:
        return arena_printf(arena, "a whole number from %lld to %lld", field->min, field->max);
    case FIELD_NUMBER:
        return arena_printf(arena, "a number from %g to %g", field->low, field->high);
    case FIELD_BOOL:
        return "true or false";
    case FIELD_ENUM:
        return expect_choices(field, arena);
    case FIELD_SHA256:
        return "a SHA-256 as 64 lower-case hex digits";
    case FIELD_CODES:
        return arena_printf(arena, "a list of whole numbers from %lld to %lld", field->min, field->max);
    case FIELD_TEXTS:
        return arena_printf(arena, "a list of at most %lld texts, each %s", field->max, field->rule->words);
    case FIELD_HEADERS:
        return arena_printf(arena, "an object of at most %lld header lines", field->max);
    case FIELD_RECORD:
        return "an object";
    case FIELD_LIST:
        return arena_printf(arena, "a list of %lld to %lld objects", field->min, field->max);
    case FIELD_MAP:
        return arena_printf(arena, "an object of at most %lld members, each an object", field->max);
    case FIELD_PARAMS:
        return "an object of the provider's parameters";
    case FIELD_REFUSED:
    case FIELD_KINDS:
        break;
    }
    return "nothing";
}
