// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The only kernel of the runtime itself on a device: it executes the steps of a collective launch.
//
// It has one CTA; thread r handles rank r. A rank that comes writes one word to each other rank,
// with release at system scope. The others read it with acquire, and so see the results of earlier
// kernels on that rank's stream. The word holds the count of the meeting and the hash of the
// launch. A wait needs only this word. While it waits, the thread also reads the words that report
// failures. Each wait ends after the limit in the control block.
//
// If the memory of other ranks is not mapped, a rank writes only its own place, and copies bring it
// to the others. The two words of a rank are then adjacent (rt_came with pairs).
#include "runtime/comm/comm_cuda.h"

#include <stddef.h>
#include <stdio.h>

enum { THREADS = 128 };
_Static_assert((int)THREADS >= (int)RT_COMM_RANKS, "a thread speaks with a rank");
_Static_assert(sizeof(rt_step) == 120, "the kernel's parameter");
_Static_assert(offsetof(rt_step, rank) == 32 && offsetof(rt_step, what) == 48, "its fields");
_Static_assert(offsetof(rt_step, fills) == 56 && sizeof((rt_step){0}.fills) == 64, "");
_Static_assert((int)RT_COUNT_BITS == 16, "the mask of a count");
_Static_assert(offsetof(rt_cuda_words, count) == 64 && offsetof(rt_cuda_words, came) == 128, "");
_Static_assert(sizeof(((rt_cuda_words *)0)->came[0]) == 512, "9 bits are shifted");
_Static_assert((int)RT_STEP_LATE == -1 && (int)RT_STEP_UNLIKE == -2, "sites of the text below");
_Static_assert(TG_CONTROL_LIMIT == 1 && TG_CONTROL_GIVE_UP == 2 && TG_CONTROL_FAILED == 3 &&
                   TG_CONTROL_SITE == 4 && TG_CONTROL_PEER == 5 && TG_CONTROL_NUMBER == 6 &&
                   TG_CONTROL_LAUNCH == 7 && TG_EPOCH_BITS == 31,
               "words of 8 bytes in the text below");

/// Records the first failure of a launch here: the site, and the rank that this thread handles.
#define FAIL(site)                                                                                 \
    "setp.eq.u32 %bad, %thread, %thread;\n"                                                        \
    "add.u64 %a, %own, 24;\n"                                                                      \
    "atom.relaxed.sys.global.cas.b64 %v, [%a], 0, 1;\n"                                            \
    "setp.ne.u64 %p, %v, 0;\n"                                                                     \
    "@%p bra CAME;\n"                                                                              \
    "cvt.u64.u32 %wide, %thread;\n"                                                                \
    "st.relaxed.sys.global.u64 [%own + 32], " site ";\n"                                           \
    "st.relaxed.sys.global.u64 [%own + 40], %wide;\n"                                              \
    "st.relaxed.sys.global.u64 [%own + 48], %count;\n"

// The text is in parts: a C string literal may have 4095 bytes at most, and some parts differ
// between devices. This part reads the epoch and the count.
static const char plain[] = ".version 7.0\n.target sm_80\n";
static const char early[] = ".version 7.8\n.target sm_90\n";
static const char reads[] =
    ".address_size 64\n"
    ".visible .entry tg_comm_step(.param .align 8 .b8 step[120])\n"
    ".maxntid 128, 1, 1\n"
    ".pragma \"nounroll\";\n" // a step's latency includes fetching its instructions
    "{\n"
    ".reg .pred %p, %q, %begins, %tells, %bad;\n"
    ".reg .b32 %thread, %rank, %ranks, %flags, %launch, %i, %n, %k;\n"
    ".reg .b64 %own, %others, %stride, %record, %epoch, %count, %a, %b, %v;\n"
    ".reg .b64 %odd, %word, %from, %now, %limit, %up, %failed, %wide, %what, %there, %to;\n"
    "ld.param.u64 %own, [step + 0];\n"
    "ld.param.u64 %others, [step + 8];\n"
    "ld.param.u64 %stride, [step + 16];\n"
    "ld.param.u64 %record, [step + 24];\n"
    "ld.param.u32 %rank, [step + 32];\n"
    "ld.param.u32 %ranks, [step + 36];\n"
    "ld.param.u32 %flags, [step + 40];\n"
    "ld.param.u32 %launch, [step + 44];\n"
    "ld.param.u64 %what, [step + 48];\n"
    // All threads read these words before thread 0 writes them, after a barrier. Only steps write
    // them, and the preceding step has ended.
    "ld.relaxed.sys.global.u64 %epoch, [%own];\n"
    "ld.relaxed.sys.global.u64 %count, [%own + 64];\n"
    "mov.u32 %thread, %tid.x;\n"
    "and.b32 %k, %flags, 1;\n"
    "setp.ne.u32 %begins, %k, 0;\n"
    "and.b32 %k, %flags, 2;\n"
    "setp.ne.u32 %tells, %k, 0;\n"
    "shr.u64 %a, %epoch, 31;\n"
    "add.u64 %a, %a, 1;\n"
    "shl.b64 %a, %a, 31;\n"
    "selp.b64 %epoch, %a, %epoch, %begins;\n"
    "add.u64 %a, %count, 1;\n"
    "selp.b64 %count, %a, %count, %tells;\n"
    // The word of this meeting, the offset of words of its parity, and the target address.
    "and.b64 %a, %count, 65535;\n"
    "or.b64 %what, %what, %a;\n"
    "and.b64 %odd, %count, 1;\n";

