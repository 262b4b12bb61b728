// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the registers of the simultaneously live values of a kernel, in the order of its
// instructions. If a request for CTAs side by side ("tg.minctasm") leaves a thread fewer registers,
// ptxas spills. The request is then lowered to a number that fits.
#include <stdlib.h>
#include <string.h>

#include "backends/nvidia/nvidia.h"
#include "passes/model.h"

typedef struct RegisterLiveness {
    Ctx *ctx;
    PtrMap numbers; // of values, and of blocks, from 1
    int n, words;   // values; words of a set of them
    LLVMValueRef *values;
    int *registers; // of each value
    bool doubles;   // it computes in f64
    bool pairs;     // f8 comes in pairs of f16
    LLVMBasicBlockRef *blocks;
    uint64_t **begin; // values live at the start of a block, without its phis
    int n_blocks;
    uint64_t *live; // at the current position
    int total;      // quarters of registers of live
} RegisterLiveness;

/// A register holds many predicates, but packing and unpacking them takes some.
enum { QUARTERS = 4, PREDICATE_QUARTERS = 1 };

/// Returns quarters of registers. A struct is split at once.
static int registers_of(LLVMTypeRef t) {
    switch (LLVMGetTypeKind(t)) {
    case LLVMPointerTypeKind:
    case LLVMDoubleTypeKind: return 2 * QUARTERS;
    case LLVMIntegerTypeKind: {
        unsigned bits = LLVMGetIntTypeWidth(t);
        return bits == 1 ? PREDICATE_QUARTERS : bits == 64 ? 2 * QUARTERS : QUARTERS;
    }
    case LLVMHalfTypeKind:
    case LLVMFloatTypeKind: return QUARTERS;
    case LLVMVectorTypeKind: return (int)LLVMGetVectorSize(t) * registers_of(LLVMGetElementType(t));
    default: return 0;
    }
}

static int value_number(const RegisterLiveness *l, LLVMValueRef x) {
    return LLVMValueIsBasicBlock(x) ? -1 : (int)(uintptr_t)map_get(&l->numbers, x) - 1;
}

static int block_number(const RegisterLiveness *l, LLVMBasicBlockRef b) {
    return (int)(uintptr_t)map_get(&l->numbers, b) - 1;
}

/// An address with a constant offset is part of the access, a comparison with a constant is
/// repeated at its use, and the upper half of a widened number is 0. In these cases the operand is
/// live instead.
static LLVMValueRef base_value(LLVMValueRef x) {
    while (LLVMIsAZExtInst(x) || ((LLVMIsAGetElementPtrInst(x) || LLVMIsAICmpInst(x)) &&
                                  LLVMIsAConstantInt(LLVMGetOperand(x, 1))))
        x = LLVMGetOperand(x, 0);
    return x;
}

/// Values without a number (parameters and constants) take no register.
static void need_register(RegisterLiveness *l, LLVMValueRef x) {
    int i = value_number(l, base_value(x));
    if (i < 0 || l->live[i / 64] >> i % 64 & 1) return;
    l->live[i / 64] |= (uint64_t)1 << i % 64;
    l->total += l->registers[i];
}

static void define_register(RegisterLiveness *l, LLVMValueRef x) {
    int i = value_number(l, x);
    if (i < 0 || !(l->live[i / 64] >> i % 64 & 1)) return;
    l->live[i / 64] &= ~((uint64_t)1 << i % 64);
    l->total -= l->registers[i];
}

static void count_live(RegisterLiveness *l) {
    l->total = 0;
    for (int w = 0; w < l->words; w++)
        for (uint64_t bits = l->live[w]; bits; bits &= bits - 1)
            l->total += l->registers[64 * w + __builtin_ctzll(bits)];
}

/// Sets the values live at the end of a block: those at the start of its successors, and their phi
/// inputs on this edge.
static void live_at_end(RegisterLiveness *l, LLVMBasicBlockRef b) {
    LLVMValueRef last = LLVMGetBasicBlockTerminator(b);
    memset(l->live, 0, sizeof *l->live * (size_t)l->words);
    for (unsigned s = 0; s < LLVMGetNumSuccessors(last); s++) {
        LLVMBasicBlockRef to = LLVMGetSuccessor(last, s);
        const uint64_t *begin = l->begin[block_number(l, to)];
        for (int w = 0; w < l->words; w++) l->live[w] |= begin[w];
    }
    count_live(l);
    for (unsigned s = 0; s < LLVMGetNumSuccessors(last); s++)
        for (LLVMValueRef i = LLVMGetFirstInstruction(LLVMGetSuccessor(last, s));
             i && LLVMIsAPHINode(i); i = LLVMGetNextInstruction(i))
            for (unsigned p = 0; p < LLVMCountIncoming(i); p++)
                if (LLVMGetIncomingBlock(i, p) == b) need_register(l, LLVMGetIncomingValue(i, p));
}

