// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tegula completion: scripts for bash, zsh and fish, from the rows of commands.def.
#include "tools/tegula/command_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool has_option(Command c, int i) {
    return cli_options[i].commands & 1 << c;
}

/// Whether the option's value is a path.
static bool takes_path(const OptionInfo *o) {
    return o->kind != FLAG && (strstr(o->placeholder, "FILE") || strstr(o->placeholder, "FOLDER"));
}

static bool takes_target(const OptionInfo *o) {
    return strcmp(o->placeholder, "TARGET") == 0;
}

static bool takes_files(Command c) {
    return strstr(cli_commands[c].operands, "FILE");
}

/// Writes the words in lower case of a command's operands ("path | list"), or of NULL those of
/// none.
static void print_operand_words(Command c) {
    const char *at = cli_commands[c].operands, *blank = "";
    for (; *at; at += strspn(at, " |[].")) {
        size_t n = strcspn(at, " |[].");
        if (n && islower((unsigned char)*at) && !(n > 1 && isupper((unsigned char)at[1]))) {
            printf("%s%.*s", blank, (int)n, at);
            blank = " ";
        }
        at += n;
    }
}

/* ---- bash ---------------------------------------------------------------------------------- */

/// Prints the names of a command's options that `wanted` accepts, or of all.
static void print_bash_names(Command c, bool (*wanted)(const OptionInfo *o)) {
    const char *blank = "";
    for (int i = 0; i < N_OPTIONS; i++) {
        const OptionInfo *o = &cli_options[i];
        if (!has_option(c, i) || (wanted && !wanted(o))) continue;
        printf("%s--%s", blank, o->name);
        blank = " ";
        if (o->letter) printf(" -%c", o->letter);
    }
}

static bool takes_other(const OptionInfo *o) {
    return o->kind != FLAG && !takes_path(o) && !takes_target(o);
}

static void print_bash_command(Command c) {
    printf("    %s)\n        options='", cli_commands[c].name);
    print_bash_names(c, NULL);
    printf(" --help'\n        paths='");
    print_bash_names(c, takes_path);
    printf("'\n        targets='");
    print_bash_names(c, takes_target);
    printf("'\n        others='");
    print_bash_names(c, takes_other);
    printf("'\n        words='");
    print_operand_words(c);
    printf("'\n        files=%s ;;\n", takes_files(c) ? "yes" : "");
}

