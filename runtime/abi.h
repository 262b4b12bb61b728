// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contract between compiled kernels and the runtime. Compiled code refers to no symbol: it
// reaches the runtime only through tg_env. New fields are only ever added at the end.
#ifndef RUNTIME_ABI_H
#define RUNTIME_ABI_H

#include <stdbool.h>
#include <stdint.h>

/// An argument of a kernel. Tensor: strides count elements and are never NULL; data of a null
/// optional tensor is NULL. Scalar: `bits` holds its bits, sign- or zero-extended.
typedef union tg_slot {
    struct {
        void *data;
        const int64_t *shape, *strides;
    } tensor;
    uint64_t bits;
} tg_slot;

/// A place at which compiled code can fail or print, and its text. `{}` in the text stands for the
/// next value. `types` has a letter for each value: b bool, d signed, u unsigned, f a float and g
/// an f64 (the bits of a double); [dd] is a block of two, [dd+] the first two lanes of a longer
/// block.
typedef struct tg_site {
    int32_t kind; // enum tg_site_kind
    int32_t line, column;
    int32_t n_values; // the last n_indices of them are the indices of a lane
    int32_t n_indices, reserved;
    const char *file, *text, *types;
} tg_site;

enum tg_site_kind {
    TG_SITE_REQUIRE,
    TG_SITE_ASSERT,
    TG_SITE_BOUNDS,
    TG_SITE_DIVIDE,
    TG_SITE_PRINT,
    TG_SITE_WAIT, // for a signal; its values are the peer and the word's number
    TG_SITE_MARK, // a part of the code, named by the text, begins (code made for `tegula profile`)
};

typedef struct tg_env tg_env;
typedef struct tg_tensormap tg_tensormap;   // below, in the part for GPUs
typedef struct tg_comm_calls tg_comm_calls; // below, in the part for several ranks

/// One task of a launch. `arena` is memory of the thread, aligned to 64 bytes. Returns 0, or the
/// result of `fail`.
typedef int32_t tg_task(const tg_env *env, void *context, int64_t task, void *arena);

/// The services of the runtime for compiled code.
struct tg_env {
    /// Runs tasks 0 .. n - 1 on the threads, each with its own arena. Returns when all tasks have
    /// ended: 0, or the status of the failed task with the lowest number.
    int32_t (*parallel_for)(const tg_env *env, int64_t n, int64_t arena_bytes, tg_task *task,
                            void *context);
    /// Memory that lives until the kernel returns, aligned to 64 bytes; NULL: out of memory.
    void *(*workspace)(const tg_env *env, int64_t bytes);
    /// The calling thread's arena.
    void *(*arena)(const tg_env *env, int64_t bytes);
    /// Records a failure. Returns the status that the caller must return, never 0. A NULL site: out
    /// of memory.
    int32_t (*fail)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void (*print)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void *user;
    /// Launches device function number `function` of the variant's image: a CTA or a cluster of
    /// CTAs for each of `programs`, after all earlier launches. Returns once the launch is queued:
    /// 0, or the status to return. args: a pointer to the value of each parameter
    /// (tg_device_function). 8 bytes must be readable there, even if the value is shorter.
    int32_t (*dispatch)(const tg_env *env, int32_t function, int64_t programs, void *const *args);
    /// Fills `out`, 128 bytes aligned to 64, with the map of a tensor. dims and strides: of each of
    /// its dimensions, in elements. Returns 0, or the status to return.
    int32_t (*tensormap)(const tg_env *env, const tg_tensormap *how, void *data,
                         const int64_t *dims, const int64_t *strides, void *out);
    /// NULL unless the launch has symmetric tensors.
    const tg_comm_calls *comm;
    /// A word in the memory of the device (or of the CPU) that holds 0. The functions of a launch
    /// leave 0 there, so launches that are in order share the word. All calls of a launch return
    /// the same address. NULL: out of memory.
    uint32_t *(*counter)(const tg_env *env);
    /// The bytes of workspaces that a launch may use where it can also do without them
    /// (tg_context_set_workspace_limit).
    int64_t (*workspace_limit)(const tg_env *env);
    /// The worker begins the part of the code that the site names. Only code that is made for a
    /// profile calls this.
    void (*mark)(const tg_env *env, const tg_site *site);
};

