// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one kernel that the runtime itself runs on a device: steps of a collective launch.
//
// One CTA; thread r speaks with rank r. Words that others write are read with acquire, and written
// with release, at system scope; what kernels before it on the stream wrote is thereby seen by who
// sees the word. Each wait ends after the limit in the control block.
#include "runtime/comm_cuda.h"

#include <stddef.h>
#include <stdio.h>

enum { THREADS = 128 };
_Static_assert((int)THREADS >= (int)RT_COMM_RANKS, "a thread speaks with a rank");
_Static_assert(sizeof(rt_step) == 120, "the kernel's parameter");
_Static_assert(offsetof(rt_step, rank) == 32 && offsetof(rt_step, what) == 48, "its fields");
_Static_assert(offsetof(rt_cuda_words, count) == 64 && offsetof(rt_cuda_words, came) == 128, "");
_Static_assert(offsetof(rt_step, fills) == 56 && offsetof(rt_cuda_words, what) == 640, "");
_Static_assert(sizeof(((rt_cuda_words *)0)->what[0]) == 512, "9 bits are shifted");
_Static_assert((int)RT_STEP_LATE == -1 && (int)RT_STEP_UNLIKE == -2, "sites of the text below");
_Static_assert(TG_CONTROL_LIMIT == 1 && TG_CONTROL_GIVE_UP == 2 && TG_CONTROL_FAILED == 3 &&
                   TG_CONTROL_SITE == 4 && TG_CONTROL_PEER == 5 && TG_CONTROL_NUMBER == 6 &&
                   TG_CONTROL_LAUNCH == 7 && TG_EPOCH_BITS == 31,
               "words of 8 bytes in the text below");

#define FILL(n, at, words, epoch)                                                                  \
    "ld.param.u64 %a, [step + " at "];\n"                                                          \
    "ld.param.u32 %n, [step + " words "];\n"                                                       \
    "ld.param.u32 %k, [step + " epoch "];\n"                                                       \
    "setp.ne.u32 %p, %k, 0;\n"                                                                     \
    "selp.b64 %v, %epoch, 0, %p;\n"                                                                \
    "mov.u32 %i, %thread;\n"                                                                       \
    "FILL" n ":\n"                                                                                 \
    "setp.ge.u32 %p, %i, %n;\n"                                                                    \
    "@%p bra FILLED" n ";\n"                                                                       \
    "mad.wide.u32 %b, %i, 8, %a;\n"                                                                \
    "st.relaxed.sys.global.u64 [%b], %v;\n"                                                        \
    "add.u32 %i, %i, 128;\n"                                                                       \
    "bra FILL" n ";\n"                                                                             \
    "FILLED" n ":\n"

/// The first failure of a launch here: what this thread and rank saw.
#define FAIL(site)                                                                                 \
    "add.u64 %a, %own, 24;\n"                                                                      \
    "atom.relaxed.sys.global.cas.b64 %v, [%a], 0, 1;\n"                                            \
    "setp.ne.u64 %p, %v, 0;\n"                                                                     \
    "@%p bra CAME;\n"                                                                              \
    "cvt.u64.u32 %wide, %thread;\n"                                                                \
    "st.relaxed.sys.global.u64 [%own + 32], " site ";\n"                                           \
    "st.relaxed.sys.global.u64 [%own + 40], %wide;\n"                                              \
    "st.relaxed.sys.global.u64 [%own + 48], %count;\n"

