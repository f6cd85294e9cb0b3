"""Small problems with whatever a spec can say at once: steps, types, scales, and forced choices.

`tests.drawing` draws shapes; here shapes are small and everything else is many. A feature that
works alone may fail beside another: the point is the pairs. A case is its seed and its number.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from deepgemm_codegen.errors import InputError
from deepgemm_codegen.spec import GemmSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["draw_features"]

ARCHS = ("sm_80", "sm_90", "sm_90a", "sm_90a", "sm_90a")

TYPES = {
    "sm_75": ("fp16",),
    "sm_80": ("fp16", "bf16", "int8", "uint8", "fp32"),
    "sm_86": ("fp16", "bf16", "int8"),
    "sm_89": ("fp16", "int8", "e4m3", "e5m2"),
    "sm_90": ("fp16", "bf16", "int8", "fp32"),
    "sm_90a": ("fp16", "bf16", "int8", "uint8", "e4m3", "e5m2"),
    "sm_100": ("fp16", "bf16", "int8", "e4m3"),
    "sm_120": ("fp16", "bf16", "int8", "e4m3", "e5m2"),
}

STEPS = (
    "bias", "bias:row", "bias:column:bf16", "bias:int32",
    "scale", "scale:row", "scale:column", "residual",
    "residual:fp32", "store", "store:fp32", "relu", "relu6", "clamp:-4:4", "gelu", "gelu_tanh",
    "silu",
)  # fmt: skip
PAIRS = ("swiglu", "geglu", "swiglu:gate=second")
NORMS = ("rms_norm", "layer_norm", "rms_norm:weight=no", "layer_norm:weight_dtype=fp32")
LAST = (
    "quantize:int8", "quantize:uint8:zero_point=128", "quantize:e4m3", "quantize:int8:per_token",
    "quantize:int8:scale=dynamic", "quantize:e4m3:scale=dynamic", "quantize:e5m2:per_channel",
    "quantize:int8:per_tensor:zero_point=per_tensor", "quantize:e4m3:saturate=no",
    "quantize:int8:scale=0.3", "quantize:uint8:scale=1.7:divide", "quantize:e4m3:scale=0.1",
)  # fmt: skip

ALONE = 0.15
"""Share of specs without a product."""
ROW_TYPES = ("fp16", "bf16", "fp32", "fp16", "bf16", "int32", "int8", "uint8", "e4m3", "e5m2")
"""What A may be there, the usual types twice."""

BY_ROWS = ("swiglu", "geglu", "norm", "dynamic")
"""Words of steps for which a column-major D is computed by rows, and turned."""

CHOICES: dict[str, tuple[object, ...]] = {
    "family": ("mma_sync", "wgmma", "bandwidth", "simt"),
    "tile_m": (64, 128),
    "tile_n": (32, 64, 96, 128),
    "stages": (2, 3, 4),
    "consumers": (1, 2),
    "tiles_at_once": (1, 2),
    "cluster_m": (2,),
    "cluster_n": (2,),
    "cluster_k": (2, 3, 4),
    "split_k": (2, 3, 5),
    "abreast": (1, 2, 4),
    "raster_group": (1, 4),
    "repack": ("on", "off"),
    "tensor_cores": ("off",),
}
"""What is forced now and then; where nothing serves it, the case is one of a refusal."""


def draw_features(seed: int, number: int, archs: Sequence[str] = ARCHS) -> str:
    """The spec of a case, as `GemmSpec.from_text` reads it.

    Args:
        seed: of all cases.
        number: of this one.
        archs: targets to draw from, of `TYPES`.
    """
    chooser = random.Random(f"features {seed} {number}")  # a sample, not a secret
    alone = random.Random(f"rows {seed} {number}").random() < ALONE
    rows = random.Random(f"whole rows {seed} {number}")
    for _ in range(1000):
        fields = _rows(chooser, archs) if alone else _fields(chooser, archs)
        fields = _whole_rows(rows, fields)
        try:
            return str(GemmSpec.from_fields(fields))
        except InputError:  # not every combination is a spec
            continue
    raise AssertionError(f"no spec in 1000 tries for {archs}")


def _fields(chooser: random.Random, archs: Sequence[str]) -> dict[str, object]:
    arch = chooser.choice(list(archs))
    dtype = chooser.choice(TYPES[arch])

    def by_chance(share: float) -> bool:
        return chooser.random() < share

    fields: dict[str, object] = {
        "m": chooser.choice([1, 3, 16, 64, 70, 128, 130, 200]),
        "n": chooser.choice([1, 5, 16, 64, 72, 128, 136, 250]),
        "k": chooser.choice([8, 40, 64, 128, 136, 256, 333, 512, 1024]),
        "dtype": dtype,
        "arch": arch,
        "layout": chooser.choice(["nn", "nt", "nt", "tn", "tt"]),
        "layout_d": "t" if by_chance(0.15) else "n",
    }
    if by_chance(0.2):
        fields["batch"] = chooser.choice([2, 3, 7])
        for letter in "ab":
            if by_chance(0.3):
                fields[f"stride_{letter}"] = chooser.choice(["shared", "pointers"])
    fields |= _types(chooser, dtype)
    steps = _of_batch(chooser, fields, _steps(chooser))
    if steps:
        fields["epilogue"] = ",".join(steps)
    for name in "mnk":
        if by_chance(0.1):
            fields[name] = f"dynamic:{fields[name]}"
    forced = chooser.sample(list(CHOICES), chooser.choice([0, 0, 1, 1, 2, 3]))
    fields |= {name: chooser.choice(list(CHOICES[name])) for name in forced}
    if by_chance(0.1):
        fields["launch"] = "dependent"
    if by_chance(0.5):
        fields |= _lying(chooser, fields)
    return _turned(chooser, fields)


def _whole_rows(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """The same, of a norm on Hopper mostly in a cluster that has whole rows, and longer ones."""
    normed = any(step.startswith(NORMS) for step in str(fields.get("epilogue", "")).split(","))
    if fields["arch"] != "sm_90a" or not normed or "op" in fields or chooser.random() < 0.3:
        return fields
    free = ("tile_m", "stages", "consumers", "tiles_at_once")
    dropped = {"ldb", "ldc", "ldd"}.union(CHOICES).difference(free)
    found = {name: value for name, value in fields.items() if name not in dropped}
    blocks, columns = chooser.randint(1, 8), chooser.choice([16, 48, 64, 96, 112, 128])
    n = blocks * columns - chooser.choice([0, 0, 0, 2, 3, 8])
    return found | {"cluster_rows": blocks, "layout": "nt", "n": n, "layout_d": "n"}


def _turned(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """The same with a column-major D where steps are computed by rows, or without a product."""
    by_rows = any(word in str(fields.get("epilogue", "")) for word in BY_ROWS)
    if by_rows and chooser.random() < 0.3:
        fields["layout_d"] = "t"
    if chooser.random() < 0.06:
        fields = _alone(chooser, fields)
    if chooser.random() < 0.3:
        fields |= _lying_like_d(chooser, fields)
    return fields


def _of_batch(chooser: random.Random, fields: dict[str, object], steps: list[str]) -> list[str]:
    """Steps, of which those of a batch now and then have vectors of each product's own."""
    if "batch" not in fields:
        return steps
    vectors = ("bias", "scale:row", "scale:column", "quantize:int8:per_token", "quantize:e5m2:per")
    return [
        f"{step}:per_product" if step.startswith(vectors) and chooser.random() < 0.4 else step
        for step in steps
    ]


