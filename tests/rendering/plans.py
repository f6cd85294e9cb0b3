"""The golden plans: one of each kind of code that the templates can print."""

from __future__ import annotations

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import (
    BandwidthChoice,
    Copies,
    MmaSyncChoice,
    RepackChoice,
    RowChoice,
    SimtChoice,
    WgmmaChoice,
)
from deepgemm_codegen.decide.around import program_around
from deepgemm_codegen.decide.fold import fold, with_asked
from deepgemm_codegen.plan import Decision, Program
from deepgemm_codegen.spec import GemmSpec

DECISIONS = (Decision("D01", "tile", "as given", "a golden plan, chosen by hand"),)


def _plan(
    choice: BandwidthChoice | MmaSyncChoice | RepackChoice | RowChoice | SimtChoice | WgmmaChoice,
    **fields: object,
) -> Program:
    spec = GemmSpec.from_fields(dict(fields))
    arch = load_arch(spec.arch)
    return program_around(spec, arch, lambda inner: choice.program(inner, arch, DECISIONS))


def _folded(choice: MmaSyncChoice, **fields: object) -> Program:
    asked = GemmSpec.from_fields(dict(fields))
    return with_asked(choice.program(fold(asked), load_arch(asked.arch), DECISIONS), asked)


GOLDEN: dict[str, Program] = {
    # The first light: aligned everything, so no guard at all.
    "aligned_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 4, 8), m=1024, n=1024, k=1024, layout="nt", arch="sm_80"
    ),
    # Tails in every dimension, C and steps, 16-byte copies with zero fill, a ragged tile.
    "tails_nn_bf16": _plan(
        MmaSyncChoice(48, 40, 48, 1, 1, 3, 1, 4),
        m=1000,
        n=504,
        k=1000,
        dtype="bf16",
        dtype_c="fp32",
        dtype_d="fp32",
        epilogue="bias,relu,bias:row:bf16",
        arch="sm_86",
    ),
    # Odd sizes: two-byte vectors through registers.
    "odd_tt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8), m=1001, n=999, k=1003, layout="tt", arch="sm_90"
    ),
    # The same with one step a slice, so that no second fragment buffer pays.
    "odd_short_slices_nn": _plan(
        MmaSyncChoice(64, 64, 16, 2, 2, 2, 2, 8), m=1001, n=999, k=1003, layout="nn", arch="sm_80"
    ),
    # Everything known only at run time, column-major D, a batch.
    "dynamic_tn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m="dynamic:512",
        n="dynamic:512",
        k="dynamic:512",
        layout="tn",
        layout_d="t",
        dtype_c="bf16",
        dtype_d="bf16",
        epilogue="bias:row:fp32",
        batch=3,
        arch="sm_80",
    ),
    # Turing: no cp.async, m16n8k8, bf16 rounded by hand; a row tail only; one fragment column of B
    # at a time.
    "turing_nn": _plan(
        MmaSyncChoice(64, 48, 32, 2, 2, 2, 2, 8),
        m=1000,
        n=96,
        k=1024,
        arch="sm_75",
        dtype_c="fp16",
        dtype_d="bf16",
        epilogue="relu6",
    ),
    # B's fragments singly from a K-major tile, a column tail only, four-byte copies.
    "single_fragments_nt": _plan(
        MmaSyncChoice(32, 24, 64, 2, 1, 4, 1, 2),
        m=64,
        n=48,
        k=1002,
        layout="nt",
        arch="sm_89",
    ),
    # More shared memory than a launch gets by default, a warp tile of 16 columns.
    "wide_nt": _plan(
        MmaSyncChoice(128, 128, 64, 1, 8, 4, 1, 8), m=256, n=120, k=512, layout="nt", arch="sm_80"
    ),
    # The same from an MN-major B, and a full-width n with partial m.
    "single_fragments_tn": _plan(
        MmaSyncChoice(32, 24, 64, 2, 1, 2, 1, 2), m=70, n=52, k=1024, layout="tn", arch="sm_120"
    ),
    # Activations and a clamp where NaN needs a comparison of its own.
    "activations_nn_turing": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=128,
        n=128,
        k=128,
        arch="sm_75",
        epilogue="bias,gelu,clamp:-1:6",
    ),
    # Numbers, vectors and matrices that steps read, of several types.
    "steps_tn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=100,
        n="dynamic:512",
        k=128,
        layout="tn",
        dtype_d="fp32",
        batch=2,
        epilogue="scale,scale:row:fp16,silu,residual:bf16,gelu_tanh,residual:fp32:ld=512,clamp:hi=9",
        arch="sm_89",
    ),
    # k in five uneven parts, and a second kernel that adds them; each tile of D in one piece.
    "split_k_nt": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 4, 2, 8, 5),
        m=128,
        n=256,
        k=4096,
        layout="nt",
        epilogue="bias,relu",
        arch="sm_80",
    ),
    # As many parts as groups of threads that add them; of each, no more slices than slots, one
    # step a slice.
    "split_k_once_nt": _plan(
        MmaSyncChoice(64, 64, 16, 2, 2, 4, 2, 8, 4), m=128, n=256, k=256, layout="nt", arch="sm_80"
    ),
    # Sums of bytes that were transposed in registers: their columns interleave.
    "split_k_int8_tn": _plan(
        MmaSyncChoice(64, 64, 128, 2, 2, 3, 2, 8, 4),
        m=100,
        n=480,
        k=8192,
        layout="tn",
        lda=112,
        dtype="int8",
        arch="sm_80",
    ),
    # The same with everything at run time, a batch and C.
    "split_k_dynamic_nn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8, 3),
        m="dynamic:512",
        n="dynamic:500",
        k="dynamic:512",
        batch=2,
        dtype_c="fp32",
        dtype_d="fp32",
        arch="sm_90",
    ),
    # Sums of both halves of gated pairs, by mma.sync and, of a dynamic n, by wgmma.
    "split_k_pairs_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8, 4),
        m=40,
        n=100,
        k=4096,
        layout="nt",
        epilogue="bias,swiglu",
        arch="sm_80",
    ),
    "split_k_pairs_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8, 3),
        m=40,
        n=100,
        k=4096,
        dtype="int8",
        dtype_d="fp16",
        epilogue="scale,swiglu",
        arch="sm_80",
    ),
    "wgmma_split_k_pairs_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8, split_k=3),
        m=128,
        n="dynamic:1408",
        k=4096,
        batch=2,
        layout="nt",
        epilogue="geglu",
        arch="sm_90a",
    ),
    # A pointer a product to A, C and D, and one B for all; a stride that is given.
    "pointers_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=100,
        n=72,
        k=80,
        batch=5,
        layout="nt",
        dtype_c="fp16",
        stride_a="pointers",
        stride_b="shared",
        stride_c=8000,
        stride_d="pointers",
        arch="sm_80",
    ),
    # One weight for all of a batch: one larger product.
    "folded_nt": _folded(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=100,
        n=72,
        k=80,
        batch=5,
        layout="nt",
        stride_b="shared",
        arch="sm_80",
    ),
    # Tiny products, four tiles a block, of which the last block has one.
    "abreast_nn": _plan(
        MmaSyncChoice(32, 32, 32, 2, 1, 2, 8, 1, abreast=4),
        m=32,
        n=32,
        k=32,
        batch=10001,
        dtype_c="fp16",
        arch="sm_80",
    ),
    "abreast_simt_nt": _plan(
        SimtChoice(32, 32, 16, 2, 1, 2, 8, 1, abreast=3),
        m=24,
        n=20,
        k=12,
        batch=1000,
        dtype="fp32",
        layout="nt",
        arch="sm_86",
    ),
    "abreast_bandwidth_nn": _plan(
        BandwidthChoice(2, 1, 1, 1, 16, abreast=8), m=16, n=16, k=16, batch=10000, arch="sm_90"
    ),
    # Two outputs: what a step stores, and D.
    "store_nn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=64,
        k=64,
        epilogue="store:bf16,relu,store:fp32",
        arch="sm_80",
    ),
    # Pairs of B's columns: by rows of B, and by its columns, with a step before the pair.
    "swiglu_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=100,
        k=64,
        layout="nt",
        epilogue="swiglu",
        arch="sm_80",
    ),
    # The same on CUDA cores.
    "simt_swiglu_nt": _plan(
        SimtChoice(64, 64, 16, 2, 1, 3, 2, 8),
        m=64,
        n=100,
        k=64,
        layout="nt",
        dtype="fp32",
        epilogue="swiglu",
        arch="sm_80",
    ),
    "simt_geglu_nn": _plan(
        SimtChoice(32, 128, 16, 2, 2, 2, 2, 8),
        m="dynamic:64",
        n=101,
        k=65,
        ldb=202,
        dtype="fp16",
        epilogue="bias,geglu:second,bias",
        arch="sm_75",
    ),
    "geglu_nn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=96,
        k=64,
        epilogue="bias,geglu:second,bias",
        arch="sm_80",
    ),
    # D in bytes: integers with zero points, four elements a lane.
    "int8_nn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=100,
        n=128,
        k=128,
        epilogue="bias:int32,quantize:int8:per_token:zero_point=per_channel:divide",
        arch="sm_80",
    ),
    # 8-bit floats before there is an instruction for them, one element a lane.
    "e4m3_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=65,
        k=64,
        layout="nt",
        epilogue="quantize:e4m3",
        arch="sm_86",
    ),
    # The same with NaN or infinity beyond their range.
    "e4m3_overflow_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=64,
        k=64,
        layout="nt",
        epilogue="quantize:e4m3:saturate=no",
        arch="sm_120",
    ),
    "e5m2_overflow_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=64,
        n=64,
        k=64,
        layout="nt",
        epilogue="quantize:e5m2:0.5:saturate=no",
        arch="sm_75",
    ),
    # int8: bytes of both operands transposed in registers, int32 out and a C that is added to it.
    "int8_tn": _plan(
        MmaSyncChoice(64, 64, 128, 2, 2, 3, 2, 8),
        m=1000,
        n=480,
        k=1000,
        layout="tn",
        dtype="int8",
        dtype_c="int32",
        arch="sm_80",
    ),
    # Unsigned by signed, K-major, sums that become fp16; narrow copies through registers, and a
    # warp tile of 48 columns.
    "uint8_nt": _plan(
        MmaSyncChoice(32, 48, 64, 2, 1, 2, 2, 4),
        m=130,
        n=200,
        k=1002,
        layout="nt",
        dtype="uint8",
        dtype_b="int8",
        dtype_d="fp16",
        epilogue="bias",
        arch="sm_86",
    ),
    # Turing's int8: eight rows at a time; B's bytes in a warp tile of 48 columns.
    "int8_nn_turing": _plan(
        MmaSyncChoice(32, 48, 64, 2, 1, 2, 2, 4),
        m=64,
        n=96,
        k=256,
        dtype="int8",
        dtype_d="fp32",
        arch="sm_75",
    ),
    # fp8 of two types, where the tensor core keeps too few bits: each product is added apart.
    "fp8_nt": _plan(
        MmaSyncChoice(64, 64, 128, 2, 2, 3, 2, 8),
        m=256,
        n=256,
        k=1024,
        layout="nt",
        dtype="e4m3",
        dtype_b="e5m2",
        arch="sm_89",
    ),
    # Where it keeps all bits; bytes of A lie along m.
    "fp8_tn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 3, 2, 8),
        m=250,
        n=256,
        k=1000,
        layout="tn",
        lda=256,
        dtype="e5m2",
        dtype_d="fp32",
        arch="sm_120",
    ),
    # fp32 on CUDA cores: k of both operands turned round on its way, 16 at a time.
    "simt_nt": _plan(
        SimtChoice(64, 128, 16, 2, 2, 3, 2, 8),
        m=1000,
        n=1024,
        k=1024,
        layout="nt",
        dtype="fp32",
        arch="sm_90",
    ),
    # A turned round four at a time, with a last pass without rows for all; B in whole vectors.
    "simt_nn": _plan(
        SimtChoice(32, 256, 16, 2, 4, 2, 2, 8),
        m=1024,
        n=1024,
        k=1024,
        dtype="fp32",
        arch="sm_90",
    ),
    # Tails everywhere, C and steps, vectors along m and n, a last pass without rows for all.
    "simt_tails_tn": _plan(
        SimtChoice(64, 64, 8, 2, 2, 4, 2, 8),
        m="dynamic:1000",
        n=500,
        k=1001,
        layout="tn",
        lda=1000,
        dtype="fp32",
        dtype_c="fp32",
        epilogue="bias,relu",
        batch=2,
        arch="sm_80",
    ),
    # Kept off the tensor cores: widened to fp32 on the way, through registers.
    "simt_fp16_nn": _plan(
        SimtChoice(64, 32, 8, 4, 1, 2, 1, 8),
        m=128,
        n=80,
        k=200,
        tensor_cores="off",
        arch="sm_75",
    ),
    # int8 in Hopper's own family: int32 leaves through slabs, with a C that is added to it.
    "wgmma_s8_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 4, 2, 1, 16, tile_k=128),
        m=4000,
        n=4096,
        k=4096,
        layout="nt",
        dtype="int8",
        dtype_b="uint8",
        dtype_c="int32",
        arch="sm_90a",
    ),
    # int32 sums alone: whole rows of the tile by TMA, in turns; D's lines leave the L2 first.
    "wgmma_rows_s8_nt": _plan(
        WgmmaChoice(128, 192, 2, 2, 4, 1, 1, 16, tile_k=128),
        m=4000,
        n=16384,
        k=512,
        layout="nt",
        dtype="int8",
        arch="sm_90a",
    ),
    # The same of wide tiles, whose rows leave in two parts.
    "wgmma_rows_wide_s8_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 4, 1, 1, 16, tile_k=128),
        m=4096,
        n=32768,
        k=512,
        layout="nt",
        dtype="int8",
        arch="sm_90a",
    ),
    # int32 sums straight from registers, with tails in n, and in m, too.
    "wgmma_lanes_s8_nt": _plan(
        WgmmaChoice(64, 96, 1, 1, 4, 1, 1, 8, tile_k=128),
        m=1024,
        n=1000,
        k=512,
        layout="nt",
        dtype="int8",
        arch="sm_90a",
    ),
    "wgmma_lanes_tails_s8_nt": _plan(
        WgmmaChoice(64, 96, 1, 1, 4, 1, 1, 8, tile_k=128),
        m=1000,
        n=1000,
        k=512,
        layout="nt",
        dtype="int8",
        arch="sm_90a",
    ),
    # fp32 sums, scaled by alpha, straight from registers; m is known at run time.
    "wgmma_lanes_fp32_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 6, 1, 1, 8),
        m="dynamic:1000",
        n=1024,
        k=512,
        layout="nt",
        dtype_d="fp32",
        arch="sm_90a",
    ),
    # int32 sums that become bf16 on their way to TMA.
    "wgmma_s8_bf16_nt": _plan(
        WgmmaChoice(64, 96, 1, 1, 6, 1, 1, 8, tile_k=128),
        m=1024,
        n=960,
        k=1024,
        layout="nt",
        dtype="int8",
        dtype_d="bf16",
        epilogue="scale:row:fp32",
        arch="sm_90a",
    ),
    # fp8: a slice's sums are added in fp32; wide tiles have no room for the next slice's meanwhile.
    "wgmma_e4m3_nt": _plan(
        WgmmaChoice(128, 192, 2, 1, 4, 1, 1, 16, tile_k=128),
        m=4096,
        n=4096,
        k=4096,
        layout="nt",
        dtype="e4m3",
        dtype_b="e5m2",
        arch="sm_90a",
    ),
    # The same in turn; narrow tiles add while they multiply; and sums that stay in the tensor core.
    "wgmma_e4m3_ping_pong_wide_nt": _plan(
        WgmmaChoice(64, 160, 2, 2, 6, 1, 1, 16, tile_k=128),
        m=1000,
        n=1024,
        k=1024,
        layout="nt",
        dtype="e4m3",
        arch="sm_90a",
    ),
    "wgmma_e4m3_ping_pong_nt": _plan(
        WgmmaChoice(64, 128, 2, 2, 6, 1, 1, 16, tile_k=128),
        m=1000,
        n=1024,
        k=1000,
        layout="nt",
        lda=1008,
        ldb=1008,
        dtype="e4m3",
        epilogue="scale:row:fp32,quantize:e4m3",
        arch="sm_90a",
    ),
    # Scales by block: tiles in three blocks of columns, in two, and in one, at sizes of run time.
    "wgmma_scaled_nt": _plan(
        WgmmaChoice(128, 176, 2, 1, 5, 1, 1, 16, tile_k=128),
        m=4096,
        n=2112,
        k=7168,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    # The same of both halves of gated pairs; zero points of both by mma.sync and by wgmma.
    "wgmma_scaled_pairs_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 5, 1, 1, 16, tile_k=128),
        m=4096,
        n=2048,
        k=7168,
        layout="nt",
        dtype="e4m3",
        dtype_d="bf16",
        scale_a="1x128",
        scale_b="128x128",
        epilogue="swiglu",
        arch="sm_90a",
    ),
    "zero_points_pairs_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8),
        m=100,
        n=200,
        k=256,
        dtype="int8",
        dtype_d="fp16",
        zero_point_a="per_token",
        zero_point_b="per_channel",
        epilogue="scale,swiglu",
        arch="sm_80",
    ),
    "zero_points_pairs_nt": _plan(
        WgmmaChoice(128, 64, 2, 1, 4, 1, 1, 8, tile_k=128),
        m=1024,
        n=1000,
        k=1024,
        layout="nt",
        dtype="int8",
        dtype_d="fp16",
        zero_point_a="per_token",
        epilogue="scale,swiglu",
        arch="sm_90a",
    ),
    "wgmma_scaled_ping_pong_nt": _plan(
        WgmmaChoice(64, 96, 2, 2, 6, 1, 1, 16, tile_k=128),
        m=1000,
        n=1000,
        k=512,
        ldd=1008,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    "wgmma_scaled_ping_pong_wide_nt": _plan(
        WgmmaChoice(64, 192, 2, 2, 6, 1, 1, 16, tile_k=128),
        m=1000,
        n=1024,
        k=512,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    "wgmma_scaled_overlapped_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 6, 2, 1, 16, tile_k=128),
        m=4096,
        n=4096,
        k=7168,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    "wgmma_scaled_in_sequence_nt": _plan(
        WgmmaChoice(256, 128, 2, 1, 4, 1, 1, 16, tile_k=128),
        m=4096,
        n=4096,
        k=7168,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    "wgmma_scaled_slots_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 16, split_k=2, cluster_k=2, tile_k=128),
        m=64,
        n=256,
        k=1024,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    "wgmma_scaled_dynamic_nt": _plan(
        WgmmaChoice(128, 64, 1, 1, 6, 1, 1, 16, split_k=2, tile_k=128),
        m="dynamic:128",
        n=1000,
        k="dynamic:7168",
        lda=7168,
        ldb=7168,
        layout="nt",
        dtype="e4m3",
        epilogue="bias",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    # In a batch, at an m of run time: scales move on from product to product.
    "wgmma_scaled_batched_nt": _plan(
        WgmmaChoice(64, 96, 2, 2, 6, 1, 1, 16, tile_k=128),
        m="dynamic:256",
        n=1000,
        k=512,
        batch=8,
        ldd=1008,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_90a",
    ),
    # The same by mma.sync: slices that are blocks; halves of pairs in a batch, bytes of A along m;
    # parts of k that begin within blocks, at sizes of run time; few slices, through registers.
    "mma_scaled_nt": _plan(
        MmaSyncChoice(160, 128, 128, 2, 4, 2, 1, 8),
        m=4000,
        n=4096,
        k=7168,
        layout="nt",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_120",
    ),
    "mma_scaled_pairs_tt": _plan(
        MmaSyncChoice(64, 128, 64, 2, 2, 3, 2, 8),
        m=1008,
        n=2048,
        k=7168,
        batch=4,
        layout="tt",
        dtype="e4m3",
        dtype_d="bf16",
        scale_a="1x128",
        scale_b="128x128",
        epilogue="swiglu",
        arch="sm_120",
    ),
    "mma_scaled_dynamic_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 4, 2, 8, split_k=2),
        m="dynamic:128",
        n=1000,
        k="dynamic:7168",
        lda=7168,
        ldb=7168,
        layout="nt",
        dtype="e4m3",
        dtype_b="e5m2",
        epilogue="bias",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_89",
    ),
    "mma_scaled_registers_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8),
        m=1000,
        n=1001,
        k=275,
        layout="nn",
        dtype="e4m3",
        scale_a="1x128",
        scale_b="128x128",
        arch="sm_89",
    ),
    "fp8_few_slices_nt": _plan(
        MmaSyncChoice(128, 96, 32, 2, 2, 3, 3, 8),
        m=512,
        n=24576,
        k=144,
        layout="nt",
        dtype="e4m3",
        arch="sm_89",
    ),
    "wgmma_e4m3_fast_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 4, 2, 1, 16, tile_k=128),
        m=4096,
        n=4096,
        k=4096,
        layout="nt",
        dtype="e4m3",
        accumulate="fast",
        arch="sm_90a",
    ),
    # Odd rows are copied first, of a batch too; then 16 bytes at a time.
    "repack_tn": _plan(
        RepackChoice(MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8), Copies(("a", "b"))),
        m=99,
        n=77,
        k=1001,
        batch=3,
        layout="tn",
        arch="sm_80",
    ),
    # The same of tiny products, several a block.
    "repack_abreast_nn": _plan(
        RepackChoice(MmaSyncChoice(32, 32, 32, 2, 1, 2, 8, 1, abreast=4), Copies(("a", "b"))),
        m=31,
        n=31,
        k=31,
        batch=1000,
        arch="sm_120",
    ),
    # Matrices that lie anywhere are copied behind each other, for maps of three dimensions.
    "repack_pointers_nt": _plan(
        RepackChoice(WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8), Copies(("a", "b"))),
        m=99,
        n=77,
        k=104,
        batch=3,
        layout="nt",
        stride_a="pointers",
        stride_b=9001,
        arch="sm_90a",
    ),
    # Rows of copies along m and n, which are read up to the next one.
    "repack_filled_tn": _plan(
        RepackChoice(WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 8), Copies(("a", "b"))),
        m=99,
        n=77,
        k=101,
        layout="tn",
        arch="sm_90a",
    ),
    # Bytes that lie across k are turned, of a batch too.
    "repack_turned_tt": _plan(
        RepackChoice(MmaSyncChoice(64, 64, 64, 2, 2, 3, 2, 8), Copies(("a", "b"), turned=("a",))),
        m=99,
        n=77,
        k=1001,
        batch=3,
        dtype="int8",
        layout="tt",
        arch="sm_80",
    ),
    # The same through wgmma, whose mma reads along k only.
    "repack_turned_wgmma_tn": _plan(
        RepackChoice(
            WgmmaChoice(128, 128, 2, 1, 5, 1, 1, 8, tile_k=128),
            Copies(("a", "b"), turned=("a", "b")),
        ),
        m=512,
        n=768,
        k=1024,
        dtype="e4m3",
        layout="tn",
        arch="sm_90a",
    ),
    # One operand copied, sizes at run time, k in parts: three kernels.
    "repack_split_k_dynamic_nn": _plan(
        RepackChoice(WgmmaChoice(64, 64, 1, 1, 6, 1, 1, 4, 8), Copies(("b",))),
        m="dynamic:64",
        n="dynamic:515",
        k=8192,
        epilogue="bias",
        arch="sm_90a",
    ),
    # The same through wgmma: sums straight from registers, a cluster, uneven parts.
    "split_k_wgmma_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 2, 1, 8, 3),
        m=500,
        n=300,
        k=4000,
        layout="nt",
        dtype="bf16",
        epilogue="gelu",
        arch="sm_90a",
    ),
    # And with n at run time, one consumer, B MN-major.
    "split_k_wgmma_dynamic_nn": _plan(
        WgmmaChoice(64, 64, 1, 1, 6, 1, 1, 4, 8),
        m=64,
        n="dynamic:512",
        k=8192,
        ldb=512,
        arch="sm_90a",
    ),
    # Hopper's own family: D by TMA, both operands K-major.
    "wgmma_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 3, 1, 1, 16), m=4096, n=4096, k=4096, layout="nt", arch="sm_90a"
    ),
    # Tails, C and steps beside the TMA store; both operands MN-major.
    "wgmma_tails_tn": _plan(
        WgmmaChoice(128, 192, 2, 1, 4, 1, 1, 8),
        m=1000,
        n=504,
        k=200,
        layout="tn",
        dtype="bf16",
        dtype_c="fp32",
        epilogue="bias,relu",
        arch="sm_90a",
    ),
    # Four blocks of a cluster have whole rows between them: a norm without a second kernel.
    "wgmma_cluster_rows_nt": _plan(
        WgmmaChoice(128, 192, 2, 1, 4, 1, 1, 1, cluster_rows=4),
        m=1000,
        n=760,
        k=768,
        layout="nt",
        dtype="bf16",
        epilogue="bias,residual,store,layer_norm",
        arch="sm_90a",
    ),
    # One block, whose consumers have whole rows in turns.
    "wgmma_whole_rows_turns_nt": _plan(
        WgmmaChoice(64, 96, 2, 2, 4, 1, 1, 1, cluster_rows=1),
        m=700,
        n=96,
        k=256,
        layout="nt",
        epilogue="bias,layer_norm,gelu",
        arch="sm_90a",
    ),
    # Three, none of whose rows are as many; a batch of m at run time.
    "wgmma_cluster_rows_dynamic_nn": _plan(
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 1, cluster_rows=3),
        m="dynamic:500",
        n=192,
        k=256,
        batch=2,
        dtype_c="fp16",
        epilogue="rms_norm,quantize:int8:scale=per_token",
        arch="sm_90a",
    ),
    # Only the launch tells whether there are slices enough for one consumer to lag.
    "wgmma_lag_dynamic_tn": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8),
        m=512,
        n=512,
        k="dynamic:2048",
        layout="tn",
        arch="sm_90a",
    ),
    # A fused feed-forward layer: what follows the product in registers, D by TMA.
    # Tiles that end inside a panel of B's columns, which a cluster may share.
    "wgmma_ragged_tn": _plan(
        WgmmaChoice(128, 176, 2, 1, 4, 1, 1, 16),
        m=4096,
        n=2112,
        k=7168,
        dtype="bf16",
        layout="tn",
        arch="sm_90a",
    ),
    "wgmma_ragged_cluster_nn": _plan(
        WgmmaChoice(128, 112, 2, 1, 4, 2, 1, 8),
        m=1024,
        n=672,
        k=1000,
        batch=3,
        layout="nn",
        arch="sm_90a",
    ),
    "wgmma_gelu_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 3, 1, 1, 16),
        m=4000,
        n=4000,
        k=1024,
        layout="nt",
        epilogue="bias,gelu,residual",
        arch="sm_90a",
    ),
    # D in bytes by TMA, with guards and without.
    "wgmma_int8_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 3, 1, 1, 16),
        m=4096,
        n=4096,
        k=1024,
        layout="nt",
        epilogue="bias,residual,gelu,quantize:int8:per_token",
        arch="sm_90a",
    ),
    "wgmma_e4m3_tn": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8),
        m=1000,
        n=400,
        k=512,
        layout="tn",
        epilogue="residual,bias:row,quantize:e4m3:per_channel",
        arch="sm_90a",
    ),
    # Slices of two rows of k, each in a panel of its own where k is contiguous.
    "wgmma_long_slices_nt": _plan(
        WgmmaChoice(64, 80, 1, 1, 5, 1, 1, 1, tile_k=128),
        m=1024,
        n=640,
        k=640,
        dtype="bf16",
        layout="nt",
        arch="sm_90a",
    ),
    "wgmma_long_slices_nn": _plan(
        WgmmaChoice(64, 128, 1, 1, 4, 1, 1, 8, tile_k=128),
        m=1000,
        n=1024,
        k=1000,
        batch=3,
        layout="nn",
        arch="sm_90a",
    ),
    # Pairs of B's columns by TMA: halves of rows, panels of columns, either in a cluster.
    "wgmma_swiglu_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 3, 1, 1, 16),
        m=4096,
        n=4096,
        k=1024,
        layout="nt",
        epilogue="bias,swiglu",
        arch="sm_90a",
    ),
    "wgmma_geglu_int8_nn": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 16),
        m=4096,
        n=4096,
        k=1024,
        layout="nn",
        epilogue="geglu,quantize:int8",
        arch="sm_90a",
    ),
    "wgmma_swiglu_cluster_nt": _plan(
        WgmmaChoice(128, 96, 2, 1, 4, 2, 1, 8),
        m=1024,
        n=1001,
        k=512,
        layout="nt",
        epilogue="swiglu",
        arch="sm_90a",
    ),
    "wgmma_swiglu_cluster_nn": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 2, 1, 8),
        m=1024,
        n=1024,
        k=512,
        layout="nn",
        epilogue="swiglu",
        arch="sm_90a",
    ),
    # D through the warps' slabs: an odd n, one consumer, dynamic m.
    "wgmma_slab_nt": _plan(
        WgmmaChoice(64, 48, 1, 1, 8, 1, 1, 4),
        m="dynamic",
        n=1001,
        k=512,
        layout="nt",
        epilogue="bias",
        arch="sm_90a",
    ),
    # The same in 32 bits, a tile's rows in parts of which the last is narrower; turns.
    "wgmma_ragged_slab_nt": _plan(
        WgmmaChoice(128, 176, 2, 2, 5, 1, 1, 16, tile_k=128),
        m=4096,
        n=24576,
        k=1536,
        dtype="int8",
        layout="nt",
        arch="sm_90a",
    ),
    # Parts of k that the blocks of a cluster sum; uneven, two consumers, every kind of operand.
    "wgmma_gather_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 6, 1, 1, 4, 6, cluster_k=6),
        m=500,
        n=520,
        k=16392,
        layout="nt",
        dtype="bf16",
        dtype_c="bf16",
        epilogue="bias,gelu,residual",
        arch="sm_90a",
    ),
    # The same for whole numbers and a number of rows known at run time.
    "wgmma_gather_dynamic_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 8, 1, 1, 2, 8, tile_k=128, cluster_k=8),
        m="dynamic:256",
        n=192,
        k=16384,
        layout="nt",
        dtype="int8",
        arch="sm_90a",
    ),
    # Every slice of a part has a slot of its own: nothing is given back, and no parity turns.
    "wgmma_gather_once_tn": _plan(
        WgmmaChoice(64, 64, 1, 1, 8, 1, 1, 2, 4, cluster_k=4),
        m=200,
        n=192,
        k=1800,
        layout="tn",
        arch="sm_90a",
    ),
    # Vectors of each product's own, kept for a tile's columns and read at its rows.
    "wgmma_batch_vectors_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8),
        m="dynamic:512",
        n=512,
        k=512,
        batch=8,
        layout="nt",
        epilogue="bias:per_product,scale:row:per_product,scale:column",
        arch="sm_90a",
    ),
    # Each product of a batch has such clusters.
    "wgmma_gather_batched_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 4, 1, 1, 2, 2, cluster_k=2),
        m="dynamic:200",
        n=192,
        k=1800,
        batch=3,
        layout="nt",
        epilogue="residual",
        arch="sm_90a",
    ),
    # A cluster of two along m shares B's tile; n is ragged, and the tile rows are odd.
    "wgmma_cluster_m_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 2, 1, 8), m=1408, n=1400, k=512, layout="nt", arch="sm_90a"
    ),
    # A batch: maps of three dimensions, consumers in turn; what steps read follows the product.
    "wgmma_batch_nt": _plan(
        WgmmaChoice(64, 192, 2, 2, 6, 1, 1, 16),
        m=1000,
        n=384,
        k=40,
        batch=8,
        layout="nt",
        epilogue="residual",
        arch="sm_90a",
    ),
    # The same at run time, through slabs, a cluster that shares B.
    "wgmma_batch_tn": _plan(
        WgmmaChoice(128, 64, 2, 1, 4, 2, 1, 4),
        m="dynamic:512",
        n=77,
        k=136,
        lda=512,
        ldb=80,
        batch=3,
        layout="tn",
        dtype_c="fp16",
        arch="sm_90a",
    ),
    # Parts of k of every product.
    "split_k_wgmma_batch_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 6, 1, 1, 4, 5),
        m=100,
        n=192,
        k=4096,
        batch=3,
        layout="nt",
        arch="sm_90a",
    ),
    # Consumers that take tiles in turn, clusters, panels of 16 columns of D.
    "wgmma_ping_pong_nt": _plan(
        WgmmaChoice(128, 176, 2, 2, 5, 2, 1, 16),
        m=4096,
        n=2112,
        k=768,
        layout="nt",
        dtype="bf16",
        arch="sm_90a",
    ),
    # A polynomial behind the other, while the other consumer multiplies.
    "wgmma_gelu_ping_pong_nt": _plan(
        WgmmaChoice(128, 96, 2, 2, 4, 1, 1, 8),
        m=1024,
        n=960,
        k=1024,
        layout="nt",
        epilogue="bias,gelu",
        arch="sm_90a",
    ),
    # Launched so that it may begin before the kernel before it has ended.
    "wgmma_dependent_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 8, 1, 1, 16),
        m=1024,
        n=640,
        k=640,
        layout="nt",
        arch="sm_90a",
        launch="dependent",
    ),
    # Fewer rows than the tile has: copies leave the rest alone.
    "wgmma_few_rows_nt": _plan(
        WgmmaChoice(64, 64, 1, 1, 12, 1, 1, 1), m=20, n=520, k=512, layout="nt", arch="sm_90a"
    ),
    # A cluster of two along n shares A's tile, MN-major.
    "wgmma_cluster_n_tn": _plan(
        WgmmaChoice(128, 64, 2, 1, 6, 1, 2, 8),
        m=1024,
        n="dynamic:1024",
        k=1024,
        layout="tn",
        ldb=1024,
        arch="sm_90a",
    ),
    # Scales of rows: a warp a row, eight rows a block, a batch.
    "row_scales_nt": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=1001,
        n=124,
        k=256,
        batch=2,
        layout="nt",
        epilogue="bias,store,quantize:int8:dynamic",
        arch="sm_80",
    ),
    # Of the longest rows some values are read again.
    "row_scales_longest": _plan(
        RowChoice(1, 32, 0),
        op="epilogue",
        m=33,
        n=60001,
        dtype="fp16",
        epilogue="gelu,quantize:int8:dynamic",
        arch="sm_80",
    ),
    # The same of long rows, which several warps share, behind pairs and a cut k.
    "row_scales_wgmma_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8, 3),
        m="dynamic:512",
        n=1024,
        k=1536,
        layout="nt",
        epilogue="silu,quantize:e4m3:dynamic",
        launch="dependent",
        arch="sm_90a",
    ),
    # Column-major, by rows and turned: C, a residual, two outputs, a batch of pointers.
    "turned_nn": _plan(
        MmaSyncChoice(64, 64, 32, 2, 2, 2, 2, 8),
        m=1001,
        n=120,
        k=256,
        batch=2,
        stride_d="pointers",
        dtype_c="fp32",
        layout_d="t",
        epilogue="residual,store:fp32,rms_norm,quantize:int8:dynamic",
        arch="sm_80",
    ),
    # The same of pairs that leave by TMA; nothing is turned before.
    "turned_wgmma_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8),
        m="dynamic:512",
        n=1024,
        k=1536,
        layout="nt",
        layout_d="t",
        epilogue="swiglu",
        launch="dependent",
        arch="sm_90a",
    ),
    # Without a product: A is turned, and D where it is column-major, too.
    "turned_rows_tn": _plan(
        RowChoice(1, 4, 2),
        op="epilogue",
        m=1000,
        n="dynamic:512",
        layout="tn",
        epilogue="layer_norm",
        arch="sm_100",
    ),
    # Nor is anything turned where A and D are column-major, and no step needs a row.
    "columns_tn": _plan(
        RowChoice(4, 1, 0),
        op="epilogue",
        m=1000,
        n=500,
        layout="tn",
        layout_d="t",
        epilogue="bias,scale:row",
        arch="sm_80",
    ),
    # Zero points a row and a column, of operands with k in rows and in columns.
    "zero_points_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8),
        m=1001,
        n=120,
        k=256,
        dtype="int8",
        layout="nn",
        zero_point_a="per_token",
        zero_point_b="per_channel",
        arch="sm_80",
    ),
    # In a batch: rows of A through pointers, each product's zero points; B is one for all.
    "zero_points_batched_nt": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 2, 2, 8),
        m="dynamic:128",
        n=120,
        k=256,
        batch=6,
        dtype="int8",
        layout="nt",
        stride_a="pointers",
        stride_b="shared",
        zero_point_a="per_token",
        zero_point_b="per_channel",
        arch="sm_80",
    ),
    # A zero point of one side only, beside parts of k.
    "zero_points_wgmma_nt": _plan(
        WgmmaChoice(128, 128, 2, 1, 4, 1, 1, 8, 3, 128),
        m=500,
        n=512,
        k=4096,
        dtype="int8",
        layout="nt",
        zero_point_a=-7,
        arch="sm_90a",
    ),
    # Read once: rows of whole sectors past the L1, one row of A, k in whole slices.
    "bandwidth_nt": _plan(
        BandwidthChoice(2, 1, 8, 4, 2), m=1, n=4096, k=4096, layout="nt", dtype="bf16", arch="sm_90"
    ),
    # Gated pairs, a tile of which is half of either half of B: rows and columns of B, a ring.
    "bandwidth_pairs_nt": _plan(
        BandwidthChoice(2, 1, 2, 3, 1),
        m=1,
        n=14336,
        k=4096,
        layout="nt",
        epilogue="swiglu",
        arch="sm_90",
    ),
    "bandwidth_pairs_nn": _plan(
        BandwidthChoice(4, 1, 4, 2, 1),
        m=7,
        n=1000,
        k=200,
        epilogue="bias,geglu",
        arch="sm_80",
    ),
    "bandwidth_narrow_pairs_nt": _plan(
        BandwidthChoice(1, 1, 4, 4, 1),
        m=3,
        n=100,
        k=4096,
        layout="nt",
        epilogue="swiglu",
        arch="sm_90",
    ),
    "bandwidth_ring_pairs_nt": _plan(
        BandwidthChoice(4, 1, 8, 3, 1, ring="shared"),
        m=16,
        n=1000,
        k=4096,
        layout="nt",
        epilogue="swiglu",
        arch="sm_90",
    ),
    # A ring in shared memory: sixteen rows, and five with a tail in n.
    "bandwidth_ring_nt": _plan(
        BandwidthChoice(4, 1, 8, 3, 1, ring="shared"),
        m=16,
        n=28672,
        k=4096,
        layout="nt",
        dtype="bf16",
        arch="sm_90",
    ),
    # The same with the rows of two instructions, not all of which are there.
    "bandwidth_ring_two_nt": _plan(
        BandwidthChoice(4, 1, 8, 3, 1, ring="shared"),
        m=27,
        n=4096,
        k=4096,
        layout="nt",
        dtype="bf16",
        arch="sm_90",
    ),
    # In registers, across k, with tails.
    "bandwidth_two_nn": _plan(
        BandwidthChoice(4, 1, 2, 1, 1), m=32, n=1000, k=300, dtype="bf16", arch="sm_90"
    ),
    "bandwidth_ring_tail_nt": _plan(
        BandwidthChoice(3, 1, 2, 2, 1, ring="shared"), m=5, n=1000, k=256, layout="nt", arch="sm_80"
    ),
    # Tails in n and k, sixteen rows, C and steps.
    "bandwidth_tails_nt": _plan(
        BandwidthChoice(1, 1, 4, 3, 4),
        m=13,
        n=1003,
        k=1000,
        layout="nt",
        dtype_c="fp32",
        epilogue="bias,relu",
        arch="sm_80",
    ),
    # Launched so that it may begin before the kernel before it has ended.
    "bandwidth_dependent_nt": _plan(
        BandwidthChoice(2, 1, 8, 4, 2),
        m=1,
        n=4096,
        k=4096,
        layout="nt",
        arch="sm_90",
        launch="dependent",
    ),
    # n contiguous: columns in vectors, pairs of k made in registers.
    "bandwidth_nn": _plan(BandwidthChoice(8, 1, 8, 2, 1), m=4, n=4096, k=4096, arch="sm_90"),
    # The same in narrower vectors, for more blocks.
    "bandwidth_half_nn": _plan(BandwidthChoice(4, 1, 16, 3, 1), m=4, n=4096, k=4096, arch="sm_90"),
    "bandwidth_slim_nn": _plan(BandwidthChoice(2, 1, 8, 4, 2), m=12, n=1024, k=4096, arch="sm_90"),
    # The same in 8-byte vectors that are no whole sectors, with a tail of k.
    "bandwidth_narrow_nn": _plan(
        BandwidthChoice(4, 2, 4, 3, 2), m=16, n=1004, k=1001, lda=1004, arch="sm_89"
    ),
    # Turing, 4-byte vectors.
    "bandwidth_turing_nn": _plan(
        BandwidthChoice(8, 1, 4, 2, 2), m=8, n=1002, k=1002, lda=1002, arch="sm_75"
    ),
    # D's short side is n: the rows of a column-major A, one element at a time; a batch.
    "bandwidth_odd_tn": _plan(
        BandwidthChoice(4, 1, 4, 2, 2), m=1001, n=5, k=515, layout="tn", batch=3, arch="sm_80"
    ),
    # Everything known only at run time, column-major D.
    "bandwidth_dynamic_nt": _plan(
        BandwidthChoice(1, 4, 2, 2, 2),
        m="dynamic:512",
        n="dynamic:16",
        k="dynamic:512",
        batch=2,
        layout="nt",
        layout_d="t",
        dtype_c="bf16",
        dtype_d="fp32",
        epilogue="bias:row:fp32",
        arch="sm_80",
    ),
    # Slices of one step, few and tested: one at a time.
    "one_step_nt": _plan(
        MmaSyncChoice(144, 112, 16, 3, 2, 4, 2, 8),
        m=1000,
        n="dynamic:1000",
        k=128,
        dtype="fp16",
        layout="nt",
        arch="sm_89",
    ),
    # No product: a row a block, known sizes, everything in whole vectors.
    "rows_layer_norm": _plan(
        RowChoice(1, 4, 4),
        op="epilogue",
        m=4096,
        n=4096,
        dtype="bf16",
        epilogue="layer_norm",
        launch="dependent",
        arch="sm_90",
    ),
    # A row a warp, lengths and strides at run time; what goes before the norm and behind it.
    "rows_dynamic": _plan(
        RowChoice(4, 1, 4),
        op="epilogue",
        m="dynamic:512",
        n="dynamic:1000",
        dtype="bf16",
        epilogue="residual,store,rms_norm:bias:weight=no,bias:row:fp32,quantize:e4m3:per_token",
        arch="sm_89",
    ),
    # Of a batch: matrices side by side and through pointers, a residual of each.
    "rows_batched": _plan(
        RowChoice(4, 1, 4),
        op="epilogue",
        m="dynamic:512",
        n=128,
        batch=12,
        lda=1536,
        stride_a=128,
        stride_d="pointers",
        dtype="bf16",
        epilogue="residual,rms_norm",
        arch="sm_90",
    ),
    # Rows that no registers hold, of an odd length, in fp32.
    "rows_long": _plan(
        RowChoice(1, 8, 0),
        op="epilogue",
        m=16,
        n=70001,
        dtype="fp32",
        epilogue="gelu,store,layer_norm:weight_dtype=bf16:eps=1e-6,relu",
        arch="sm_80",
    ),
    "rows_long_rms": _plan(
        RowChoice(1, 32, 0),
        op="epilogue",
        m=16,
        n=262144,
        dtype="fp16",
        epilogue="rms_norm:weight=no",
        arch="sm_80",
    ),
    # No norm: every element on its own, held at once or not.
    "rows_quantize": _plan(
        RowChoice(4, 1, 4),
        op="epilogue",
        m=510,
        n=1000,
        dtype="fp16",
        epilogue="quantize:uint8:per_token:per_tensor",
        arch="sm_75",
    ),
    "rows_convert": _plan(
        RowChoice(1, 8, 0),
        op="epilogue",
        m=16,
        n=100000,
        dtype="fp32",
        dtype_d="bf16",
        arch="sm_80",
    ),
    # Of other types: sums of a product, scaled; bytes to bytes, sixteen at a time; 8-bit floats
    # with an instruction, without one, and by their place in an fp16.
    "rows_int32": _plan(
        RowChoice(1, 4, 2),
        op="epilogue",
        m=512,
        n=1000,
        dtype="int32",
        epilogue="scale:row,scale:column,bias",
        arch="sm_80",
    ),
    "rows_int8": _plan(
        RowChoice(4, 1, 2),
        op="epilogue",
        m=512,
        n=1024,
        dtype="int8",
        epilogue="scale,layer_norm,quantize:int8",
        arch="sm_80",
    ),
    "rows_e4m3": _plan(
        RowChoice(4, 1, 4),
        op="epilogue",
        m=512,
        n=1024,
        dtype="e4m3",
        epilogue="scale",
        arch="sm_90",
    ),
    "rows_e4m3_alone": _plan(
        RowChoice(4, 1, 4),
        op="epilogue",
        m=512,
        n="dynamic:1000",
        dtype="e4m3",
        epilogue="scale",
        arch="sm_80",
    ),
    "rows_e5m2": _plan(
        RowChoice(4, 1, 32),
        op="epilogue",
        m=512,
        n=1001,
        dtype="e5m2",
        epilogue="scale",
        arch="sm_90",
    ),
    # A norm behind a product: its sums, then rows of them.
    "norm_nt": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 4, 2, 8),
        m=256,
        n=1024,
        k=1024,
        layout="nt",
        epilogue="bias,residual,rms_norm",
        arch="sm_80",
    ),
    # A tile that has whole rows: no second kernel. Tails, C, what goes before and behind.
    "norm_held_nn": _plan(
        MmaSyncChoice(64, 104, 32, 4, 1, 3, 2, 8, 1, holds_rows=True),
        m=1000,
        n=100,
        k=256,
        dtype_c="fp16",
        epilogue="residual,layer_norm:weight_dtype=fp32,relu,quantize:int8:per_token",
        arch="sm_80",
    ),
    "norm_held_dynamic_nn": _plan(
        MmaSyncChoice(64, 104, 32, 4, 1, 3, 2, 8, 1, holds_rows=True),
        m="dynamic:1000",
        n=100,
        k=256,
        epilogue="rms_norm",
        arch="sm_80",
    ),
    "norm_held_int8_tt": _plan(
        MmaSyncChoice(64, 128, 64, 4, 1, 2, 1, 8, 1, holds_rows=True),
        m=512,
        n=128,
        k=256,
        layout="tt",
        dtype="int8",
        dtype_d="bf16",
        epilogue="scale,rms_norm",
        arch="sm_80",
    ),
    # The same of parts of k, of a batch, with C and lengths at run time.
    "norm_split_k_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 3, 2, 4, 3),
        m="dynamic:512",
        n="dynamic:512",
        k=1024,
        batch=2,
        dtype_c="fp16",
        epilogue="layer_norm",
        arch="sm_90",
    ),
    "norm_batch_nn": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 3, 2, 4),
        m=100,
        n="dynamic:3000",
        k=256,
        batch=2,
        epilogue="rms_norm",
        arch="sm_80",
    ),
    "norm_int8_nt": _plan(
        MmaSyncChoice(64, 64, 64, 2, 2, 3, 2, 4, 2),
        m=512,
        n=512,
        k=4096,
        layout="nt",
        dtype="int8",
        dtype_d="bf16",
        epilogue="scale,rms_norm",
        arch="sm_80",
    ),
    "norm_simt_nn": _plan(
        SimtChoice(64, 64, 16, 2, 2, 3, 2, 8),
        m=300,
        n=200,
        k=256,
        dtype="fp32",
        epilogue="layer_norm",
        arch="sm_80",
    ),
    "norm_wgmma_nt": _plan(
        WgmmaChoice(128, 256, 2, 1, 4, 1, 1, 16),
        m=1024,
        n=1024,
        k=512,
        layout="nt",
        dtype="bf16",
        epilogue="residual,store,rms_norm,quantize:int8:per_token",
        arch="sm_90a",
    ),
}
