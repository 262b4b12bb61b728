// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes the C header of an object, or of a module's kernels (--jit), for C11 and C++17.
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "driver/aot/aot.h"

/* ---- names and types in C ------------------------------------------------------------------- */

static const struct {
    const char *c, *bits_of; // the C type; the underlying type of our typedef
    const char *dlpack;
} c_types[EL_COUNT] = {
    [EL_BOOL] = {"bool", NULL, "kDLBool"},
    [EL_I4] = {"uint8_t", NULL, "kDLInt"},
    [EL_I8] = {"int8_t", NULL, "kDLInt"},
    [EL_I16] = {"int16_t", NULL, "kDLInt"},
    [EL_I32] = {"int32_t", NULL, "kDLInt"},
    [EL_I64] = {"int64_t", NULL, "kDLInt"},
    [EL_U4] = {"uint8_t", NULL, "kDLUInt"},
    [EL_U8] = {"uint8_t", NULL, "kDLUInt"},
    [EL_U16] = {"uint16_t", NULL, "kDLUInt"},
    [EL_U32] = {"uint32_t", NULL, "kDLUInt"},
    [EL_U64] = {"uint64_t", NULL, "kDLUInt"},
    [EL_F8E4M3] = {"tg_f8e4m3", "uint8_t", "kDLFloat8_e4m3fn"},
    [EL_F8E5M2] = {"tg_f8e5m2", "uint8_t", "kDLFloat8_e5m2"},
    [EL_F16] = {"tg_f16", "uint16_t", "kDLFloat"},
    [EL_BF16] = {"tg_bf16", "uint16_t", "kDLBfloat"},
    [EL_F32] = {"float", NULL, "kDLFloat"},
    [EL_F64] = {"double", NULL, "kDLFloat"},
};

// Keywords of C11 and C++20, and macros of their libraries that could be names of kernels.
static const char reserved[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval "
    "constexpr constinit continue decltype default delete do double "
    "dynamic_cast else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast requires restrict return short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename "
    "typeof union unsigned using virtual void volatile wchar_t while xor xor_eq "
    "complex imaginary noreturn assert errno linux unix stdin stdout stderr I NULL EOF INFINITY "
    "NAN main ";

// Functions of the C library and of POSIX that a kernel could be named after. An object that
// defined one would replace it in the whole program.
static const char library[] =
    " abort abs accept access acos acosh alarm asin asinh atan atan2 atanh atexit atof atoi atol "
    "bind bsearch calloc cbrt ceil clock close connect copysign cos cosh difftime div drem dup "
    "erf erfc exit exp exp10 exp2 expm1 fabs fclose fdim ffs floor fma fmax fmin fmod fopen fork "
    "fread free frexp fwrite gamma getc getchar getenv gets hypot ilogb index j0 j1 jn kill "
    "labs ldexp ldiv lgamma link listen llrint llround log log10 log1p log2 logb lrint lround "
    "malloc memccpy memchr memcmp memcpy memmove memset mktime modf nan nearbyint nextafter nice "
    "open pause perror pipe poll pow printf putc putchar puts qsort raise rand random read realloc "
    "recv remainder remove remquo rename rewind rindex rint round scalb scalbn scanf select send "
    "shutdown signal significand sin sincos sinh sleep socket sprintf sqrt srand stat strcat "
    "strchr strcmp strcpy strlen strstr swab sync system tan tanh tgamma time times trunc "
    "truncate unlink wait write y0 y1 yn ";

static bool is_in_word_list(Ctx *ctx, const char *list, const char *name) {
    return strstr(list, ctx_format(ctx, " %s ", name)) != NULL;
}

/// Whether a program cannot use the name: a keyword, or a name of C (`_Bool`) or of tegula.h.
static bool is_taken(Ctx *ctx, const char *name) {
    return is_in_word_list(ctx, reserved, name) ||
           (name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1]))) ||
           strncmp(name, "tg_", 3) == 0 || strncmp(name, "TG_", 3) == 0;
}

