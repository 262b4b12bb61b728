#!/usr/bin/env bash
# The main job: edges of a photograph, then a matmul, a softmax and an attention on .npy arrays.
# Usage: examples/run.sh PATH-TO-TEGULA [FOLDER]; results go to FOLDER (default: out).
set -euo pipefail
tegula=$1
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-out}
mkdir -p "$out"

step() { printf '\n== %s\n' "$1"; }
random() { # random NAME SHAPE SEED
    "$tegula" run "$here/random.teg" --quiet \
        --arg "x=zeros($2)" --arg "seed=$3" --out "x=$out/$1.npy"
}

step "edges of a photograph: $here/photo.png -> $out/edges.png"
"$tegula" run "$here/edges.teg" \
    --arg "photo=@$here/photo.png" --arg gain=2.0 --out "out=$out/edges.png"

step "matmul: c.npy = a.npy b.npy"
random a 1024,512 1
random b 512,768 2
"$tegula" run "$here/matmul.teg" --arg "a=@$out/a.npy" --arg "b=@$out/b.npy" --out "c=$out/c.npy"

step "softmax of 4096 rows of 1000"
random x 4096,1000 3
"$tegula" run "$here/softmax.teg" --arg "x=@$out/x.npy" --out "y=$out/y.npy"

step "causal attention: 8 heads, 512 positions of 64 numbers"
random q 1,8,512,64 4
random k 1,8,512,64 5
random v 1,8,512,64 6
"$tegula" run "$here/attention.teg" \
    --arg "q=@$out/q.npy" --arg "k=@$out/k.npy" --arg "v=@$out/v.npy" \
    --arg scale=0.125 --arg causal=true --out "o=$out/o.npy"

printf '\nResults are in %s: look at edges.png, load the .npy files with NumPy.\n' "$out"