/// A compiled kernel.
typedef int32_t tg_entry(const tg_slot *args, const tg_env *env);

/* ---- code of GPUs ---------------------------------------------------------------------------- */
// The host code of a GPU kernel is ordinary CPU code. It launches the functions of an image on the
// device. Tensors and workspaces of the kernel are in device memory.

/// The way in which the hardware (TMA) copies blocks of a tensor. Dimensions count from the
/// innermost one. Element types have CUDA's numbers.
struct tg_tensormap {
    uint8_t type;    // enum tg_tensormap_type
    uint8_t rank;    // 1 to 5
    uint8_t swizzle; // in bytes: 0, 32, 64, 128
    uint8_t fill;    // elements outside the tensor read as: 0 zeros, 1 NaNs
    uint8_t axes[8]; // dimension i of the map is dimension axes[i] of the tensor
    int32_t box[5];  // extents of a block
};
enum tg_tensormap_type {
    TG_MAP_U8,
    TG_MAP_U16,
    TG_MAP_U32,
    TG_MAP_I32,
    TG_MAP_U64,
    TG_MAP_I64,
    TG_MAP_F16,
    TG_MAP_F32,
    TG_MAP_F64,
    TG_MAP_BF16,
    TG_MAP_F32_FTZ,
    TG_MAP_TF32, // f32, rounded when read
    TG_MAP_TF32_FTZ,
};
enum { TG_TENSORMAP_BYTES = 128 };

enum tg_device_flags {
    TG_DEVICE_FAULTS = 1, // has a hidden last parameter: const tg_faults *
    /// The host code depends only on extents, strides, numbers and alignments of up to 16 bytes. It
    /// uses addresses of arguments in two ways only: it passes pointers into the entry's slots, and
    /// makes tensor maps. Launches can therefore be replayed with other addresses.
    TG_DEVICE_REPLAYS = 2,
    /// The host code does not depend on numbers either; it passes them only by such pointers.
    TG_DEVICE_NUMBERS = 4,
    /// The function waits for the preceding kernel on the stream before it touches memory. It may
    /// therefore be launched before that kernel has ended (programmatic dependent launch).
    TG_DEVICE_EARLY = 8,
    TG_DEVICE_FLAGS = 15, // all of them
};

/// A function of an image. Its parameters are flattened, in order. A tensor is its data pointer,
/// then each extent that the code does not contain (int64_t), then each stride likewise (int64_t,
/// elements). A scalar is its element (bool: 1 byte). A tensor map is its 128 bytes.
typedef struct tg_device_function {
    const char *name;
    int32_t threads;      // of a CTA
    int32_t cluster;      // CTAs of a cluster that is one program; 1: no cluster
    int32_t shared_bytes; // dynamic shared memory of a CTA
    int32_t n_args;       // without the hidden parameter
    int32_t flags;
    int32_t together; // CTAs of a cluster in which each CTA is a program; 0: see `cluster`
} tg_device_function;

static inline int32_t tg_cluster_of(const tg_device_function *f) {
    return f->together > 1 ? f->together : f->cluster;
}

/// The header of the buffer into which asserts, checks and prints of device code write. Words of 8
/// bytes follow, in records: site number | number of values << 32, the program, the values (as in
/// tg_site). Code claims room by adding to `used`, and does not write a record that does not fit.
/// At a launch all fields but `capacity` are zero.
typedef struct tg_faults {
    uint32_t used, capacity; // in words
    uint32_t failed;         // not 0: an assert or a check failed
    uint32_t reserved;
    // uint64_t words[capacity]
} tg_faults;

