// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fitted constants of models and heuristics as C constants, from the rows of passes/model.def.
#ifndef PASSES_MODEL_H
#define PASSES_MODEL_H

#define SECTION(text)
#define REAL(name, value, unit, device, date, doc)  static const double name = value;
#define WHOLE(name, value, unit, device, date, doc) enum { name = value };
#include "passes/model.def"

typedef struct ModelRow {
    const char *name; // NULL: `doc` is the heading of the following rows
    double value;
    const char *unit, *device, *date, *doc;
} ModelRow;

extern const ModelRow model_rows[];
extern const int n_model_rows;

#endif
