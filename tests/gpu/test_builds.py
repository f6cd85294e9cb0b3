"""Building beside a driver, with which NVRTC keeps what it compiled."""

from __future__ import annotations

import pytest

from deepgemm_codegen.toolchain import build_cubin

pytestmark = pytest.mark.gpu

SOURCE = 'extern "C" __global__ void k(float* d) { d[threadIdx.x] += 1.0f; }\n'


def test_a_text_built_before_has_its_registers_again(arch: str) -> None:
    """Another comment is another text to our cache, and the same one to NVRTC's."""
    first, again = (
        build_cubin(f"// {comment}\n{SOURCE}", name="k", arch=arch, cached=False)
        for comment in ("one", "another")
    )
    assert first.resources["k"].registers > 0
    assert again.resources == first.resources
