#include "adapters/body.h"

#include <assert.h>

void body_begin(struct buf *text)
{
    buf_init(text, BODY_BYTES);
}

void body_end(struct buf *text, struct adapter_call *call, struct adapter_exchange *out)
{
    assert(!text->overflowed);
    splice_init(&out->body, span_of(arena_span(call->arena, buf_span(text)), text->len));
    buf_free(text);
}
