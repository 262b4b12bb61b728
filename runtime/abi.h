// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The contract between compiled kernels and the runtime. Compiled code refers to no symbol: all it
// needs of the world comes through tg_env. Fields are only ever added at the end.
#ifndef RUNTIME_ABI_H
#define RUNTIME_ABI_H

#include <stdbool.h>
#include <stdint.h>

/// An argument of a kernel. A tensor: strides count elements and are never NULL. A null optional
/// tensor: data is NULL. A scalar: its bits stand in `bits`, sign- or zero-extended.
typedef union tg_slot {
    struct {
        void *data;
        const int64_t *shape, *strides;
    } tensor;
    uint64_t bits;
} tg_slot;

/// Where compiled code can fail or print, and with what text. `{}` in the text stands for the next
/// value; types has a letter for each value: b bool, d signed, u unsigned, f a float and g an f64
/// (the bits of a double); [dd] is a block of two, [dd+] the first two lanes of a longer one.
typedef struct tg_site {
    int32_t kind; // enum tg_site_kind
    int32_t line, column;
    int32_t n_values; // of which the last n_indices are the indices of a lane
    int32_t n_indices, reserved;
    const char *file, *text, *types;
} tg_site;

enum tg_site_kind {
    TG_SITE_REQUIRE,
    TG_SITE_ASSERT,
    TG_SITE_BOUNDS,
    TG_SITE_DIVIDE,
    TG_SITE_PRINT,
    TG_SITE_WAIT, // for a signal: its values are the peer and the word's number
};

typedef struct tg_env tg_env;
typedef struct tg_tensormap tg_tensormap;   // below, like all of GPUs
typedef struct tg_comm_calls tg_comm_calls; // below, like all of several ranks

/// One task of a launch. `arena` is this thread's memory, aligned to 64 bytes. Returns 0 or what
/// `fail` returned.
typedef int32_t tg_task(const tg_env *env, void *context, int64_t task, void *arena);

/// What compiled code may ask for.
struct tg_env {
    /// Runs task 0 .. n - 1 on the threads, each thread with its own arena; returns when all have
    /// ended, with 0 or the status of the failed task of least number.
    int32_t (*parallel_for)(const tg_env *env, int64_t n, int64_t arena_bytes, tg_task *task,
                            void *context);
    /// Memory that lives until the kernel returns, 64-byte aligned; NULL where there is none.
    void *(*workspace)(const tg_env *env, int64_t bytes);
    /// The calling thread's arena.
    void *(*arena)(const tg_env *env, int64_t bytes);
    /// Records a failure; returns the status to return, never 0. A NULL site: out of memory.
    int32_t (*fail)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void (*print)(const tg_env *env, const tg_site *site, const uint64_t *values);
    void *user;
    /// Launches device function number `function` of the variant's image, a CTA or a cluster of
    /// them for each of `programs`, after the launches before it; returns when it is on its way,
    /// with 0 or the status to return. args: a pointer to the value of each parameter
    /// (tg_device_function); 8 bytes can be read there, however short the value is.
    int32_t (*dispatch)(const tg_env *env, int32_t function, int64_t programs, void *const *args);
    /// Fills in `out`, 128 bytes aligned to 64, for a tensor: dims and strides of each of its
    /// dimensions, in elements. 0, or the status to return.
    int32_t (*tensormap)(const tg_env *env, const tg_tensormap *how, void *data,
                         const int64_t *dims, const int64_t *strides, void *out);
    /// Of a launch with symmetric tensors; else NULL.
    const tg_comm_calls *comm;
};

/// A compiled kernel.
typedef int32_t tg_entry(const tg_slot *args, const tg_env *env);

/* ---- code of GPUs ---------------------------------------------------------------------------- */
// The host code of a GPU kernel is CPU code as any other; what it runs on the device are functions
// of an image. Its tensors and its workspace are in the device's memory.

/// How blocks of a tensor are copied by hardware (TMA). Dimensions count from the innermost one.
/// Element types are numbered as CUDA does it.
struct tg_tensormap {
    uint8_t type;    // enum tg_tensormap_type
    uint8_t rank;    // 1 to 5
    uint8_t swizzle; // in bytes: 0, 32, 64, 128
    uint8_t fill;    // what elements outside read: 0 zeros, 1 NaNs
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
    TG_MAP_TF32, // f32, rounded when it is read
    TG_MAP_TF32_FTZ,
};
enum { TG_TENSORMAP_BYTES = 128 };

