// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External programs that turn bytes into bytes: assemblers, linkers.
#ifndef BACKENDS_EXTERNAL_TOOL_H
#define BACKENDS_EXTERNAL_TOOL_H

#include "lang/fork_lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { TOOL_PATH = 4096, TOOL_END = 128 };

/// Returns true to stop the search at this path.
typedef bool ToolVisit(const char *path, void *arg);
/// Copies the path to `out` (TOOL_PATH bytes) if it is a program.
ToolVisit tool_take;
/// Calls visit with a name in each of some folders (a:b:c, or NULL) until it returns true.
bool tool_in_folders(const char *folders, const char *name, ToolVisit *visit, void *arg);
/// Finds the first program of that name in PATH.
bool tool_in_path(const char *name, char *out);
/// Calls visit with the matches of a shell pattern, last name first, until it returns true.
bool tool_glob(const char *pattern, ToolVisit *visit, void *arg);

/// A library that is looked for at its first use.
typedef struct ToolLibrary {
    Lock lock;
    atomic_bool searched;
} ToolLibrary;
/// Calls `find`, which returns whether it found the library, once. If it opened none because files
/// or memory were short, the next use calls it again.
void tool_search_library(ToolLibrary *l, bool (*find)(void));
/// dlopen for such a search.
void *tool_open_library(const char *path, int flags);

/// The product and the messages of a program. The caller frees both; either may be NULL. A NUL byte
/// follows.
typedef struct ToolOutput {
    char *data, *log;
    size_t bytes;
    char end[TOOL_END]; // how it ended, e.g. "exit status 1"
    bool refused;       // it ended by itself and reports failure
    bool succeeded;     // it reports success
} ToolOutput;
void tool_output_free(ToolOutput *out);

/// Whether temporary files can be made in a folder, and no other user can replace them there: it is
/// sticky, or others may not write to it. False: `why` says why not.
bool tool_folder_serves(const char *folder, char why[TOOL_END]);
/// Placeholder arguments for the two files, which lie in a temporary folder.
extern const char tool_in[], tool_out[];
/// Runs the program on a file with the bytes. Returns false if it fails or makes nothing.
bool tool_run(const char *program, const char *const *arguments, const char *bytes, size_t n,
              ToolOutput *out);

/// A program that is working on a file.
typedef struct ToolRun ToolRun;
/// Starts the program; tool_finish completes it, for callers with other work in between. NULL: out
/// of memory.
ToolRun *tool_start(const char *program, const char *const *arguments, const char *bytes, size_t n);
/// Waits for it and frees the run, which may be NULL.
bool tool_finish(ToolRun *run, ToolOutput *out);
/// Ends it in any state, and frees the run.
void tool_drop(ToolRun *run);
/// Removes the files that a process left which ended in the middle of runs. Call it before the
/// process's number can be another one's.
void tool_sweep(pid_t ended);
/// Removes the files of this process's runs, before it ends in the middle of them. Allocates
/// nothing.
void tool_remove_runs(void);

#endif
