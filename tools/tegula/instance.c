// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From the options of the command line to the request for one instance of a kernel, and its build
// (driver/request.h).
#include "tools/tegula/job.h"

#include "driver/jit.h"
#include "driver/setting_names.h"
#include "frontend/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file and the kernel --------------------------------------------------------------- */

/// Reports the alternatives when the kernel cannot be chosen: none exists, several exist without
/// --kernel, or the name is wrong.
static bool no_such_kernel(Job *job) {
    const char *name = job->o->kernel;
    int n = fe_kernel_count(job->program);
    if (n == 0) {
        cli_error("%s holds no kernel", job->o->files.at[0]);
        return false;
    }
    const char **names = ctx_array(job->ctx, const char *, n);
    Text list = {.ctx = job->ctx};
    for (int i = 0; i < n; i++) {
        names[i] = fe_kernel(job->program, i)->name.text;
        text_add(&list, "%s%s", i ? ", " : "", names[i]);
    }
    if (!name) {
        cli_error("%s holds %d kernels: %s", job->o->files.at[0], n, list.data);
        cli_hint("choose one: --kernel %s", names[0]);
        return false;
    }
    cli_error("%s has no kernel '%s'", job->o->files.at[0], name);
    const char *close = closest_name(name, names, n);
    if (close)
        cli_hint("did you mean '%s'?", close);
    else
        cli_hint("it holds %s", list.data);
    return false;
}

bool job_load(Job *job) {
    job->file = source_read(job->ctx, job->o->files.at[0]);
    if (!job->file) return false;
    double start = rt_seconds();
    job->program = fe_load(job->ctx, job->file, option_importer(job->ctx, job->o));
    job->seconds[0] += rt_seconds() - start;
    if (diag_errors(job->ctx)) return false;
    job->kernel = fe_find_kernel(job->program, job->o->kernel);
    return job->kernel ? true : no_such_kernel(job);
}

/* ---- options ------------------------------------------------------------------------------- */

static const Param *job_param(const Job *job, int i) {
    return &job->kernel->params.at[i];
}

static const char *param_elem(const Job *job, int i) {
    const TypeExpr *t = job_param(job, i)->type;
    return t ? t->elem.text : "";
}

static bool is_tensor(const Job *job, int i) {
    return param_is_tensor(job_param(job, i));
}

static bool no_such_param(Job *job, const char *option, const char *name) {
    SettingNames names = {0};
    for (int i = 0; i < job->kernel->params.n; i++)
        vec_push(job->ctx, &names, job_param(job, i)->name.text);
    cli_error("--%s: kernel '%s' has no parameter '%s'", option, job->kernel->name.text, name);
    cli_hint("%s", names_hint(job->ctx, &names, false, name));
    return false;
}

/// Reads `NAME=VALUE` options into a list of values.
static bool take_named_values(Job *job, const char *option, const List *list, int *n,
                              const NamedValue **out) {
    NamedValue *values = ctx_array(job->ctx, NamedValue, list->n + 1);
    *out = values;
    *n = 0;
    for (int i = 0; i < list->n; i++) {
        const char *name, *text = args_pair(job->ctx, option, list->at[i], &name);
        if (!text) return false;
        int64_t v;
        if (!setting_value(name, text, strlen(text), &v)) {
            cli_error("--%s %s: '%s' is not an integer", option, list->at[i], text);
            if (setting_is_plan(name)) cli_hint("plans are %s", plan_names(job->ctx));
            return false;
        }
        values[(*n)++] = (NamedValue){name, v};
    }
    return true;
}

/// Checks that --given names dims or constants of the kernel.
static bool check_given_names(Job *job) {
    SettingNames names = {0}, tuned = {0};
    add_given_names(job->ctx, job->program, job->kernel, &names);
    add_tune_names(job->ctx, job->kernel, &tuned);
    for (int i = 0; i < job->request.n_given; i++) {
        const char *name = job->request.given[i].name;
        if (names_have(&names, name)) continue;
        cli_error("--given: kernel '%s' has no dim or constant parameter '%s'",
                  job->kernel->name.text, name);
        cli_hint("%s", given_hint(job->ctx, &names, &tuned, name));
        return false;
    }
    return true;
}

