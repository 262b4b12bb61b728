// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line: parsing, help, suggestions. Everything comes from commands.def.
#include "tools/tegula/command_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- help ---------------------------------------------------------------------------------- */

static void help_command(Command c) {
    const CommandInfo *info = &cli_commands[c];
    printf("tegula %s: %s\n\nusage: tegula %s [options]%s%s\n", info->name, info->doc, info->name,
           *info->operands ? " " : "", info->operands);
    bool any = false;
    for (int i = 0; i < N_OPTIONS; i++) {
        const OptionInfo *o = &cli_options[i];
        if (!(o->commands & 1 << c)) continue;
        if (!any) printf("\n");
        any = true;
        char letter[8] = "    ";
        if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
        int width = printf("  %s--%s %s", letter, o->name, o->placeholder);
        printf("%*s%s\n", width < 32 ? 32 - width : 1, "", o->doc);
    }
}

static void help_all(void) {
    printf("Tegula: block-level tensor kernels on any chip\n\n"
           "usage: tegula COMMAND [options] [files]\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-12s%s\n", cli_commands[i].name, cli_commands[i].doc);
    printf("\n`tegula COMMAND --help` lists the options of a command.\n"
           "`tegula help arguments` describes how arguments are written.\n"
           "`tegula help man` prints the manual page: tegula help man | man -l -\n\n"
           "  tegula run softmax.teg --arg x=@x.npy --out y=y.npy\n"
           "  tegula run matmul.teg --arg a='rand(512,256)' --arg b='rand(256,384)' --set BM=64\n"
           "  tegula build softmax.teg -o softmax.o --header softmax.h\n");
}

static int find_command(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(cli_commands[i].name, name) == 0) return i;
    return -1;
}

static int help_topic(const char *topic) {
    int c = topic ? find_command(topic) : -1;
    if (c >= 0) {
        help_command((Command)c);
    } else if (topic && strcmp(topic, "arguments") == 0) {
        fputs(cli_arguments_help, stdout);
    } else if (topic && strcmp(topic, "man") == 0) {
        print_manual();
    } else if (topic) {
        cli_error("no help on '%s'", topic);
        cli_hint("there is help on 'arguments' and on each command; 'tegula help' lists them");
        return EXIT_USAGE;
    } else {
        help_all();
    }
    return EXIT_OK;
}

/* ---- words --------------------------------------------------------------------------------- */

typedef struct Words {
    Ctx *ctx;
    char **at;
    int n, next;
    Options *out;
} Words;

/// Doubles the capacity at each power of 2. The arena keeps the old copies, at most half of the
/// total.
static void list_add(Ctx *ctx, List *list, const char *text) {
    if ((list->n & (list->n - 1)) == 0) {
        const char **grown = ctx_array(ctx, const char *, list->n ? list->n * 2 : 1);
        if (list->n) memcpy(grown, list->at, sizeof *grown * (size_t)list->n);
        list->at = grown;
    }
    list->at[list->n++] = text;
}

/// The command is part of the key, because options of one name may differ between commands
/// (`--check`).
static const OptionInfo *find_option(Command c, const char *name, size_t len, char letter) {
    for (int i = 0; i < N_OPTIONS; i++) {
        const OptionInfo *o = &cli_options[i];
        if (!(o->commands & 1 << c)) continue;
        if (letter ? o->letter == letter
                   : strlen(o->name) == len && strncmp(o->name, name, len) == 0)
            return o;
    }
    return NULL;
}

/// Suggests a similar option of this command first, and then one of another command.
static int unknown_option(Command c, const char *word, const char *name) {
    cli_error("unknown option '%s' of 'tegula %s'", word, cli_commands[c].name);
    const char *names[N_OPTIONS], *owner = NULL;
    int n = 0;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (cli_options[i].commands & 1 << c) names[n++] = cli_options[i].name;
        if (strcmp(cli_options[i].name, name) != 0) continue;
        for (int k = 0; k < COMMAND_COUNT && !owner; k++)
            if (cli_options[i].commands & 1 << k) owner = cli_commands[k].name;
    }
    const char *close = closest_name(name, names, n);
    if (close)
        cli_hint("did you mean '--%s'?", close);
    else if (owner)
        cli_hint("it is an option of 'tegula %s'", owner);
    else
        cli_hint("'tegula %s --help' lists the options", cli_commands[c].name);
    return EXIT_USAGE;
}

