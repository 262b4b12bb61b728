// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of the portable module: names, the immediates in them, types.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/llvm/portable.h"
#include "passes/gpu/gpu.h"

const FnRow fn_rows[] = {
#define FN(name, type, effect, scope, needs, ptx, amdgcn, sim)                                     \
    {name, type, FN_##effect, FN_##scope, needs, ptx, amdgcn, sim},
#include "backends/llvm/portable.def"
};
const int fn_row_count = sizeof fn_rows / sizeof *fn_rows;

/* ---- GPUs that have a function ------------------------------------------------------------- */

bool fn_has(const FnRow *row, const GpuTarget *gpu) {
    return gpu_meets(gpu, row->needs) && (!gpu_has_any(gpu, GPU_AMD) || *row->amdgcn);
}

const char *fn_needs(Ctx *ctx, const FnRow *row) {
    const char *needs = row->needs + (*row->needs == '=');
    return isdigit((unsigned char)*needs) ? ctx_format(ctx, "sm_%s", needs) : needs;
}

/* ---- names --------------------------------------------------------------------------------- */

const char *fn_capture(const Fn *fn, char key) {
    for (int i = 0; i < fn->n_captures; i++)
        if (fn->captures[i].key == key) return fn->captures[i].value;
    return NULL;
}

static bool match(const char *pattern, const char *name, Fn *fn);

/// Matches the rest after a capture of `n` bytes of the name that stands for value[0..m).
static bool match_behind(const char *rest, const char *name, size_t n, char key, const char *value,
                         size_t m, Fn *fn) {
    if (fn->n_captures == FN_CAPTURES || m >= FN_CAPTURE_BYTES) return false;
    struct FnCapture *c = &fn->captures[fn->n_captures++];
    c->key = key;
    memcpy(c->value, value, m);
    c->value[m] = 0;
    if (match(rest, name + n, fn)) return true;
    fn->n_captures--;
    return false;
}

/// Matches one alternative, "text", "text=value" or "lo..hi/step", of `len` bytes.
static bool match_one(const char *alt, size_t len, const char *rest, const char *name, char key,
                      Fn *fn) {
    const char *dots = isdigit((unsigned char)*alt) ? memmem(alt, len, "..", 2) : NULL;
    if (dots) {
        char *end;
        if (!isdigit((unsigned char)*name) || (*name == '0' && isdigit((unsigned char)name[1])))
            return false;
        long v = strtol(name, &end, 10), lo = strtol(alt, NULL, 10),
             hi = strtol(dots + 2, NULL, 10);
        long step = strtol(strchr(dots, '/') + 1, NULL, 10);
        size_t n = (size_t)(end - name);
        return v >= lo && v <= hi && (v - lo) % step == 0 &&
               match_behind(rest, name, n, key, name, n, fn);
    }
    const char *equals = memchr(alt, '=', len);
    size_t n = equals ? (size_t)(equals - alt) : len;
    const char *value = equals ? equals + 1 : alt;
    return strncmp(alt, name, n) == 0 &&
           match_behind(rest, name, n, key, value, len - (size_t)(value - alt), fn);
}

/// Matches the capture that begins at pattern, "<k:a|b>", or the repetition "<k>", and everything
/// after it. A repetition stands for the text in the name, which for repeated captures is its
/// value.
static bool match_capture(const char *pattern, const char *name, Fn *fn) {
    const char *end = strchr(pattern, '>'), *alt = pattern + 3;
    if (pattern[2] == '>') {
        const char *value = fn_capture(fn, pattern[1]);
        size_t n = strlen(value);
        return strncmp(value, name, n) == 0 && match(end + 1, name + n, fn);
    }
    for (;;) {
        size_t len = strcspn(alt, "|>");
        if (match_one(alt, len, end + 1, name, pattern[1], fn)) return true;
        if (alt[len] == '>') return false;
        alt += len + 1;
    }
}

/// Matches the whole pattern against the whole name, with backtracking over alternatives.
static bool match(const char *pattern, const char *name, Fn *fn) {
    for (; *pattern && *pattern != '<'; pattern++, name++)
        if (*pattern != *name) return false;
    return *pattern ? match_capture(pattern, name, fn) : !*name;
}

/* ---- types --------------------------------------------------------------------------------- */

/// Reads "4f", "+<n/2>f", "g" at *at.
static FnGroup read_group(const Fn *fn, const char **at) {
    const char *s = *at;
    FnGroup g = {.tied = *s == '+', .count = 1};
    s += g.tied;
    if (isdigit((unsigned char)*s)) g.count = (int)strtol(s, (char **)&s, 10);
    if (*s == '<') {
        const char *v = fn_capture(fn, s[1]);
        int n = atoi(v), by = atoi(s + 3);
        g.count = s[2] == '*' ? n * by : s[2] == '/' ? n / by : n;
        s = strchr(s, '>') + 1;
    }
    g.letter = *s;
    *at = s + 1;
    return g;
}

/// Reads "results:group,group". Nothing precedes the colon if there is no result.
static void read_type(Fn *fn) {
    const char *s = fn->row->type;
    fn->n_groups = 0;
    fn->result = (FnGroup){0};
    if (*s != ':') fn->result = read_group(fn, &s);
    for (s++; *s; s += *s == ',') fn->groups[fn->n_groups++] = read_group(fn, &s);
}

/// Whether the name and the pattern agree up to the first capture.
static bool begins_like(const char *pattern, const char *name) {
    while (*pattern && *pattern == *name) pattern++, name++;
    return !*pattern || *pattern == '<';
}

// A linear search over some hundred rows, most of which differ in the first bytes.
bool fn_find(const char *name, Fn *out) {
    if (strncmp(name, "tg.", 3) != 0) return false;
    for (int i = 0; i < fn_row_count; i++) {
        if (!begins_like(fn_rows[i].name, name + 3)) continue;
        *out = (Fn){.row = &fn_rows[i]};
        if (!match(fn_rows[i].name, name + 3, out)) continue;
        read_type(out);
        return true;
    }
    return false;
}

LLVMTypeRef fn_letter_type(LLVMContextRef llvm, char letter) {
    switch (letter) {
    case 'b': return LLVMInt1TypeInContext(llvm);
    case 'h': return LLVMInt16TypeInContext(llvm);
    case 'i': return LLVMInt32TypeInContext(llvm);
    case 'l': return LLVMInt64TypeInContext(llvm);
    case 'f': return LLVMFloatTypeInContext(llvm);
    case 'd': return LLVMDoubleTypeInContext(llvm);
    case 'g': return LLVMPointerTypeInContext(llvm, 1);
    case 's': return LLVMPointerTypeInContext(llvm, 3);
    case 'p': return LLVMPointerTypeInContext(llvm, 0);
    default: return LLVMVoidTypeInContext(llvm);
    }
}

LLVMTypeRef fn_type(LLVMContextRef llvm, const Fn *fn) {
    LLVMTypeRef operands[FN_OPERANDS], results[FN_OPERANDS];
    unsigned n = 0;
    for (int i = 0; i < fn->n_groups; i++)
        for (int k = 0; k < fn->groups[i].count; k++)
            operands[n++] = fn_letter_type(llvm, fn->groups[i].letter);
    for (int k = 0; k < fn->result.count; k++) results[k] = fn_letter_type(llvm, fn->result.letter);
    LLVMTypeRef result = fn_letter_type(llvm, fn->result.letter);
    if (fn->result.count > 1)
        result = LLVMStructTypeInContext(llvm, results, (unsigned)fn->result.count, false);
    return LLVMFunctionType(result, operands, n, false);
}

/* ---- calls --------------------------------------------------------------------------------- */

/// Makes an attribute without a value; `name` is LLVM's.
static LLVMAttributeRef attribute(const Gen *g, const char *name) {
    return LLVMCreateEnumAttribute(g->llvm, LLVMGetEnumAttributeKindForName(name, strlen(name)), 0);
}

// memory(none) is the attribute's value 0.
static void attributes(const Gen *g, LLVMValueRef thing, const Fn *fn,
                       void (*add)(LLVMValueRef, LLVMAttributeIndex, LLVMAttributeRef)) {
    LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    add(thing, at, attribute(g, "nounwind"));
    if (fn->row->scope != FN_LANE) add(thing, at, attribute(g, "convergent"));
    if (fn->row->effect == FN_NONE) add(thing, at, attribute(g, "memory"));
}

LLVMValueRef portable_call(const Gen *g, const char *name, int n_args, LLVMValueRef *args) {
    Fn fn;
    if (!fn_find(name, &fn)) ice(g->ctx, (Loc){0}, "no target function %s", name);
    LLVMTypeRef type = fn_type(g->llvm, &fn);
    LLVMValueRef callee = LLVMGetNamedFunction(g->module, name);
    if (!callee) {
        callee = LLVMAddFunction(g->module, name, type);
        attributes(g, callee, &fn, LLVMAddAttributeAtIndex);
    }
    LLVMValueRef call = LLVMBuildCall2(g->b, type, callee, args, (unsigned)n_args, "");
    attributes(g, call, &fn, LLVMAddCallSiteAttribute);
    return call;
}

/// Most users of several results extract them. The others get a struct.
static void replace_struct(const Gen *g, LLVMValueRef call, int n, LLVMValueRef *values) {
    LLVMValueRef whole = NULL;
    for (LLVMUseRef u = LLVMGetFirstUse(call), next; u; u = next) {
        LLVMValueRef user = LLVMGetUser(u);
        next = LLVMGetNextUse(u);
        if (!LLVMIsAExtractValueInst(user)) continue;
        LLVMReplaceAllUsesWith(user, values[*LLVMGetIndices(user)]);
        LLVMInstructionEraseFromParent(user);
    }
    if (!LLVMGetFirstUse(call)) return;
    whole = LLVMGetUndef(LLVMTypeOf(call));
    for (int i = 0; i < n; i++)
        whole = LLVMBuildInsertValue(g->b, whole, values[i], (unsigned)i, "");
    LLVMReplaceAllUsesWith(call, whole);
}

void portable_replace(const Gen *g, LLVMValueRef call, int n, LLVMValueRef *values) {
    if (n == 1) LLVMReplaceAllUsesWith(call, values[0]);
    if (n > 1) replace_struct(g, call, n, values);
    LLVMInstructionEraseFromParent(call);
}
