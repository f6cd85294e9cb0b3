"""Overrides filter the candidates; what nothing can have is refused with the nearest legal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import decide
from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec
from tests.decide.specs import mma_body

if TYPE_CHECKING:
    from deepgemm_codegen.plan import KernelPlan


def plan_of(text: str) -> KernelPlan:
    fields = {"m": "1024", "n": "1024", "k": "1024", "arch": "sm_80"}
    for word in text.split():
        key, _, value = word.partition("=")
        fields[key] = value
    spec = GemmSpec.from_fields(fields)
    return decide(spec, load_arch(spec.arch)).kernels[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tile_m", 48),
        ("tile_m", 256),
        ("tile_n", 8),
        ("tile_n", 200),
        ("tile_k", 16),
        ("tile_k", 80),
        ("tile_k", 256),
        ("warps_m", 1),
        ("warps_m", 3),
        ("warps_n", 12),
        ("stages", 2),
        ("stages", 8),
        ("min_blocks", 1),
        ("min_blocks", 4),
        ("min_blocks", 32),
        ("raster_group", 1),
        ("raster_group", 5),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_an_override_is_kept(name: str, value: int, arch: str) -> None:
    if (name, value, arch) == ("min_blocks", 32, "sm_89"):
        pytest.skip("sm_89 holds 24 blocks")
    plan = plan_of(f"{name}={value} arch={arch}")
    owner = plan.schedule if name == "raster_group" else mma_body(plan)
    assert getattr(owner, name) == value


def test_stages_move_the_tile() -> None:
    free, deep = plan_of("arch=sm_86 m=4096 n=4096"), plan_of("arch=sm_86 m=4096 n=4096 stages=8")
    assert (mma_body(free).stages, mma_body(deep).stages) == (3, 8)
    assert mma_body(deep).stage_bytes < mma_body(free).stage_bytes


SHARED = "bytes of shared memory a block (0 of them static)"

REFUSALS = {
    "tile_m=50": (
        "tile_m = 50: not a multiple of 16; the nearest legal are 48 and 64, or leave tile_m out"
    ),
    "tile_m=512": ("tile_m = 512: too large; the nearest legal is 256, or leave tile_m out"),
    "tile_n=12": (
        "tile_n = 12: not a multiple of 8; the nearest legal are 8 and 16, or leave tile_n out"
    ),
    "tile_n=4": ("tile_n = 4: too small; the nearest legal is 8, or leave tile_n out"),
    "tile_k=24": (
        "tile_k = 24: not a multiple of 16; the nearest legal are 16 and 32, or leave tile_k out"
    ),
    "warps_m=17": ("warps_m = 17: too large; the nearest legal is 16, or leave warps_m out"),
    "stages=1": ("stages = 1: too small; the nearest legal is 2, or leave stages out"),
    "min_blocks=33": (
        "min_blocks = 33: too large; the nearest legal is 32, or leave min_blocks out"
    ),
    # P18
    "tile_m=64 tile_n=64 tile_k=32 stages=12": (
        "stages = 12: too large; the nearest legal is 8, or leave stages out"
    ),
    # P12, P16
    "arch=sm_86 tile_m=128 tile_n=128 tile_k=64 stages=4": (
        "stages = 4 with tile_m = 128, tile_n = 128, tile_k = 64: 131072 bytes of shared memory a"
        " block (0 of them static); sm_86 has 101376; the nearest legal stages is 3, or leave "
        "stages out"
    ),
    "tile_m=64 tile_n=64 tile_k=256 stages=8": (
        "stages = 8 with tile_n = 64, tile_k = 256: 327680 bytes of shared memory a block (0 of "
        "them static); sm_80 has 166912; the nearest legal stages is 2, or leave stages out"
    ),
    # P19
    "tile_m=256 tile_n=256 warps_m=2 warps_n=4": (
        "tile_n = 256 with tile_m = 256: 256 accumulators a thread; the limit is 128; the nearest"
        " legal tile_n is 128, or leave tile_n out"
    ),
    "warps_m=8 warps_n=8": (
        "warps_n = 8 with warps_m = 8: 64 warps a block; the limit is 16; the nearest legal "
        "warps_n is 2, or leave warps_n out"
    ),
    "warps_m=3 tile_m=64": (
        "warps_m = 3 with tile_m = 64: 64 rows or columns of a tile are no multiple of 48, a "
        "fragment a warp; the nearest legal warps_m is 2, or leave warps_m out"
    ),
    "arch=sm_75 stages=4": (
        "stages = 4: 4 stages for a copy through registers; it uses 2; the nearest legal stages "
        "is 2, or leave stages out"
    ),
    "arch=sm_89 min_blocks=32": (
        "min_blocks = 32: 32 resident blocks; sm_89 holds 24 an SM; the nearest legal min_blocks "
        "is 24, or leave min_blocks out"
    ),
    "align_a=2 tile_m=16 tile_n=8 warps_m=1 warps_n=1 repack=off": (
        "warps_n = 1 with warps_m = 1, repack = off: a pass of the copy moves 64 bytes; the least"
        " is 128, eight rows of a panel; leave repack out"
    ),
    "m=2147482624 n=2147482624": (
        "m = 2147482624, n = 2147482624, batch = 1: more tiles of D than the 2147483647 blocks of a"
        " grid, whatever the tile; the largest n with the others as given is 32768"
    ),
    "m=2147482624 n=4096 batch=1000 layout_d=t": (
        "m = 2147482624, n = 4096, batch = 1000: more tiles of D than the 2147483647 blocks of a"
        " grid, whatever the tile; the largest batch with the others as given is 8"
    ),
    "m=2147482624 n=2147482624 batch=2147482624": (
        "m = 2147482624, n = 2147482624, batch = 2147482624: more tiles of D than the 2147483647"
        " blocks of a grid, whatever the tile; make two of them smaller"
    ),
    "m=2147482624 n=32768 k=64 split_k=2": (
        "m = 2147482624, n = 32768, batch = 1: more tiles of D than the 2147483647 blocks of a"
        " grid, whatever the tile, 2 times over for split_k = 2; leave split_k out"
    ),
    "m=64 n=64 dtype=e4m3 layout=nt scale_a=1x128 scale_b=128x128 tile_k=64 arch=sm_90a": (
        "tile_k = 64: wgmma: tile_k = 64 is given, and its slices are 128; leave tile_k out"
    ),
    "m=64 n=64 tensor_cores=on family=simt": (
        "family = simt: tensor_cores = on; the nearest legal family is mma_sync, or leave family "
        "out"
    ),
    "m=64 n=64 dtype=fp32 tensor_cores=on": (
        "tensor_cores = on: fp32 is multiplied on the CUDA cores alone; leave tensor_cores out"
    ),
    "m=16 n=2147482624 raster_group=1000 tile_n=256": (
        "raster_group = 1000: 8388604000 blocks in a raster group; the limit is 2147483647; the "
        "nearest legal raster_group is 256, or leave raster_group out"
    ),
    # R15
    "arch=sm_75 dtype=bf16": (
        "dtype = bf16: sm_75 multiplies no bf16, only fp16, int8, uint8, fp32; give one of them, or"
        " arch sm_80 or later"
    ),
    "arch=sm_80 dtype=e4m3": (
        "dtype = e4m3: sm_80 multiplies no e4m3, only fp16, bf16, int8, uint8, fp32; give one of"
        " them, or arch sm_89 or sm_90a or sm_120"
    ),
    # ptxas would unpack fp8 to fp16 on sm_90 and sm_100
    "arch=sm_90 dtype=e4m3": (
        "dtype = e4m3: sm_90 multiplies no e4m3, only fp16, bf16, int8, uint8, fp32; give one of"
        " them, or arch sm_89 or sm_90a or sm_120"
    ),
    "arch=sm_100 dtype=e5m2": (
        "dtype = e5m2: sm_100 multiplies no e5m2, only fp16, bf16, int8, uint8, fp32; give one of"
        " them, or arch sm_89 or sm_90a or sm_120"
    ),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_names_limit_and_remedy(text: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(text)
    assert str(caught.value) == REFUSALS[text]
    assert caught.value.exit_code == 2


def test_the_nearest_legal_value_is_legal() -> None:
    assert mma_body(plan_of("arch=sm_86 tile_m=128 tile_n=128 tile_k=64 stages=3")).stages == 3
    assert mma_body(plan_of("tile_m=256 tile_n=128 warps_m=2 warps_n=4")).tile_n == 128
    assert mma_body(plan_of("warps_m=8 warps_n=2")).warps_n == 2
    assert mma_body(plan_of("arch=sm_89 min_blocks=24")).min_blocks == 24
    assert plan_of("m=2147482624 n=32768").n.size == 32768
    assert plan_of("m=2147482624 n=4096 batch=8 layout_d=t").batch == 8
