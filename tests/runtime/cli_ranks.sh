#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# cli_ranks.sh TEGULA [LATE]: `run` and `profile` with ranks that are processes, also when oshrun
# started them. LATE: an OpenSHMEM that delays operations (late_shmem.c).
set -eu
tegula=$1
late=${2-}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >gather.teg <<'END'
kernel gather(a: sym f32[W][M, K], c: f32[W, M, K]) {
    parallel r in W, m in M by 16, k in K by 32 { c[r, m, k] = a[r][m, k]; }
}
END

cat >send.teg <<'END'
kernel send(x: f32[K], c: sym f32[W][W, K]) {
    parallel r in W, k in K by 32 { c[r][rank, k] = x[k]; }
}
END

die() {
    echo "$1" >&2
    cat out 2>/dev/null >&2
    exit 1
}

# ranks ENGINE ARGUMENTS...: runs three of them; `out` has the output of rank 0 and of the others.
ranks() {
    engine=$1
    shift
    if [ "$engine" = openshmem ]; then
        "$here/oshrun.sh" 3 "$tegula" "$@" --comm openshmem >out 2>&1 ||
            die "$*: failed under oshrun"
        return
    fi
    export TG_RANKS=3 TG_MEET="${meet:-$work/meet}"
    for rank in 1 2; do
        TG_RANK=$rank "$tegula" "$@" --comm processes >"out$rank" 2>&1 &
    done
    TG_RANK=0 "$tegula" "$@" --comm processes >out 2>&1 || die "$*: rank 0 failed"
    unset TG_RANKS TG_MEET
    wait
    cat out1 out2 >>out
}

engines=processes
command -v oshrun >/dev/null && engines="$engines openshmem"
for engine in $engines; do
    # A trace of all ranks on one clock, written and reported once.
    ranks $engine profile gather.teg --arg 'a=rand(3,100,30)' -r 3 -o $engine.json -j 1 \
        --set plan=pull --set chunks=2
    [ "$(grep -c 'one launch of 3 ranks' out)" = 1 ] || die "$engine: the trace is not told of once"
    grep -q "programs alone .*transfers alone " out || die "$engine: copies are not timed alone"
    python3 "$here/../gpu/ranks_trace.py" $engine.json 3 2 || die "$engine: the trace is wrong"
    # If programs read remote memory directly, another plan times both parts separately.
    ranks $engine profile gather.teg --arg 'a=rand(3,100,30)' -r 3 -o $engine.json -j 1 \
        --set plan=direct
    grep -q 'by plan=before programs alone .*transfers alone ' out || die "$engine: no plan=before"
    # In every plan only programs copy data.
    ranks $engine profile send.teg --arg 'x=rand(100)' --arg 'c=zeros(3,3,100)' -r 3 \
        -o $engine.json -j 1
    grep -q 'only programs copy' out || die "$engine: stores are copies"
done

# Processes can also meet at a port; ranks of several hosts get the addresses that they need.
port=$(python3 "$here/free_port.py")
meet=localhost:$port
python3 -c 'import socket, time
for i in range(500):
    try:
        socket.create_connection(("localhost", '"$port"')).sendall(b"no rank " * 100)
        break
    except OSError:
        time.sleep(0.002)' & # of whom nobody takes notice
ranks processes run gather.teg --arg 'a=rand(3,100,30)' --out c=port.npy
"$tegula" run gather.teg --arg 'a=rand(3,100,30)' --out c=threads.npy >/dev/null
cmp port.npy threads.npy || die "other results of processes that meet at a port"
export TG_RANKS=2 TG_MEET="$meet"
TG_RANK=1 TG_COMM_HOST=other "$tegula" run gather.teg --comm processes --arg 'a=rand(2,100,30)' \
    >out1 2>&1 && die "a rank of another host runs" &
TG_RANK=0 "$tegula" run gather.teg --comm processes --arg 'a=rand(2,100,30)' >out 2>&1 &&
    die "a rank runs with one of another host"
wait
grep -q 'ranks 0 and 1 are on different hosts' out || die "no word of hosts"
grep -q 'ranks 0 and 1 are on different hosts' out1 || die "no word of hosts at the other"
unset TG_RANKS TG_MEET meet

