"""The GPU of this machine, or a reason to skip."""

from __future__ import annotations

import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness.gpu import find_gpu


@pytest.fixture(scope="session")
def arch() -> str:
    """The architecture of the GPU here, such as ``sm_90``."""
    try:
        cupy = find_gpu()
    except EnvironmentLackError as error:
        pytest.skip(str(error))
    return f"sm_{cupy.cuda.Device().compute_capability}"