/// Walks a block from its end. Returns its maximum of registers.
static int walk_block(RegisterLiveness *l, LLVMBasicBlockRef b) {
    live_at_end(l, b);
    int most = l->total;
    for (LLVMValueRef i = LLVMGetLastInstruction(b); i; i = LLVMGetPreviousInstruction(i)) {
        define_register(l, i);
        if (LLVMIsAPHINode(i) || base_value(i) != i) continue;
        int n = LLVMGetNumOperands(i);
        for (int k = 0; k < n; k++) need_register(l, LLVMGetOperand(i, (unsigned)k));
        if (l->total > most) most = l->total;
    }
    return most;
}

/// Repeats to a fixed point, since loops carry values to their ends.
static int solve_liveness(RegisterLiveness *l) {
    int most = 0;
    for (bool changed = true; changed;) {
        changed = false;
        most = 0;
        for (int b = l->n_blocks - 1; b >= 0; b--) {
            int n = walk_block(l, l->blocks[b]);
            size_t bytes = sizeof *l->live * (size_t)l->words;
            changed |= memcmp(l->begin[b], l->live, bytes) != 0;
            memcpy(l->begin[b], l->live, bytes);
            most = n > most ? n : most;
        }
    }
    return most;
}

const char *nv_assembly_of(LLVMValueRef x) {
    LLVMValueRef fn = LLVMIsACallInst(x) ? LLVMGetCalledValue(x) : NULL;
    return fn && LLVMIsAInlineAsm(fn) ? LLVMGetInlineAsmAsmString(fn, &(size_t){0}) : "";
}

static void number_values(RegisterLiveness *l, LLVMValueRef fn) {
    int blocks = (int)LLVMCountBasicBlocks(fn), values = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            values++;
    l->words = values / 64 + 1;
    l->values = ctx_array(l->ctx, LLVMValueRef, values + 1);
    l->registers = ctx_array(l->ctx, int, values + 1);
    l->blocks = ctx_array(l->ctx, LLVMBasicBlockRef, blocks);
    l->begin = ctx_array(l->ctx, uint64_t *, blocks);
    l->live = ctx_array(l->ctx, uint64_t, l->words);
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        l->begin[l->n_blocks] = ctx_array(l->ctx, uint64_t, l->words);
        l->blocks[l->n_blocks++] = b;
        map_set(l->ctx, &l->numbers, b, (void *)(uintptr_t)l->n_blocks);
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
            l->values[l->n] = i;
            l->registers[l->n++] = registers_of(LLVMTypeOf(i));
            l->doubles |= LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMDoubleTypeKind;
            l->pairs |= strncmp(nv_assembly_of(i), "cvt.rn.f16x2.e", 14) == 0;
            map_set(l->ctx, &l->numbers, i, (void *)(uintptr_t)l->n);
        }
    }
}

static bool is_barrier(LLVMValueRef x) {
    return strncmp(nv_assembly_of(x), "bar.sync", 8) == 0;
}

/// Returns the base of an address: the parameter, as far as it is visible.
static LLVMValueRef tensor_of_address(LLVMValueRef address) {
    while (LLVMIsAPtrToIntInst(address) || LLVMIsAGetElementPtrInst(address))
        address = LLVMGetOperand(address, 0);
    return address;
}

/// Loads of elements with a common use are all in flight at once, in any order.
typedef struct Loading {
    Ctx *ctx;
    PtrMap tensor, row; // counts of each: rows are addresses without their constants
    int tensors, rows;  // of several elements
    int registers;      // in quarters
} Loading;

static intptr_t count_seen(Ctx *ctx, PtrMap *seen, LLVMValueRef x) {
    intptr_t times = (intptr_t)map_get(seen, x) + 1;
    map_set(ctx, seen, x, (void *)times);
    return times;
}

/// Each element also has a predicate.
static void add_loaded_element(Loading *a, LLVMValueRef address, int registers) {
    LLVMValueRef at = LLVMIsAPtrToIntInst(address) ? LLVMGetOperand(address, 0) : address;
    a->tensors += count_seen(a->ctx, &a->tensor, tensor_of_address(address)) == 1;
    a->rows += count_seen(a->ctx, &a->row, base_value(at)) == 2;
    a->registers += registers + PREDICATE_QUARTERS;
}