def _rows(chooser: random.Random, archs: Sequence[str]) -> dict[str, object]:
    """Steps without a product, of one matrix or of a batch that lies in any way."""
    m, n = chooser.choice([1, 3, 16, 70, 130]), chooser.choice([1, 5, 64, 72, 250, 1000, 5000])
    fields: dict[str, object] = {
        "op": "epilogue",
        "m": m,
        "n": n,
        "dtype": chooser.choice(ROW_TYPES),
        "arch": chooser.choice(list(archs)),
    }
    batch = chooser.choice([1, 2, 3, 7])
    if batch > 1:
        fields["batch"] = batch
    for letter in "ad":
        fields |= _matrices(chooser, letter, m, n, batch)
    for name in "mn":
        if chooser.random() < 0.2:
            fields[name] = f"dynamic:{fields[name]}"
    steps = [step for step in _steps(chooser) if step not in PAIRS]
    steps = _of_batch(chooser, fields, steps)
    if steps:
        fields["epilogue"] = ",".join(steps)
    if chooser.random() < 0.1:
        fields["launch"] = "dependent"
    return fields


def _matrices(chooser: random.Random, letter: str, m: int, n: int, batch: int) -> dict[str, object]:
    """Where the matrices A or D of a batch of rows lie."""
    found: dict[str, object] = {}
    leading = n
    if chooser.random() < 0.4:
        leading = found[f"ld{letter}"] = n + chooser.choice([1, 3, 8, 16])
    kinds = ["dense", "dense", "gap", "beside", "pointers", "shared"]
    kind = chooser.choice(kinds) if batch > 1 else "dense"
    if kind == "pointers" or (kind == "shared" and letter == "a"):
        found[f"stride_{letter}"] = kind
    elif kind == "gap":
        found[f"ld{letter}"] = leading
        found[f"stride_{letter}"] = m * leading + chooser.choice([1, 8, 64])
    elif kind == "beside":
        found |= {f"ld{letter}": batch * leading, f"stride_{letter}": leading}
    if chooser.random() < 0.15:
        found[f"align_{letter}"] = chooser.choice([4, 8])
    return found


