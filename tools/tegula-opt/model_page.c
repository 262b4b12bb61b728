// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints the page of fitted constants as markdown, from the table of the models.
#include "passes/model.h"
#include "tools/tegula-opt/opt.h"

static const char preamble[] =
    "# Constants of the models\n"
    "\n"
    "The fitted constants of cost models and heuristics, printed by `tegula-opt --model` from\n"
    "`passes/model.def`. A value was fitted to measurements of its device, and entered the code "
    "at\n"
    "its date. A new fit replaces device and date. A meaning that begins with dots continues the "
    "one\n"
    "above it.\n";

void print_model_page(void) {
    fputs(preamble, stdout);
    for (int i = 0; i < n_model_rows; i++) {
        const ModelRow *r = &model_rows[i];
        if (r->name)
            printf("| `%s` | %g | %s | %s | %s | %s |\n", r->name, r->value, r->unit, r->device,
                   r->date, r->doc);
        else
            printf("\n## %s\n\n| constant | value | unit | device | date | meaning |\n"
                   "|---|---|---|---|---|---|\n",
                   r->doc);
    }
}