/// The address of a single row is free after its last element. Addresses of several rows are live
/// together.
static int registers_of_elements(const Loading *a) {
    if (a->tensors < 2) return 0;
    return a->registers + (a->rows > a->tensors ? 2 * QUARTERS * a->rows : 0);
}

/// Returns registers, in quarters. They hold elements that are loaded one by one from several
/// tensors, without a barrier or store in between.
static int loaded_at_once(const RegisterLiveness *l, LLVMBasicBlockRef b) {
    int most = 0;
    Loading a = {.ctx = l->ctx};
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
        const char *text = nv_assembly_of(i);
        if (is_barrier(i) || LLVMIsAStoreInst(i) || strstr(text, "st.global"))
            a = (Loading){.ctx = l->ctx};
        else if (strstr(text, "ld.global") && !nv_is_vector(text))
            add_loaded_element(&a, LLVMGetOperand(i, 0), l->registers[value_number(l, i)]);
        int n = registers_of_elements(&a);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- CTAs side by side --------------------------------------------------------------------- */

// ptxas needs some registers for addresses. Within an iteration its own order of instructions saves
// about as many, but not across iterations. It interleaves several elements in loops with long
// chains of arithmetic, such as logarithms, and each element has intermediate values. Arithmetic in
// f64 has them, too, and so has f8 if no instruction converts it. Iterations with a barrier count
// as straight code. The order of another generator was not measured, so it gets a margin. Pairs of
// f16 are made of f8 long before their use. Architectures other than Hopper keep redundant
// addresses in registers, or need some more for their schedules.
// Loads are kept in place if values take PRESSURE_FULL quarters of the registers.
enum { HOPPER = 90, FULL_OF = 4 };
// A quarter of an SM has a quarter of its registers and warps. Registers are allocated in eights.
enum { SM_QUARTERS = 4, GRANULE = 8 };

/// Returns the registers of a thread if `ctas` CTAs share an SM. The fullest quarter decides.
static int registers_beside(const GpuTarget *t, int ctas, int threads) {
    int warps = ctas * ((threads + t->lanes - 1) / t->lanes);
    int quarter = (warps + SM_QUARTERS - 1) / SM_QUARTERS;
    return t->registers_sm / (SM_QUARTERS * quarter * t->lanes) / GRANULE * GRANULE;
}

typedef struct LoopFacts {
    bool alone;  // some loop has no barrier in its iterations
    int longest; // longest run of instructions in an iteration without branch or barrier
} LoopFacts;

/// Adds a loop from its head to the instruction that branches back.
static void add_loop_facts(const RegisterLiveness *l, LLVMBasicBlockRef head, LLVMValueRef last,
                           LoopFacts *loops) {
    int end = value_number(l, last), run = 0;
    bool meets = false;
    for (int i = value_number(l, LLVMGetFirstInstruction(head)); i <= end; i++) {
        bool barrier = is_barrier(l->values[i]);
        run = barrier || LLVMIsATerminatorInst(l->values[i]) ? 0 : run + 1;
        if (run > loops->longest) loops->longest = run;
        meets |= barrier;
    }
    loops->alone |= !meets;
}

static LoopFacts find_loop_facts(const RegisterLiveness *l) {
    LoopFacts loops = {0};
    for (int b = 0; b < l->n_blocks; b++) {
        LLVMValueRef last = LLVMGetBasicBlockTerminator(l->blocks[b]);
        for (unsigned s = 0; s < LLVMGetNumSuccessors(last); s++) {
            LLVMBasicBlockRef head = LLVMGetSuccessor(last, s);
            if (block_number(l, head) <= b) add_loop_facts(l, head, last, &loops);
        }
    }
    return loops;
}

/// Returns quarters of registers.
static int live_at_once(RegisterLiveness *l) {
    int most = solve_liveness(l);
    for (int b = 0; b < l->n_blocks; b++) {
        int n = loaded_at_once(l, l->blocks[b]);
        most = n > most ? n : most;
    }
    return most;
}

/// `other`: for another generator; `soft`: f8 is converted by many instructions.
static int needed_registers(RegisterLiveness *l, const GpuTarget *arch, bool other, bool soft) {
    int own = (live_at_once(l) + QUARTERS - 1) / QUARTERS;
    LoopFacts loops = find_loop_facts(l);
    bool chains = loops.longest > PRESSURE_CHAIN * own;
    int base = own + PRESSURE_BASE +
               (other                  ? PRESSURE_OTHER_ORDER
                : arch->arch != HOPPER ? PRESSURE_OTHER_ARCH
                                       : 0);
    if (!loops.alone && !soft && !chains && !l->doubles)
        return base + (other || l->pairs ? own / PRESSURE_ORDER_PART : 0);
    int more = l->doubles ? own * PRESSURE_DOUBLE_HALVES / 2
                          : own / (chains ? PRESSURE_CHAIN_PART : PRESSURE_LOOP_PART);
    return base + PRESSURE_LOOP + more + (other ? own / PRESSURE_OTHER_PART : 0);
}

/// The passes count the registers of a chain's tiles, but not those for addresses of copies without
/// TMA: rows of attention with heads of 168 elements need 241 registers, not 128. ptxas reorders
/// the instructions of a chain, so that two thirds of the registers that are live in the text's
/// order suffice without spills.
static int chain_registers(RegisterLiveness *l) {
    return live_at_once(l) / QUARTERS * 2 / 3;
}

/// Returns the number at the start of a string attribute; 0 without the attribute.
static int attribute_number(LLVMValueRef fn, const char *name) {
    unsigned n;
    LLVMAttributeRef a = LLVMGetStringAttributeAtIndex(
        fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
    return a ? atoi(LLVMGetStringAttributeValue(a, &n)) : 0;
}

static void set_number(const Gen *g, LLVMValueRef fn, const char *name, int n) {
    char *text = ctx_format(g->ctx, "%d", n);
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->llvm, name, (unsigned)strlen(name), text,
                                                      (unsigned)strlen(text)));
}