bool aot_reserved(Ctx *ctx, const char *name) {
    size_t n = strlen(name);
    bool of_float = n && (name[n - 1] == 'f' || name[n - 1] == 'l'); // expf
    return is_taken(ctx, name) || is_in_word_list(ctx, library, name) ||
           (of_float && is_in_word_list(ctx, library, ctx_format(ctx, "%.*s", (int)n - 1, name)));
}

/// Appends `_` if C, C++ or the header use the name. `int_` is renamed, too, since `int` becomes
/// `int_`.
static const char *c_name(Ctx *ctx, const char *name) {
    size_t n = strlen(name), end = n;
    while (end > 1 && name[end - 1] == '_') end--;
    const char *stem = ctx_format(ctx, "%.*s", (int)end, name);
    bool type = end > 2 && strcmp(stem + end - 2, "_t") == 0; // int64_t
    bool dlpack = strncmp(stem, "DL", 2) == 0 || strncmp(stem, "kDL", 3) == 0;
    return type || dlpack || is_taken(ctx, stem) ? ctx_format(ctx, "%s_", name) : name;
}

typedef struct HeaderFile {
    Aot *a;
    Text t;
    bool jit;
} HeaderFile;

/* ---- expressions --------------------------------------------------------------------------- */

static void add_expr(HeaderFile *h, const CFunction *f, const CExpr *e) {
    static const char *const forms[] = {
        [CX_ADD] = "(@ + #)",         [CX_SUB] = "(@ - #)",         [CX_MUL] = "(@ * #)",
        [CX_DIV] = "(# ? @ / # : 0)", [CX_REM] = "(# ? @ % # : 0)", [CX_MIN] = "(@ < # ? @ : #)",
        [CX_MAX] = "(@ > # ? @ : #)"};
    if (e->kind == CX_CONST) {
        text_add(&h->t, e->value < 0 ? "(%" PRId64 ")" : "%" PRId64, e->value);
        return;
    }
    if (e->kind == CX_ARG) {
        const CArg *a = &f->args[e->value];
        text_add(&h->t, "%s%s", a->kind == CARG_DIM ? "" : "(int64_t)", c_name(h->a->ctx, a->name));
        return;
    }
    const char *form = forms[e->kind];
    if (e->b->kind == CX_CONST && e->b->value > 0) // no division by 0
        form = e->kind == CX_DIV ? "(@ / #)" : e->kind == CX_REM ? "(@ % #)" : form;
    for (const char *s = form; *s; s++) {
        if (*s == '@')
            add_expr(h, f, e->a);
        else if (*s == '#')
            add_expr(h, f, e->b);
        else
            text_bytes(&h->t, s, 1);
    }
}

/* ---- comments ------------------------------------------------------------------------------ */

/// Adds comment lines. A backslash at the end of one, or its trigraph, would continue the comment,
/// so it gets a dot.
static void add_comment(HeaderFile *h, const char *text) {
    while (text) {
        const char *end = strchr(text, '\n');
        int n = end ? (int)(end - text) : (int)strlen(text);
        bool trigraph = n > 2 && strncmp(text + n - 3, "?\?/", 3) == 0;
        const char *dot = (n && text[n - 1] == '\\') || trigraph ? " ." : "";
        text_add(&h->t, "///%s%.*s%s\n", n ? " " : "", n, text, dot);
        text = end ? end + 1 : NULL;
    }
}

static const char *values_of(HeaderFile *h, const AotValues *values, const char *name) {
    Text t = {.ctx = h->a->ctx};
    for (int i = 0; i < values->n; i++)
        if (strcmp(values->data[i].name, name) == 0)
            text_add(&t, "%s%" PRId64, t.n ? " or " : "", values->data[i].value);
    return t.data;
}

/// Returns "[..R, N]" of a tensor type.
static const char *dims_text(HeaderFile *h, const TypeExpr *type) {
    Text t = {.ctx = h->a->ctx};
    ast_print_type(&t, type);
    const char *bracket = strchr(t.data, '[');
    return bracket ? bracket : "";
}