static void print_bash(void) {
    printf("# Completion of tegula in bash: source <(tegula completion bash)\n"
           "_tegula() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local options= paths= targets= others= words= files=\n"
           "    COMPREPLY=()\n"
           "    case $COMP_CWORD:${COMP_WORDS[1]} in\n"
           "    1:*) words='");
    for (int c = 0; c < COMMAND_COUNT; c++) printf("%s ", cli_commands[c].name);
    printf("help --version' ;;\n    *:help) words='arguments man ");
    for (int c = 0; c < COMMAND_COUNT; c++) printf("%s ", cli_commands[c].name);
    printf("' ;;\n    esac\n    [ \"$COMP_CWORD\" = 1 ] || case ${COMP_WORDS[1]} in\n");
    for (int c = 0; c < COMMAND_COUNT; c++) print_bash_command((Command)c);
    printf("    esac\n"
           "    if [[ \" $paths \" == *\" $before \"* ]]; then\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    elif [[ \" $targets \" == *\" $before \"* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$(tegula targets --names)\" -- \"$word\"))\n"
           "    elif [[ \" $others \" == *\" $before \"* ]]; then\n"
           "        return\n"
           "    elif [[ $word == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options $words\" -- \"$word\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "        [ -z \"$files\" ] ||\n"
           "            COMPREPLY+=($(compgen -f -X '!*.teg' -- \"$word\") $(compgen -d -- "
           "\"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -o filenames -F _tegula tegula\n");
}

/* ---- zsh ----------------------------------------------------------------------------------- */

/// Prints text inside of '...' and of [...], without characters that have a special meaning there.
static void print_quoted(const char *text) {
    for (; *text; text++) {
        if (strchr("[]:", *text)) putchar('\\');
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    }
}

static void print_zsh_option(const OptionInfo *o) {
    const char *many = o->kind == LIST ? "*" : "", *value = o->kind == FLAG ? "" : "=";
    for (int form = o->letter ? 0 : 1; form < 2; form++) {
        if (form)
            printf("            '%s--%s%s[", many, o->name, value);
        else
            printf("            '%s-%c%s[", many, o->letter, *value ? "+" : "");
        print_quoted(o->doc);
        printf("]");
        if (o->kind != FLAG) {
            printf(":");
            print_quoted(o->placeholder);
            printf(":%s", takes_path(o)     ? "_files"
                          : takes_target(o) ? "($(tegula targets --names))"
                                            : "");
        }
        printf("' \\\n");
    }
}

static void print_zsh_command(Command c) {
    printf("    %s)\n        _arguments -s \\\n", cli_commands[c].name);
    for (int i = 0; i < N_OPTIONS; i++)
        if (has_option(c, i)) print_zsh_option(&cli_options[i]);
    if (takes_files(c))
        printf("            '*:file:_files -g \"*.teg\"' ;;\n");
    else
        printf("            '1:word:("), print_operand_words(c), printf(")' '*:file:_files' ;;\n");
}

static void print_zsh(void) {
    printf(
        "#compdef tegula\n"
        "# Completion of tegula in zsh: tegula completion zsh >FOLDER/_tegula, where FOLDER is in "
        "$fpath\n"
        "local state line\n"
        "local -a commands=(\n");
    for (int c = 0; c < COMMAND_COUNT; c++) {
        printf("    '%s:", cli_commands[c].name);
        print_quoted(cli_commands[c].doc);
        printf("'\n");
    }
    printf("    'help:describe a command, or how arguments are written'\n)\n"
           "_arguments -C '1:command:->command' '*::argument:->argument'\n"
           "case $state in\n"
           "command) _describe command commands ;;\n"
           "argument)\n    case $words[1] in\n");
    for (int c = 0; c < COMMAND_COUNT; c++) print_zsh_command((Command)c);
    printf("    help) _describe topic commands ;;\n    esac ;;\nesac\n");
}

/* ---- fish ---------------------------------------------------------------------------------- */

/// Prints text inside of '...' for fish.
static void print_fish_quoted(const char *text) {
    for (; *text; text++) {
        if (strchr("'\\", *text)) putchar('\\');
        putchar(*text);
    }
}

static void print_fish_command(Command c) {
    const CommandInfo *info = &cli_commands[c];
    printf("complete -c tegula -n __fish_use_subcommand -a %s -d '", info->name);
    print_fish_quoted(info->doc);
    printf("'\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        const OptionInfo *o = &cli_options[i];
        if (!has_option(c, i)) continue;
        printf("complete -c tegula -n '__fish_seen_subcommand_from %s' -l %s", info->name, o->name);
        if (o->letter) printf(" -s %c", o->letter);
        if (o->kind != FLAG) printf(takes_path(o) ? " -r -F" : " -x");
        if (takes_target(o)) printf(" -a '(tegula targets --names)'");
        printf(" -d '");
        print_fish_quoted(o->doc);
        printf("'\n");
    }
    printf("complete -c tegula -n '__fish_seen_subcommand_from %s' %s -a '", info->name,
           takes_files(c) ? "-F" : "-f");
    print_operand_words(c);
    printf("'\n");
}

static void print_fish(void) {
    printf("# Completion of tegula in fish: tegula completion fish | source\n"
           "complete -c tegula -f\n"
           "complete -c tegula -n __fish_use_subcommand -a help -d 'describe a command'\n");
    for (int c = 0; c < COMMAND_COUNT; c++) print_fish_command((Command)c);
}

/* ---- the command --------------------------------------------------------------------------- */

int cmd_completion(Ctx *ctx, const Options *o) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    (void)ctx;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(o->files.at[0], shells[i].name) != 0) continue;
        shells[i].print();
        return EXIT_OK;
    }
    cli_error("no completion for the shell '%s'", o->files.at[0]);
    cli_hint("there are bash, zsh and fish");
    return EXIT_USAGE;
}
