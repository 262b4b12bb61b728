// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Remote reads by the plan `put`: the owner's programs send its shard to all ranks, in a phase of
// their own before the phases that read it.
//
//   parallel r, m { load %a[r, m] }
//   ->
//   parallel r', m { r = (r' + rank + 1) % W
//                    store %sent[r, rank, m], load %a[rank, m]
//                    atomic max %words[r, rank, part], epoch; signal_set %words[...] += 1 }
//   parallel r', m { r = (r' + rank) % W; signal_wait %words[rank, r, part] >= epoch + programs
//                    load %sent[rank, r, m] }
//
// Copy engines take 10 us and more before the first bytes move, which is too long for a shard of
// few rows. Programs begin with the launch. No meeting is necessary, because the memory has been
// free since the last launch ended. A word counts the programs that have sent their piece of a
// chunk. It starts at the epoch at which this launch began, which exceeds every value that earlier
// launches left there. So a program waits for one word for each chunk that it reads, whatever the
// size of a piece. The own shard is also sent to the own memory, so that all shards are read from
// one place. Programs that read the own shard do not wait, as the previous phase has ended.
#include "passes/comm/comm.h"

#include <string.h>

// The data that a program sends. 1024 threads have four words of 16 bytes each in flight. With 2
// MiB for each of four ranks this gives one program an SM. Smaller pieces need a second wave of
// programs, which begins only when the first has ended: `ag_gemm` of 512x7168x8192 took 122 us with
// 16 KiB and 111 us with 64 KiB. A piece has at most PIECE_ELEMENTS elements, as each takes a
// register.
enum { PIECE_BYTES = 64 << 10, PIECE_ELEMENTS = 32 << 10, ROW_BYTES = 4 << 10, MOST_ROWS = 64 };

static int64_t piece_elements(const Value *tensor) {
    int64_t n = (int64_t)PIECE_BYTES * 8 / elem_info[tensor->type->elem].bits;
    return n < PIECE_ELEMENTS ? n : PIECE_ELEMENTS;
}

/// Returns the elements of a row that one program sends, a power of 2.
static int64_t put_columns(const Value *tensor) {
    const Type *t = tensor->type;
    int64_t row = ROW_BYTES * 8 / elem_info[t->elem].bits, last = t->extents[t->rank - 1];
    int64_t most = t->rank == 2 ? piece_elements(tensor) : row, n = 1;
    while (2 * n <= most && (last == DYNAMIC || n < last)) n *= 2;
    return n;
}

int64_t comm_put_rows(const Value *tensor) {
    int64_t columns = put_columns(tensor), n = 1;
    if (tensor->type->rank == 2) return columns;
    while (2 * n <= MOST_ROWS && 2 * n * columns <= piece_elements(tensor)) n *= 2;
    return n;
}

bool comm_put_fits(const Value *tensor) {
    return tensor->type->rank < MAX_RANK;
}

/// Returns the extent, but at least 1, so that a shard without elements is signalled as well.
static Value *nonzero_extent(Builder *b, Value *tensor, int d) {
    return ix_max(b, comm_dim(b, tensor, d), build_index(b, 1));
}

/// Returns the number of programs that send one chunk to one rank.
static Value *count_senders(const CommPut *p, Builder *b, Value *chunk) {
    Value *left = ix_sub(b, nonzero_extent(b, p->tensor, 1), ix_mul(b, chunk, p->chunk));
    Value *rows = ix_min(b, p->chunk, left);
    Value *n = ix_ceildiv(b, rows, build_index(b, comm_put_rows(p->tensor)));
    for (int d = 2; d < p->tensor->type->rank; d++) {
        bool last = d == p->tensor->type->rank - 1;
        Value *size = build_index(b, last ? put_columns(p->tensor) : 1);
        n = ix_mul(b, n, ix_ceildiv(b, nonzero_extent(b, p->tensor, d), size));
    }
    return n;
}

