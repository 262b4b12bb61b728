// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manual page tegula(1), from the rows of commands.def.
#include "tools/tegula/command_table.h"

#include <stdio.h>

/// Prints text for roff: hyphens and backslashes are literal, and no line begins with a command.
static void print_roff(const char *text) {
    bool begins = true;
    for (; *text; text++) {
        if (begins && (*text == '.' || *text == '\'')) printf("\\&");
        if (*text == '-' || *text == '\\')
            printf("\\%c", *text == '-' ? '-' : 'e');
        else if (*text == '\'')
            printf("\\(aq");
        else if (*text == '`')
            printf("\\(ga");
        else
            putchar(*text);
        begins = *text == '\n';
    }
}

static void print_manual_option(const OptionInfo *o) {
    printf(".TP\n");
    if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
    printf("\\fB\\-\\-");
    print_roff(o->name);
    printf("\\fR");
    if (*o->placeholder) {
        printf(" \\fI");
        print_roff(o->placeholder);
        printf("\\fR");
    }
    printf("\n");
    print_roff(o->doc);
    printf("\n");
}

static void print_manual_command(Command c) {
    const CommandInfo *info = &cli_commands[c];
    printf(".SS tegula %s ", info->name);
    print_roff(info->operands);
    printf("\n");
    print_roff(info->doc);
    printf("\n");
    for (int i = 0; i < N_OPTIONS; i++)
        if (cli_options[i].commands & 1 << c) print_manual_option(&cli_options[i]);
}

void print_manual(void) {
    printf(".TH TEGULA 1 \"\" \"Tegula %s\" \"User Commands\"\n"
           ".SH NAME\ntegula \\- compile, run and tune tensor kernels\n"
           ".SH SYNOPSIS\n\\fBtegula\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIfiles\\fR]\n"
           ".SH DESCRIPTION\nTegula is a small language for tensor kernels. This program compiles "
           "them, runs them on a CPU or a GPU, measures and tunes them, and makes object files.\n"
           ".SH COMMANDS\n",
           TEGULA_VERSION);
    for (int c = 0; c < COMMAND_COUNT; c++) print_manual_command((Command)c);
    printf(".SH ARGUMENTS\n.nf\n");
    print_roff(cli_arguments_help);
    printf(".fi\n"
           ".SH EXIT STATUS\n"
           "0: success. 1: a mistake in the input, or a problem that \\fBtegula doctor\\fR found. "
           "2: a mistake in the command line. 3: a fault of Tegula.\n"
           ".SH ENVIRONMENT\n\\fBtegula doctor\\fR lists the variables that are set, with their "
           "meaning.\n");
}
