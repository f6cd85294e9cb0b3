"""A generated kernel through cupy: its cubin and the manifest are all that is needed.

    deepgemm_codegen generate examples/linear.yaml -o kernels --arch=sm_90
    deepgemm_codegen build kernels
    python examples/cupy_linear.py kernels

Neither the generator nor a compiler is needed where this runs. Kernels that load by TMA take tensor
maps that the host makes; use their launcher instead, as `torch_linear.py` does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np


class Kernel:
    """One kernel of a folder.

    Args:
        folder: where ``manifest.json`` and the cubins lie.
        record: its record in the manifest.
    """

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        self.parameters = record["parameters"]
        self.launch = record["launch"]
        module = cupy.RawModule(path=str(folder / f"{record['name']}.cubin"))
        self.function = module.get_function(record["name"])
        self.function.max_dynamic_shared_size_bytes = self.launch["shared_bytes"]

    def __call__(self, **given: Any) -> None:
        """Launches on cupy's current stream.

        Args:
            given: every parameter of the manifest by name: arrays, alpha, dynamic dimensions.
        """
        kinds = {"alpha": np.float32, "beta": np.float32, "dim": np.int32, "stride": np.int64}
        arguments = [
            kinds[p["role"]](given[p["name"]]) if p["role"] in kinds else given[p["name"]]
            for p in self.parameters
        ]
        self.function((self.blocks(given),), (self.launch["block"],), tuple(arguments),
                      shared_mem=self.launch["shared_bytes"])  # fmt: skip

    def blocks(self, sizes: dict[str, Any]) -> int:
        """The grid, an expression over the dynamic dimensions such as ``ceildiv(m, 128) * 8``."""
        names = {"ceildiv": lambda a, b: -(-a // b), "floordiv": lambda a, b: a // b, "min": min}
        return int(eval(self.launch["grid"], {"__builtins__": {}}, {**names, **sizes}))


def kernel_for(folder: Path, rows: int) -> Kernel:
    """The kernel of a folder that is planned for the fewest rows that are enough."""
    records = json.loads((folder / "manifest.json").read_text())["kernels"]
    plain = [each for each in records if "launch" in each and "tensor_maps" not in each]
    most = {each["name"]: _most_rows(each["spec"]) for each in plain}
    fitting = [each for each in plain if most[each["name"]] >= rows]
    if not fitting:
        raise SystemExit(f"no kernel without tensor maps for {rows} rows in {folder}")
    return Kernel(folder, min(fitting, key=lambda each: most[each["name"]]))


def _most_rows(spec: str) -> int:
    """The largest m of a spec's line, such as ``m=dynamic:4096 n=1024 ...``."""
    return int(spec.split(maxsplit=1)[0].removeprefix("m=").removeprefix("dynamic:"))


def main() -> int:
    """Compares the layer with cupy's own product."""
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(1)
    for rows in (1, 64, 777):
        x = cupy.asarray(rng.standard_normal((rows, 1024)), dtype=np.float16)
        weight = cupy.asarray(rng.standard_normal((1024, 1024)) / 32, dtype=np.float16)
        bias = cupy.asarray(rng.standard_normal(1024), dtype=np.float16)
        y = cupy.full((rows, 1024), np.nan, dtype=np.float16)
        kernel_for(folder, rows)(a=x, b=weight, d=y, bias0=bias, alpha=1.0, m=rows)
        wanted = x.astype(np.float32) @ weight.astype(np.float32).T + bias.astype(np.float32)
        error = float(cupy.abs(y.astype(np.float32) - cupy.maximum(wanted, 0)).max())
        print(f"m = {rows}: the largest error is {error:.2g}")
        if not error < 0.02:  # also when it is NaN
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