// The element types of the type parameters, as far as known; EL_COUNT elsewhere.
typedef struct GenericTypes {
    Elem *elems; // an element for each generic of the kernel
    bool *given; // set by --type: arguments that disagree are errors
} GenericTypes;

static bool no_such_generic(Job *job, const char *option, const char *name) {
    SettingNames names = {0};
    for (int i = 0; i < job->kernel->generics.n; i++)
        vec_push(job->ctx, &names, job->kernel->generics.at[i].name.text);
    cli_error("--type %s: kernel '%s' has no type parameter of this name", option,
              job->kernel->name.text);
    cli_hint("%s", names_hint(job->ctx, &names, false, name));
    return false;
}

static const char *closest_elem(Ctx *ctx, const char *text) {
    const char **names = ctx_array(ctx, const char *, EL_COUNT);
    for (int i = 0; i < EL_COUNT; i++) names[i] = elem_info[i].name;
    return closest_name(text, names, EL_COUNT);
}

/// Parses --type T=f16, at most once for each type parameter.
static bool take_type_options(Job *job, GenericTypes *types) {
    int n = job->kernel->generics.n;
    types->elems = ctx_array(job->ctx, Elem, n + 1);
    types->given = ctx_array(job->ctx, bool, n + 1);
    for (int i = 0; i < n; i++) types->elems[i] = EL_COUNT;
    for (int i = 0; i < job->o->types.n; i++) {
        const char *name, *text = args_pair(job->ctx, "type", job->o->types.at[i], &name);
        if (!text) return false;
        int g = fn_generic(job->kernel, name);
        if (g < 0) return no_such_generic(job, job->o->types.at[i], name);
        if (elem_by_name(text) == EL_COUNT) {
            cli_error("--type %s: this is not an element type", job->o->types.at[i]);
            const char *close = closest_elem(job->ctx, text);
            if (close) cli_hint("did you mean '%s'?", close);
            return false;
        }
        types->elems[g] = elem_by_name(text);
        types->given[g] = true;
    }
    return true;
}

/// Returns the element that parameter i must have, or EL_COUNT while its type parameter is open.
static Elem declared_elem(const Job *job, const GenericTypes *types, int i) {
    int g = fn_generic(job->kernel, param_elem(job, i));
    return g >= 0 ? types->elems[g] : elem_by_name(param_elem(job, i));
}

/* ---- arguments ----------------------------------------------------------------------------- */

/// Whether the spec names an element type, which settles a type parameter.
static bool names_element(const char *spec) {
    return spec[0] == '@' || strchr(spec, ':') != NULL;
}

/// The order in which arguments are made: first those that settle type parameters, last those that
/// share the memory of others.
static int round_of(const char *spec) {
    if (strncmp(spec, "same(", 5) == 0) return 2;
    return names_element(spec) ? 0 : 1;
}

static const Argument *find_job_argument(void *user, const char *name) {
    const Job *job = user;
    int i = fn_param(job->kernel, name);
    return i < 0 ? NULL : &job->args[i];
}

/// The parameter decides how the text is read: `3` is an integer or a float, and a u2 file may be
/// bf16. The argument settles its type parameter for later arguments.
static bool make_job_argument(Job *job, GenericTypes *types, int i, const char *spec) {
    int g = fn_generic(job->kernel, param_elem(job, i));
    Wanted wanted = {
        .name = job_param(job, i)->name.text,
        .scalar = !is_tensor(job, i),
        .elem = declared_elem(job, types, i),
        .fallback = job_param(job, i)->constant ? EL_I64 : job->params[i].elem,
        .guard = job->o->guard,
        .find = find_job_argument,
        .user = job,
    };
    // A constant parameter without a type is an integer.
    if (wanted.fallback == EL_COUNT)
        wanted.fallback = wanted.elem == EL_COUNT ? EL_F32 : wanted.elem;
    if (!spec_make(job->ctx, spec, &wanted, &job->args[i])) return false;
    if (job->args[i].kind == ARG_TENSOR && g >= 0 && types->elems[g] == EL_COUNT)
        types->elems[g] = job->args[i].tensor.elem;
    return true;
}