// In two parts, as a string of C has at most 4095 bytes. First: the epoch, the count, fills.
static const char counts[] =
    ".version 7.0\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .entry tg_comm_step(.param .align 8 .b8 step[120])\n"
    ".maxntid 128, 1, 1\n"
    "{\n"
    ".reg .pred %p, %q;\n"
    ".reg .b32 %thread, %rank, %ranks, %flags, %launch, %i, %n, %k;\n"
    ".reg .b64 %own, %others, %stride, %record, %epoch, %count, %a, %b, %v;\n"
    ".reg .b64 %word, %from, %now, %limit, %up, %failed, %wide, %what;\n"
    ".shared .align 8 .b8 told[16];\n"
    "ld.param.u64 %own, [step + 0];\n"
    "ld.param.u64 %others, [step + 8];\n"
    "ld.param.u64 %stride, [step + 16];\n"
    "ld.param.u64 %record, [step + 24];\n"
    "ld.param.u32 %rank, [step + 32];\n"
    "ld.param.u32 %ranks, [step + 36];\n"
    "ld.param.u32 %flags, [step + 40];\n"
    "ld.param.u32 %launch, [step + 44];\n"
    "ld.param.u64 %what, [step + 48];\n"
    "mov.u32 %thread, %tid.x;\n"
    // Thread 0 counts, and tells the others what it counted to.
    "setp.ne.u32 %p, %thread, 0;\n"
    "@%p bra COUNTED;\n"
    "ld.relaxed.sys.global.u64 %epoch, [%own];\n"
    "ld.relaxed.sys.global.u64 %count, [%own + 64];\n"
    "and.b32 %k, %flags, 1;\n"
    "setp.eq.u32 %p, %k, 0;\n"
    "@%p bra OLD;\n"
    "shr.u64 %epoch, %epoch, 31;\n"
    "add.u64 %epoch, %epoch, 1;\n"
    "shl.b64 %epoch, %epoch, 31;\n"
    "cvt.u64.u32 %wide, %launch;\n"
    "st.relaxed.sys.global.u64 [%own], %epoch;\n"
    "st.relaxed.sys.global.u64 [%own + 56], %wide;\n"
    "OLD:\n"
    "and.b32 %k, %flags, 2;\n"
    "setp.eq.u32 %p, %k, 0;\n"
    "@%p bra SAME;\n"
    "add.u64 %count, %count, 1;\n"
    "st.relaxed.sys.global.u64 [%own + 64], %count;\n"
    "SAME:\n"
    "st.shared.u64 [told], %epoch;\n"
    "st.shared.u64 [told + 8], %count;\n"
    "COUNTED:\n"
    "bar.sync 0;\n"
    "ld.shared.u64 %epoch, [told];\n"
    "ld.shared.u64 %count, [told + 8];\n"
    // clang-format off
    FILL("0", "56", "64", "68")
    FILL("1", "72", "80", "84")
    FILL("2", "88", "96", "100")
    FILL("3", "104", "112", "116")
    // clang-format on
    "bar.sync 0;\n";

