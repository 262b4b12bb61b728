// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Debug information: instructions carry their source line, and named scalars and blocks are
// variables of their function.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/llvm/debug.h"

/// The memory of a variable. All values of one name and type of a function share it.
typedef struct Slot {
    LLVMMetadataRef scope;
    DebugVariable of;
    LLVMValueRef memory;
} Slot;

typedef struct Debug {
    LLVMDIBuilderRef builder;
    LLVMMetadataRef unit;
    LLVMMetadataRef files[256]; // by file number
    VEC(Slot) slots;
} Debug;

static LLVMMetadataRef file_of(Gen *g, int number) {
    Debug *d = g->debug;
    if (number > 255) number = 255;
    if (d->files[number]) return d->files[number];
    const char *path = number ? gen_path(g, (uint16_t)number) : "kernel";
    return d->files[number] = LLVMDIBuilderCreateFile(d->builder, path, strlen(path), ".", 1);
}

static void release_di_builder(void *thing) {
    LLVMDisposeDIBuilder(thing);
}

// LLVM's DICompileUnit::DebugDirectivesOnly, for which its C interface has no name.
enum { LINE_DIRECTIVES = 3 };

void debug_begin(Gen *g, bool lines) {
    LLVMDWARFEmissionKind kind =
        lines ? (LLVMDWARFEmissionKind)LINE_DIRECTIVES : LLVMDWARFEmissionFull;
    Debug *d = g->debug = ctx_new(g->ctx, Debug);
    d->builder = LLVMCreateDIBuilder(g->module);
    ctx_defer(g->ctx, release_di_builder, d->builder);
    d->unit = LLVMDIBuilderCreateCompileUnit(
        d->builder, LLVMDWARFSourceLanguageC11, file_of(g, ctx_source_count(g->ctx) ? 1 : 0),
        "tegula", 6, true, "", 0, 0, "", 0, kind, 0, false, false, "", 0, "", 0);
    LLVMAddModuleFlag(g->module, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
                      LLVMValueAsMetadata(LLVMConstInt(g->i32, LLVMDebugMetadataVersion(), 0)));
}

void debug_end(Gen *g) {
    LLVMSetCurrentDebugLocation2(g->b, NULL);
    if (g->debug) LLVMDIBuilderFinalize(g->debug->builder);
}

LLVMMetadataRef debug_subprogram(Gen *g, LLVMValueRef fn, Loc loc, const char *name) {
    Debug *d = g->debug;
    if (!d) return NULL;
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(d->builder, file_of(g, loc.file), NULL,
                                                             0, LLVMDIFlagZero);
    LLVMMetadataRef sp = LLVMDIBuilderCreateFunction(
        d->builder, d->unit, name, strlen(name), name, strlen(name), file_of(g, loc.file), loc.line,
        type, true, true, loc.line, LLVMDIFlagZero, true);
    LLVMSetSubprogram(fn, sp);
    return sp;
}

void debug_location(Gen *g, LLVMMetadataRef scope, Loc loc) {
    if (!g->debug || !scope) return;
    LLVMSetCurrentDebugLocation2(
        g->b, LLVMDIBuilderCreateDebugLocation(g->llvm, loc.line, loc.col, scope, NULL));
}

/// Returns the type of an element. Floats that gdb does not know are bytes with a name, which the
/// printers of tools/gdb decode.
static LLVMMetadataRef element_type(Gen *g, Elem elem) {
    enum { DW_BOOLEAN = 2, DW_FLOAT = 4, DW_SIGNED = 5, DW_UNSIGNED = 7 };
    static const unsigned encodings[] = {[EC_BOOL] = DW_BOOLEAN,
                                         [EC_SINT] = DW_SIGNED,
                                         [EC_UINT] = DW_UNSIGNED,
                                         [EC_FLOAT] = DW_FLOAT};
    const char *name = elem_info[elem].name;
    bool known = elem != EL_BF16 && elem_bytes(elem) > 1;
    unsigned encoding = encodings[elem_info[elem].cls];
    if (encoding == DW_FLOAT && !known) encoding = DW_UNSIGNED;
    return LLVMDIBuilderCreateBasicType(g->debug->builder, name, strlen(name),
                                        (uint64_t)elem_bytes(elem) * 8, encoding, LLVMDIFlagZero);
}

