"""A kernel and its plain product, timed in turn on the GPU of this machine."""

from __future__ import annotations

import pytest

from deepgemm_codegen.batch.bench_entry import build_entry
from deepgemm_codegen.harness.bench import run_bench
from deepgemm_codegen.harness.bench_data import PLAIN, Entry
from deepgemm_codegen.harness.bench_gpu import find_bench_gpu

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "text",
    [
        "m=1024 n=1024 k=512 layout=nt epilogue=bias,gelu",
        "m=500 n=264 k=200 batch=3 dtype_c=fp16 epilogue=bias:per_product,residual,store",
        "m=64 n=64 k=16384 layout=nt epilogue=bias,layer_norm",  # several kernels on both sides
        "m=512 n=512 k=512 dtype=int8 layout=nt epilogue=quantize:int8",
        "m=300 n=512 k=256 ldd=515 align_d=1 epilogue=quantize:int8:dynamic",
    ],
)
def test_the_plain_product_is_right_and_timed(text: str, arch: str) -> None:
    device = find_bench_gpu()
    entry = build_entry((f"{text} arch={arch}", "", arch, True))
    assert isinstance(entry, Entry)
    (row,) = run_bench([entry], device).rows
    assert row.message == ""
    (plain,) = (rival for rival in row.rivals if rival.name == PLAIN)
    assert plain.timing is not None, plain.note
    ratio = row.ratio(PLAIN)
    assert ratio is not None
    assert 0.1 < ratio < 3.0
