// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Debug information: instructions carry their source line, and named scalars are variables of their
// function.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/llvm/debug.h"

typedef struct Debug {
    LLVMDIBuilderRef builder;
    LLVMMetadataRef unit;
    LLVMMetadataRef files[256]; // by file number
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

/// Returns DWARF's encoding of an element type.
static LLVMMetadataRef basic_type(Gen *g, Elem elem) {
    static const unsigned encodings[] = {
        [EC_BOOL] = 2, [EC_SINT] = 5, [EC_UINT] = 7, [EC_FLOAT] = 4};
    const char *name = elem_info[elem].name;
    return LLVMDIBuilderCreateBasicType(g->debug->builder, name, strlen(name),
                                        (uint64_t)elem_bytes(elem) * 8,
                                        encodings[elem_info[elem].cls], LLVMDIFlagZero);
}

void debug_variable(Gen *g, LLVMMetadataRef scope, Elem elem, Loc loc, const char *name,
                    LLVMValueRef x) {
    if (!g->debug || !scope || gen_lanes(x) || LLVMTypeOf(x) == g->i1) return;
    LLVMDIBuilderRef b = g->debug->builder;
    LLVMMetadataRef var =
        LLVMDIBuilderCreateAutoVariable(b, scope, name, strlen(name), file_of(g, loc.file),
                                        loc.line, basic_type(g, elem), true, LLVMDIFlagZero, 0);
    LLVMDIBuilderInsertDbgValueRecordAtEnd(
        b, x, var, LLVMDIBuilderCreateExpression(b, NULL, 0),
        LLVMDIBuilderCreateDebugLocation(g->llvm, loc.line, loc.col, scope, NULL),
        LLVMGetInsertBlock(g->b));
}