/// Returns a structure named as the block's type, whose member `data` is its memory, padding of
/// rows included.
static LLVMMetadataRef block_type(Gen *g, const DebugVariable *v) {
    LLVMDIBuilderRef b = g->debug->builder;
    LLVMMetadataRef rows[MAX_RANK], file = file_of(g, v->loc.file);
    const char *name = elem_info[v->elem].name;
    int64_t n = v->bytes / elem_bytes(v->elem);
    for (int d = 0; d < v->rank; d++) {
        int64_t extent = v->strides[d] > 0 ? n / v->strides[d] : v->extents[d];
        if (v->strides[d] > 0) n = v->strides[d];
        rows[d] = LLVMDIBuilderGetOrCreateSubrange(b, 0, extent);
        name = ctx_format(g->ctx, "%s%s%lld", name, d ? ", " : "<", (long long)v->extents[d]);
    }
    name = ctx_format(g->ctx, "%s>", name);
    uint64_t bits = (uint64_t)v->bytes * 8;
    uint32_t align = (uint32_t)elem_bytes(v->elem) * 8;
    LLVMMetadataRef array = LLVMDIBuilderCreateArrayType(b, bits, align, element_type(g, v->elem),
                                                         rows, (unsigned)v->rank);
    LLVMMetadataRef data = LLVMDIBuilderCreateMemberType(b, g->debug->unit, "data", 4, file, 0,
                                                         bits, align, 0, LLVMDIFlagZero, array);
    return LLVMDIBuilderCreateStructType(b, g->debug->unit, name, strlen(name), file, 0, bits,
                                         align, LLVMDIFlagZero, NULL, &data, 1, 0, NULL, "", 0);
}

/// Creates the memory of a variable at the function's entry and describes it. A block's holds the
/// address of its elements, and null until it has been computed.
static LLVMValueRef new_slot(Gen *g, LLVMMetadataRef scope, const DebugVariable *v,
                             LLVMTypeRef type) {
    LLVMDIBuilderRef b = g->debug->builder;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(at));
    LLVMValueRef first = LLVMGetFirstInstruction(entry);
    if (first) LLVMPositionBuilderBefore(g->b, first);
    LLVMValueRef slot = LLVMBuildAlloca(g->b, type, v->name);
    LLVMBuildStore(g->b, LLVMConstNull(type), slot);
    LLVMPositionBuilderAtEnd(g->b, at);
    uint64_t deref = 6; // DW_OP_deref
    LLVMMetadataRef what = LLVMDIBuilderCreateAutoVariable(
        b, scope, v->name, strlen(v->name), file_of(g, v->loc.file), v->loc.line,
        v->rank ? block_type(g, v) : element_type(g, v->elem), true, LLVMDIFlagZero, 0);
    LLVMDIBuilderInsertDeclareRecordAtEnd(
        b, slot, what, LLVMDIBuilderCreateExpression(b, &deref, v->rank ? 1 : 0),
        LLVMDIBuilderCreateDebugLocation(g->llvm, v->loc.line, v->loc.col, scope, NULL), entry);
    return slot;
}

static bool is_same_variable(const Slot *s, LLVMMetadataRef scope, const DebugVariable *v) {
    if (s->scope != scope || strcmp(s->of.name, v->name) != 0) return false;
    if (s->of.elem != v->elem || s->of.rank != v->rank || s->of.bytes != v->bytes) return false;
    for (int d = 0; d < v->rank; d++)
        if (s->of.extents[d] != v->extents[d] || s->of.strides[d] != v->strides[d]) return false;
    return true;
}

void debug_variable(Gen *g, LLVMMetadataRef scope, const DebugVariable *v, LLVMValueRef x) {
    Debug *d = g->debug;
    if (!d || !scope || gen_lanes(x)) return;
    if (LLVMTypeOf(x) == g->i1) x = LLVMBuildZExt(g->b, x, g->i8, "");
    LLVMValueRef slot = NULL;
    for (int i = 0; i < d->slots.n; i++)
        if (is_same_variable(&d->slots.data[i], scope, v)) slot = d->slots.data[i].memory;
    if (!slot) {
        slot = new_slot(g, scope, v, LLVMTypeOf(x));
        vec_push(g->ctx, &d->slots, ((Slot){scope, *v, slot}));
    }
    LLVMSetVolatile(LLVMBuildStore(g->b, x, slot), true);
}
