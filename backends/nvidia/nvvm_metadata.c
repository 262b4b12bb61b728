// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The metadata of the NVVM writer: annotations of kernels, line tables in LLVM 7's spelling, and
// attachments of instructions.
#include <llvm-c/DebugInfo.h>
#include <string.h>

#include "backends/nvidia/nvvm_writer.h"

/* ---- generic nodes ------------------------------------------------------------------------- */

static int node_of(Writer *w, LLVMValueRef node);

/// Writes an operand of a node: a node, a string or a constant. NULL is null.
static void write_item(Writer *w, LLVMValueRef item, Text *out) {
    unsigned n;
    if (!item) {
        text_add(out, "null");
    } else if (LLVMIsAMDNode(item)) {
        int number = node_of(w, item);
        text_add(out, "!%d", number);
    } else {
        Text whole = w->out;
        const char *string = LLVMGetMDString(item, &n);
        w->out = (Text){.ctx = w->ctx};
        if (string) {
            text_add(&w->out, "!\"");
            write_escaped(w, string, n);
            text_add(&w->out, "\"");
        } else {
            write_typed(w, item);
        }
        text_add(out, "%s", w->out.data);
        w->out = whole;
    }
}

/// Returns the number of a node. The first use prints it to the tail. A node that names itself
/// first (a loop, an alias scope) is distinct.
static int node_of(Writer *w, LLVMValueRef node) {
    LLVMMetadataRef key = LLVMValueAsMetadata(node);
    LLVMValueRef items[64];
    intptr_t known = (intptr_t)map_get(&w->numbers, key);
    if (known) return (int)known - 1;
    int n = (int)LLVMGetMDNodeNumOperands(node), number = w->nodes++;
    if (n > 64) ice(w->ctx, (Loc){0}, "a metadata node of %d operands", n);
    map_set(w->ctx, &w->numbers, key, (void *)(intptr_t)(number + 1));
    LLVMGetMDNodeOperands(node, items);
    bool self = n && items[0] && LLVMIsAMDNode(items[0]) && LLVMValueAsMetadata(items[0]) == key;
    Text line = {.ctx = w->ctx};
    text_add(&line, "!%d = %s!{", number, self ? "distinct " : "");
    for (int i = 0; i < n; i++) {
        text_add(&line, i ? ", " : "");
        write_item(w, items[i], &line);
    }
    text_add(&w->tail, "%s}\n", line.data);
    return number;
}

/* ---- line tables --------------------------------------------------------------------------- */

static int file_node(Writer *w, LLVMMetadataRef file) {
    intptr_t known = (intptr_t)map_get(&w->numbers, file);
    if (known) return (int)known - 1;
    unsigned n;
    int number = w->nodes++;
    Text whole = w->out;
    map_set(w->ctx, &w->numbers, file, (void *)(intptr_t)(number + 1));
    w->out = (Text){.ctx = w->ctx};
    text_add(&w->out, "!%d = !DIFile(filename: \"", number);
    const char *name = LLVMDIFileGetFilename(file, &n);
    write_escaped(w, name, n);
    text_add(&w->out, "\", directory: \"");
    name = LLVMDIFileGetDirectory(file, &n);
    write_escaped(w, name, n);
    text_add(&w->tail, "%s\")\n", w->out.data);
    w->out = whole;
    return number;
}

/// One compile unit serves all kernels: the file of the first.
static void need_unit(Writer *w, int file) {
    if (w->unit) return;
    w->unit = w->nodes++ + 1;
    text_add(&w->tail,
             "!%d = distinct !DICompileUnit(language: DW_LANG_C99, file: !%d, producer: "
             "\"tegula\", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly, "
             "enums: !%d)\n!%d = !{}\n",
             w->unit - 1, file, w->nodes, w->nodes);
    w->nodes++;
}

void write_subprogram(Writer *w, LLVMValueRef fn) {
    w->scope = LLVMGetSubprogram(fn);
    LLVMMetadataRef file = w->scope ? LLVMDIScopeGetFile(w->scope) : NULL;
    if (!file) {
        w->scope = NULL;
        return;
    }
    int number = w->nodes++, in = file_node(w, file);
    unsigned line = LLVMDISubprogramGetLine(w->scope);
    need_unit(w, in);
    map_set(w->ctx, &w->numbers, w->scope, (void *)(intptr_t)(number + 1));
    text_add(&w->tail, "!%d = distinct !DISubprogram(name: \"", number);
    text_add(&w->tail, "%s", LLVMGetValueName2(fn, &(size_t){0}));
    text_add(&w->tail,
             "\", scope: !%d, file: !%d, line: %u, type: !%d, isLocal: false, isDefinition: true, "
             "scopeLine: %u, isOptimized: true, unit: !%d)\n"
             "!%d = !DISubroutineType(types: !{null})\n",
             in, in, line, w->nodes, line, w->unit - 1, w->nodes);
    w->nodes++;
    text_add(&w->out, " !dbg !%d", number);
}

/// Returns the function's scope, or a block of it for another file.
static int scope_node(Writer *w, LLVMMetadataRef file) {
    int own = (int)(intptr_t)map_get(&w->numbers, w->scope) - 1;
    if (!file || file == LLVMDIScopeGetFile(w->scope)) return own;
    int in = file_node(w, file), number = w->nodes++;
    text_add(&w->tail, "!%d = !DILexicalBlockFile(scope: !%d, file: !%d, discriminator: 0)\n",
             number, own, in);
    return number;
}

