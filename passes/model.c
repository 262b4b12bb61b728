// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of passes/model.def.
#include "passes/model.h"

const ModelRow model_rows[] = {
#define SECTION(text)                               {.doc = text},
#define REAL(name, value, unit, device, date, doc)  {#name, value, unit, device, date, doc},
#define WHOLE(name, value, unit, device, date, doc) {#name, value, unit, device, date, doc},
#include "passes/model.def"
};

const int n_model_rows = sizeof model_rows / sizeof *model_rows;
