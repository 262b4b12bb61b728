"""Small launches of all kernels of the standard library, for the mutation test.

Loops run more than once, outputs share the memory of inputs where the kernel allows it, and there are more
columns than lanes in a warp, so that every barrier has something to order.
"""
import pathlib
import re

STDLIB = pathlib.Path(__file__).resolve().parent.parent.parent / "stdlib"
# (file, kernel, words NAME=SPEC of arguments, words NAME=VALUE of settings, number of GPUs that share the SMs, text that the
# target's name holds)
CASES = []
EIGHTH = 8  # so that few tiles are more than the SMs


def case(file, kernel, args, sets="", share=1, only=""):
    CASES.append((file, kernel, args.split(), sets.split(), share, only))


RANKS = []  # for two ranks: (file, kernel, words of arguments, words of settings, the written tensors)


def ranks(kernel, args, outs, sets="", file=STDLIB / "comm.teg"):
    RANKS.append((file, kernel, args.split(), sets.split(), outs.split()))


def missing():
    """Kernels of the library without a case, except those of several ranks."""
    have = {(f, k) for f, k, *_ in CASES}
    found = set()
    for path in STDLIB.glob("*.teg"):
        if path.stem == "comm":
            continue
        for name in re.findall(r"^kernel (\w+)", path.read_text(), re.M):
            found.add((path.stem, name))
    return sorted(found - have)


# ---- attention ---------------------------------------------------------------------------------

HEADS = "q=randn(1,2,{0},{1}){t} k=randn(1,1,{2},{1},seed=2){t} v=randn(1,1,{2},{1},seed=3){t} mask=none "
for t, sets in ((":f32", "BM=16 BN=32"), (":f16", "BM=64 BN=64"), (":f16", "BM=128 BN=64 warps=8")):
    heads = HEADS.format(70, 32 if t == ":f32" else 64, 140, t=t)
    case("attention", "attention", heads + "lse=zeros(1,2,70) scale=0.125 causal=true", sets)
case("attention", "attention",
     HEADS.format(20, 32, 0, t=":f32") + "o=same(q) lse=zeros(1,2,20) scale=0.125 causal=false",
     "BM=16 BN=32")
# With this many programs no loop is split, and results go out by copies.
for rows, keys, warps in ((64, 200, 4), (128, 330, 8)):
    case("attention", "attention", f"q=randn(64,2,{rows},64):f16 k=randn(64,1,{keys},64):f16 "
         f"v=randn(64,1,{keys},64):f16 mask=none lse=zeros(64,2,{rows}) scale=0.125 causal=true",
         f"BM={rows} BN=64 warps={warps}")
# Scores start an iteration earlier, so items of the loop have numbers of two iterations.
for keys in (330, 40):
    case("attention", "attention", HEADS.format(70, 64, keys, t=":f16") +
         "lse=zeros(1,2,70) scale=0.125 causal=true", "BM=64 BN=64 split=1 skew=1")
# A producer warp.
case("attention", "attention", "q=randn(64,2,128,64):f16 k=randn(64,1,330,64):f16 v=randn(64,1,330,64):f16 mask=none "
     "lse=zeros(64,2,128) scale=0.125 causal=true", "BM=128 BN=64 stages=2 roles=1")
# More tiles than CTAs: a CTA that is done takes the next one from a counter. A CTA's third tile has the slot
# of its first. A third of the tiles see no key, so nothing else separates the read of an item's number from
# its release.
case("attention", "attention", "q=randn(1,18,384,64):f16 k=randn(1,18,180,64):f16 v=randn(1,18,180,64):f16 mask=none "
     "lse=zeros(1,18,384) scale=0.125 causal=true", "BM=128 BN=64 stages=2 roles=1 skew=1 persistent=1 split=1",
     share=EIGHTH)
# Wide heads: the results of a tile go through the item of its queries. Then more tiles than CTAs.
for e, n in (256, 80), (192, 112):
    case("attention", "attention", f"q=randn(1,2,200,{e}):f16 k=randn(1,1,270,{e}):f16 v=randn(1,1,270,{e}):f16 mask=none "
         "lse=zeros(1,2,200) scale=0.125 causal=true", f"BM=128 BN={n} split=1 roles=1 skew=1", only="sm_90a")
