"""Vectors of steps in a batch: one for all products, or one of each product's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.harness.inputs import Integers
from deepgemm_codegen.harness.problem import bind
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import read
from tests.harness.support import assert_right, assert_wrong, launch, program_of, source_of

if TYPE_CHECKING:
    from pathlib import Path

OWN = "epilogue=bias:per_product,scale:row:per_product"
FEW = "m=33 n=40 k=72 batch=3 layout=nt"
LONG = "m=33 n=40 k=264 batch=3 layout=nt"

CASES = {
    "mma.sync": f"{FEW} {OWN}",
    "beside vectors of all": f"{FEW} epilogue=bias:row:per_product,scale:row,bias layout_d=t",
    "scales and zero points of bytes": (
        f"{FEW} epilogue=quantize:int8:scale=per_token:zero_point=per_channel:per_product"
    ),
    "wgmma": f"{FEW} arch=sm_90a family=wgmma {OWN}",
    "wgmma, at run time": (
        f"m=dynamic:70 n=dynamic:40 k=72 batch=3 layout=nt family=wgmma arch=sm_90a ldd=40 {OWN}"
    ),
    "parts of k": f"{LONG} arch=sm_90a split_k=2 {OWN}",
    "parts of k in a cluster": f"{LONG} arch=sm_90a cluster_k=2 {OWN}",
    "pairs": f"{FEW} epilogue=bias:per_product,swiglu,scale:column:per_product,scale:row",
    "pairs of wgmma": f"{LONG} arch=sm_90a epilogue=bias:per_product,geglu,bias:per_product",
    "a norm behind": f"{FEW} epilogue=bias:per_product,rms_norm,scale:row:per_product",
    "computed scales behind": f"{FEW} epilogue=bias:per_product,quantize:e4m3:dynamic",
    "bandwidth": f"m=3 n=40 k=264 batch=3 layout=nt family=bandwidth arch=sm_90 {OWN}",
    "tiles abreast": f"m=3 n=16 k=264 batch=7 layout=nt abreast=4 arch=sm_90 {OWN}",
    "CUDA cores": f"{FEW} dtype=fp32 tensor_cores=off {OWN}",
    "rows alone": f"op=epilogue m=33 n=40 batch=3 stride_d=1400 {OWN}",
    "folded": f"{FEW} stride_b=shared epilogue=scale:row:per_product,bias",
    "folded along n": (
        f"{FEW} stride_a=shared ldd=128 stride_d=40 epilogue=bias:per_product,scale:row"
    ),
    "bytes with zero points of their own": (
        f"{FEW} dtype=int8 dtype_d=fp16 zero_point_a=per_token zero_point_b=per_channel"
        " epilogue=scale:row:per_product,scale:column:per_product"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_product_has_its_own(name: str) -> None:
    assert_right(CASES[name], None, effort=0.2)


def test_by_hand() -> None:
    values: dict[str, Any] = {
        "a": Integers(1, -3, 3), "b": Integers(2, -3, 3),
        "bias0": Integers(3, -9, 9), "scale1": Integers(4, 1, 4), "bias2": Integers(5, -9, 9),
    }  # fmt: skip
    m, n, k = 33, 40, 72
    steps = "bias:fp32:per_product,scale:row:per_product,bias:fp32"
    program = program_of(f"{FEW} dtype_d=fp32 epilogue={steps}", None)

    def vector(name: str, product: int, length: int) -> Any:
        return values[name].at(product, 0, np.arange(length), np)

    for product, d in enumerate(launch(program, **values).d):
        a = values["a"].at(product, np.arange(m)[:, None], np.arange(k)[None, :], np)
        b = values["b"].at(product, np.arange(k)[:, None], np.arange(n)[None, :], np)
        wanted = (a @ b + vector("bias0", product, n)) * vector("scale1", product, m)[:, None]
        assert (d == wanted + vector("bias2", 0, n)).all()


def test_they_lie_behind_each_other() -> None:
    steps = "bias:per_product,swiglu,bias:per_product,scale:row:per_product,bias"
    problem = bind(program_of(f"{FEW} epilogue={steps}", None))
    starts = {
        name: list(problem.matrix(name).starts) for name in ("bias0", "bias2", "scale3", "bias4")
    }
    assert starts == {
        "bias0": [0, 80, 160], "bias2": [0, 40, 80], "scale3": [0, 33, 66], "bias4": [0],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("mma.sync", r"bias0 \+= batch[^;]*;"),
        ("mma.sync", r"scale1 \+= batch[^;]*;"),
        ("wgmma", r"bias0 = bias0_first[^;]*;"),
        ("wgmma", r"scale1 = scale1_first[^;]*;"),
        ("parts of k", r"bias0 \+= [^;]*;"),
        ("rows alone", r"bias0 \+= [^;]*;"),
        ("CUDA cores", r"scale1 \+= [^;]*;"),
        ("bandwidth", r"scale1 \+= [^;]*;"),
        ("pairs", r"(?<=i64\{ N \}) \* 2"),
    ],
)
def test_a_mutant_that_takes_the_first_products_dies(name: str, pattern: str) -> None:
    program = program_of(CASES[name], None)
    source, count = re.subn(pattern, "", source_of(program))
    assert count
    assert_wrong(program, source, effort=0.2)


def test_one_product_has_none() -> None:
    with pytest.raises(InputError) as caught:
        GemmSpec.from_text("m=8 n=8 k=8 epilogue=relu,bias:per_product")
    assert str(caught.value) == (
        "epilogue step 'bias': per_product = yes: there is one product; give batch, or leave"
        " per_product out"
    )


def test_a_kernel_file_says_it_naturally(tmp_path: Path) -> None:
    file = tmp_path / "kernels.yaml"
    file.write_text(
        "kernels:\n"
        "  - {name: experts, m: 8, n: 8, k: 8, batch: 2, arch: sm_80, epilogue:\n"
        "     [{bias: {per_product: yes}}, {scale: {axis: row, per_product: yes}}]}\n"
    )
    (entry,) = read(file)
    assert [str(step) for step in entry.spec.epilogue] == [
        "bias:fp16:per_product",
        "scale:row:per_product",
    ]
    assert GemmSpec.from_text(str(entry.spec)) == entry.spec
