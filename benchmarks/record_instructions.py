"""Record what a GPU makes of each instruction form, for the emulator's tests to replay.

    python benchmarks/record_instructions.py [FOLDER]

Runs every form of ``tests/emulator/forms`` on the GPU, on seeded inputs with special values, and
writes ``ARCH.npz`` (``sm_90.npz``) to FOLDER ($OUT, else ``tests/emulator/recorded``): a form's
outputs as bytes under its name, and ``__meta__``, JSON with the device, the versions and a checksum
of each form's inputs. Prints how each form compares with the emulator; exit code 1 when one differs
(the recording is the truth, and is written before). Takes about a minute, most of it on the CPU.
Needs numpy, cupy and a GPU of sm_90.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.emulator.forms import FORMS, Form, differences, emulate

ROOT = Path(__file__).resolve().parent.parent


def on_gpu(cupy: Any, form: Form) -> np.ndarray[Any, Any]:
    """The form's outputs on the GPU."""
    module = cupy.cuda.function.Module()
    module.load(form.ptx().encode() + b"\0")
    inputs = cupy.asarray(form.input_bytes())
    out = cupy.zeros(form.output_bytes(), np.uint8)
    arguments = (np.uint64(inputs.data.ptr), np.uint64(out.data.ptr))
    grid = (form.threads // form.block, 1, 1)
    module.get_function("k")(grid, (form.block, 1, 1), arguments)
    cupy.cuda.runtime.deviceSynchronize()
    return cupy.asnumpy(out)


def main() -> int:
    """Record all, compare all, write the file."""
    import cupy

    default = os.environ.get("OUT", ROOT / "tests" / "emulator" / "recorded")
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else default)
    device = cupy.cuda.Device()
    arch = f"sm_{device.compute_capability}"
    outputs: dict[str, Any] = {}
    checks, failed = {}, []
    for name, form in FORMS.items():
        try:
            outputs[name] = on_gpu(cupy, form)
        except Exception as error:  # noqa: BLE001  whatever it is, the other forms go on
            failed.append(f"{name}: did not run: {error}")
            continue
        checks[name] = zlib.crc32(form.input_bytes().tobytes())
    properties = cupy.cuda.runtime.getDeviceProperties(device.id)
    meta = {
        "device": properties["name"].decode(),
        "arch": arch,
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "inputs": checks,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{arch}.npz"
    np.savez_compressed(path, __meta__=np.array(json.dumps(meta)), **outputs)
    print(f"{len(outputs)} of {len(FORMS)} forms recorded", flush=True)
    for name, output in outputs.items():
        emulated, kernel = emulate(FORMS[name])
        wrong = differences(FORMS[name], kernel, emulated, output)
        if wrong.any():
            failed.append(f"{name}: {int(wrong.sum())} of {wrong.size} elements differ")
    for line in failed:
        print(line)
    print(f"{len(FORMS) - len(failed)} of {len(FORMS)} forms agree; {path.stat().st_size} bytes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