case("attention", "attention", "q=randn(1,70,200,256):f16 k=randn(1,70,250,256):f16 v=randn(1,70,250,256):f16 mask=none "
     "lse=zeros(1,70,200) scale=0.125 causal=false", "BM=128 BN=80 split=1 roles=1 skew=1 persistent=1",
     only="sm_90a")
# Not causal: parts of three blocks of keys.
case("attention", "attention", HEADS.format(70, 32, 140, t=":f32") +
     "lse=zeros(1,2,70) scale=0.125 causal=false", "BM=16 BN=32 split=2")
case("attention", "attention_decode",
     "q=randn(1,4,32) k=randn(1,2,150,32) v=randn(1,2,150,32) len=full(1,value=150):i32 scale=0.2",
     "BN=64 split=2")
case("attention", "attention_backward",
     HEADS.format(40, 16, 70, t=":f32") + "o=randn(1,2,40,16,seed=5) lse=randn(1,2,40) "
     "dout=randn(1,2,40,16,seed=6) scale=0.25 causal=false", "BM=16 BN=32")

# ---- convolutions ------------------------------------------------------------------------------

case("conv", "conv1d", "x=randn(1,20,70):f16 w=randn(5,20,3):f16 bias=none y=zeros(1,5,70):f16 "
     "act=0 sx=1 px=1 dx=1", "BF=16 BM=64 BK=16")
case("conv", "conv2d", "x=randn(1,9,9,11) w=randn(5,9,3,3) bias=none y=zeros(1,5,9,11) act=0 sy=1 "
     "sx=1 py=1 px=1 dy=1 dx=1", "BF=16 BM=64 BK=8")
case("conv", "conv3d", "x=randn(1,9,5,6,7) w=randn(5,9,3,3,3) bias=none y=zeros(1,5,5,6,7) act=0 "
     "sz=1 sy=1 sx=1 pz=1 py=1 px=1 dz=1 dy=1 dx=1")
case("conv", "depthwise_conv2d", "x=randn(1,2,9,40) w=randn(2,3,3) bias=none y=zeros(1,2,9,40) "
     "act=0 sy=1 sx=1 py=1 px=1 dy=1 dx=1")
case("conv", "conv_transpose1d", "x=randn(1,20,40) w=randn(20,5,4) bias=none y=zeros(1,5,80) act=0 sx=2 px=1 dx=1",
     "BF=16 BM=64 BK=16")
case("conv", "conv_transpose2d", "x=randn(1,20,5,9) w=randn(20,5,3,4) bias=randn(5) y=zeros(1,5,11,18) act=0 sy=2 "
     "sx=2 py=0 px=1 dy=1 dx=1", "BF=16 BM=64 BK=16")
case("conv", "conv_transpose3d", "x=randn(1,20,3,4,5) w=randn(20,5,2,3,3) bias=none y=zeros(1,5,4,6,11) act=0 sz=1 "
     "sy=1 sx=2 pz=0 py=0 px=0 dz=1 dy=1 dx=1", "BF=16 BM=64 BK=16")

# ---- elementwise -------------------------------------------------------------------------------

for name in ("relu silu gelu gelu_tanh sigmoid tanh softplus selu hardswish hardsigmoid softsign mish exp log sqrt rsqrt "
             "sin cos erf abs").split():
    case("elementwise", "map_" + name, "x=rand(300,lo=1,hi=2) y=same(x)")
case("elementwise", "map_leaky_relu", "x=randn(300) slope=0.1 y=same(x)")
case("elementwise", "map_elu", "x=randn(300) a=0.5 y=same(x)")
case("elementwise", "map_scale", "x=randn(300) s=0.5 y=same(x)")
for name in ("map_clamp", "map_hardtanh"):
    case("elementwise", name, "x=randn(300) low=-1 high=1 y=same(x)")
