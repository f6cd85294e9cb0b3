"""Launches kernels from a file, one after the other, with nothing else on the GPU.

    python benchmarks/gpu_single.py JOBS [--from NUMBER]

It is the program that ``sanitizers.py`` and ``ncu_conflicts.py`` put under a tool: no oracle, no
pool of memory (every operand has an allocation of its own, of exactly its size), one launch a job.
A line of stdout before each job names it, and one after tells whether D is what was wanted. A job
that takes the context with it ends the program with exit code 9; the caller goes on behind it.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

BEGIN, END = "@@ job", "@@ end"
CONTEXT_LOST = 9


@dataclass
class Job:
    """One launch.

    Attributes:
        name: of the job, one word.
        problem: the program with its sizes.
        cubin: its machine code.
        bits: contents of operands by name; one that is missing is allocated and not written, and
            one that is None is passed as a null pointer.
        wanted: bits of D's elements; or the least and the largest value of each, where the
            epilogue is approximate; or None.
        about: what the caller wants to know again.
    """

    name: str
    problem: Any
    cubin: bytes
    bits: dict[str, Any]
    wanted: Any = None
    about: dict[str, Any] = field(default_factory=dict)


def elements(problem: Any, d: Any) -> Any:
    """The bits of D's elements, without its padding, in one array."""
    import numpy as np

    from deepgemm_codegen.harness.memory import read_region

    matrix = problem.matrix("d")
    parts = [read_region(matrix, d, region, np).reshape(-1) for region in problem.whole]
    return np.concatenate(parts)


def mistakes(job: Job, d: Any) -> int:
    """How many elements of D, whose buffer has these bits, are not what was wanted."""
    import numpy as np

    from deepgemm_codegen.harness.numbers import decode

    found = elements(job.problem, d)
    if not isinstance(job.wanted, tuple):
        return int((found != job.wanted).sum())
    low, high = job.wanted
    values = decode(found, job.problem.matrix("d").dtype, np)
    right = (values >= low) & (values <= high) | (np.isnan(values) & np.isnan(low))
    return int((~right).sum())


def launch(cupy: Any, job: Job) -> Any:
    """Runs a job and returns the bits of D's buffer on the host."""
    from deepgemm_codegen.harness.gpu import launch_arguments, pointer_tables, region_matrices
    from deepgemm_codegen.harness.launching import launch_kernel
    from deepgemm_codegen.harness.numbers import bits_dtype

    problem = job.problem
    buffers: dict[str, Any] = {}
    for matrix in (*problem.matrices, *region_matrices(problem)):
        bits = job.bits.get(matrix.name, ...)
        if bits is None:
            continue
        if bits is ...:
            count = max(matrix.elements, 1)
            buffers[matrix.name] = cupy.empty(count, bits_dtype(matrix.dtype))
        else:
            buffers[matrix.name] = cupy.asarray(bits)
    addresses = {name: array.data.ptr for name, array in buffers.items()}
    tables = pointer_tables(cupy, problem, addresses)
    addresses |= {name: int(table.data.ptr) for name, table in tables.items()}
    module = cupy.cuda.function.Module()
    module.load(job.cubin)
    sms = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
    for kernel in problem.program.kernels:
        function = module.get_function(kernel.name)
        shared = kernel.shared_bytes
        if shared > 48 * 1024:
            driver = cupy.cuda.driver
            attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function.ptr, attribute, shared)
        arguments = launch_arguments(problem, kernel, addresses)
        launch_kernel(cupy, function, kernel, problem.blocks_of(kernel, sms), arguments)
        cupy.cuda.runtime.deviceSynchronize()
    return cupy.asnumpy(buffers["d"])


def main() -> int:
    """Runs the jobs of a file from one on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--from", dest="first", type=int, default=0)
    options = parser.parse_args()
    import cupy

    cupy.cuda.set_allocator(None)
    jobs: list[Job] = pickle.loads(options.jobs.read_bytes())
    for job in jobs[options.first :]:
        print(BEGIN, job.name, flush=True)
        try:
            d = launch(cupy, job)
        except RuntimeError as error:  # cupy's driver and runtime errors
            print(END, job.name, "failed:", " ".join(str(error).split()), flush=True)
            try:
                cupy.cuda.runtime.deviceSynchronize()
                cupy.zeros(1).sum().item()
            except RuntimeError:
                return CONTEXT_LOST
            continue
        told = "ran"
        if job.wanted is not None:
            wrong, count = mistakes(job, d), elements(job.problem, d).size
            told = "right" if not wrong else f"wrong: {wrong} of {count} elements"
        print(END, job.name, told, flush=True)
    return 0


if __name__ == "__main__":
    # The jobs were pickled by a caller that imported this file under its own name.
    sys.modules.setdefault("gpu_single", sys.modules["__main__"])
    sys.exit(main())