enum tg_image_kind {
    TG_IMAGE_PTX,   // text, with a NUL byte that counts in size
    TG_IMAGE_CUBIN, // machine code
    TG_IMAGE_CALL,  // functions of this process: a simulated device in host memory
    TG_IMAGE_HSACO, // a code object of an AMD GPU
};

/// The device code of a variant, in writable memory.
typedef struct tg_image tg_image;
struct tg_image {
    int32_t kind; // enum tg_image_kind
    int32_t n_functions, n_sites;
    int16_t arch;       // 90 for sm_90a, 0x942 for gfx942
    int16_t specific;   // 1: as for sm_90a, the code runs on no other architecture
    const char *target; // "sm_90a": the target of compilation
    const void *bytes;
    uint64_t size;
    const tg_device_function *functions;
    const tg_site *const *sites; // of asserts, prints and waits, by number
    /// Kind CALL: the runtime calls these instead of a driver. args includes the hidden parameter.
    /// dispatch returns when the function has ended, and fails through env->fail.
    int32_t (*dispatch)(const tg_image *image, const tg_env *env, int32_t function,
                        int64_t programs, void *const *args);
    int32_t (*tensormap)(const tg_image *image, const tg_env *env, const tg_tensormap *how,
                         void *data, const int64_t *dims, const int64_t *strides, void *out);
    /// Announces a fresh workspace of the launch, which has undefined contents. Memory NULL: a
    /// launch begins. May be NULL.
    void (*fresh)(const tg_image *image, const tg_env *env, const void *memory, int64_t bytes);
    void *user;  // for these three functions
    void *state; // of the runtime; NULL before the first use
};

/* ---- several ranks --------------------------------------------------------------------------- */
// Kernels with symmetric tensors (docs/inside/communication.md). The first dimension of a symmetric
// tensor is the rank. Its slot holds the direct view: the address of rank 0's shard, and as stride
// 0 the distance from rank to rank. If memory of other ranks is not mapped, it still has such
// addresses, but only the calls below accept them. In a launch on a GPU, the stream orders the
// actions of the calls, and the calls return at once.

enum tg_gather_how {
    TG_GATHER_BEFORE,
    TG_GATHER_PULL,
    TG_GATHER_PUSH,
    TG_GATHER_DIRECT, // on CPUs: the direct view if mapped, else like PULL
    TG_SCATTER_BEHIND // to one peer, while the next launches run
};

/// WAITS: wait until all ranks have come. REACHES (CPU code): programs access other ranks' memory
/// in place, so it must be mapped.
enum tg_begin { TG_BEGIN_WAITS = 1, TG_BEGIN_REACHES = 2 };

/// Brings the shards of all ranks together here. A shard is `rows` rows of `row_bytes`, `pitch`
/// bytes apart. A chunk is `chunk_rows` rows; the last one may be shorter.
typedef struct tg_gather {
    void *data;   // the direct view
    int64_t lead; // bytes from rank to rank
    int64_t rows, row_bytes, pitch, chunk_rows;
    const char *name; // of the parameter, for messages
    int32_t how, reserved;
    // Results of the call:
    void *view;   // the gathered view
    int64_t slot; // bytes from rank to rank
    void *flags;  // int64_t [W][chunks]: the epoch once the chunk is here; own rank: at once
} tg_gather;