case("elementwise", "map_convert", "x=randn(300) y=zeros(300):f16")
for name in "add sub mul div min max pow".split():
    case("elementwise", "zip_" + name, "a=rand(300,lo=1,hi=2) b=rand(300,lo=1,hi=2) y=same(b)")
case("elementwise", "zip_where", "c=rand(300):bool a=randn(300) b=randn(300) y=same(a)")
case("elementwise", "zip_fma", "a=randn(300) b=randn(300) c=randn(300) y=same(a)")
case("elementwise", "zip_axpby", "a=randn(300) b=randn(300) alpha=2 beta=3 y=same(a)")
case("elementwise", "bias_act", "x=randn(9,300) bias=randn(300) act=0 y=same(x)")
case("elementwise", "zip_glu", "a=randn(300) b=randn(300) act=0 y=same(a)")
case("elementwise", "dropout", "x=randn(300) p=0.5 seed=3 y=same(x)")

# ---- embeddings --------------------------------------------------------------------------------

case("embedding", "embedding", "ids=rand(30,hi=9):i32 w=randn(10,70)")
case("embedding", "embedding_backward", "ids=rand(30,hi=9):i32 dy=iota(30,70) dw=zeros(10,70)")
case("embedding", "embedding_bag", "ids=rand(30,hi=9):i32 off=iota(5):i32 w=randn(10,70) mean=true")
case("embedding", "rope_table", "base=10000.0 start=0 cos_=zeros(30,32) sin_=zeros(30,32)")
for name in ("rope_half", "rope_pairs"):
    for t, e in ((":f32", 32), (":f16", 64)):
        case("embedding", name, f"x=randn(1,5,6,{2 * e}){t} cos_=randn(5,{e}) sin_=randn(5,{e}) y=zeros(1,5,6,{2 * e}){t}")

# ---- layouts -----------------------------------------------------------------------------------

case("layout", "copy", "x=randn(300) y=zeros(300)")
case("layout", "fill", "y=zeros(300) value=2.5")
case("layout", "transpose", "x=randn(2,70,90)")
case("layout", "copy_permuted", "x=randn(2,70,90):permute(0,2,1) y=zeros(2,90,70)")
case("layout", "swap_middle", "x=randn(2,9,10,70)")
case("layout", "concat_last", "p=randn(5,70) q=randn(5,30) y=zeros(5,100)")
case("layout", "split_last", "x=randn(5,100) p=zeros(5,70) q=zeros(5,30)")
case("layout", "concat_middle", "p=randn(2,5,70) q=randn(2,9,70) y=zeros(2,14,70)")
case("layout", "split_middle", "x=randn(2,14,70) p=zeros(2,5,70) q=zeros(2,9,70)")

# ---- losses ------------------------------------------------------------------------------------

LABELS = "label=rand(9,hi=9):i32 ignore=3 "
for name, n in (("cross_entropy", 700), ("cross_entropy_long", 2500)):
    case("loss", name, f"x=randn(9,{n}) {LABELS} lse=zeros(9) loss=full(value=0) count=full(value=0)")
case("loss", "cross_entropy_backward", f"x=randn(9,700) {LABELS} lse=randn(9) dloss=full(value=1) "
     "count=full(value=9) dx=same(x)")
for name, first in (("mse", "x"), ("smooth_l1", "x"), ("huber", "x"), ("bce", "p"), ("bce_with_logits", "x")):
    beta = {"smooth_l1": " beta=0.75", "huber": " delta=0.75"}.get(name, "")
    case("loss", name, f"{first}=rand(5000,lo=0.1,hi=0.9) t=rand(5000) loss=full(value=0){beta}")

PAIR = "x=rand(9,2500,lo=0.1,hi=0.9) t=rand(9,2500) loss=full(value=0) "
case("loss", "kl_div", PAIR + "logs=false", "BN=1024")
case("loss", "hinge", PAIR, "BN=1024")
case("loss", "triplet", "a=randn(9,2500) p=randn(9,2500) n=rand(9,2500) loss=full(value=0) margin=1 eps=0.001",
     "BN=1024")

# ---- products ----------------------------------------------------------------------------------

