// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes tensor maps under the rules of cuTensorMapEncodeTiled.
#include <string.h>

#include "backends/sim/sim.h"
#include "backends/sim/tma_map.h"

// Indexed by CUDA's number of the type.
static const uint8_t type_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

static const int swizzle_bytes[] = {0, 32, 64, 128};

static const char *check_box(const SimTensorMap *m) {
    int64_t inner = (int64_t)m->box[0] * m->bytes;
    for (int i = 0; i < m->rank; i++) {
        if (m->box[i] < 1 || m->box[i] > 256) return "an extent of the box is not 1 to 256";
        if (m->steps[i] < 1 || m->steps[i] > 8) return "an element stride is not 1 to 8";
    }
    if (inner % 16) return "rows of the box are no multiple of 16 bytes";
    if (m->swizzle && inner > swizzle_bytes[m->swizzle])
        return "rows of the box are longer than the swizzle";
    return NULL;
}

static const char *check_strides(const SimTensorMap *m) {
    for (int i = 0; i + 1 < m->rank; i++)
        if (m->strides[i] % 16 || m->strides[i] >> 40)
            return "a stride is not a multiple of 16 bytes below 2^40";
    return NULL;
}

const char *sim_tensor_map(void *map, int type, int rank, void *base, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box,
                           const uint32_t *element_strides, int interleave, int swizzle, int fill) {
    SimTensorMap m = {.magic = MAP_MAGIC, .base = base};
    if (type < 0 || type >= (int)sizeof type_bytes) return "there is no such element type";
    if (rank < 1 || rank > MAP_RANK) return "the rank is not 1 to 5";
    if (swizzle < 0 || swizzle > 3 || fill < 0 || fill > 1) return "no such swizzle or fill";
    if (interleave) return "the simulator has no interleaved layouts";
    if ((uintptr_t)base % 16) return "the address is not a multiple of 16";
    m.type = (uint8_t)type;
    m.rank = (uint8_t)rank;
    m.swizzle = (uint8_t)swizzle;
    m.fill = (uint8_t)fill;
    m.bytes = type_bytes[type];
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > (uint64_t)1 << 32) return "an extent is not 1 to 2^32";
        m.last[i] = (uint32_t)(dims[i] - 1);
        if (box[i] > 256) return "an extent of the box is not 1 to 256";
        m.box[i] = (uint16_t)box[i];
        m.steps[i] = (uint8_t)(element_strides ? element_strides[i] : 1);
        if (i > 0) m.strides[i - 1] = strides[i - 1];
    }
    const char *wrong = check_box(&m);
    if (!wrong) wrong = check_strides(&m);
    if (!wrong) memcpy(map, &m, sizeof m);
    return wrong;
}