/// The inlined-at location is omitted: LLVM 7 would require the other function's subprogram.
static int location_node(Writer *w, LLVMMetadataRef at) {
    int scope = scope_node(w, LLVMDIScopeGetFile(LLVMDILocationGetScope(at))), number = w->nodes++;
    text_add(&w->tail, "!%d = !DILocation(line: %u, column: %u, scope: !%d)\n", number,
             LLVMDILocationGetLine(at), LLVMDILocationGetColumn(at), scope);
    return number;
}

/* ---- on instructions ----------------------------------------------------------------------- */

void write_attached(Writer *w, LLVMValueRef inst) {
    LLVMMetadataRef at = w->scope ? LLVMInstructionGetDebugLoc(inst) : NULL;
    if (at) text_add(&w->out, ", !dbg !%d", location_node(w, at));
    for (const char *const *name = portable_metadata; *name; name++) {
        unsigned kind = LLVMGetMDKindIDInContext(LLVMGetModuleContext(w->module), *name,
                                                 (unsigned)strlen(*name));
        LLVMValueRef node = LLVMGetMetadata(inst, kind);
        if (node) text_add(&w->out, ", !%s !%d", *name, node_of(w, node));
    }
}

/* ---- annotations --------------------------------------------------------------------------- */

/// Writes the type of a kernel, in which a byval parameter is a pointer to its array.
static void write_function_type(Writer *w, LLVMValueRef fn) {
    text_add(&w->out, "void (");
    for (unsigned i = 0; i < LLVMCountParams(fn); i++) {
        text_add(&w->out, i ? ", " : "");
        if (is_byval(fn, i)) {
            LLVMAttributeRef a =
                LLVMGetEnumAttributeAtIndex(fn, i + 1, LLVMGetEnumAttributeKindForName("byval", 5));
            text_add(&w->out, "[%llu x i8]*",
                     (unsigned long long)LLVMGetArrayLength2(LLVMGetTypeAttributeValue(a)));
        } else {
            write_type(w, LLVMTypeOf(LLVMGetParam(fn, i)));
        }
    }
    text_add(&w->out, ")* ");
    write_value(w, fn);
}

// The names of the attribute's comma-separated parts; "" is omitted.
static const struct {
    const char *attribute, *names[3];
} annotations[] = {
    {"tg.maxntid", {"maxntidx", "maxntidy", "maxntidz"}},
    {"tg.minctasm", {"minctasm", "", ""}},
    {"tg.cluster", {"cluster_dim_x", "cluster_dim_y", "cluster_dim_z"}},
};

/// Libraries read pairs after the kernel, for instance "maxntidx", i32 256.
static void write_numbers(Writer *w, LLVMValueRef fn) {
    for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++) {
        unsigned n;
        const char *name = annotations[i].attribute;
        LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
            fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
        const char *value = a ? LLVMGetStringAttributeValue(a, &n) : "";
        for (int k = 0; k < 3 && *value; k++) {
            size_t len = strcspn(value, ",");
            text_add(&w->out, ", !\"%s\", i32 %.*s", annotations[i].names[k], (int)len, value);
            value += len + (value[len] == ',');
        }
    }
}

/// Tensor maps are in constant memory. Writes the numbers of their parameters, from 1.
static void write_grid_constants(Writer *w, LLVMValueRef fn) {
    int list = -1;
    for (unsigned i = 0; i < LLVMCountParams(fn); i++) {
        if (!is_byval(fn, i)) continue;
        if (list < 0)
            text_add(&w->tail, "!%d = !{i32 %u", list = w->nodes++, i + 1);
        else
            text_add(&w->tail, ", i32 %u", i + 1);
    }
    if (list < 0) return;
    text_add(&w->tail, "}\n");
    text_add(&w->out, ", !\"grid_constant\", !%d", list);
}

static void write_annotation(Writer *w, LLVMValueRef fn, int number) {
    text_add(&w->out, "!%d = !{", number);
    write_function_type(w, fn);
    text_add(&w->out, ", !\"kernel\", i32 1");
    write_numbers(w, fn);
    write_grid_constants(w, fn);
    text_add(&w->out, "}\n");
}

void write_module_metadata(Writer *w) {
    int first = w->nodes, n = 0;
    for (LLVMValueRef fn = LLVMGetFirstFunction(w->module); fn; fn = LLVMGetNextFunction(fn))
        n += !LLVMIsDeclaration(fn);
    text_add(&w->out, "\n!nvvm.annotations = !{");
    for (int i = 0; i < n; i++) text_add(&w->out, i ? ", !%d" : "!%d", first + i);
    w->nodes += n;
    text_add(&w->out, "}\n!nvvmir.version = !{!%d}\n", w->nodes);
    text_add(&w->tail, "!%d = !{i32 2, i32 0, i32 3, i32 1}\n", w->nodes++);
    if (w->unit) {
        text_add(&w->out, "!llvm.dbg.cu = !{!%d}\n!llvm.module.flags = !{!%d}\n", w->unit - 1,
                 w->nodes);
        text_add(&w->tail, "!%d = !{i32 2, !\"Debug Info Version\", i32 3}\n", w->nodes++);
    }
    for (LLVMValueRef fn = LLVMGetFirstFunction(w->module); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn)) write_annotation(w, fn, first++);
    text_add(&w->out, "%s", w->tail.data);
}