/// Sends partial results. `local` has W parts, laid out as in a shard's stage. Part r goes to slot
/// `rank` of rank r's stage, and then flags[r][rank][chunk] becomes the epoch.
///
/// PUSH sends a chunk when done[r][chunk] holds the epoch; it is called before the launch that
/// raises these words. BEFORE sends all chunks after all earlier launches. BEHIND does so with the
/// part of one peer, while later launches run.
///
/// The own part is read in place: slot `rank` and flags `rank` of the own stage are not written.
typedef struct tg_scatter {
    void *local;        // part r at local + r * part
    void *stage;        // direct view of the stage: slot s of rank r at stage + r * lead + s * part
    int64_t part, lead; // bytes
    int64_t rows, row_bytes, pitch, chunk_rows;
    int64_t
        *done; // [W][chunks], symmetric memory of this rank; words with other epochs may be cleared
    int64_t *flags; // direct view; [W][chunks] of rank r at r * flags_lead bytes
    int64_t flags_lead;
    const char *name;
    int32_t how, peer; // peer: for BEHIND only
} tg_scatter;

/// Words of the control block. If a wait of device code fails, its thread sets FAILED to 1 by a
/// compare-and-swap from 0. The thread that succeeds writes the words after FAILED. The end of the
/// launch tells the other ranks and the host. A wait ends at once if GIVE_UP or FAILED is not 0.
enum tg_control {
    TG_CONTROL_EPOCH,   // (number of the launch << TG_EPOCH_BITS) + its barriers so far
    TG_CONTROL_LIMIT,   // time limit of a wait, in ns
    TG_CONTROL_GIVE_UP, // not 0: rank GIVE_UP - 1 has failed
    TG_CONTROL_FAILED,
    TG_CONTROL_SITE, // number of the wait's site in the image
    TG_CONTROL_PEER, // values of the site
    TG_CONTROL_NUMBER,
    TG_CONTROL_LAUNCH, // for the runtime
    TG_CONTROL_WORDS
};

enum { TG_EPOCH_BITS = 31 };

enum tg_comm_compare { TG_CMP_EQ, TG_CMP_NE, TG_CMP_GT, TG_CMP_GE, TG_CMP_LT, TG_CMP_LE };
static inline int tg_comm_holds(int64_t x, int compare, int64_t y) {
    switch (compare) {
    case TG_CMP_EQ: return x == y;
    case TG_CMP_NE: return x != y;
    case TG_CMP_GT: return x > y;
    case TG_CMP_GE: return x >= y;
    case TG_CMP_LT: return x < y;
    default: return x <= y;
    }
}
enum tg_comm_signal { TG_SIGNAL_SET, TG_SIGNAL_ADD };

/// Every call that can fail returns 0, or the status to return after it has recorded the failure.
struct tg_comm_calls {
    int32_t rank, size;
    /// Begins the launch. how: enum tg_begin.
    int32_t (*begin)(const tg_env *env, int32_t how);
    int32_t (*barrier)(const tg_env *env);
    /// Ends the launch. On return, transfers are over and no rank uses this rank's shards any more.
    int32_t (*end)(const tg_env *env);
    int32_t (*gather)(const tg_env *env, tg_gather *g);
    int32_t (*scatter)(const tg_env *env, const tg_scatter *s);
    /// Symmetric memory of this launch. The n-th call of a launch has the same result on every
    /// rank: a direct view of `bytes` a rank, `*lead` bytes apart. NULL: the heap is full; the
    /// failure is recorded.
    void *(*workspace)(const tg_env *env, int64_t bytes, int64_t *lead);
    /// Symmetric words of 8 bytes that only launches of this kernel use, initially 0. Calls with
    /// the same number (from 0 on) get the same words, unless they ask for more words than before.
    void *(*signals)(const tg_env *env, int32_t number, int64_t words, int64_t *lead);
    /// int64_t [8], enum tg_control.
    void *(*control)(const tg_env *env);
    /* Only for CPU code, from any of its threads: */
    /// Waits until *word compares with value. Messages name the event by the site, with two values:
    /// the peer and the word's number.
    int32_t (*wait)(const tg_env *env, const tg_site *site, const int64_t *word, int32_t compare,
                    int64_t value, int64_t peer, int64_t number);
    /// Raises a word, of this or another rank. A thread that sees the new word sees all earlier
    /// writes of this thread.
    int32_t (*signal)(const tg_env *env, int64_t *word, int32_t how, int64_t value);
    /// fence: earlier puts to a rank arrive before later ones. quiet: all earlier puts have
    /// arrived.
    int32_t (*fence)(const tg_env *env, int32_t quiet);
    /// Copy bytes from or to a direct view, mapped or not.
    int32_t (*get)(const tg_env *env, void *to, const void *from, int64_t bytes);
    int32_t (*put)(const tg_env *env, void *to, const void *from, int64_t bytes);
};

