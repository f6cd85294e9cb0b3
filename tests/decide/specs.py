"""Seeded random specs: every architecture, layout and alignment, tiny to huge, even and odd."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from deepgemm_codegen.arch import known_architectures, load_arch
from deepgemm_codegen.decide.repack import Copies, as_copied
from deepgemm_codegen.dtypes import parse_dtype
from deepgemm_codegen.plan import MmaSync, Repack, Wgmma
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    import random

    from deepgemm_codegen.plan import KernelPlan, Program

SIZES = (1, 2, 7, 8, 15, 16, 17, 40, 48, 63, 64, 77, 80, 100, 128, 255, 320, 384, 640, 768, 1000,
         1023, 1024, 2112, 2560, 4096, 4097, 7168, 8192, 14336, 28672, 50257)  # fmt: skip


def random_spec(rng: random.Random) -> GemmSpec:
    """One valid spec that its architecture serves through mma.sync."""
    arch = load_arch(rng.choice(known_architectures()))
    fields = {name: str(rng.choice(SIZES)) for name in ("m", "n", "k")}
    for name in ("m", "n", "k"):
        if rng.random() < 0.15:
            fields[name] = str(rng.randint(1, 5000))
        if rng.random() < 0.1:
            fields[name] = f"dynamic:{fields[name]}"
    if rng.random() < 0.05:
        fields["k"] = "0"
    if rng.random() < 0.2:
        fields["batch"] = str(rng.choice((2, 3, 8, 192)))
    fields["dtype"] = rng.choice([t for t in arch.dtypes if t not in ("e4m3", "e5m2", "fp32")])
    fields["layout"] = rng.choice(("nn", "nt", "tn", "tt"))
    fields["layout_d"] = rng.choice(("n", "n", "t"))
    if rng.random() < 0.2:
        fields["dtype_d"] = "fp32"
    if rng.random() < 0.3:
        fields["dtype_c"] = fields.get("dtype_d", parse_dtype(fields["dtype"]).result)
    for name in ("align_a", "align_b"):
        if rng.random() < 0.3:
            fields[name] = str(rng.choice((2, 4, 8)))
    fields["arch"] = arch.name
    return GemmSpec.from_fields(fields)


def fp8_spec(rng: random.Random) -> GemmSpec:
    """One valid spec of fp8 that mma.sync serves; most have scales by block."""
    sizes = [size for size in SIZES if size % 16 == 0]
    fields: dict[str, str | int] = {name: rng.choice(sizes) for name in ("m", "n", "k")}
    if rng.random() < 0.2:
        fields[rng.choice("mnk")] = rng.randint(1, 3000)
    if rng.random() < 0.2:
        fields["m"] = f"dynamic:{fields['m']}"
    fields["layout"] = rng.choice(("nt", "nt", "nt", "nn", "tn", "tt"))
    fields["dtype"], fields["dtype_b"] = rng.choice(("e4m3", "e5m2")), rng.choice(("e4m3", "e5m2"))
    fields["arch"] = rng.choice(("sm_89", "sm_120"))
    if rng.random() < 0.7:
        fields |= {"scale_a": "1x128", "scale_b": "128x128"}
    elif rng.random() < 0.2:
        fields["accumulate"] = "fast"
    if rng.random() < 0.2:
        fields["batch"] = rng.choice((2, 3, 8))
    if rng.random() < 0.4:
        steps = ("bias", "bias,gelu", "residual", "scale:row", "quantize:e4m3")
        fields["epilogue"] = rng.choice(steps)
    if rng.random() < 0.15:
        fields |= {"n": rng.choice((256, 4096, 7168)), "epilogue": "swiglu"}
    return GemmSpec.from_fields(fields)


def hopper_spec(rng: random.Random) -> GemmSpec:
    """One valid spec for sm_90a; most of its operands TMA can serve."""
    sizes = [size for size in SIZES if size % 8 == 0]
    fields = {name: str(rng.choice(sizes)) for name in ("n", "k")}
    fields["m"] = str(rng.choice((rng.choice(SIZES), rng.randint(1, 8192))))
    fields["layout"] = rng.choice(("nt", "nt", "nn", "tn", "tt"))
    if fields["layout"][0] == "t":
        fields["lda"] = str(-(-int(fields["m"]) // 8) * 8)
    fields["layout_d"] = rng.choice(("n", "n", "n", "t"))
    if rng.random() < 0.2:
        fields["m"] = f"dynamic:{fields['m']}"
    if rng.random() < 0.2:
        fields["dtype_c"] = rng.choice(("fp16", "fp32"))
    if rng.random() < 0.2:
        fields["dtype_d"] = "fp32"
    if rng.random() < 0.3:
        fields["epilogue"] = rng.choice(("bias", "bias,relu", "bias:row:fp32", "relu"))
    if rng.random() < 0.1:
        fields[rng.choice(("n", "k"))] = str(rng.randint(1, 3000))
    fields["dtype"] = rng.choice(("fp16", "bf16"))
    return GemmSpec.from_fields({**fields, "arch": "sm_90a"})


def through_mma_sync(spec: GemmSpec) -> GemmSpec:
    """The spec with its family given, where a test is about that family's choices."""
    return replace(spec, overrides=replace(spec.overrides, family="mma_sync"))


def wgmma_body(plan: KernelPlan) -> Wgmma:
    """The body of a plan of the wgmma family."""
    assert isinstance(plan.body, Wgmma)
    return plan.body


def mma_body(plan: KernelPlan) -> MmaSync:
    """The body of a plan of the mma.sync family."""
    assert isinstance(plan.body, MmaSync)
    return plan.body


def multiplied(program: Program) -> GemmSpec:
    """The spec that a program's product was planned for: with the copies in the operands' place."""
    first = program.kernels[0].body
    if not isinstance(first, Repack):
        return program.spec
    turned = tuple(matrix.source for matrix in first.matrices if matrix.turned)
    copies = Copies(tuple(matrix.source for matrix in first.matrices), turned)
    return as_copied(program.spec, copies)