# Without mapped memory data are copied, unless the requested plan accesses that memory.
if [ "$engines" != processes ]; then
    export TG_OPENSHMEM_PUTS=1
    ranks openshmem run gather.teg --arg 'a=rand(3,100,30)' --out c=puts.npy
    "$tegula" run gather.teg --arg 'a=rand(3,100,30)' --out c=threads.npy >/dev/null
    comm=$here/../../stdlib/comm.teg
    unmapped="access other ranks' memory in place, which 'openshmem' does not map here"
    cmp puts.npy threads.npy || die "other results without mapped memory"
    for how in 'all_reduce --set plan=direct' 'all_gather --set plan=put'; do
        "$here/oshrun.sh" 3 "$tegula" run "$comm" -k $how --comm openshmem --type T=f32 \
            --arg 'a=rand(3,100)' >out 2>&1 && die "$how: reaches memory that is not mapped"
        grep -q "$unmapped" out || die "$how: no word of memory that is not mapped"
    done
    same() {
        ranks openshmem run "$comm" --type T=f32 "$@" --out c=puts.npy
        "$tegula" run "$comm" --type T=f32 "$@" --out c=threads.npy >/dev/null
        cmp puts.npy threads.npy || die "$*: other results without mapped memory"
    }
    same -k all_reduce --arg 'a=rand(3,100)'
    same -k reduce_scatter --arg 'a=rand(3,3,100)'
    same -k all_reduce_two_shot --arg 'a=rand(3,1000)'
    same -k gemm_ar --arg 'a=rand(60,32)' --arg 'b=rand(32,16)' --arg 'c=zeros(3,60,16)'
    same -k gemm_rs --arg 'a=rand(60,32)' --arg 'b=rand(32,16)' --arg 'c=zeros(3,20,16)'
    # Rows with gaps are sent together, and have arrived before any signal says so.
    for plan in before pull push; do
        [ -z "$late" ] && break
        export TG_OPENSHMEM_LIBRARY="$late"
        ranks openshmem run gather.teg --arg 'a=rand(3,100,30)[:, ::2]' --set plan=$plan \
            --out c=puts.npy
        [ "$(grep -c 'rows were moved late' out)" = 3 ] || die "$plan: rows are moved one by one"
        unset TG_OPENSHMEM_LIBRARY
        "$tegula" run gather.teg --arg 'a=rand(3,100,30)[:, ::2]' --out c=threads.npy >/dev/null
        cmp puts.npy threads.npy || die "$plan: rows were not there"
    done
    unset TG_OPENSHMEM_PUTS
fi

# Ranks with another plan, or with other extents, report that before they wait for each other.
differ() {
    text=$1
    shift
    export TG_RANKS=2 TG_MEET="$work/meet" TG_COMM_TIMEOUT_MS=20000
    run="$tegula run gather.teg --comm processes"
    TG_RANK=1 $run "$@" >out1 2>&1 & rank1=$!
    TG_RANK=0 $run --arg 'a=rand(2,100,30)' --set plan=push >out 2>&1 && die "rank 0 runs: $*"
    wait $rank1 && die "rank 1 runs: $*"
    unset TG_RANKS TG_MEET TG_COMM_TIMEOUT_MS
    cat out1 >>out
    grep -q "$text" out || die "no word of $text"
}
differ "rank 0 runs 'gather' with '.*plan=push.*' and rank 1 with '.*plan=pull" \
    --arg 'a=rand(2,100,30)' --set plan=pull
differ "rank 0 runs 'gather' with '.*' and rank 1 with '.*chunks=16.*'" \
    --arg 'a=rand(2,100,30)' --set plan=push --set chunks=16
differ 'rank 0 asks for u8.*, rank 1 for u8' --arg 'a=rand(2,90,30)' --set plan=push
# If the meeting place is a file of the user's, it stays unchanged.
echo mine >file
TG_RANKS=2 TG_RANK=0 TG_MEET=file TG_COMM_TIMEOUT_MS=300 "$tegula" run gather.teg --comm processes \
    --arg 'a=rand(2,100,30)' >out 2>&1 && die "ranks meet at a file"
[ "$(cat file)" = mine ] || die "a file is gone"
# Messages name a missing setting, and its option or variable.
alone() {
    text=$1
    shift
    env "$@" "$tegula" run gather.teg --comm processes --arg 'a=rand(2,100,30)' >out 2>&1 &&
        die "runs: $*"
    grep -q "$text" out || die "no word of $text"
    grep -q 'TG_RANK=0 (1, ...) TG_RANKS=2 TG_MEET=' out || die "no word of all variables"
}
alone 'the number of ranks' TG_RANK=0 TG_MEET=here
alone 'the number of this rank (of 2)' TG_RANKS=2 TG_MEET=here
alone 'no place to meet' TG_RANKS=2 TG_RANK=1
# Stacks larger than all addresses: there are no threads for the ranks.
if (ulimit -s 1099511627776) 2>/dev/null; then
    (ulimit -s 1099511627776 && exec "$tegula" run gather.teg --ranks 2 --arg 'a=rand(2,100,30)') \
        >out 2>&1 && die "ranks without threads"
    grep -q 'no threads for 2 ranks' out || die "no word of threads"
fi
# A plan that does not exist.
for plan in 8 -1 bogus; do
    "$tegula" run gather.teg --arg 'a=rand(2,100,30)' --set plan=$plan >out 2>&1 && die "plan=$plan"
    grep -q "direct, before, pull, push" out || die "plan=$plan: no word of those that there are"
done

# Iterations of a loop reuse their signals: a heap with words for one iteration suffices.
TG_COMM_HEAP=50000000 "$tegula" run "$here/../run/comm.teg" -k turns --ranks 2 \
    --arg 'x=ones(100000)' --arg 'c=zeros(2,100000)' --arg steps=200 >out 2>&1 ||
    die "turns: failed"
grep -q 'c: f32\[2, 100000\] = 400 400' out || die "turns: wrong sums"

# Transfers that take next to no time beside the programs leave nothing to hide.
cat >long.teg <<'END'
kernel long(a: sym f32[W][M, K], c: f32[W, M, K]) {
    parallel r in W, m in M by 16, k in K by 32 {
        var x = a[r][m, k];
        for i in 40000 { x = sin(x + a[r][m, k]); }
        c[r, m, k] = x;
    }
}
END
"$tegula" profile long.teg --ranks 2 --arg 'a=rand(2,64,32)' -r 5 -o long.json -j 1 \
    --set plan=pull --set chunks=1 >out 2>&1 || die "long: failed"
grep -q 'nothing to hide: transfers take less than 1 % of a launch' out ||
    die "there is something to hide"
echo PASS