# Rows of f16 that begin at multiples of 4 bytes, and enough of them that rings of narrow copies run more than
# once; and rows with one element between, whose length in memory is no multiple of a vector.
SIZES = ((":f32", 70, 150, 90, 0, "BM=64 BN=64 BK=64"), (":f16", 70, 534, 90, 0, "BM=16 BN=16 BK=128"),
         (":f16", 69, 533, 89, 1, "BM=16 BN=16 BK=128"),
         (":f16", 128, 520, 128, 0, "BM=128 BN=128 BK=64 warps=8"))
for t, m, k, n, apart, sets in SIZES:
    def data(spec, *shape):
        """`a=randn` of this shape. Rows are `apart` elements longer in memory."""
        view = "[" + ":," * (len(shape) - 1) + f":{shape[-1]}]" if apart else ""
        return f"{spec}({','.join(map(str, (*shape[:-1], shape[-1] + apart)))}){t}{view}"

    for letters in ("", "_nt", "_tn", "_tt"):
        a = data("a=randn", k, m) if letters[1:2] == "t" else data("a=randn", m, k)
        b = data("b=randn", n, k) if letters[2:] == "t" else data("b=randn", k, n)
        case("matmul", "matmul" + letters, f"{a} {b}", sets)
    tile = "BM=64 BN=64 BK=64" if m < 128 else "BM=128 BN=128 BK=64 warps=8"
    case("matmul", "batch_matmul", f"{data('a=randn', 2, m, k)} {data('b=randn', 2, k, n)}", tile)
    case("matmul", "linear", f"{data('x=randn', m, k)} {data('w=randn', n, k)} bias=randn({n}){t} scale=1 "
         f"{data('residual=randn', m, n)} {data('y=zeros', m, n)} act=0", sets)
    case("matmul", "linear_glu", f"{data('x=randn', m, k)} {data('g=randn', n, k)} {data('u=randn', n, k)} act=0",
         tile)
case("matmul", "matmul", "a=randn(64,520):f16 b=randn(520,64):f16", "BM=64 BN=64 BK=64")
# More tiles than SMs: copies of the next tile come before the store of this one.
for more in "", " persistent=1 roles=1":
    case("matmul", "matmul", "a=randn(384,264):f16 b=randn(264,768):f16", "BM=128 BN=128 BK=64 warps=8" + more, share=EIGHTH)
case("matmul", "matmul_tf32_nt", "a=randn(70,150) b=randn(90,150) terms=1", "BM=64 BN=64 BK=64")
case("matmul", "matmul_tf32_nt", "a=randn(64,160) b=randn(64,160) terms=3", "BM=64 BN=64 BK=32")
for k in (160, 400, 150):
    for name in ("scaled_matmul_nt", "scaled_matmul_fast_nt"):
        case("matmul", name, f"a=randn(70,{k}):f8e4m3 b=randn(90,{k}):f8e4m3 "
             "sa=randn(70) sb=randn(90) c=zeros(70,90):f16", "BM=64 BN=64 BK=64")
for k in (320, 150):  # the transposed result takes the memory of the ring's last item
    case("matmul", "matmul_i8_nt", f"a=rand(70,{k}):i8 b=rand(90,{k}):i8", "BM=64 BN=64 BK=64")
    case("matmul", "scaled_matmul_i8_nt", f"a=rand(70,{k}):u8 b=rand(90,{k}):u8 "
         "sa=randn(70) sb=randn(90) c=zeros(70,90):f16", "BM=64 BN=64 BK=64")
for name in ("upper", "lower"):
    case("matmul", "matmul_" + name, "a=randn(150,150) b=randn(150,150)", "BM=64 BN=64 BK=32")
case("matmul", "matvec", "a=randn(20,2500) x=randn(2500)", "BM=1 BK=1024")

# ---- norms -------------------------------------------------------------------------------------