enum tg_device_flags {
    TG_DEVICE_FAULTS = 1, // a last parameter: const tg_faults *
    /// What its host code does rests on extents, strides, numbers and, up to 16 bytes, alignment
    /// alone. Addresses of arguments are passed on by pointers into the entry's slots, and are
    /// what tensor maps are made of; nothing but those is asked for.
    TG_DEVICE_REPLAYS = 2,
    /// Nor does it look at numbers: it passes them on in the same way.
    TG_DEVICE_NUMBERS = 4,
    /// It touches memory only when the kernel before on the stream has ended, and waits for that
    /// itself, so it may be launched before (programmatic dependent launch).
    TG_DEVICE_EARLY = 8,
    TG_DEVICE_FLAGS = 15, // all of them
};

/// A function of an image. Parameters in order, flattened: a tensor is its data pointer, then each
/// extent that is not in the code (int64_t), then each such stride (int64_t, elements); a scalar is
/// its element (bool: 1 byte); a tensor map is its 128 bytes.
typedef struct tg_device_function {
    const char *name;
    int32_t threads;      // of a CTA
    int32_t cluster;      // CTAs of a cluster, which is one program; 1: none
    int32_t shared_bytes; // dynamic shared memory of a CTA
    int32_t n_args;       // without the hidden last one
    int32_t flags;
    int32_t together; // CTAs of a cluster, each of them a program; 0: as `cluster` says
} tg_device_function;

static inline int32_t tg_cluster_of(const tg_device_function *f) {
    return f->together > 1 ? f->together : f->cluster;
}

/// Where asserts, checks and prints of device code write. Words of 8 bytes follow, in records: site
/// number | number of values << 32, the program, the values (as tg_site has them). Room is claimed
/// by adding to `used`; a record that does not fit is not written. It is zero but for `capacity` at
/// a launch.
typedef struct tg_faults {
    uint32_t used, capacity; // in words
    uint32_t failed;         // not 0: an assert or a check failed
    uint32_t reserved;
    // uint64_t words[capacity]
} tg_faults;

enum tg_image_kind {
    TG_IMAGE_PTX,   // text; the NUL byte at its end counts
    TG_IMAGE_CUBIN, // machine code
    TG_IMAGE_CALL,  // functions of this process: a simulated device, whose memory is the host's
    TG_IMAGE_HSACO, // a code object of an AMD GPU
};

/// The device code of a variant, in writable memory.
typedef struct tg_image tg_image;
struct tg_image {
    int32_t kind; // enum tg_image_kind
    int32_t n_functions, n_sites;
    int16_t arch;       // 90 of sm_90a, 0x942 of gfx942
    int16_t specific;   // 1: of sm_90a, whose code no other architecture runs
    const char *target; // "sm_90a": what it was compiled for
    const void *bytes;
    uint64_t size;
    const tg_device_function *functions;
    const tg_site *const *sites; // of asserts and prints, by number
    /// Of kind CALL: what the runtime calls in place of a driver. args has the hidden parameter;
    /// dispatch returns when the function has run; it fails through env->fail.
    int32_t (*dispatch)(const tg_image *image, const tg_env *env, int32_t function,
                        int64_t programs, void *const *args);
    int32_t (*tensormap)(const tg_image *image, const tg_env *env, const tg_tensormap *how,
                         void *data, const int64_t *dims, const int64_t *strides, void *out);
    /// A workspace of the launch, which nobody has written. Memory NULL: a launch begins. May be
    /// NULL.
    void (*fresh)(const tg_image *image, const tg_env *env, const void *memory, int64_t bytes);
    void *user;  // of these three
    void *state; // the runtime's; NULL before the first use
};

/* ---- several ranks --------------------------------------------------------------------------- */
// Kernels with symmetric tensors (docs/inside/communication.md). A symmetric tensor has the rank as
// its first dimension; its slot holds the direct view: the address of rank 0's shard, and the
// distance from rank to rank as stride 0. Memory of other ranks that is not mapped has such
// addresses, too; only the calls below may be given them. Where the launch is a GPU's, what they do
// is ordered on its stream, and they return at once.

enum tg_gather_how {
    TG_GATHER_BEFORE,
    TG_GATHER_PULL,
    TG_GATHER_PUSH,
    TG_GATHER_DIRECT, // of CPUs: the direct view, if it is mapped, else as PULL
    TG_SCATTER_BEHIND // to one peer, beside what is launched next
};

/// WAITS: until all ranks have come; REACHES (code of CPUs): programs access other ranks' memory
/// where it lies, so it has to be mapped.
enum tg_begin { TG_BEGIN_WAITS = 1, TG_BEGIN_REACHES = 2 };

/// Brings all ranks' shards of a tensor here. A shard is `rows` rows of `row_bytes`, `pitch` bytes
/// apart; a chunk is `chunk_rows` of them, the last one what is left.
typedef struct tg_gather {
    void *data;   // the direct view
    int64_t lead; // bytes from rank to rank
    int64_t rows, row_bytes, pitch, chunk_rows;
    const char *name; // of the parameter, for messages
    int32_t how, reserved;
    // What the call fills in:
    void *view;   // the gathered view
    int64_t slot; // bytes from rank to rank
    void *flags; // int64_t [W][chunks]: the epoch, when that chunk is here; of the own rank at once
} tg_gather;