/// Makes the arguments of --arg.
static bool make_job_arguments(Job *job, GenericTypes *types) {
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < job->o->args.n; k++) {
            const char *name, *spec = args_pair(job->ctx, "arg", job->o->args.at[k], &name);
            if (!spec) return false;
            if (round_of(spec) != round) continue;
            int i = fn_param(job->kernel, name);
            if (i < 0) return no_such_param(job, "arg", name);
            if (job->args[i].kind != ARG_MISSING) {
                cli_error("two --arg for '%s'", name);
                return false;
            }
            if (!make_job_argument(job, types, i, spec)) return false;
        }
    }
    return true;
}

static int64_t cell_integer(Elem e, Cell c) {
    return elem_is(e, EC_FLOAT) ? (int64_t)c.f : c.i;
}

/// Constant parameters are integers unless their type says otherwise.
static Elem scalar_elem(const Job *job, const GenericTypes *types, int i) {
    Elem e = declared_elem(job, types, i);
    return e != EL_COUNT ? e : job_param(job, i)->constant ? EL_I64 : job->params[i].elem;
}

/// Adds the parameters with known values: all, or only the constants.
static void set_scalars(Job *job, Dimensions *dims, bool all) {
    for (int i = 0; i < job->kernel->params.n; i++)
        if (job->args[i].kind == ARG_SCALAR && job->params[i].known_value &&
            (all || job_param(job, i)->constant))
            dims_set(job->ctx, dims, job_param(job, i)->name.text, job->params[i].value);
}

/// Collects constant arguments (before the defaults of their names), dims of the arguments, --given
/// and --set.
static Dimensions chosen_dims(Job *job) {
    Dimensions dims = {0};
    set_scalars(job, &dims, false);
    for (int i = 0; i < job->request.n_given; i++)
        dims_set(job->ctx, &dims, job->request.given[i].name, job->request.given[i].value);
    for (int sums = 0; sums < 2; sums++)
        for (int i = 0; i < job->kernel->params.n; i++)
            if (job->args[i].kind == ARG_TENSOR && is_tensor(job, i))
                dims_bind(job->ctx, &dims, job_param(job, i)->type, job->args[i].tensor.rank,
                          job->args[i].tensor.extents, sums);
    for (int i = 0; i < job->request.n_set; i++)
        dims_set(job->ctx, &dims, job->request.set[i].name, job->request.set[i].value);
    for (int i = 0; job->ranks && i < job->kernel->params.n; i++) {
        const TypeExpr *t = job_param(job, i)->type;
        if (is_tensor(job, i) && t->sym && t->dims.at[0].expr->kind == EX_NAME)
            dims_set(job->ctx, &dims, t->dims.at[0].expr->name, job->ranks);
    }
    return dims;
}

Dimensions job_dims(Job *job) {
    Dimensions dims = chosen_dims(job);
    set_scalars(job, &dims, true);
    dims_constants(job->ctx, &dims, job->program);
    dims_require(job->ctx, &dims, job->kernel);
    return dims;
}

static bool is_output(const Job *job, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; i < job->o->outs.n; i++) {
        const char *out = job->o->outs.at[i];
        if (strncmp(out, name, n) == 0 && (out[n] == '=' || out[n] == '.')) return true;
    }
    return false;
}

/// Makes zeroes for a tensor without an --arg. Its dims follow from those of the others.
static bool infer_tensor(Job *job, const GenericTypes *types, const Dimensions *dims, int i) {
    const char *name = job_param(job, i)->name.text;
    NoShape why;
    int rank;
    int64_t extents[MAX_RANK];
    Elem e = declared_elem(job, types, i);
    if (!dims_extents(dims, job_param(job, i)->type, &rank, extents, &why)) {
        cli_error("no --arg for '%s', and its shape does not follow: %s %s", name, why.subject,
                  why.fault);
        cli_hint("give it: --arg '%s=zeros(...)', or @file.npy, or rand(...)", name);
        return false;
    }
    Argument *a = &job->args[i];
    *a = (Argument){.kind = ARG_TENSOR, .spec = "zeros", .inferred = true};
    if (e == EL_COUNT) e = job->params[i].elem;
    if (!tensor_create(job->ctx, e, rank, extents, job->o->guard, &a->whole)) return false;
    a->tensor = a->whole;
    return true;
}