/// Stores the value by the row's field and kind. Returns -1, or an exit code.
static int store_value(Words *w, const OptionInfo *o, const char *value) {
    char *field = (char *)w->out + o->field;
    list_add(w->ctx, &w->out->named, o->name);
    if (o->kind == FLAG) {
        *(bool *)field = true;
    } else if (o->kind == TEXT) {
        *(const char **)field = value;
    } else if (o->kind == LIST) {
        list_add(w->ctx, (List *)field, value);
    } else {
        char *end;
        errno = 0;
        long long n = strtoll(value, &end, 10);
        if (errno || end == value || *end || n < 0 || n > 1 << 20) {
            cli_error("--%s wants a number from 0 to %d, not '%s'", o->name, 1 << 20, value);
            return EXIT_USAGE;
        }
        *(int64_t *)field = n;
    }
    return -1;
}

/// Accepts --name, --name=value, --name value, -n value and -nvalue.
static int take_cli_option(Words *w, Command c, const char *word) {
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    if ((is_long && strcmp(name, "help") == 0) || (!is_long && strcmp(name, "h") == 0)) {
        help_command(c);
        return EXIT_OK;
    }
    const OptionInfo *o = find_option(c, name, len, is_long ? 0 : name[0]);
    if (!o) return unknown_option(c, word, ctx_intern(w->ctx, name, len));
    const char *value = equals ? equals + 1 : !is_long && name[1] ? name + 1 : NULL;
    if (o->kind == FLAG && value) {
        cli_error("'--%s' takes no value", o->name);
        return EXIT_USAGE;
    }
    if (o->kind != FLAG && !value) {
        if (w->next == w->n) {
            cli_error("'%s' needs a value: --%s %s", word, o->name, o->placeholder);
            return EXIT_USAGE;
        }
        value = w->at[w->next++];
    }
    return store_value(w, o, value);
}

/// `run` takes its file from the command line, or its runs from --batch.
static int check_cli_operands(const Options *o) {
    const CommandInfo *c = &cli_commands[o->command];
    if (o->files.n < c->least || (o->command == RUN_BIT && !o->batch && o->files.n == 0)) {
        cli_error("'tegula %s' needs %s", c->name, c->operands);
        cli_hint("'tegula %s --help' describes it", c->name);
        return EXIT_USAGE;
    }
    if (o->files.n > c->most) {
        cli_error("'tegula %s' takes %s; '%s' is too much", c->name,
                  *c->operands ? c->operands : "no file", o->files.at[c->most]);
        return EXIT_USAGE;
    }
    return -1;
}

/* ---- options that would be ignored ---------------------------------------------------------- */

/// Whether a list of words separated by blanks has a word.
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && strncmp(at, word, n) == 0) return true;
        at += length;
    }
    return false;
}

static bool refuse_named(const Options *o, const char *beside, const char *names, bool listed) {
    for (int i = 0; i < o->named.n; i++) {
        if (has_word(names, o->named.at[i]) != listed) continue;
        cli_error("'--%s' has no effect with %s", o->named.at[i], beside);
        return false;
    }
    return true;
}

bool args_refuse(const Options *o, const char *beside, const char *names) {
    return refuse_named(o, beside, names, true);
}

bool args_refuse_others(const Options *o, const char *beside, const char *names) {
    return refuse_named(o, beside, names, false);
}

typedef struct CombinationRule {
    enum { RULE_ONLY, RULE_NEEDS, RULE_CLASH } kind;
    int command;
    const char *option, *names;
} CombinationRule;
static const CombinationRule combinations[] = {
#define ONLY(command, option, names)  {RULE_ONLY, command, option, names},
#define NEEDS(command, option, names) {RULE_NEEDS, command, option, names},
#define CLASH(command, option, names) {RULE_CLASH, command, option, names},
#include "tools/tegula/commands.def"
};

static bool is_named(const Options *o, const char *name) {
    for (int i = 0; i < o->named.n; i++)
        if (strcmp(o->named.at[i], name) == 0) return true;
    return false;
}