/* ---- kernels as data ----------------------------------------------------------------------- */
// The description of a kernel as constant data. Object files of `tegula build` and the just-in-time
// compiler use the same one. The runtime binds the arguments, picks a variant, and runs it.

enum { TG_ABI = 5, TG_MAX_RANK = 8, TG_MAX_PARAMS = 256, TG_MAX_TYPES = 64 };

enum tg_param_kind { TG_PARAM_TENSOR, TG_PARAM_SCALAR, TG_PARAM_CONST };
enum tg_param_flags {
    TG_PARAM_OPTIONAL = 1,
    TG_PARAM_WRITTEN = 2,
    TG_PARAM_BOOL = 4,
    TG_PARAM_SYM = 8,     // symmetric; `rank` and axes include the dim of ranks
    TG_PARAM_STEERS = 16, // a number that may decide which phases run; ranks must agree on it
    TG_PARAM_READ = 32,   // a written tensor whose old elements may matter
};

/// A parameter as the source declares it. Types are DLPack's (code, bits). bits 0: the type of the
/// type parameter `type`, which the arguments settle.
typedef struct tg_param_info {
    const char *name;
    uint8_t kind, flags; // tg_param_kind, tg_param_flags
    uint8_t code, bits;
    int8_t type;    // index of the type parameter, or -1
    int8_t rank;    // of a tensor, without its pack
    int8_t pack_at; // first axis of `..N`, or -1
    int8_t pack;    // tensors with the same number share `..N`, so their packs are merged alike
} tg_param_info;

/// The kinds of facts: conditions on the arguments under which a variant is right. Axes count after
/// packs are merged. A fact about the stride of an axis of extent <= 1 always holds.
enum tg_fact_kind {
    TG_FACT_NULL,    // an optional tensor is null (value 1) or not (0)
    TG_FACT_EXTENT,  // of axis
    TG_FACT_STRIDE,  // of axis, in elements
    TG_FACT_PACK,    // number of axes left of the pack
    TG_FACT_VALUE,   // of a const parameter
    TG_FACT_TYPE,    // of a type parameter (param is its number): code << 8 | bits
    TG_FACT_LEAST,   // the extent of axis is at least value
    TG_FACT_MOST,    // the extent of axis is at most value
    TG_FACT_STRIDED, // the stride of axis is neither 0 nor 1
    TG_FACT_ALIGN,   // TG_LINE / tg_alignment is among the bits in value
    TG_FACT_NEAR,    // tg_is_near (value 1) or not (0)
    TG_FACT_MAPPED,  // no parameter: other ranks' memory is mapped (value 1) or not (0)
};

/// A tensor is near if all its elements lie within TG_SPAN bytes from element 0 on.
#define TG_SPAN ((int64_t)1 << 31)
static inline bool tg_is_near(int rank, const int64_t *shape, const int64_t *strides, int bits) {
    int64_t last = 0, elements = TG_SPAN * 8 / bits;
    for (int d = 0; d < rank; d++) {
        if (shape[d] <= 1) continue;
        int64_t more = shape[d] - 1;
        if (strides[d] < 0 || (strides[d] > 0 && more > elements / strides[d])) return false;
        last += more * strides[d];
    }
    return last + 1 < elements;
}

