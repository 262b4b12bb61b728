// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What goes wrong with candidates, brought about on purpose: TG_FAULT in the environment, a list of
// KIND@TEXT, one comma between two. It happens to code whose tune values have the text ("BM=32"),
// or have it not ("!plan"); of a kernel of ranks on all of them, or on that of TG_FAULT_RANK.
//
//     compile-crash, compile-hang, compile-error   where it is compiled
//     oracle                                       the interpreter has nothing to say
//     crash, hang, launch, wrong, inside, flaky, slow      where it is launched
#ifndef DRIVER_INJECTED_FAULT_H
#define DRIVER_INJECTED_FAULT_H

#include "driver/jit.h"

/// Before a request is compiled in another process. False: it is to fail.
bool fault_compile(const Request *r);
/// Before the interpreter is asked, whatever the text. False: it is to fail.
bool fault_oracle(void);
/// Of code that is to be tried on a rank: its entry may become one that fails.
void fault_run(tg_variant *variant, int rank);

#endif