/// Optional tensors without an argument are null. Others become zeroes of the derived shape.
static bool infer_arguments(Job *job, const GenericTypes *types) {
    Dimensions dims = job_dims(job);
    if (!job_take_dims(job, &dims)) return false;
    for (int i = 0; i < job->kernel->params.n; i++) {
        const Param *p = job_param(job, i);
        if (job->args[i].kind != ARG_MISSING) continue;
        if (!is_tensor(job, i)) {
            cli_error("no --arg for '%s'", p->name.text);
            cli_hint("give it: --arg %s=1", p->name.text);
            return false;
        }
        if (p->optional && !is_output(job, p->name.text))
            job->args[i] = (Argument){.kind = ARG_NULL, .spec = "none"};
        else if (!infer_tensor(job, types, &dims, i))
            return false;
    }
    return true;
}

/* ---- the instance -------------------------------------------------------------------------- */

static void describe_tensor_param(ParamInst *p, const Tensor *t) {
    request_describe_tensor(p, t, tensor_alignment(t));
}

/// For a tensor without an --arg, only a shape that follows from the others is known. Its rows are
/// assumed contiguous, as in nearly every call.
static void assume_rows(Job *job, const Dimensions *known) {
    for (int i = 0; i < job->kernel->params.n; i++) {
        ParamInst *p = &job->params[i];
        Tensor whole = {.elem = p->elem};
        if (!is_tensor(job, i) || job->args[i].kind != ARG_MISSING) continue;
        bool follows = !job_param(job, i)->optional && p->elem < EL_COUNT &&
                       dims_tensor(known, job_param(job, i)->type, &whole);
        if (follows) {
            describe_tensor_param(p, &whole);
            continue;
        }
        const Dims *dims = &job_param(job, i)->type->dims;
        bool pack = false;
        for (int d = 0; d < dims->n; d++) {
            p->strides[d] = d == dims->n - 1 ? 1 : DYNAMIC;
            pack |= dims->at[d].pack;
        }
        p->known_strides = !pack && dims->n > 0;
        p->align = TENSOR_ALIGN;
        p->near = true;
    }
}

/// Copies the known facts of the arguments to the instance.
static void describe_arguments(Job *job, const GenericTypes *types) {
    for (int i = 0; i < job->kernel->params.n; i++) {
        ParamInst *p = &job->params[i];
        const Argument *a = &job->args[i];
        Elem declared = declared_elem(job, types, i);
        if (declared != EL_COUNT) p->elem = declared;
        p->null = a->kind == ARG_NULL;
        if (a->kind == ARG_TENSOR) describe_tensor_param(p, &a->tensor);
        for (int64_t r = 1; a->dealt && r < job->ranks; r++) {
            Tensor t = job_tensor(job, i, r);
            ParamInst part;
            describe_tensor_param(&part, &t);
            if (part.align < p->align) p->align = part.align; // one code for all
        }
        Elem e = scalar_elem(job, types, i);
        if (a->kind == ARG_SCALAR && e < EL_COUNT && !elem_is(e, EC_FLOAT)) {
            p->known_value = true;
            p->value = cell_integer(e, a->scalar);
        }
    }
}

static bool has_param_of(const Job *job, const char *generic) {
    for (int i = 0; i < job->kernel->params.n; i++)
        if (strcmp(param_elem(job, i), generic) == 0) return true;
    return false;
}

static void give_first(Job *job, NamedValue value) {
    Request *r = &job->request;
    NamedValue *all = ctx_array(job->ctx, NamedValue, r->n_given + 1);
    all[0] = value;
    if (r->n_given) memcpy(all + 1, r->given, sizeof *all * (size_t)r->n_given);
    r->given = all;
    r->n_given++;
}

