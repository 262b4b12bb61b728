// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rows of commands.def as tables, for parsing, help, the manual page and completion.
#ifndef TOOLS_TEGULA_COMMAND_TABLE_H
#define TOOLS_TEGULA_COMMAND_TABLE_H

#include "tools/tegula/cli.h"

typedef struct CommandInfo {
    const char *name, *operands;
    int least, most;
    const char *doc;
} CommandInfo;

typedef enum OptionKind { FLAG, NUMBER, TEXT, LIST } OptionKind;

// Bits of OptionInfo.commands.
enum {
#define CMD(id, ...) id = 1 << id##_BIT,
#include "tools/tegula/commands.def"
};

typedef struct OptionInfo {
    size_t field; // offset in Options
    const char *name;
    char letter;
    int commands;
    OptionKind kind;
    const char *placeholder, *doc;
} OptionInfo;

#define OPT(...) +1
enum {
    N_OPTIONS = 0
#include "tools/tegula/commands.def"
};

extern const CommandInfo cli_commands[COMMAND_COUNT];
extern const OptionInfo cli_options[N_OPTIONS];
/// The text of `tegula help arguments`.
extern const char cli_arguments_help[];

/// Prints the manual page tegula(1).
void print_manual(void);

#endif
