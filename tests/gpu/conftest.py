"""The GPU of this machine, or a reason to skip."""

from __future__ import annotations

import pytest

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.harness import gpu_arch


@pytest.fixture(scope="session")
def arch() -> str:
    """The architecture of the GPU here, such as ``sm_90``."""
    try:
        return gpu_arch()
    except EnvironmentLackError as error:
        pytest.skip(str(error))