/// Type parameters that no parameter has are only known by --type.
static void choose_inner_types(Job *job, const GenericTypes *types) {
    for (int g = 0; g < job->kernel->generics.n; g++) {
        const Generic *generic = &job->kernel->generics.at[g];
        if (types->given[g] && !has_param_of(job, generic->name.text))
            give_first(job, (NamedValue){generic->name.text, types->elems[g]});
    }
}

/// Adds defaults for dims that neither an argument nor --given sets.
static void add_default_dims(Job *job, int n, const NamedValue *defaults) {
    Request *r = &job->request;
    Dimensions known = chosen_dims(job);
    NamedValue *all = ctx_array(job->ctx, NamedValue, n + r->n_given + 1);
    if (r->n_given) memcpy(all, r->given, sizeof *all * (size_t)r->n_given);
    for (int i = 0; i < n; i++)
        if (!dims_find(&known, defaults[i].name)) all[r->n_given++] = defaults[i];
    r->given = all;
}

bool job_instance(Job *job, bool partial) {
    GenericTypes types;
    const Inst *defaults = fe_default_inst(job->ctx, job->program, job->kernel);
    Request *r = &job->request;
    int n = job->kernel->params.n;
    job->args = ctx_array(job->ctx, Argument, n + 1);
    job->params = defaults->params;
    *r = (Request){.kernel = job->kernel->name.text,
                   .own_set = true,
                   .check = job->o->check,
                   .debug = job->o->debug,
                   .tentative = partial,
                   .threads = (int)job->o->threads,
                   .codegen = job->o->codegen,
                   .n_args = n,
                   .params = job->params};
    if (!take_named_values(job, "set", &job->o->sets, &r->n_set, &r->set)) return false;
    if (!take_named_values(job, "given", &job->o->givens, &r->n_given, &r->given) ||
        !check_given_names(job))
        return false;
    if (!take_type_options(job, &types) || !make_job_arguments(job, &types) || !job_deal(job))
        return false;
    describe_arguments(job, &types);
    if (partial) {
        Dimensions known = job_dims(job);
        add_default_dims(job, defaults->n_dims, defaults->dims);
        assume_rows(job, &known);
    } else if (!infer_arguments(job, &types)) {
        return false;
    }
    describe_arguments(job, &types);
    choose_inner_types(job, &types);
    return true;
}

bool job_elaborate(Job *job) {
    double start = rt_seconds();
    Request *r = &job->request;
    r->target = job->target ? job->target : host_target();
    r->machine = job->machine;
    r->driver = job->driver;
    request_instance(job->ctx, r, job->program, job->kernel, &job->build);
    job->build.marks = job->marks;
    bool ok = build_elaborate(&job->build);
    r->n_set = job->build.inst->n_set; // with the values that the cost model chose
    r->set = job->build.inst->set;
    job->seconds[0] += rt_seconds() - start;
    return ok;
}

/// Finds each type parameter's type from the first parameter that uses it.
static const char *generic_elem_name(const Job *job, const char *name) {
    for (int i = 0; i < job->kernel->params.n; i++)
        if (strcmp(param_elem(job, i), name) == 0 && job->params[i].elem < EL_COUNT)
            return elem_info[job->params[i].elem].name;
    for (int i = 0; i < job->request.n_given; i++)
        if (strcmp(job->request.given[i].name, name) == 0)
            return elem_info[job->request.given[i].value].name;
    return "?";
}

const char *job_title(Job *job) {
    Text t = {.ctx = job->ctx};
    text_add(&t, "%s", job->kernel->name.text);
    for (int i = 0; i < job->kernel->generics.n; i++)
        text_add(&t, "%s%s", i ? ", " : "<",
                 generic_elem_name(job, job->kernel->generics.at[i].name.text));
    if (job->kernel->generics.n) text_add(&t, ">");
    Dimensions dims = chosen_dims(job);
    for (int i = 0; i < dims.n; i++) {
        if (fn_generic(job->kernel, dims.data[i].name) >= 0) continue;
        text_add(&t, " ");
        setting_text(&t, dims.data[i].name, dims.data[i].value);
    }
    return t.data;
}
