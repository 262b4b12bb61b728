#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tegula tune: lists of shapes, the files that it writes, their use by `explain` and `build`, and
# messages about mistakes. The choice of the winner is not tested here. Usage: command.sh TEGULA
set -eu
tegula=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
export TG_CACHE="$out/cache"
unset TG_TUNE
cat > k.teg << 'K'
kernel scale<T: float>(x: T[..R, N], at: i32[N]?, y: T[..R, N], a: f32) tune BN = 64 | 256 {
    parallel r in R, n in N by BN {
        var v = a * (x[r, n] as f32);
        if at { v += at[n] as f32; }
        y[r, n] = v as T;
    }
}
K
fail() {
    echo "$@" >&2
    cat log >&2
    exit 1
}
has() { # FILE TEXT...
    file=$1
    shift
    for text; do grep -q -e "$text" "$file" || fail "no '$text' in $file"; done
}
refuses() { # TEXT COMMAND...
    text=$1
    shift
    if "$@" > log 2>&1; then fail "$* did not fail"; fi
    grep -q -e "$text" log || fail "no '$text'"
}

# Searches; repeats with four times the time if a busy machine was too slow for any result.
search() { # SECONDS ARGUMENTS...
    seconds=$1
    shift
    until "$tegula" tune --budget "$seconds" "$@" > search.out 2> search.err; do
        cut_short='the time was up before the first result'
        if [ "$seconds" -gt 200 ] || ! grep -q "$cut_short" search.err; then
            cat search.out
            cat search.err >&2
            return 1
        fi
        seconds=$((4 * seconds))
    done
    cat search.out
    cat search.err >&2
}

tune="search 4 k.teg"
$tune --dim R=8 --dim 'N=256|1000' -o tuned.json --report page.html --jsonl trials > log 2> err
if [ -s err ]; then fail "something was said to what is no terminal: $(cat err)"; fi
has log 'scale<f32> .*N=256' 'scale<f32> .*N=1000' 'best: BN=' 'the default'
[ "$(grep -c '"kernel": "scale<f32>"' tuned.json)" = 2 ] || fail "$(cat tuned.json)"
has page.html '<svg' 'N=1000' 'BN=64'
[ "$(grep -c '^{.*"verdict": "won".*}$' trials)" = 2 ] || fail "$(cat trials)"

has log '% of the roof'

# As text: each candidate with the model's estimate, and the reason if it was not tried.
cat > mm.teg << 'K'
kernel mm(a: f32[M, K], b: f32[K, N], c: f32[M, N]) tune BM = 8 | 64 | 512, BN = 8 | 64 | 512 {
    parallel m in M by BM, n in N by BN {
        var s: f32<BM, BN> = 0;
        for k in K by 32 { s += dot(a[m, k], b[k, n]); }
        c[m, n] = s;
    }
}
K
search 2 mm.teg --dim M=64 --dim N=64 --dim K=64 --report all.txt --jsonl all > log
rows=$(sed -n '/^  setting/,$p' all.txt | grep -c '^  [^ s]')
[ "$rows" = "$(grep -c . all)" ] || fail "$rows rows: $(cat all.txt)"
has all.txt 'pruned: the model: .* us where .* us are expected' '(the default)' ' not listed: '