static const char near[] = "shl.b64 %odd, %odd, 9;\n"
                           "cvt.u64.u32 %wide, %thread;\n"
                           "mad.lo.u64 %there, %wide, %stride, %others;\n"
                           "mad.wide.u32 %to, %rank, 8, %there;\n"
                           "add.u64 %to, %to, %odd;\n";

// All threads write the one own word. The words that neighbouring threads read are 16 bytes apart.
static const char far[] = "shl.b64 %odd, %odd, 3;\n"
                          "mov.b64 %there, %own;\n"
                          "mad.wide.u32 %to, %rank, 16, %own;\n"
                          "add.u64 %to, %to, %odd;\n"
                          "mad.wide.u32 %odd, %thread, 8, %odd;\n";

// griddepcontrol.wait: until preceding programs have ended and their writes are visible.
// launch_dependents: the kernels after this step may begin only when all ranks have arrived. If
// they began earlier, they would wait for this step and might fill the device, so that a kernel for
// which a peer waits would find no room.
static const char waits[] = "griddepcontrol.wait;\n";
static const char frees[] = "griddepcontrol.launch_dependents;\n";

static const char counts[] = "bar.sync 0;\n"
                             "setp.eq.and.u32 %p, %thread, 0, %begins;\n"
                             "cvt.u64.u32 %wide, %launch;\n"
                             "@%p st.relaxed.sys.global.u64 [%own], %epoch;\n"
                             "@%p st.relaxed.sys.global.u64 [%own + 56], %wide;\n"
                             // Fills, up to the first one without words.
                             "mov.u64 %from, step;\n"
                             "add.u64 %limit, %from, 64;\n"
                             "FILLS:\n"
                             "ld.param.u32 %n, [%from + 64];\n"
                             "setp.eq.u32 %p, %n, 0;\n"
                             "@%p bra FILLED;\n"
                             "ld.param.u64 %a, [%from + 56];\n"
                             "ld.param.u32 %k, [%from + 68];\n"
                             "setp.ne.u32 %p, %k, 0;\n"
                             "selp.b64 %v, %epoch, 0, %p;\n"
                             "mov.u32 %i, %thread;\n"
                             "FILL:\n"
                             "setp.ge.u32 %p, %i, %n;\n"
                             "@%p bra NEXT;\n"
                             "mad.wide.u32 %b, %i, 8, %a;\n"
                             "st.relaxed.sys.global.u64 [%b], %v;\n"
                             "add.u32 %i, %i, 128;\n"
                             "bra FILL;\n"
                             "NEXT:\n"
                             "add.u64 %from, %from, 16;\n"
                             "setp.lt.u64 %p, %from, %limit;\n"
                             "@%p bra FILLS;\n"
                             "FILLED:\n"
                             "bar.sync 0;\n";