/// Opens a phase over pieces of the own shard, and moves b inside its program. *row: the first row
/// of the piece.
static Place open_piece(const CommPut *p, Builder *b, Value **row) {
    Place piece = {0};
    int rank = p->tensor->type->rank;
    for (int d = 1; d < rank; d++) {
        int64_t size = d == 1          ? comm_put_rows(p->tensor)
                       : d == rank - 1 ? put_columns(p->tensor)
                                       : 1;
        Value *end = nonzero_extent(b, p->tensor, d);
        Value *at = open_parallel(b, build_index(b, 0), end, size, d == 1 ? "row" : "column");
        if (d == 1) *row = at;
        if (d == 1 || d == rank - 1)
            place_add_axis(&piece, at, build_index(b, size), size);
        else
            place_add_at(&piece, at);
    }
    return piece;
}

/// Builds the phase that sends the own shard: to the next rank first, and to the own rank last.
static void send_shards(Comm *c, const CommPut *p, Builder b) {
    Region *home = b.region;
    Value *turn = open_parallel(&b, build_index(&b, 0), p->ranks, 1, "turn"), *row = NULL;
    Value *next = ix_add(&b, ix_add(&b, turn, c->rank), build_index(&b, 1));
    Value *to = ix_rem(&b, next, p->ranks);
    Place piece = open_piece(p, &b, &row);
    Value *place[2] = {to, c->rank};
    Place own = place_behind(1, &c->rank, &piece), sent = place_behind(2, place, &piece);
    store_at(&b, p->sent, load_at(&b, p->tensor, &own), &sent, NULL);
    Value *at[3] = {comm_of_other(c, &b, to), c->rank, ix_div(&b, row, p->chunk)};
    Place word = place_behind(3, at, NULL);
    Op *first = atomic_at(&b, UPDATE_MAX, p->words, comm_first_epoch(c, &b), &word);
    op_set_flag(c->ir, first, A_SYSTEM, true);
    Value *in[5] = {p->words, build_index(&b, 1), at[0], at[1], at[2]};
    Op *set = build_op(&b, OP_SIGNAL_SET, 5, in, 0, NULL, 0);
    op_set_update(c->ir, set, UPDATE_ADD);
    close_regions(&b, home);
}

void comm_put(Comm *c, Builder *b, Value *tensor, Value *chunk, CommPut *out) {
    Value *ranks = comm_dim(b, tensor, 0), *both[2] = {ranks, ranks};
    *out = (CommPut){.tensor = tensor, .chunk = chunk, .ranks = ranks};
    out->sent = comm_room(b, tensor, tensor->type->elem, 2, both, "sent");
    vec_push(c->ctx, &c->sent, out->sent);
    Value *chunks = ix_ceildiv(b, nonzero_extent(b, tensor, 1), chunk);
    out->words = comm_words(c, b, tensor, ranks, chunks);
    out->words->name = "flags";
    comm_control(c);
    send_shards(c, out, *b);
}

void comm_put_wait(Comm *c, const CommPut *p, Builder *b, Value *epoch, Value *peer, Value *chunk,
                   const char *text) {
    Value *sent = ix_add(b, epoch, count_senders(p, b, chunk));
    Value *at[3] = {c->rank, comm_of_other(c, b, peer), chunk};
    comm_wait(c, b, p->words, sent, peer, 3, at, text);
}

/// Adds a leading dimension, which is always in bounds, to the proofs about subscripts.
static void move_proof(Comm *c, Op *access, int n) {
    const Attr *inside = op_ints(access, A_IN_BOUNDS);
    int64_t all[MAX_RANK] = {1};
    if (!inside) return;
    memcpy(all + 1, inside->ints, sizeof *all * (size_t)inside->n);
    op_set_ints(c->ir, access, A_IN_BOUNDS, all, n);
}

void comm_put_read(Comm *c, const CommPut *p, Op *access) {
    Value *in[2 * MAX_RANK + 3];
    SubDim subs[MAX_RANK] = {{.kind = DIM_AT}};
    Access a = access_of(access);
    int n = 0;
    for (int i = 0; i < access->n_operands; i++) {
        if (i == a.first[0]) in[n++] = c->rank;
        in[n++] = i ? operand(access, i) : p->sent;
    }
    memcpy(subs + 1, a.subs, sizeof *subs * (size_t)a.n_subs);
    op_set_operands(c->ir, access, n, in);
    op_set_subs(c->ir, access, A_SUBS, subs, a.n_subs + 1);
    move_proof(c, access, a.n_subs + 1);
}