ROWS = "x=randn(5,{0}) g=randn({0}) "
case("norm", "layer_norm", ROWS.format(1500) + "h=randn(1500) eps=0.1 mean=zeros(5) rstd=zeros(5) y=same(x)")
case("norm", "layer_norm_long", ROWS.format(2500) + "h=randn(2500) eps=0.1 y=same(x)", "BN=1024")
case("norm", "rms_norm", ROWS.format(1500) + "eps=0.1 rstd=zeros(5) y=same(x)")
case("norm", "rms_norm_long", ROWS.format(2500) + "eps=0.1 y=same(x)", "BN=1024")
case("norm", "add_rms_norm", ROWS.format(1500) + "residual=randn(5,1500) eps=0.1 total=same(residual) y=same(x)")
case("norm", "rms_norm_axis", "x=randn(2,40,70) g=randn(40) eps=0.1 y=same(x)", "BB=64")
case("norm", "rms_norm_axis_long", "x=randn(2,150,70) g=randn(150) eps=0.1 y=same(x)", "BN=64 BB=64")
for name in ("l1_normalise", "l2_normalise", "frobenius_normalise"):
    case("norm", name, "x=randn(5,5000) s=1 eps=0.1 y=same(x)", "BN=2048" if name[0] == "f" else "BN=1024")
case("norm", "frobenius_normalise", "x=randn(2400000) s=1 eps=0.1 y=same(x)", "BN=2048")
case("norm", "layer_norm_backward", "x=randn(9,700) dy=randn(9,700) g=randn(700) mean=randn(9) rstd=randn(9)")
case("norm", "rms_norm_backward", "x=randn(9,700) dy=randn(9,700) g=randn(700) rstd=randn(9)")
case("norm", "batch_norm_train", "x=randn(3,4,150) g=randn(4) h=randn(4) eps=0.1 mean=zeros(4) var_=zeros(4)", "BP=64")
case("norm", "batch_norm", "x=randn(3,4,150) mean=randn(4) var_=rand(4) g=randn(4) h=randn(4) eps=0.1 y=same(x)", "BP=64")
case("norm", "group_norm", "x=randn(3,4,150) g=randn(4) h=randn(4) groups=2 eps=0.1", "BP=64")
case("norm", "instance_norm", "x=randn(3,4,150) g=randn(4) h=randn(4) eps=0.1")

# ---- pools -------------------------------------------------------------------------------------

case("pool", "max_pool1d", "x=randn(2,3,40) y=zeros(2,3,20) at=zeros(2,3,20):i64 S=2 sx=2 px=0 dx=1")
case("pool", "max_pool2d", "x=randn(2,3,13,40) y=zeros(2,3,6,20) at=none R=3 S=2 sy=2 sx=2 py=0 "
     "px=0 dy=1 dx=1")
case("pool", "max_pool3d", "x=randn(1,2,5,7,40) y=zeros(1,2,2,3,20) at=zeros(1,2,2,3,20):i64 Q=2 R=3 S=2 sz=2 "
     "sy=2 sx=2 pz=0 py=0 px=0 dz=1 dy=1 dx=1")
case("pool", "avg_pool3d", "x=randn(1,2,5,7,40) y=zeros(1,2,2,3,20) Q=2 R=3 S=2 sz=2 sy=2 sx=2 pz=0 py=0 px=0 "
     "padded=true")
case("pool", "avg_pool1d", "x=randn(2,3,40) y=zeros(2,3,20) S=2 sx=2 px=0 padded=true")
case("pool", "avg_pool2d", "x=randn(2,3,13,40) y=zeros(2,3,6,20) R=3 S=2 sy=2 sx=2 py=0 px=0 padded=true")

# ---- reductions --------------------------------------------------------------------------------

for name in "sum mean prod max min norm1 norm".split():
    case("reduce", name + "_last", "x=randn(9,2500)", "BR=1 BN=1024")
    case("reduce", name + "_axis", "x=randn(2,150,70)", "BN=64 BB=32")
    case("reduce", name + "_all", "x=randn(9000)", "BN=512")
case("reduce", "var_last", "x=randn(9,2500) mean=zeros(9) correction=1", "BR=1 BN=1024")
case("reduce", "var_axis", "x=randn(2,150,70) mean=zeros(2,70) correction=1", "BN=64 BB=32")
for name in ("argmax", "argmin"):
    case("reduce", name + "_last", "x=randn(9,5000)", "BR=1 BN=2048")
    case("reduce", name + "_axis", "x=randn(2,150,70)")