static const char meets[] =
    "setp.ne.u32 %bad, %thread, %thread;\n"
    "setp.ge.u32 %q, %thread, %ranks;\n"
    "@%q bra CAME;\n"
    "@%tells st.release.sys.global.u64 [%to + 128], %what;\n"
    "setp.eq.and.u32 %p, %thread, 0, %tells;\n"
    "@%p st.relaxed.sys.global.u64 [%own + 64], %count;\n"
    "and.b32 %k, %flags, 4;\n"
    "setp.ne.u32 %p, %k, 0;\n"
    "@%p bra WAIT;\n"
    "ld.relaxed.sys.global.v2.u64 {%up, %failed}, [%own + 16];\n"
    "or.b64 %up, %up, %failed;\n"
    "setp.ne.u64 %bad, %up, 0;\n"
    "bra CAME;\n"
    "WAIT:\n"
    "mad.wide.u32 %word, %thread, 8, %own;\n"
    "add.u64 %word, %word, %odd;\n"
    "mov.u64 %from, 0;\n"
    "mov.u32 %i, 0;\n"
    "SPIN:\n"
    "ld.relaxed.sys.global.v2.u64 {%up, %failed}, [%own + 16];\n"
    "ld.acquire.sys.global.u64 %v, [%word + 128];\n"
    "or.b64 %up, %up, %failed;\n"
    "setp.ne.u64 %bad, %up, 0;\n"
    "sub.u64 %now, %v, %what;\n"
    "shl.b64 %now, %now, 48;\n"
    "setp.ge.s64 %p, %now, 0;\n"
    "@%p bra SEEN;\n"
    "@%bad bra CAME;\n"
    // The clock is read in every 64th iteration.
    "add.u32 %i, %i, 1;\n"
    "and.b32 %k, %i, 63;\n"
    "setp.ne.u32 %p, %k, 0;\n"
    "@%p bra SPIN;\n"
    "ld.relaxed.sys.global.u64 %limit, [%own + 8];\n"
    "mov.u64 %now, %globaltimer;\n"
    "setp.eq.u64 %p, %from, 0;\n"
    "selp.b64 %from, %now, %from, %p;\n"
    "sub.u64 %now, %now, %from;\n"
    "setp.lt.u64 %p, %now, %limit;\n"
    // clang-format off
    "@%p bra SPIN;\n"
    FAIL("-1")
    "bra CAME;\n"
    // If the other rank is at a later meeting, it has failed in this one.
    "SEEN:\n"
    "setp.ne.u64 %p, %now, 0;\n"
    "@%p bra CAME;\n"
    "setp.eq.u64 %p, %v, %what;\n"
    "@%p bra CAME;\n"
    FAIL("-2")
    // clang-format on
    "CAME:\n"
    "bar.red.or.pred %bad, 0, %bad;\n";

static const char tells[] = "and.b32 %k, %flags, 8;\n"
                            "setp.ne.u32 %p, %k, 0;\n"
                            "setp.eq.and.u32 %p, %thread, 0, %p;\n"
                            "add.u64 %a, %epoch, 1;\n"
                            "@%p st.relaxed.sys.global.u64 [%own], %a;\n"
                            "@!%bad bra DONE;\n"
                            "@%q bra DONE;\n"
                            // A failure of this rank is reported to all ranks. A failure that came
                            // from another rank is reported only to the host.
                            "ld.relaxed.sys.global.v2.u64 {%up, %failed}, [%own + 16];\n"
                            "setp.eq.u64 %p, %failed, 0;\n"
                            "@%p bra HOST;\n"
                            "cvt.u64.u32 %up, %rank;\n"
                            "add.u64 %up, %up, 1;\n"
                            "st.relaxed.sys.global.u64 [%there + 16], %up;\n"
                            "HOST:\n"
                            "setp.ne.u32 %p, %thread, 0;\n"
                            "@%p bra DONE;\n"
                            "mov.u32 %i, 7;\n"
                            "COPY:\n"
                            "mad.wide.u32 %a, %i, 8, %own;\n"
                            "ld.relaxed.sys.global.u64 %v, [%a];\n"
                            "mad.wide.u32 %a, %i, 8, %record;\n"
                            "st.relaxed.sys.global.u64 [%a], %v;\n"
                            "sub.u32 %i, %i, 1;\n"
                            "setp.gt.u32 %p, %i, 2;\n"
                            "@%p bra COPY;\n"
                            "st.release.sys.global.u64 [%record + 16], %up;\n"
                            "DONE:\n"
                            "ret;\n"
                            "}\n";

void rt_step_text(int capability, bool pairs, char out[static RT_STEP_TEXT]) {
    _Static_assert(sizeof early + sizeof reads + sizeof near + sizeof far + sizeof waits +
                           sizeof counts + sizeof meets + sizeof frees + sizeof tells <=
                       RT_STEP_TEXT,
                   "its size");
    bool is_early = capability >= RT_STEP_EARLY;
    snprintf(out, RT_STEP_TEXT, "%s%s%s%s%s%s%s%s", is_early ? early : plain, reads,
             pairs ? far : near, is_early ? waits : "", counts, meets, is_early ? frees : "",
             tells);
}

tg_status rt_step_load(const rt_device *d, bool pairs, cu_module *module, cu_function *function) {
    const rt_cuda *cu = rt_cuda_driver();
    char text[RT_STEP_TEXT];
    rt_step_text(d->capability, pairs, text);
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