static const char meets[] =
    "setp.ge.u32 %q, %thread, %ranks;\n"
    "@%q bra CAME;\n"
    "and.b32 %k, %flags, 2;\n"
    "setp.eq.u32 %p, %k, 0;\n"
    "@%p bra TOLD;\n"
    "cvt.u64.u32 %wide, %thread;\n"
    "mad.lo.u64 %b, %wide, %stride, %others;\n"
    "mad.wide.u32 %b, %rank, 8, %b;\n"
    "and.b64 %a, %count, 1;\n"
    "shl.b64 %a, %a, 9;\n"
    "add.u64 %a, %a, %b;\n"
    "st.relaxed.sys.global.u64 [%a + 640], %what;\n"
    "fence.acq_rel.sys;\n"
    "st.release.sys.global.u64 [%b + 128], %count;\n"
    "TOLD:\n"
    "and.b32 %k, %flags, 4;\n"
    "setp.eq.u32 %p, %k, 0;\n"
    "@%p bra CAME;\n"
    "mad.wide.u32 %word, %thread, 8, %own;\n"
    "ld.relaxed.sys.global.u64 %limit, [%own + 8];\n"
    "mov.u64 %from, %globaltimer;\n"
    "SPIN:\n"
    "ld.acquire.sys.global.u64 %v, [%word + 128];\n"
    "setp.ge.s64 %p, %v, %count;\n"
    "@%p bra SEEN;\n"
    "ld.relaxed.sys.global.u64 %up, [%own + 16];\n"
    "ld.relaxed.sys.global.u64 %failed, [%own + 24];\n"
    "or.b64 %up, %up, %failed;\n"
    "setp.ne.u64 %p, %up, 0;\n"
    "@%p bra CAME;\n"
    "mov.u64 %now, %globaltimer;\n"
    "sub.u64 %now, %now, %from;\n"
    "setp.lt.u64 %p, %now, %limit;\n"
    // clang-format off
    "@%p bra SPIN;\n"
    FAIL("-1")
    "bra CAME;\n"
    // What the rank launches: of the other parity is what it may meet for already.
    "SEEN:\n"
    "and.b64 %a, %count, 1;\n"
    "shl.b64 %a, %a, 9;\n"
    "add.u64 %a, %a, %word;\n"
    "ld.relaxed.sys.global.u64 %v, [%a + 640];\n"
    "setp.eq.u64 %p, %v, %what;\n"
    "@%p bra CAME;\n"
    FAIL("-2")
    // clang-format on
    "CAME:\n"
    "bar.sync 0;\n"
    "and.b32 %k, %flags, 8;\n"
    "setp.eq.u32 %p, %k, 0;\n"
    "@%p bra TURNED;\n"
    "setp.ne.u32 %p, %thread, 0;\n"
    "@%p bra TURNED;\n"
    "add.u64 %a, %epoch, 1;\n"
    "st.relaxed.sys.global.u64 [%own], %a;\n"
    "TURNED:\n"
    // A failure of this rank is told to all, one that came
    // from another to the host alone.
    "ld.relaxed.sys.global.u64 %up, [%own + 16];\n"
    "ld.relaxed.sys.global.u64 %failed, [%own + 24];\n"
    "or.b64 %v, %up, %failed;\n"
    "setp.eq.u64 %p, %v, 0;\n"
    "@%p bra DONE;\n"
    "@%q bra DONE;\n"
    "setp.eq.u64 %p, %failed, 0;\n"
    "@%p bra HOST;\n"
    "cvt.u64.u32 %up, %rank;\n"
    "add.u64 %up, %up, 1;\n"
    "cvt.u64.u32 %wide, %thread;\n"
    "mad.lo.u64 %b, %wide, %stride, %others;\n"
    "st.relaxed.sys.global.u64 [%b + 16], %up;\n"
    "HOST:\n"
    "setp.ne.u32 %p, %thread, 0;\n"
    "@%p bra DONE;\n"
    "mov.u32 %i, 7;\n"
    "NEXT:\n"
    "mad.wide.u32 %a, %i, 8, %own;\n"
    "ld.relaxed.sys.global.u64 %v, [%a];\n"
    "mad.wide.u32 %a, %i, 8, %record;\n"
    "st.relaxed.sys.global.u64 [%a], %v;\n"
    "sub.u32 %i, %i, 1;\n"
    "setp.gt.u32 %p, %i, 2;\n"
    "@%p bra NEXT;\n"
    "st.release.sys.global.u64 [%record + 16], %up;\n"
    "DONE:\n"
    "ret;\n"
    "}\n";

tg_status rt_step_load(const rt_device *d, cu_module *module, cu_function *function) {
    const rt_cuda *cu = rt_cuda_driver();
    char text[sizeof counts + sizeof meets];
    snprintf(text, sizeof text, "%s%s", counts, meets);
    cu_result error = cu->module_load(module, text, 0, NULL, NULL);
    if (error)
        return rt_cuda_fail("cuModuleLoadDataEx", error, "loading the steps of several ranks");
    error = cu->module_function(function, *module, "tg_comm_step");
    if (!error) return TG_OK;
    cu->module_unload(*module);
    *module = NULL;
    return rt_cuda_fail("cuModuleGetFunction", error, "the steps of several ranks on device %d",
                        d->number);
}