static void describe_param(HeaderFile *h, const AotExport *x, int i) {
    const Param *p = &x->kernel->params.at[i];
    Text t = {.ctx = h->a->ctx};
    const char *elem = elem_info[aot_elem(x, i)].name, *values;
    text_add(&t, "  %s: %s", c_name(h->a->ctx, p->name.text), elem);
    if (x->info->params[i].kind == TG_PARAM_TENSOR) {
        bool written = x->info->params[i].flags & TG_PARAM_WRITTEN;
        text_add(&t, "%s%s, %s", dims_text(h, p->type), p->optional ? " or NULL" : "",
                 written ? "written" : "read");
        if (p->type->sym) text_add(&t, "; symmetric: the own shard, without [W]");
        if (elem_info[aot_elem(x, i)].bits == 4) text_add(&t, ", two a byte, low half first");
    } else if (c_types[aot_elem(x, i)].bits_of) {
        text_add(&t, ", passed as float");
    } else if ((values = values_of(h, &x->given, p->name.text))) {
        text_add(&t, ", %s", h->jit ? "constant: code is compiled for each value" : values);
    }
    add_comment(h, t.data);
}

static void describe_dims(HeaderFile *h, const AotExport *x) {
    AotNames dims = {0};
    aot_dims(h->a, x->kernel, &dims);
    for (int i = 0; i < dims.n && !h->jit; i++) {
        const char *given = values_of(h, &x->given, dims.data[i]);
        const char *most = values_of(h, &x->most, dims.data[i]);
        const char *name = c_name(h->a->ctx, dims.data[i]);
        if (given) add_comment(h, ctx_format(h->a->ctx, "  %s: %s", name, given));
        if (most && !given) add_comment(h, ctx_format(h->a->ctx, "  %s: at most %s", name, most));
    }
}

static void describe_requires(HeaderFile *h, const AotExport *x) {
    const Clauses *clauses = &x->kernel->clauses;
    for (int i = 0; i < clauses->n; i++)
        for (int k = 0; clauses->at[i].kind == CL_REQUIRE && k < clauses->at[i].conditions.n; k++) {
            Text t = {.ctx = h->a->ctx};
            text_add(&t, "Requires ");
            ast_print_expr(&t, clauses->at[i].conditions.at[k]);
            text_add(&t, ".");
            add_comment(h, t.data);
        }
}

/// Lists the pairs of parameters that may be one array, because some variant allows it.
static void describe_aliases(HeaderFile *h, const AotExport *x) {
    bool pairs[TG_MAX_PARAMS][TG_MAX_PARAMS] = {{0}}, written = false;
    for (int i = 0; i < x->variants.n; i++)
        for (int k = 0; k < x->variants.data[i].n_inplace; k++) {
            const uint8_t *pair = x->variants.data[i].inplace + 2 * k;
            pairs[pair[0]][pair[1]] = true; // a byte cannot exceed TG_MAX_PARAMS - 1
        }
    for (int i = 0; i < x->info->n_params; i++)
        written |= x->info->params[i].flags & TG_PARAM_WRITTEN;
    if (!written) return;
    Text t = {.ctx = h->a->ctx};
    text_add(&t, "What is written overlaps nothing else");
    for (int i = 0; i < TG_MAX_PARAMS; i++)
        for (int k = 0; k < TG_MAX_PARAMS; k++)
            if (pairs[i][k])
                text_add(&t, "; %s and %s may be one array",
                         c_name(h->a->ctx, x->info->params[i].name),
                         c_name(h->a->ctx, x->info->params[k].name));
    text_add(&t, ".");
    add_comment(h, t.data);
}

static void describe_export(HeaderFile *h, const AotExport *x) {
    const FnDef *f = x->kernel;
    if (f->doc) {
        add_comment(h, f->doc);
        add_comment(h, "");
    }
    for (int i = 0; i < f->params.n; i++) describe_param(h, x, i);
    describe_dims(h, x);
    describe_requires(h, x);
    describe_aliases(h, x);
}

/* ---- declarations -------------------------------------------------------------------------- */

static const char *scalar_c_type(const AotExport *x, int i) {
    Elem e = aot_elem(x, i);
    return c_types[e].bits_of ? "float" : c_types[e].c;
}

