"""Faults that change no result: (file, fault of mutants.tsv, how many lines of this text precede it), and the reason."""

EXPLAINED = {
    ("passes/gpu/narrow.c", "comparisons in 32 bits reach too far", 0):
        "factors are sums of iotas within MAX_DEPTH, so at most 2^12; with 2^17 lanes at most the sum stays in 32 bits",
    ("backends/cpu/square_reads.c", "for (int i = 0; i < s->n; i++) {", 2):
        "the last row of a square is not memoised: its reads transpose the square again",
    ("passes/gpu/async/async.c", "for (int k = 0; k < 2 * f->dots.n; k++) {", 0):
        "the product for whose layout a buffer is made: bank conflicts alone",
    ("passes/gpu/split_epilogue.c", "bytes = next ? PIECE_BYTES : INT64_MAX;", 0):
        "pieces of any width store the same block",
}  # fmt: skip
