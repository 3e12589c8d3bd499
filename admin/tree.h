/* What all changes of LLM_ROUTER_CONFIG have in common. */
#ifndef ADMIN_TREE_H
#define ADMIN_TREE_H

#include "admin/change.h"

/* The name of the entry, as object of the audit log. */
const char *admin_tree_name(void);

/* A whole reply: the document without its keys; `version` as for admin_reply. */
void admin_reply_masked(struct admin_turn *turn, struct span raw, const char *version);

/* 500: the document that is stored is not valid. */
void admin_fail_broken(struct admin_turn *turn);

/* 404: there is none. */
void admin_fail_no_tree(struct admin_turn *turn);

/* For a make() of struct admin_change: `body`, as administrators send it, becomes the
 * next document. ERR_FORMAT after a reply. */
int admin_admit_tree(struct admin_turn *turn, struct admin_change *change, struct span body,
                     const struct store_value *current, struct arena *arena);

/* The same, when change->next is there already: what may be shown, and the number of keys. */
int admin_show_tree(struct admin_turn *turn, struct admin_change *change, const struct store_value *current,
                    struct arena *arena);

#endif