/// The reason for which copies of `unit` bytes cannot start at multiples of `unit` in a tensor's
/// rows.
typedef enum tg_misaligned {
    TG_ALIGNED,
    TG_OFF_START,  // the address is not a multiple of unit
    TG_OFF_STRIDE, // the stride of an axis is neither a multiple of unit nor 1
    TG_BACKWARDS   // a stride is negative
} tg_misaligned;

/// *axis: the axis of that stride. Axes of one element are ignored.
static inline tg_misaligned tg_misalignment(const void *data, int rank, const int64_t *shape,
                                            const int64_t *strides, int bits, int unit, int *axis) {
    for (int d = 0; d < rank; d++) {
        *axis = d;
        if (shape[d] <= 1 || strides[d] == 1) continue;
        if (strides[d] < 0) return TG_BACKWARDS;
        if ((uint64_t)strides[d] * (uint64_t)bits % (8 * (uint64_t)unit)) return TG_OFF_STRIDE;
    }
    return (uintptr_t)data % (uintptr_t)unit ? TG_OFF_START : TG_ALIGNED;
}

/// The widest aligned copies: 16, 8 or 4 bytes. 1 if none is aligned, or if none is wider than an
/// element.
enum { TG_LINE = 16, TG_LEAST_LINE = 4 };
static inline int tg_alignment(const void *data, int rank, const int64_t *shape,
                               const int64_t *strides, int bits) {
    int axis;
    for (int unit = TG_LINE; unit >= TG_LEAST_LINE && 8 * unit > bits; unit /= 2)
        if (!tg_misalignment(data, rank, shape, strides, bits, unit, &axis)) return unit;
    return 1;
}

typedef struct tg_fact {
    uint8_t kind, param, axis, reserved;
    int32_t reserved2;
    int64_t value;
} tg_fact;

/// The runtime chooses among the right variants. It takes the highest level that the CPU has; then
/// the most facts; then the nearest hints, by the least sum of |log2(extent) - log2(hint)|. Tuned
/// variants with a sum of at most 1/2 precede all others; of two that are equally near, the later
/// wins. Variants tuned on another device are ignored.
typedef struct tg_hint {
    uint8_t param, axis, reserved[6];
    int64_t extent;
} tg_hint;

/// CPU levels, in ascending order. Level 0 runs on every CPU of the architecture. V3 and V4 are
/// those of the x86-64 psABI. AMX is V4 with amx-tile, amx-bf16, amx-int8, avx512bf16, avx512fp16
/// and avx512vnni.
enum tg_level { TG_LEVEL_BASE, TG_LEVEL_V3, TG_LEVEL_V4, TG_LEVEL_AMX, TG_LEVELS };

/// One compilation of a kernel. Its arguments are the parameters listed in `params`, in order.
/// Const parameters and nulls are left out.
typedef struct tg_variant {
    tg_entry *entry;
    const tg_fact *facts;
    const tg_hint *hints;
    const uint8_t *params;
    const uint8_t *inplace; // pairs of parameters that may be one view
    const char *config;     // "BM=64 BN=32": the tune values, for people
    int16_t level, n_facts, n_hints, n_params, n_inplace;
    int16_t tuned;   // 1: found by measuring, for the extents of the hints
    uint32_t device; // of a tuned variant: the device of the measurement (tg_device_hash); 0: any
    tg_image *image; // launched by `entry`; NULL: the variant runs on the CPU
} tg_variant;

typedef struct tg_kernel_info {
    const char *name;      // as in the source: "softmax"
    const char *signature; // the header line, for messages
    const tg_param_info *params;
    const tg_variant *variants; // of an object file; the just-in-time compiler adds its own
    int32_t n_params, n_types, n_variants, source; // source: hash of the texts; 0: unknown
} tg_kernel_info;

/// A kernel as launches take it, in writable memory.
typedef struct tg_kernel tg_kernel;
struct tg_kernel {
    uint32_t abi, reserved; // TG_ABI
    const tg_kernel_info *info;
    void *state; // of the runtime; NULL before the first use
};

#endif