/// Whether a CTA is so large that a thread has fewer registers even if the CTA is alone.
static bool is_large_cta(const GpuTarget *t, int threads) {
    return threads > 0 && registers_beside(t, 1, threads) < t->registers_thread;
}

bool nv_is_bounded(const Gen *g, const GpuTarget *arch) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        if (attribute_number(fn, "tg.minctasm") > 1 ||
            is_large_cta(arch, attribute_number(fn, "tg.maxntid")))
            return true;
    return false;
}

/// Keeps loads after barriers if live values take most of a thread's registers, or the loaded
/// values would take all. If `l` was computed for the function of another generator, all loads are
/// kept.
static void keep_loads_behind(const Gen *g, const GpuTarget *arch, RegisterLiveness *l,
                              LLVMValueRef fn, int room) {
    bool all = value_number(l, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(fn))) < 0;
    bool kept = false;
    all |= arch->arch != HOPPER;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        bool vectors = all || FULL_OF * walk_block(l, b) >= PRESSURE_FULL * room * QUARTERS ||
                       nv_read_words(b) >= room;
        kept |= nv_pin_loads(g->ctx, b, vectors);
    }
    if (kept) nv_pin_parameters(fn);
}

static void bound_ctas(Gen *g, const GpuTarget *arch, LLVMModuleRef measured, LLVMValueRef fn) {
    int ctas = attribute_number(fn, "tg.minctasm"), wish = ctas;
    int threads = attribute_number(fn, "tg.maxntid");
    bool counted = attribute_number(fn, "tg.ctas.counted");
    bool other = measured != g->module, large = other && is_large_cta(arch, threads);
    if (LLVMIsDeclaration(fn) || (ctas < 2 && !large) || threads < 1) return;
    const char *name = LLVMGetValueName2(fn, &(size_t){0});
    RegisterLiveness l = {.ctx = g->ctx};
    number_values(&l, LLVMGetNamedFunction(measured, name));
    int needed = counted ? chain_registers(&l)
                         : needed_registers(&l, arch, other, attribute_number(fn, "tg.softf8") > 0);
    while (ctas > 1 && registers_beside(arch, ctas, threads) < needed) ctas--;
    if (ctas < wish) set_number(g, fn, "tg.minctasm", ctas);
    if (counted) return;
    // Functions of f64 branch, and a value pinned before a branch lives through it.
    if ((ctas > 1 || large) && !l.doubles)
        keep_loads_behind(g, arch, &l, fn, registers_beside(arch, ctas, threads));
}

void nv_bound_ctas(Gen *g, const GpuTarget *arch, LLVMModuleRef measured) {
    for (LLVMValueRef fn = LLVMGetFirstFunction(g->module); fn; fn = LLVMGetNextFunction(fn))
        bound_ctas(g, arch, measured, fn);
}
