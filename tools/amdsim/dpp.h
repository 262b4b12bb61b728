// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers for the names of modifiers: lane shuffles, and SDWA's unused bits.
#ifndef TOOLS_AMDSIM_DPP_H
#define TOOLS_AMDSIM_DPP_H

enum {
    DPP_NONE,
    DPP_QUAD_PERM,
    DPP_SHL,
    DPP_SHR,
    DPP_ROR,
    DPP_MIRROR,
    DPP_HALF_MIRROR,
    DPP_BCAST15,
    DPP_BCAST31,
    DPP_SHARE,
    DPP_XMASK,
    DPP_8,
    DPP_WAVE_SHR,
};

enum { UNUSED_PAD, UNUSED_SEXT, UNUSED_PRESERVE };

#endif