/// Checks the combination of options. Returns -1, or an exit code.
static int check_combinations(const Options *o) {
    for (size_t i = 0; i < sizeof combinations / sizeof *combinations; i++) {
        const CombinationRule *r = &combinations[i];
        char beside[32];
        if (!(r->command & 1 << o->command) || !is_named(o, r->option)) continue;
        snprintf(beside, sizeof beside, "--%s", r->option);
        if (r->kind == RULE_ONLY && !args_refuse_others(o, beside, r->names)) return EXIT_USAGE;
        if (r->kind == RULE_CLASH && !args_refuse(o, beside, r->names)) return EXIT_USAGE;
        if (r->kind != RULE_NEEDS || is_named(o, r->names)) continue;
        cli_error("'--%s' has no effect without --%s", r->option, r->names);
        return EXIT_USAGE;
    }
    return -1;
}

/// The most common mistake is a file in place of the command. The hint then shows the whole
/// command.
static int take_command(const char *word, Command *out) {
    int c = find_command(word);
    if (c >= 0) {
        *out = (Command)c;
        return -1;
    }
    cli_error("unknown %s '%s'", *word == '-' ? "option" : "command", word);
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = cli_commands[i].name;
    const char *close = closest_name(word, names, COMMAND_COUNT);
    size_t n = strlen(word);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else if (n > 4 && strcmp(word + n - 4, ".teg") == 0)
        cli_hint("to run a kernel of this file: tegula run %s", word);
    else
        cli_hint("'tegula --help' lists the commands");
    return EXIT_USAGE;
}

/// Accepts options and files in any order. After `--` there are only files. A bare `-` is standard
/// input.
static int take_words(Words *w) {
    Options *o = w->out;
    bool only_files = false;
    while (w->next < w->n) {
        const char *word = w->at[w->next++];
        int code = -1;
        if (!only_files && strcmp(word, "--") == 0)
            only_files = true;
        else if (only_files || word[0] != '-' || !word[1])
            list_add(w->ctx, &o->files, word);
        else
            code = take_cli_option(w, o->command, word);
        if (code >= 0) return code;
    }
    int code = check_combinations(o);
    return code >= 0 ? code : check_cli_operands(o);
}

int args_parse(Ctx *ctx, int argc, char **argv, Options *out) {
    *out = (Options){0};
    if (argc == 0) {
        help_all();
        return EXIT_USAGE;
    }
    const char *first = argv[0];
    if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) {
        printf("tegula %s\n", TEGULA_VERSION);
        return EXIT_OK;
    }
    if (strcmp(first, "help") == 0 || strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return help_topic(argc > 1 ? argv[1] : NULL);
    int code = take_command(first, &out->command);
    if (code >= 0) return code;
    Words w = {.ctx = ctx, .at = argv, .n = argc, .next = 1, .out = out};
    return take_words(&w);
}

const char *args_pair(Ctx *ctx, const char *option, const char *text, const char **name) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        cli_error("--%s wants NAME=VALUE, not '%s'", option, text);
        if (strcmp(option, "arg") == 0) cli_hint("'tegula help arguments' lists the forms");
        return NULL;
    }
    *name = ctx_intern(ctx, text, (size_t)(equals - text));
    return equals + 1;
}

/* ---- lines of a batch ---------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/// Copies one word, without its quotes, to *to. False: a quote is not closed.
static bool split_word(const char **from, char **to) {
    char quote = 0;
    for (; **from && (quote || !is_blank(**from)); ++*from) {
        char c = **from;
        if (quote && c == quote)
            quote = 0;
        else if (!quote && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && (*from)[1])
            *(*to)++ = *++*from;
        else
            *(*to)++ = c;
    }
    *(*to)++ = 0;
    return !quote;
}

int args_split(Ctx *ctx, const char *line, char ***words) {
    VEC(char *) out = {0};
    char *to = ctx_alloc(ctx, strlen(line) + 2);
    for (;;) {
        while (is_blank(*line)) line++;
        if (!*line) break;
        vec_push(ctx, &out, to);
        if (!split_word(&line, &to)) return -1;
    }
    *words = out.data;
    return out.n;
}
