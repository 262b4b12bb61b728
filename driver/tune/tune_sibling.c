// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries the winners of other machines first, whatever the model predicts here. They come from
// machines of the same maker and from similar launches. They are only candidates: the best setting
// on one device may be ten times too slow on its sibling, or fail.
#include "driver/tune/tune_search.h"
#include "driver/tune/tune_store.h"

#include <string.h>

/// Returns the candidate's index, after adding it if it is not listed; -1: the kernel does not
/// allow it.
static int candidate_of(Search *s, const char *config) {
    for (int i = 0; i < s->space.n; i++)
        if (strcmp(s->space.at[i].config, config) == 0) return i;
    return tune_space_add(s->ctx, &s->space, config) ? s->space.n - 1 : -1;
}

void sibling_list(Search *s) {
    TuneSiblings all;
    if (s->o.mode == TUNE_SAMPLE || s->o.n_among) return;
    tune_siblings(s->ctx, s->r, s->o.device, &all);
    for (int i = 0; i < all.n; i++) {
        int id = candidate_of(s, all.at[i].config);
        TuneCandidate *c = id > 0 ? &s->space.at[id] : NULL;
        if (!c || c->sibling) continue;
        c->sibling = all.at[i].device;
        c->why = NULL;
    }
}
