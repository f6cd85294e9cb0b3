"""A batch with one weight for all products is one larger product, where that is exact."""

from __future__ import annotations

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.decide.explain import explain
from deepgemm_codegen.decide.fold import fold
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.naming import kernel_name
from tests.harness.support import assert_right

FOLDED = {
    "m=50 n=40 k=24 batch=3 stride_b=shared": "m=150 n=40 k=24",
    "m=50 n=40 k=24 batch=3 stride_b=shared dtype_c=fp16 epilogue=bias,residual,relu": (
        "m=150 n=40 k=24 dtype_c=fp16 epilogue=bias,residual,relu"
    ),
    # Scales of rows are written one behind the other.
    "m=50 n=40 k=24 batch=3 stride_b=0 epilogue=quantize:e4m3:dynamic": (
        "m=150 n=40 k=24 epilogue=quantize:e4m3:dynamic"
    ),
    # Values a row of each product's own run on; a bias of all columns is one.
    "m=50 n=40 k=24 batch=3 stride_b=0 epilogue=scale:row:per_product,bias": (
        "m=150 n=40 k=24 epilogue=scale:row,bias"
    ),
    # Without a product rows are all there is.
    "op=epilogue m=50 n=40 batch=3 lda=48 epilogue=residual,store,rms_norm,quantize:int8:dynamic": (
        "op=epilogue m=150 n=40 lda=48 epilogue=residual,store,rms_norm,quantize:int8:dynamic"
    ),
    # A weight from the left, D column-major: columns run on.
    "m=50 n=40 k=24 batch=3 layout=nt layout_d=t stride_a=0 epilogue=bias:row": (
        "m=50 n=120 k=24 layout=nt layout_d=t epilogue=bias:row"
    ),
    # The same side by side in the rows of larger matrices.
    "m=50 n=40 k=24 batch=3 stride_a=0 ldb=128 stride_b=40 ldd=136 stride_d=40": (
        "m=50 n=120 k=24 ldb=128 ldd=136"
    ),
    # Scales of B's blocks run on where a product ends with a block.
    "m=50 n=128 k=144 batch=3 stride_a=0 ldd=400 stride_d=128 dtype=e4m3 layout=nt arch=sm_90a"
    " scale_a=1x128 scale_b=128x128": (
        "m=50 n=384 k=144 ldd=400 dtype=e4m3 layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128"
    ),
    # Zero points belong to the rows that run on.
    "m=50 n=40 k=24 batch=3 stride_b=0 dtype=int8 zero_point_a=per_token zero_point_b=7": (
        "m=150 n=40 k=24 dtype=int8 zero_point_a=per_token zero_point_b=7"
    ),
    "m=50 n=40 k=24 batch=3 layout=tn stride_b=0 lda=160 stride_a=50": (
        "m=150 n=40 k=24 layout=tn lda=160"
    ),
}