def _alone(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """The same without a product, as far as that goes."""
    kept = ("m", "n", "arch", "layout_d", "dtype_d", "epilogue", "launch")
    found: dict[str, object] = {name: fields[name] for name in kept if name in fields}
    found |= {"op": "epilogue", "layout": chooser.choice(["nn", "nn", "tn"])}
    return found | {"dtype": chooser.choice(ROW_TYPES)}


def _lying_like_d(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """Leading dimensions and alignments of C and D."""
    length = fields["m" if fields["layout_d"] == "t" else "n"]
    size = int(str(length).removeprefix("dynamic:"))
    found: dict[str, object] = {"ldd": size + chooser.choice([1, 2, 3, 8, 16])}
    if "dtype_c" in fields:
        found["ldc"] = size + chooser.choice([1, 4, 8])
        found["align_c"] = chooser.choice([4, 8])
    return found


def _lying(chooser: random.Random, fields: dict[str, object]) -> dict[str, object]:
    """Leading dimensions and alignments."""
    layout = str(fields["layout"])
    widths = {"a": "km"[layout[0] == "t"], "b": "nk"[layout[1] == "t"]}
    paired = str(fields.get("epilogue", "")).startswith(PAIRS)
    found: dict[str, object] = {}
    for letter, name in widths.items():
        size = int(str(fields[name]).removeprefix("dynamic:"))
        if chooser.random() < 0.5:
            half = 2 if letter == "b" and name == "n" and paired else 1
            found[f"ld{letter}"] = half * size + chooser.choice([1, 3, 8, 16])
        if chooser.random() < 0.15:
            found[f"align_{letter}"] = chooser.choice([4, 8])
    return found


def _types(chooser: random.Random, dtype: str) -> dict[str, object]:
    """CUDA cores, scales, zero points, another D, a C."""
    found: dict[str, object] = {}
    if dtype == "fp32":
        found["tensor_cores"] = "off"
    if dtype in ("e4m3", "e5m2"):
        if chooser.random() < 0.4:
            found |= {"scale_a": "1x128", "scale_b": "128x128"}
        elif chooser.random() < 0.3:
            found["accumulate"] = "fast"
    if dtype in ("int8", "uint8"):
        if chooser.random() < 0.3:
            found["zero_point_a"] = chooser.choice(["3", "per_tensor", "per_token"])
        if chooser.random() < 0.3:
            found["zero_point_b"] = chooser.choice(["3", "per_tensor", "per_channel"])
    if chooser.random() < 0.25:
        found["dtype_d"] = chooser.choice(["fp32", "fp16", "bf16"])
    if chooser.random() < 0.2:
        found["dtype_c"] = chooser.choice(["fp32", "fp16", "int32"])
    return found


def _steps(chooser: random.Random) -> list[str]:
    """An epilogue: a pair first, a norm, plain steps, and at its end a quantisation."""
    steps: list[str] = []
    if chooser.random() < 0.15:
        steps.append(chooser.choice(PAIRS))
    if chooser.random() < 0.6:
        steps += chooser.sample(STEPS, chooser.randint(1, 3))
    if chooser.random() < 0.15:
        steps.append(chooser.choice(NORMS))
    if chooser.random() < 0.35:
        steps.append(chooser.choice(LAST))
    return steps