# The second time the result is known, with all trials.
$tune --dim R=8 --dim N=256 --jsonl again > log
has log 'found before; --again searches anew'
[ "$(grep -c . again)" = "$(grep -c 'shape": "R=8 N=256"' trials)" ] || fail "trials are lost"
# A sample includes settings that the model rules out, and its result is not that of a search. Any
# setting of a report can race.
small="mm.teg --dim M=96 --dim N=64 --dim K=64"
search 4 $small --mode sample --seed 3 --jsonl drawn > log
[ "$(grep -c '"verdict": "pruned"' drawn)" = 0 ] || fail "$(cat drawn)"
has drawn 'BM=512 ' 'order=.* split=' '"verdict": "won"'
search 1 $small > log
if grep -q 'found before' log; then fail "the result of a sample is kept"; fi
for seconds in 2 8 32 128; do
    search $seconds $small --among 'BM=8 BN=64 order=2 split=2' --again --jsonl raced > log
    [ "$(grep -c '"seconds": [0-9]' raced)" != 2 ] || break
done
[ "$(grep -c '"seconds": [0-9]' raced)" = 2 ] || fail "$(cat raced)"
refuses "'BM=8' is not a candidate" "$tegula" tune $small --among BM=8
# Results are kept for launches, and `explain` reports them.
"$tegula" explain k.teg --arg x='zeros(8,1000)' --arg a=1 > log
has log 'tuned on .* for this shape'
"$tegula" explain k.teg --arg x='zeros(9000,1)' --arg a=1 > log
has log 'by the cost model: nothing near this shape was tuned here'
TG_TUNE=off "$tegula" explain k.teg --arg x='zeros(8,1000)' --arg a=1 > log
if grep -q 'tuned' log; then fail "TG_TUNE=off looks at what was tuned"; fi

# A shape near a tuned one gets a search of its own.
$tune --dim R=8 --dim 'N=500|512|524' -o near.json > log
if grep -q 'found before' log; then fail "the result of another shape"; fi
[ "$(grep -c '"kernel": "scale<f32>"' near.json)" = 3 ] || fail "$(cat near.json)"

# Other shapes, types and arguments are added to the file; a file of shapes.
printf '# two shapes\nR=4 N=64\n\nR=2 N=128 # the second\n' > shapes
$tune --type T=f16 --shapes shapes -o tuned.json > log
$tune --arg x='zeros(4,32):f16' --arg at='ones(32):i32' --arg a=2 -o tuned.json > log
[ "$(grep -c '"kernel": "scale<f16>"' tuned.json)" = 3 ] || fail "$(cat tuned.json)"
has tuned.json 'scale<f16>' 'scale<f32>'
"$tegula" tune --merge tuned.json tuned.json -o sum.json
cmp tuned.json sum.json
"$tegula" build k.teg -o k.o --tuned sum.json --export 'scale<f32>,scale<f16>' 2> log
if grep -q 'no entry' log; then fail "the file is of no use"; fi

refuses 'Q=4: kernel .scale. has no such dim' $tune --dim Q=4
# The file and the exit code tell an interrupted search from a complete one.
for seconds in 2 4 8 16 32 64; do
    rm -f half.json
    "$tegula" tune mm.teg --dim M=512 --dim N=512 --dim K=512 --mode exhaustive --again \
        -o half.json > log 2>&1 &
    until pgrep -P $! > helpers; do # it has begun
        kill -0 $! || fail "it does not search"
        sleep 0.1
    done
    sleep $seconds
    kill -INT $!
    code=0
    wait $! || code=$?
    [ $code = 1 ] || fail "exit code $code of an interrupted search"
    has log 'interrupted: 0 of 1 shapes'
    [ ! -e half.json ] || break
done
has half.json '"interrupted": true'

# Dims of a tensor with an --arg are fixed; those of other tensors may be listed.
cat > mm.teg << 'K'
kernel mm(a: f32[M, K], b: f32[K, N], c: f32[M, N]) tune B = 16 | 32 {
    parallel m in M by B, n in N by B {
        var s: f32<B, B> = 0;
        for k in K by 32 { s += dot(a[m, k], b[k, n]); }
        c[m, n] = s;
    }
}
K
mm="search 2 mm.teg --arg a=zeros(48,64)"
$mm --dim 'N=32|64' --dim M=48 > log
has log 'mm M=48 K=64 N=32' 'mm M=48 K=64 N=64'
refuses '--dim M=49: M is already 48' $mm --dim N=32 --dim M=49
refuses 'leave out --dim, or the --arg of tensors that have K' $mm --dim N=32 --dim 'K=64|65'
refuses 'N is not known' $mm
refuses '--dim N=3: N is already 2' $tune --dim N=2 --dim N=3
refuses 'expected NAME=EXTENT or NAME=A|B' $tune --dim R
refuses 'expected NAME=EXTENT or NAME=A|B' $tune --dim 'R=4|'
refuses '--target interp: times are those of cpu' $tune --target interp
refuses '--target sim:sm_90a: times are those of cpu' $tune --target sim:sm_90a
refuses 'there are block, exhaustive and sample' $tune --mode fast
refuses 'expected seconds' "$tegula" tune k.teg --budget -1
refuses 'has no symmetric tensor' $tune --ranks 2
printf 'R=4 N\n' > shapes
refuses "shapes:1: 'N' is not of the form" $tune --shapes shapes
: > shapes
refuses 'no shape is in it' $tune --shapes shapes
refuses 'takes one file' "$tegula" tune k.teg k.teg
refuses 'needs -o' "$tegula" tune --merge tuned.json
printf '{}' > other.json
refuses "not a file of 'tegula tune'" "$tegula" tune --merge other.json -o sum.json

# A wrong option ends with 2, a bad file with 1, both before any search.
fails() { # CODE TEXT COMMAND...
    code=$1 text=$2 got=0
    shift 2
    timeout 300 "$@" > log 2>&1 || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got"
    grep -q -e "$text" log || fail "no '$text'"
    if grep -q 'best:' log; then fail "$*: it searched"; fi
}
once="$tegula tune k.teg --budget 100 --mode exhaustive --again --dim R=8 --dim N=256"
fails 2 'expected NAME=EXTENT' $once --dim R=-4
fails 2 'expected NAME=EXTENT' $once --dim R=abc
fails 1 'cannot read nothere: No such file' $once --shapes nothere
printf 'R=4 N\n' > shapes
fails 1 "shapes:1: 'N' is not of the form" $once --shapes shapes
mkdir folder
for option in -o --report --jsonl; do
    fails 1 'cannot write /nonexist/x: No such file' $once $option /nonexist/x
    fails 1 'cannot write folder: Is a directory' $once $option folder
done
fails 1 "other.json: it is not a file of 'tegula tune'" $once -o other.json
[ "$(cat other.json)" = '{}' ] || fail "what was there is lost"
if ls | grep -q tmp; then fail "something is left behind"; fi

# So does a bad environment.
for ms in abc -5 7x; do
    fails 1 "TG_TUNE_BUDGET_MS: '$ms' is not a time in milliseconds" \
        env TG_TUNE_BUDGET_MS=$ms "$tegula" tune k.teg --again --dim R=8 --dim N=256
done
fails 1 "TG_CACHE_SIZE is 'abc', which is not a size" env TG_CACHE_SIZE=abc "$tegula" cache list
fails 1 "TG_CACHE_JOURNAL is 'foo', which is neither" \
    env TG_CACHE_JOURNAL=foo "$tegula" cache list