WHOLE = {
    "each product has its own": "m=50 n=40 k=24 batch=3",
    "a value a row": "m=50 n=40 k=24 batch=3 stride_b=0 epilogue=bias:row",
    "a bias of each product's own": ("m=50 n=40 k=24 batch=3 stride_b=0 epilogue=bias:per_product"),
    "A with gaps": "m=50 n=40 k=24 batch=3 stride_b=0 stride_a=1300",
    "D with gaps": "m=50 n=40 k=24 batch=3 stride_b=0 stride_d=2100",
    "one C": "m=50 n=40 k=24 batch=3 stride_b=0 dtype_c=fp16 stride_c=0",
    "m at run time": "m=dynamic:50 n=40 k=24 batch=3 stride_b=0",
    "columns of A do not run on": "m=50 n=40 k=24 batch=3 layout=tn stride_b=0",
    "more rows than a kernel counts": "m=65536 n=8 k=8 batch=65536 stride_b=0",
    "both shared": "m=50 n=40 k=24 batch=3 stride_a=0 stride_b=0",
    "computed scales are of a product's columns": "m=50 n=40 k=24 batch=3 stride_a=0 ldb=128"
    " stride_b=40 ldd=136 stride_d=40 epilogue=quantize:e4m3:dynamic",
    "rows of A with gaps": "op=epilogue m=50 n=40 batch=3 stride_a=2100 epilogue=rms_norm",
    "rows of one A": "op=epilogue m=50 n=40 batch=3 stride_a=0 epilogue=residual,rms_norm",
    "a value a row of A": "op=epilogue m=50 n=40 batch=3 epilogue=bias:row,rms_norm",
    "halves of B": "m=50 n=40 k=24 batch=3 stride_a=0 ldb=320 stride_b=80 ldd=136 stride_d=40"
    " epilogue=swiglu",
    "scales of A lie product by product": "m=64 n=40 k=144 batch=3 stride_b=0 dtype=e4m3 layout=nt"
    " arch=sm_90a scale_a=1x128 scale_b=128x128",
    "a block of B that ends with its product": "m=50 n=144 k=144 batch=3 stride_a=0 ldd=448"
    " stride_d=144 dtype=e4m3 layout=nt arch=sm_90a scale_a=1x128 scale_b=128x128",
    "a residual is no part of the rows": (
        "m=50 n=40 k=24 batch=3 stride_a=0 ldb=128 stride_b=40 ldd=136 stride_d=40"
        " epilogue=residual"
    ),
}


@pytest.mark.parametrize("text", FOLDED)
def test_it_is_one_larger_product(text: str) -> None:
    spec = GemmSpec.from_text(text)
    assert fold(spec) == GemmSpec.from_text(FOLDED[text])
    assert_right(text, None, effort=0.1)


@pytest.mark.parametrize("why", WHOLE)
def test_it_stays_a_batch(why: str) -> None:
    spec = GemmSpec.from_text(WHOLE[why])
    assert fold(spec) == spec


@pytest.mark.parametrize("why", ["a value a row", "A with gaps", "D with gaps", "both shared"])
def test_what_stays_a_batch_is_right(why: str) -> None:
    assert_right(WHOLE[why], None, effort=0.1)


def test_the_tree_says_so_and_the_name_is_the_asked_one() -> None:
    spec = GemmSpec.from_text("m=512 n=4096 k=4096 batch=8 stride_b=shared label=weight")
    arch = load_arch(spec.arch)
    program = decide(spec, arch)
    (last,) = program.decisions[-1:]
    assert (last.question, last.choice) == ("batch", "folded into m: 4096 rows")
    assert last.reason == "all 8 products share B, and rows of A and D run on"
    assert last.id == "D15"
    assert explain(spec, arch).decisions[-1] == last
    assert program.spec == spec
    assert program.product.spec == program.solved == fold(spec)
    assert program.name == kernel_name(spec) == program.product.name
    source = render_program(program)
    assert f"//   spec    {spec}\n" in source
    assert "//   solved  m=4096 n=4096 k=4096 dtype=fp16 arch=sm_80 label=weight\n" in source


def test_rows_without_a_product_say_so() -> None:
    steps = "epilogue=rms_norm,quantize:int8:dynamic"
    spec = GemmSpec.from_text(f"op=epilogue m=64 n=512 batch=8 {steps}")
    arch = load_arch(spec.arch)
    program = decide(spec, arch)
    batch = next(d for d in program.decisions if d.question == "batch")
    assert (batch.id, batch.choice) == ("D15", "folded into m: 512 rows")
    assert batch.reason == "rows of A and D run on through all 8 matrices"
    told = explain(spec, arch)
    assert told.decisions[-2] == batch
    assert told.spec == str(spec)
    stem = kernel_name(spec)
    assert [kernel.name for kernel in program.kernels] == [f"{stem}_rows", f"{stem}_scales"]


def test_parts_of_k_keep_their_names() -> None:
    spec = GemmSpec.from_text("m=8 n=64 k=16384 batch=4 stride_b=0 split_k=8")
    program = decide(spec, load_arch(spec.arch))
    stem = kernel_name(spec)
    assert [kernel.name for kernel in program.kernels] == [f"{stem}_product", f"{stem}_reduce"]
