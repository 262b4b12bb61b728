#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A result of one program is used by the others: the command, a program on libtegula.so, and one
# with libtegula.a, whatever the file's name and folder.
#   takes.sh TEGULA PROGRAM-SHARED PROGRAM-STATIC OTHER
set -eu
tegula=$1 shared=$2 static=$3 other=$4
out=$(mktemp -d /tmp/tegula-takes.XXXXXX)
trap 'rm -rf "$out"' EXIT
cd "$out"
export TG_CACHE="$out/cache"
unset TG_TUNE TG_FAULT TG_SERVER TG_COMPILE TG_LEVEL
cat >k.teg <<'K'
kernel softmax(x: f32[R, N], y: f32[R, N]) tune BR = 1 | 4 | 16 {
    parallel r in R by BR {
        let v = x[r, :];
        let e = exp(v - max(v, axis = 1)[:, None]);
        y[r, :] = e / sum(e, axis = 1)[:, None];
    }
}
K
fail() {
    echo "$@" >&2
    cat log >&2
    exit 1
}
shape="--arg x=zeros(48,100)"
explain() { "$tegula" explain "$@" $shape >log || fail "explain $*"; }

explain k.teg
default=$(sed -n 's/^tuning: .*\(BR=[0-9]*\).*/\1/p' log)
[ "$default" ] || fail "explain names no setting"

# The default is made slow where candidates are measured, so that another setting wins.
search_for() { # SECONDS SEARCHER
    rm -rf cache
    case $2 in
    command) TG_FAULT=slow@$default "$tegula" tune k.teg $shape --budget "$1" ;;
    *)
        TG_FAULT=slow@$default TG_SERVER=$tegula TG_TUNE=block TG_TUNE_BUDGET_MS=${1}000 \
            "$2" k.teg
        ;;
    esac >search.log 2>&1
}

# Repeats with more time, as a busy machine needs it. Sets `won`.
search() { # SEARCHER
    for seconds in 6 24 96; do
        search_for $seconds "$1" || continue
        explain k.teg
        won=$(sed -n 's/^tuning: .*\(BR=[0-9]*\).*/\1/p' log)
        if [ "$won" != "$default" ]; then return; fi
    done
    cat search.log >log
    fail "$1 does not find what is faster than the default"
}

# Launches without a program that could measure or compile: a search would fail with a message, and
# code for another setting could not be made.
launch() { # PROGRAM FILE
    TG_TUNE=${TG_TUNE-block} TG_COMPILE=process TG_SERVER=/nowhere "$1" "$2" >log 2>&1 ||
        fail "$1 $2: not the setting that was found"
    if grep -q . log; then fail "$1 $2: not silent"; fi
}

for searcher in command "$shared" "$static"; do
    search "$searcher"
    grep -q 'tuned on .* for this shape' log || fail "explain does not see what $searcher found"
    grep -q 'that were measured the slowest takes [0-9.e+]* times as long' log || fail "no spread"
    grep -q 'results were compared with [0-9]* elements' log || fail "not with the interpreter"
    "$tegula" bench k.teg $shape --seconds 0.05 >log
    tail -n 1 log | grep -q "; .*$won" || fail "bench does not take it"
    "$tegula" run k.teg $shape >log || fail "run does not take it"
    TG_TUNE=block TG_SERVER=/nowhere "$shared" k.teg >log || fail "$shared does not launch"
    if grep -q . log; then fail "$shared searches"; fi
    "$tegula" cache list >log
    grep -q "code .*$won" log || fail "no code of $won"
    launch "$shared" k.teg
    launch "$static" k.teg
done

# Names and folders of sources appear in messages, but do not influence the setting.
mkdir other
cp k.teg other/another.teg
for file in ./k.teg "$out/k.teg" other/../k.teg other/another.teg; do
    explain "$file"
    grep -q 'tuned on .* for this shape' log || fail "$file is another kernel"
    TG_TUNE=block TG_SERVER=/nowhere "$static" "$file" >log || fail "$file: no launch"
    if grep -q . log; then fail "$file is searched for"; fi
    launch "$shared" "$file"
done
explain -I /tmp k.teg
grep -q 'tuned on .* for this shape' log || fail "-I makes another kernel"
"$tegula" cache list >log
[ "$(grep -c " code .*$won" log)" = 5 ] || fail "not a code for each path"

# Other texts and other machines do.
sed 's/let v = x/let w = x/; s/(v - max(v/(w - max(w/' k.teg >other/k.teg
explain other/k.teg
if grep -q 'tuned on' log; then fail "another source takes it"; fi
TG_LEVEL=base explain k.teg
if grep -q 'tuned on' log; then fail "another level takes it"; fi
explain k.teg --threads 77
if grep -q 'tuned on' log; then fail "other threads take it"; fi

# The program of another build is recognised. Modules are then compiled in the process, and stored
# results of this compiler are used; there is no search.
rm -rf cache
export TEGULA="$tegula"
TG_TUNE=off TG_COMPILE=process TG_SERVER=$other "$shared" k.teg >log || fail "no launch"
grep -q "^warning: $other is of another build of Tegula than this library" log || fail "no word"
TG_TUNE=off launch "$static" k.teg
TG_TUNE=block TG_SERVER=$other "$shared" k.teg >log || fail "no launch"
grep -q "not tuned: .*$other is of another build of Tegula" log || fail "no word"
if TG_SERVER=$other "$tegula" tune k.teg $shape >log 2>&1; then fail "it tunes"; fi
grep -q "$other is of another build of Tegula" log || fail "no word"