# ---- scans, rows, sorts ------------------------------------------------------------------------

for name in ("cumsum", "cumprod"):
    case("scan", name + "_last", "x=randn(5,2500) y=same(x)", "BR=1 BN=1024")
    case("scan", name + "_axis", "x=randn(2,150,70) y=same(x)")
    case("scan", name + "_long", "x=randn(9000) y=same(x)")
    OPTIONS = "reverse=true exclusive=true"
    case("scan", name + "_any_last", "x=randn(5,2500) mask=rand(5,2500):bool " + OPTIONS, "BR=1 BN=1024")
    case("scan", name + "_any_axis", "x=randn(2,150,70) mask=none " + OPTIONS)
for name in ("softmax", "log_softmax"):
    case("softmax", name, "x=randn(9,1500) y=same(x)", "BR=1")
    case("softmax", name + "_long", "x=randn(3,5000) y=same(x)", "BN=1024")
    case("softmax", name + "_backward", "y=randn(9,1500) dy=randn(9,1500) dx=same(dy)", "BR=1")
DOWN, UP = "descending=true nan_greatest=false ", "descending=false nan_greatest=false "
case("sort", "sort_last", UP + "x=randn(5,300) at=zeros(5,300):i64 y=same(x)", "BR=1")
case("sort", "sort_last", DOWN + "x=randn(5,300) at=none y=same(x)", "BR=4")
case("sort", "sort_last", UP + "x=randn(5,300):f16 at=zeros(5,300):i64 y=same(x)", "BR=1")
case("sort", "sort_last", DOWN + "x=randn(1,5000):f16 at=zeros(1,5000):i64", "BN=4096 BT=64")
LARGEST = "largest=true nan_greatest=false "
case("sort", "topk_last", LARGEST + "x=randn(9,170) y=zeros(9,5) at=zeros(9,5):i64")
case("sort", "topk_last", LARGEST + "x=randn(5,700) y=zeros(5,20) at=zeros(5,20):i64")
case("sort", "topk_last", LARGEST + "x=randn(1,24600) y=zeros(1,50) at=zeros(1,50):i64", "BN=2048 BM=128 S=4")
case("sort", "one_hot", "ids=rand(40,hi=9):i32 y=zeros(40,70)")
case("sort", "bincount", "x=rand(9000,hi=9):i32 count=zeros(300):i32", "B=4096")
case("sort", "histogram_bins", "x=randn(9000) count=zeros(300):i32 low=-2 high=2", "B=4096")

# ---- several ranks -----------------------------------------------------------------------------

# More steps than pipeline stages, and partial tiles.
TILES = "BM=64 BN=64 BK=32 "
for plan in "direct", "before", "pull", "push", "put":
    plan = f"plan={plan} chunks=2"
    ranks("all_gather", "a=randn(2,600)", "c", "BN=256 " + plan)
    ranks("ag_gemm", "a=randn(2,140,304):f16 b=randn(2,304,96,seed=2):f16", "c", TILES + plan)
    ranks("gemm_rs", "a=randn(2,280,304):f16 b=randn(2,304,96,seed=2):f16 c=zeros(2,140,96):f16", "c", TILES + plan)
ranks("gemm_rs", "a=randn(2,280,304):f16 b=randn(2,304,96,seed=2):f16 c=zeros(2,140,96):f16", "c", TILES + "plan=add")
ranks("reduce_scatter", "a=randn(2,2,600)", "c", "BN=256")
ranks("all_reduce_two_shot", "a=randn(2,600)", "c", "BN=256")
ranks("gemm_ar", "a=randn(2,140,304):f16 b=randn(2,304,96,seed=2):f16 c=zeros(2,140,96):f16", "c", TILES)
ranks("all_to_all", "a=randn(2,2,600)", "c", "BN=256")
for plan in "push", "pull":
    ranks("all_to_all_uneven", "a=randn(2,20,130) counts=rand(2,2,lo=1,hi=9):i32 c=zeros(2,20,130) off=zeros(2,3):i32",
          "c off", f"BM=8 BK=128 plan={plan}")
