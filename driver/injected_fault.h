// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults of candidates, injected for tests by TG_FAULT in the environment: a list of KIND@TEXT,
// separated by commas. A fault applies to code whose tune values contain the text ("BM=32"), or
// with "!plan" do not contain it. Kernels of ranks have it on all ranks, or only on TG_FAULT_RANK.
//
//     compile-crash, compile-hang, compile-error   during compilation
//     oracle                                       the interpreter gives no answer
//     crash, hang, launch, wrong, inside, flaky, slow      during a launch
#ifndef DRIVER_INJECTED_FAULT_H
#define DRIVER_INJECTED_FAULT_H

#include "driver/jit.h"

/// Call before compiling a request in another process. False: the compilation must fail.
bool fault_compile(const Request *r);
/// Call before asking the interpreter; ignores the text. False: the interpreter must fail.
bool fault_oracle(void);
/// Call for code before its trial on a rank. Its entry may be replaced by one that fails.
void fault_run(tg_variant *variant, int rank);

#endif
