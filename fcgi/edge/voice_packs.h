/* Voice packs of callers: which there are, a snapshot of one, and requests for speech that
 * are to be spoken with one. All of it comes from the worker's own snapshot of the configuration. */
#ifndef FCGI_EDGE_VOICE_PACKS_H
#define FCGI_EDGE_VOICE_PACKS_H

#include "fcgi/edge/edge.h"

/*
 * Where a request for speech names a voice pack, by its snapshot or by its id, puts in
 * *facts what the pack says: model, voice, and how to speak. 0; otherwise it has been answered.
 */
int voice_packs_apply(struct turn *turn, struct request_facts *facts);

#endif