/// Adds one argument, with a comma unless it is the first. Breaks lines at 100 columns.
static void add_call_argument(HeaderFile *h, size_t *line, const char *text) {
    size_t width = h->t.n - *line;
    bool first = h->t.data[h->t.n - 1] == '(';
    if (!first && width + strlen(text) + sizeof ", ) {" > 100) {
        text_add(&h->t, ",\n        ");
        *line = h->t.n - 8;
    } else if (!first) {
        text_add(&h->t, ", ");
    }
    text_add(&h->t, "%s", text);
}

/// Returns the C declaration of argument i.
static const char *argument_text(HeaderFile *h, const AotExport *x, int i, bool dlpack) {
    Ctx *ctx = h->a->ctx;
    if (i >= x->info->n_params)
        return ctx_format(ctx, "int64_t %s", c_name(ctx, x->function->args[i].name));
    const tg_param_info *p = &x->info->params[i];
    const char *name = c_name(ctx, p->name),
               *constant = p->flags & TG_PARAM_WRITTEN ? "" : "const ";
    if (p->kind != TG_PARAM_TENSOR) return ctx_format(ctx, "%s %s", scalar_c_type(x, i), name);
    if (dlpack) return ctx_format(ctx, "const DLTensor *%s", name);
    return ctx_format(ctx, "%s%s *%s", constant, c_types[aot_elem(x, i)].c, name);
}

static void add_arguments(HeaderFile *h, const AotExport *x, size_t line, bool dlpack) {
    int n = dlpack ? x->info->n_params : x->function->n_args;
    if (h->jit) add_call_argument(h, &line, "tg_kernel *kernel");
    for (int i = 0; i < n; i++) add_call_argument(h, &line, argument_text(h, x, i, dlpack));
    if (h->t.data[h->t.n - 1] == '(') text_add(&h->t, "void");
    text_add(&h->t, ")");
}

/// Adds a value for tg_launch. Tensors are passed by the name of their DLTensor.
static void add_launch_value(HeaderFile *h, const AotExport *x, int i, const char *tensor) {
    const char *name = c_name(h->a->ctx, x->info->params[i].name);
    if (x->info->params[i].kind == TG_PARAM_TENSOR)
        text_add(&h->t, "        tg_tensor(%s),\n", tensor);
    else if (elem_is(aot_elem(x, i), EC_FLOAT))
        text_add(&h->t, "        tg_float((double)%s),\n", name);
    else
        text_add(&h->t, "        tg_int((int64_t)%s),\n", name);
}

static void add_launch(HeaderFile *h, const AotExport *x, const char *kernel, bool dense) {
    int n = x->info->n_params;
    if (n == 0) {
        text_add(&h->t, "    return tg_launch(%s, NULL, 0);\n}\n", kernel);
        return;
    }
    text_add(&h->t, "    const tg_arg tg_args[%d] = {\n", n);
    for (int i = 0; i < n; i++) {
        const char *name = c_name(h->a->ctx, x->info->params[i].name);
        bool optional = x->info->params[i].flags & TG_PARAM_OPTIONAL;
        const char *tensor = !dense     ? name
                             : optional ? ctx_format(h->a->ctx, "%s ? &tg_dl%d : NULL", name, i)
                                        : ctx_format(h->a->ctx, "&tg_dl%d", i);
        add_launch_value(h, x, i, tensor);
    }
    text_add(&h->t, "    };\n    return tg_launch(%s, tg_args, %d);\n}\n", kernel, n);
}

/// Adds the DLTensor of a dense array.
static void add_dl_tensor(HeaderFile *h, const CFunction *f, int i) {
    const CParam *p = &f->params[i];
    const CArg *a = &f->args[p->arg];
    text_add(&h->t, "    const int64_t tg_shape%d[%d] = {", i, p->rank ? p->rank : 1);
    for (int d = 0; d < p->rank; d++) {
        if (d) text_add(&h->t, ", ");
        add_expr(h, f, p->dims[d]);
    }
    text_add(&h->t, "%s};\n", p->rank ? "" : "1");
    text_add(&h->t, "    const DLTensor tg_dl%d = tg_dense(%s, %s, %d, %d, tg_shape%d);\n", i,
             c_name(h->a->ctx, a->name), c_types[a->elem].dlpack, a->bits, p->rank, i);
}