/// Sends partial results: of `local`, W parts as they lie in a shard's stage, part r of another
/// rank goes to slot `rank` of its stage, a chunk when done[r][chunk] holds the epoch (how: PUSH;
/// called before the launch that raises them) or all after what was launched before (BEFORE;
/// BEHIND: the part of one peer, while what is launched next runs); then flags[r][rank][chunk]
/// becomes the epoch. The own part is read where it is: neither slot nor flags `rank` of the own
/// stage are written.
typedef struct tg_scatter {
    void *local;        // part r at local + r * part
    void *stage;        // direct view of the stage: slot s of rank r at stage + r * lead + s * part
    int64_t part, lead; // bytes
    int64_t rows, row_bytes, pitch, chunk_rows;
    int64_t
        *done; // [W][chunks], symmetric memory of this rank; words of other epochs may be cleared
    int64_t *flags; // direct view: rank r's [W][chunks] are flags_lead bytes after rank r - 1's
    int64_t flags_lead;
    const char *name;
    int32_t how, peer; // peer: of BEHIND
} tg_scatter;

/// Words of the control block. Device code whose wait ends without success makes FAILED 1 by a
/// compare-and-swap from 0; who did so writes what follows it; the launch's end tells the others
/// and the host. Waits end at once where GIVE_UP or FAILED is not 0.
enum tg_control {
    TG_CONTROL_EPOCH,   // (number of the launch << TG_EPOCH_BITS) + barriers of it so far
    TG_CONTROL_LIMIT,   // how long waits last, in ns
    TG_CONTROL_GIVE_UP, // not 0: rank GIVE_UP - 1 has failed
    TG_CONTROL_FAILED,
    TG_CONTROL_SITE, // number of the wait's site in the image
    TG_CONTROL_PEER, // its values
    TG_CONTROL_NUMBER,
    TG_CONTROL_LAUNCH, // the runtime's
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

/// Every call that can fail returns 0 or the status to return; it has recorded the failure.
struct tg_comm_calls {
    int32_t rank, size;
    /// The launch begins; how: enum tg_begin.
    int32_t (*begin)(const tg_env *env, int32_t how);
    int32_t (*barrier)(const tg_env *env);
    /// The launch ends: transfers are over, no rank uses this one's shards any more.
    int32_t (*end)(const tg_env *env);
    int32_t (*gather)(const tg_env *env, tg_gather *g);
    int32_t (*scatter)(const tg_env *env, const tg_scatter *s);
    /// Symmetric memory of this launch: the n-th call of a launch returns the same on every rank, a
    /// direct view of `bytes` a rank, `*lead` bytes apart. NULL: none is left, and that is
    /// recorded.
    void *(*workspace)(const tg_env *env, int64_t bytes, int64_t *lead);
    /// Likewise words of 8 bytes which were 0 at first and are of this kernel's launches alone: the
    /// same for every call with that number (from 0 on), if not for more words than before.
    void *(*signals)(const tg_env *env, int32_t number, int64_t words, int64_t *lead);
    /// int64_t [8], enum tg_control.
    void *(*control)(const tg_env *env);
    /* For code of the CPU, from any of its threads: */
    /// Until *word compares with value; site says what for, with two values: the peer and the
    /// word's number.
    int32_t (*wait)(const tg_env *env, const tg_site *site, const int64_t *word, int32_t compare,
                    int64_t value, int64_t peer, int64_t number);
    /// What this thread wrote before is seen by who sees the word. The word may be another rank's.
    int32_t (*signal)(const tg_env *env, int64_t *word, int32_t how, int64_t value);
    /// fence: puts before it to one rank arrive before puts after it. quiet: all have arrived.
    int32_t (*fence)(const tg_env *env, int32_t quiet);
    /// Bytes from or to a direct view, where it is not mapped.
    int32_t (*get)(const tg_env *env, void *to, const void *from, int64_t bytes);
    int32_t (*put)(const tg_env *env, void *to, const void *from, int64_t bytes);
};

/* ---- kernels as data ----------------------------------------------------------------------- */
// An object file that `tegula build` made, and the just-in-time compiler, describe a kernel to the
// runtime by the same constant data. The runtime binds the arguments, picks a variant, runs it.

enum { TG_ABI = 3, TG_MAX_RANK = 8, TG_MAX_PARAMS = 256, TG_MAX_TYPES = 64 };

enum tg_param_kind { TG_PARAM_TENSOR, TG_PARAM_SCALAR, TG_PARAM_CONST };
enum tg_param_flags {
    TG_PARAM_OPTIONAL = 1,
    TG_PARAM_WRITTEN = 2,
    TG_PARAM_BOOL = 4,
    TG_PARAM_SYM = 8,     // symmetric: `rank` and axes count the ranks' dim, which the runtime adds
    TG_PARAM_STEERS = 16, // a number that may decide which phases run: ranks agree on it
};

/// A parameter as the source declares it. Types are DLPack's (code, bits); bits 0: that of the type
/// parameter `type`, which the arguments settle.
typedef struct tg_param_info {
    const char *name;
    uint8_t kind, flags; // tg_param_kind, tg_param_flags
    uint8_t code, bits;
    int8_t type;    // index of the type parameter, or -1
    int8_t rank;    // of a tensor without its pack
    int8_t pack_at; // first axis of `..N`, or -1
    int8_t pack;    // tensors of one number share `..N`, so their packs are merged alike
} tg_param_info;

/// What must hold of the arguments for a variant to be right. Axes count after packs were merged;
/// a stride of an axis of extent <= 1 always holds.
enum tg_fact_kind {
    TG_FACT_NULL,    // an optional tensor is null (value 1) or is not (0)
    TG_FACT_EXTENT,  // of axis
    TG_FACT_STRIDE,  // of axis, in elements
    TG_FACT_PACK,    // how many axes are left of the pack
    TG_FACT_VALUE,   // of a const parameter
    TG_FACT_TYPE,    // of a type parameter (param counts those): code << 8 | bits
    TG_FACT_LEAST,   // the extent of axis is at least value
    TG_FACT_MOST,    // the extent of axis is at most value
    TG_FACT_STRIDED, // the stride of axis is neither 0 nor 1
    TG_FACT_ALIGN,   // TG_LINE / tg_alignment is among the bits of value
    TG_FACT_NEAR,    // tg_is_near (value 1) or not (0)
    TG_FACT_MAPPED,  // of no parameter: other ranks' memory is mapped (value 1) or not (0)
};

/// All elements end before byte TG_SPAN from element 0 on, and none lies before it.
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

/// What keeps copies of `unit` bytes from starting at multiples of that in a tensor's rows.
typedef enum tg_misaligned {
    TG_ALIGNED,
    TG_OFF_START,  // the address is no multiple of it
    TG_OFF_STRIDE, // the stride of an axis is none, nor 1
    TG_BACKWARDS   // it is negative
} tg_misaligned;

/// *axis: whose stride it is. Axes of one element have none.
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

/// The widest copies whose starts are aligned: 16, 8 or 4 bytes; 1 where these are no wider than
/// an element, or there are none.
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

/// Of variants that are right, the runtime takes one of the highest level that the CPU has, of
/// those one with the most facts, and of those the one whose hints are nearest: the least sum of
/// |log2(extent) - log2(hint)|. Tuned ones whose sum is at most 1/2 come before others, the later
/// of two that are as near; what was tuned on another device is not looked at.
typedef struct tg_hint {
    uint8_t param, axis, reserved[6];
    int64_t extent;
} tg_hint;

/// CPU levels, in ascending order; 0 runs on every CPU of the architecture. V3 and V4 are those of
/// the x86-64 psABI; AMX is V4 with amx-tile, amx-bf16, amx-int8, avx512bf16, avx512fp16 and
/// avx512vnni.
enum tg_level { TG_LEVEL_BASE, TG_LEVEL_V3, TG_LEVEL_V4, TG_LEVEL_AMX, TG_LEVELS };

/// One compilation of a kernel. Its arguments are those parameters that `params` lists, in order:
/// const ones and nulls are left out.
typedef struct tg_variant {
    tg_entry *entry;
    const tg_fact *facts;
    const tg_hint *hints;
    const uint8_t *params;
    const uint8_t *inplace; // pairs of parameters that may be one view
    const char *config;     // "BM=64 BN=32": the tune values, for people
    int16_t level, n_facts, n_hints, n_params, n_inplace;
    int16_t tuned;   // 1: found by measuring, for the extents that the hints name
    uint32_t device; // of a tuned one: where it was measured (tg_device_hash); 0: it is for any
    tg_image *image; // what `entry` launches; NULL: the variant runs on the CPU
} tg_variant;

typedef struct tg_kernel_info {
    const char *name;      // as in the source: "softmax"
    const char *signature; // the header line, for messages
    const tg_param_info *params;
    const tg_variant *variants; // of an object; the just-in-time compiler adds its own
    int32_t n_params, n_types, n_variants, source; // source: a hash of its texts; 0: not known
} tg_kernel_info;

/// The kernel itself, in writable memory: what launches take.
typedef struct tg_kernel tg_kernel;
struct tg_kernel {
    uint32_t abi, reserved; // TG_ABI
    const tg_kernel_info *info;
    void *state; // the runtime's; NULL before the first use
};

#endif