ranks("moe_dispatch", "x=randn(2,37,70) experts=rand(2,37,2,lo=0,hi=3):i32 counts=zeros(2,4):i32 recv=zeros(2,148,70) "
      "place=zeros(2,37,2):i32 off=zeros(2,3):i32", "recv place off", "B=16 BK=256")
ranks("moe_combine", "y=randn(2,60,70) experts=rand(2,30,2,lo=0,hi=3):i32 place=rand(2,30,2,lo=0,hi=59):i32 "
      "weights=rand(2,30,2) each=2 c=zeros(2,30,70)", "c", "BK=256")
for split in "BN=64", "BN=64 split=1":
    ranks("flash_decode", "q=randn(2,1,4,16) k=randn(2,1,2,150,16,seed=2) v=randn(2,1,2,150,16,seed=3) "
          "len=rand(2,1,lo=130,hi=150):i32 part=zeros(2,1,4,16) stat=zeros(2,1,4,2) o=zeros(2,1,4,16) scale=0.25", "o", split)

# Words that are put after a fence, after data that many threads put.
ranks("flags", "x=randn(2,2,700) epoch=1 order=1", "y", "BM=256", STDLIB.parent / "tests" / "run" / "comm.teg")

# ---- clusters, if the target has them ------------------------------------------------------------

for clusters in ("cluster=2", "cluster=4"):
    long = "x=randn(5,{0}) g=randn({0}) h=randn({0}) eps=0.1 "
    case("softmax", "softmax", "x=randn(9,1500) y=same(x)", "BR=1 " + clusters)
    case("softmax", "softmax_long", "x=randn(3,9000) y=same(x)", "BN=1024 " + clusters)
    case("softmax", "softmax_backward", "y=randn(9,1500) dy=randn(9,1500) dx=same(dy)", "BR=1 " + clusters)
    case("norm", "layer_norm", long.format(1500) + "mean=zeros(5) rstd=zeros(5) y=same(x)", clusters)
    case("norm", "layer_norm_long", long.format(9000) + "y=same(x)", "BN=1024 " + clusters)
    case("norm", "rms_norm", ROWS.format(1500) + "eps=0.1 rstd=zeros(5) y=same(x)", clusters)
    for rows in ("BR=1 ", "BR=4 "):
        case("norm", "rms_norm_backward", "x=randn(9,700) dy=randn(9,700) g=randn(700) rstd=randn(9)",
             rows + clusters)
        case("norm", "layer_norm_backward", "x=randn(9,700) dy=randn(9,700) g=randn(700) mean=randn(9) "
             "rstd=randn(9)", rows + clusters)
    case("loss", "cross_entropy_long", f"x=randn(9,5000) {LABELS} lse=zeros(9) loss=full(value=0) "
         "count=full(value=0)", "BN=1024 " + clusters)
    case("reduce", "sum_last", "x=randn(9,5000)", "BR=1 BN=1024 " + clusters)
    case("reduce", "argmax_last", "x=randn(9,5000)", "BR=1 " + clusters)
    case("scan", "cumsum_last", "x=randn(5,2500) y=same(x)", "BR=1 BN=1024 " + clusters)

# ---- packed sequences: last, so that parts of the tests keep their kernels ------------------------

# Sequences of several lengths with a window: counts of keys end inside the tensor. First without a producer
# warp. Then with one, and with fewer blocks of keys a program than slots, so that only queries, or only keys
# and values, delay copies.
PACKED = ("q=randn(200,{0},64):f16 k=randn(700,1,64):f16 v=randn(700,1,64):f16 starts_q=iota(201):i32[::100] "
          "starts_k=iota(701):i32[::350] lse=zeros(200,{0}) scale=0.125 right=0 ")
case("attention", "attention_varlen", PACKED.format(2) + "left=200", "BM=64 BN=64")
for stages in 4, 3:
    case("attention", "attention_varlen", PACKED.format(13) + "left=30",
         f"BM=64 BN=64 warps=4 stages={stages} roles=1 skew=1", share=EIGHTH)