/// Adds a function of arrays that wraps a kernel of a module.
static void add_module_function(HeaderFile *h, const AotExport *x) {
    const CFunction *f = x->function;
    size_t line = h->t.n;
    text_add(&h->t, "static inline tg_status %s(", x->symbol);
    add_arguments(h, x, line, false);
    text_add(&h->t, " {\n");
    for (int i = 0; i < f->n_params; i++)
        if (f->args[f->params[i].arg].kind == CARG_TENSOR) add_dl_tensor(h, f, i);
    add_launch(h, x, "kernel", true);
}

static void add_object_functions(HeaderFile *h, const AotExport *x) {
    size_t line = h->t.n;
    if (x->function) {
        text_add(&h->t, "tg_status %s(", x->symbol);
        add_arguments(h, x, line, false);
        text_add(&h->t, ";\n");
    } else {
        add_comment(h, ctx_format(h->a->ctx, "There is no function of arrays: %s.", x->why));
    }
    text_add(&h->t,
             "/// The same for tg_launch and tg_prepare, and for tensors of any strides.\n"
             "extern tg_kernel %s;\n",
             x->kernel_symbol);
    line = h->t.n;
    text_add(&h->t, "static inline tg_status %s_dl(", x->symbol);
    add_arguments(h, x, line, true);
    text_add(&h->t, " {\n");
    add_launch(h, x, ctx_format(h->a->ctx, "&%s", x->kernel_symbol), false);
}

/* ---- the file ------------------------------------------------------------------------------ */

static void add_typedefs(HeaderFile *h) {
    bool used[EL_COUNT] = {false};
    for (int i = 0; i < h->a->exports.n; i++) {
        const AotExport *x = h->a->exports.data[i];
        for (int k = 0; k < x->info->n_params; k++)
            if (x->info->params[k].kind == TG_PARAM_TENSOR) used[aot_elem(x, k)] = true;
    }
    bool any = false;
    for (int e = 0; e < EL_COUNT; e++) {
        if (!used[e] || !c_types[e].bits_of) continue;
        if (!any) text_add(&h->t, "/// The bits of small floats.\n");
        any = true;
        text_add(&h->t, "typedef %s %s;\n", c_types[e].bits_of, c_types[e].c);
    }
    if (any) text_add(&h->t, "\n");
}

static const char *guard_of(Ctx *ctx, const char *path) {
    const char *slash = strrchr(path, '/');
    char *guard = ctx_format(ctx, "TEGULA_%s", slash ? slash + 1 : path);
    for (char *c = guard; *c; c++) *c = isalnum((unsigned char)*c) ? (char)toupper(*c) : '_';
    return guard;
}

static void add_head(HeaderFile *h, const char *guard) {
    text_add(
        &h->t,
        "// Kernels of %s.teg. Made by `tegula build`; changes will be lost.\n"
        "//\n"
        "// Arrays are dense and row-major, of any alignment. `..R` stands for any number of\n"
        "// dims; functions take their product. Each function returns TG_OK, or a status whose\n"
        "// reason tg_last_error() has.\n"
        "#ifndef %s\n#define %s\n\n"
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
        "#include <tegula.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
        h->a->name, guard, guard);
}

const char *aot_header(Aot *a, const char *path, bool jit) {
    HeaderFile h = {.a = a, .t = {.ctx = a->ctx}, .jit = jit};
    const char *guard = guard_of(a->ctx, path);
    add_head(&h, guard);
    for (int i = 0; i < a->exports.n; i++) {
        AotExport *x = a->exports.data[i];
        if (!x->info) x->info = kernel_info(a->ctx, a->program, x->kernel);
        if (!x->function && !x->why) aot_function(a, x);
    }
    add_typedefs(&h);
    for (int i = 0; i < a->exports.n; i++) {
        const AotExport *x = a->exports.data[i];
        if (jit && !x->function) continue;
        describe_export(&h, x);
        if (jit)
            add_module_function(&h, x);
        else
            add_object_functions(&h, x);
        text_add(&h.t, "\n");
    }
    text_add(&h.t, "#ifdef __cplusplus\n}\n#endif\n#endif\n");
    return h.t.data;
}
