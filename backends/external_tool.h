// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs of others that make bytes of bytes: assemblers, linkers.
#ifndef BACKENDS_EXTERNAL_TOOL_H
#define BACKENDS_EXTERNAL_TOOL_H

#include <stdbool.h>
#include <stddef.h>

enum { TOOL_PATH = 4096, TOOL_END = 128 };

/// True: it is the one, look no further.
typedef bool ToolVisit(const char *path, void *arg);
/// Copies the path to `out` (TOOL_PATH bytes) if it is one of a program.
ToolVisit tool_take;
/// Calls visit with a name in each of some folders (a:b:c, or NULL) until it says true.
bool tool_in_folders(const char *folders, const char *name, ToolVisit *visit, void *arg);
/// The first program of that name in PATH.
bool tool_in_path(const char *name, char *out);
/// Calls visit with what a pattern of the shell matches, last name first, until it says true.
bool tool_glob(const char *pattern, ToolVisit *visit, void *arg);

/// What a program made, and what it said; both to be freed, either may be NULL. A NUL byte follows.
typedef struct ToolOutput {
    char *data, *log;
    size_t bytes;
    char end[TOOL_END]; // how it ended, as in "exit status 1"
} ToolOutput;

/// Arguments that stand for the two files, which lie in a folder of their own for as long.
extern const char tool_in[], tool_out[];
/// Runs the program on a file with the bytes; false where it fails or makes nothing.
bool tool_run(const char *program, const char *const *arguments, const char *bytes, size_t n,
              ToolOutput *out);

/// A program at work on a file with bytes.
typedef struct ToolRun ToolRun;
/// As tool_run, which is both, for those who have something else to do meanwhile. NULL: no memory.
ToolRun *tool_start(const char *program, const char *const *arguments, const char *bytes, size_t n);
/// Waits for it and frees the run, which may be NULL.
bool tool_finish(ToolRun *run, ToolOutput *out);
/// Ends it, whatever it is at, and frees the run.
void tool_drop(ToolRun *run);

#endif
