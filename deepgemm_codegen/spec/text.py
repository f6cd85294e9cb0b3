"""A spec as text: the fields that flags and YAML share, how they are read, and how written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepgemm_codegen.dtypes import FP32, DType, parse_dtype
from deepgemm_codegen.epilogue import parse_epilogue
from deepgemm_codegen.errors import InputError, nearest
from deepgemm_codegen.numbers import DEFAULT_ALIGNMENT, MAX_DIMENSION, check_range, whole_number
from deepgemm_codegen.spec import batching
from deepgemm_codegen.spec.batching import DENSE
from deepgemm_codegen.spec.block_scales import SCALE_WORDS
from deepgemm_codegen.spec.dimension import Dim
from deepgemm_codegen.spec.overrides import OVERRIDES, Overrides
from deepgemm_codegen.spec.precision import ACCUMULATE, result_of

if TYPE_CHECKING:
    from deepgemm_codegen.spec.gemm import GemmSpec

__all__ = [
    "FIELDS",
    "FREE_TEXT",
    "LAUNCHES",
    "OPS",
    "ZERO_POINT_WORDS",
    "fields_of_line",
    "quote",
    "read_fields",
    "written",
]

LAUNCHES = ("plain", "dependent")
"""How a kernel may be launched."""

OPS = ("product", "epilogue")
"""What D is made of: A times B, or A alone."""

_OF_PRODUCTS = (
    *("k", "dtype_b", "dtype_c", "dtype_acc", "accumulate"),
    *("scale_a", "scale_b", "zero_point_b"),
    *("ldb", "ldc", "stride_b", "stride_c", "align_b", "align_c"),
)
"""Fields that only a product has."""


ZERO_POINT_WORDS = {"a": ("per_tensor", "per_token"), "b": ("per_tensor", "per_channel")}
"""Zero points of A and of B that are given at each launch: one, or one a row or column."""


FIELDS: dict[str, str] = {
    "op": "product, or epilogue: no matrix product, D = epilogue(A) with A m x n, of any type",
    "m": "rows of A and D: a number, or dynamic or dynamic:MAX for one given at run time",
    "n": "columns of B and D: the same forms; a gated step reads a B of twice as many",
    "k": "columns of A and rows of B: the same forms, and 0",
    "batch": "products in the batch",
    "dtype": "type of A and B: fp16, bf16, fp32, int8, uint8, e4m3, e5m2; D has the same, but int32"
    " for int8 and uint8, and bf16 for e4m3 and e5m2",
    "dtype_a": "type of A",
    "dtype_b": "type of B",
    "dtype_c": "type of C; none (the default) leaves C and beta out of the kernel",
    "dtype_d": "type of D: fp16, bf16, fp32; int32 where A and B are int8 or uint8",
    "dtype_acc": "accumulator type: fp32, or int32 for int8 and uint8",
    "accumulate": "sums of e4m3 and e5m2: promoted to fp32 registers as they come, or fast, kept in"
    " the tensor core (13 fraction bits on sm_89 and sm_90)",
    "zero_point_a": "zero point of an int8 or uint8 A: per_tensor or per_token, given at launch, or"
    " a number",
    "zero_point_b": "zero point of an int8 or uint8 B: per_tensor or per_channel, given at launch,"
    " or a number",
    "scale_a": "block scales of an e4m3 or e5m2 A: 1x128, one fp32 per row and 128 of k",
    "scale_b": "block scales of an e4m3 or e5m2 B: 128x128, one fp32 per 128 columns and 128 of k",
    "layout": "letters of A and B: n as written (row-major), t stored transposed (column-major)",
    "layout_d": "letter of D and C: n row-major, t column-major",
    "lda": "leading dimension of A, in elements; dense if not given",
    "ldb": "leading dimension of B",
    "ldc": "leading dimension of C",
    "ldd": "leading dimension of D",
    "stride_a": "elements from one product's A to the next: a number, dense (the default), shared"
    " (one A for all), or pointers (an array of them)",
    "stride_b": "the same for B",
    "stride_c": "the same for C",
    "stride_d": "the same for D, which products cannot share",
    "align_a": "alignment in bytes that the caller guarantees for A's base pointer",
    "align_b": "the same for B",
    "align_c": "the same for C",
    "align_d": "the same for D",
    "epilogue": "steps applied to the product, in order, such as bias,gelu or bias:row:fp32",
    "arch": "target architecture, such as sm_80",
    "gpu": "GPU of that architecture to plan for, such as A30",
    "sms": "multiprocessors to plan for, instead of that GPU's",
    "launch": "plain, or dependent: programmatic dependent launch, so that the kernel may begin"
    " before the one before it ends (sm_90 on)",
    "label": "free text that begins the names of the file and the kernel",
}
"""Help text of every spec field, in the order flags, YAML docs and ``str()`` use."""

FREE_TEXT = ("gpu", "label")
"""Fields whose value may be any words."""


def quote(text: str) -> str:
    """`text` as one shell word, so that a label with spaces round-trips."""
    import shlex  # noqa: PLC0415

    return shlex.quote(text)


def fields_of_line(line: str) -> dict[str, str]:
    """The fields of ``m=64 n=64 k=64 label='two words'``, as text.

    Raises:
        InputError: a quotation mark that nothing closes, a word without ``=``, a field twice.
    """
    import shlex  # noqa: PLC0415  only tests and tools read specs from text

    if not isinstance(line, str):
        raise InputError(f"a spec's line is text such as m=64 n=64 k=64, not {line!r}")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise InputError(f"{line}: {str(error).lower()}") from error
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"'{word}': a spec is fields with values, such as m=64 n=64 k=64")
        if name in found:
            raise InputError(f"{name} = {value}: {name} is given already, as {found[name]}")
        found[name] = value
    return found


def read_fields(values: dict[str, Any]) -> dict[str, Any]:
    """A spec's attributes from text fields.

    Raises:
        InputError: an unknown or missing key, or a value its field refuses.
    """
    _check_names(values)
    values = _filled_in(values)
    for key in ("m", "n", "k"):
        if key not in values:
            raise InputError(f"{key} is missing; give --{key}=SIZE or --{key}=dynamic")
    dtype = parse_dtype(str(values.get("dtype", "fp16")))

    def type_of(key: str) -> DType:
        return parse_dtype(str(values[key])) if key in values else dtype

    def number(key: str, default: int) -> int:
        if key not in values:
            return default
        if key == "batch" and str(values[key]).strip().startswith("dynamic"):
            raise InputError(
                f"batch = {values[key]}: the number of products is fixed when the kernel is"
                " written, m, n and k alone may be dynamic; give a whole number"
            )
        value = whole_number(values[key], key)
        # Alignments have limits of their own, which their types set.
        smallest = {"sms": 0, "align": -MAX_DIMENSION}.get(key.partition("_")[0], 1)
        check_range(value, key, smallest, MAX_DIMENSION)
        return value

    dtype_a, dtype_c = type_of("dtype_a"), values.get("dtype_c")
    result = result_of(values.get("op", OPS[0]), dtype if "dtype" in values else dtype_a)
    dtype_d = parse_dtype(str(values.get("dtype_d", result)))
    steps = parse_epilogue(
        str(values.get("epilogue", "")), parse_dtype(result) if dtype_d.bits == 8 else dtype_d
    )
    if "dtype_d" not in values:
        dtype_d = next((step.result for step in steps if step.result), dtype_d)
    return dict(
        m=Dim.parse(values["m"], "m"),
        n=Dim.parse(values["n"], "n"),
        k=Dim.parse(values["k"], "k"),
        dtype_a=dtype_a,
        dtype_b=type_of("dtype_b"),
        dtype_c=None if dtype_c in (None, "none") else parse_dtype(str(dtype_c)),
        dtype_d=dtype_d,
        op=values.get("op", OPS[0]),
        dtype_acc=parse_dtype(str(values.get("dtype_acc", dtype_a.accumulator or "fp32"))),
        accumulate=str(values.get("accumulate", "")),
        zero_point_a=str(values.get("zero_point_a", "")).strip(),
        zero_point_b=str(values.get("zero_point_b", "")).strip(),
        **{f"scale_{o}": str(values.get(f"scale_{o}", "")) for o in SCALE_WORDS},
        batch=number("batch", 1),
        layout=str(values.get("layout", "nn")),
        layout_d=str(values.get("layout_d", "n")),
        **{f"ld{o}": number(f"ld{o}", 0) for o in "abcd"},
        stride_a=batching.parse(values.get("stride_a", DENSE), "stride_a"),
        stride_b=batching.parse(values.get("stride_b", DENSE), "stride_b"),
        stride_c=batching.parse(values.get("stride_c", DENSE), "stride_c"),
        stride_d=batching.parse(values.get("stride_d", DENSE), "stride_d"),
        **{f"align_{o}": number(f"align_{o}", DEFAULT_ALIGNMENT) for o in "abcd"},
        epilogue=steps,
        arch=str(values.get("arch", "sm_80")),
        gpu=str(values.get("gpu", "")),
        sms=number("sms", 0),
        launch=str(values.get("launch", "plain")),
        label=str(values.get("label", "")),
        overrides=Overrides.of({key: values[key] for key in OVERRIDES if key in values}),
    )


def _check_names(values: dict[str, Any]) -> None:
    """That they are fields, and all of them a spec's."""
    if not (isinstance(values, dict) and all(isinstance(key, str) for key in values)):
        raise InputError(
            f"a spec's fields are a dict by name, such as m and n, not {values!r:.100}"
        )
    for key in values:
        if key not in FIELDS and key not in OVERRIDES:
            raise InputError(f"unknown field '{key}'{nearest(key, [*FIELDS, *OVERRIDES])}")


def _filled_in(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a spec; of one without a product, with those that a product would need.

    Raises:
        InputError: an unknown op, or a field that only a product has.
    """
    op = str(values.get("op", OPS[0]))
    if op not in OPS:
        raise InputError(f"op = {op}: unknown; give {' or '.join(OPS)}{nearest(op, list(OPS))}")
    if op == "product":
        return values
    for key in _OF_PRODUCTS:
        if key in values and (key, values[key]) != ("dtype_c", "none"):
            raise InputError(
                f"{key} = {values[key]}: op = epilogue has no product, and only A, m x n;"
                f" leave {key} out"
            )
    if "zero_point_a" in values:
        raise InputError(
            f"zero_point_a = {values['zero_point_a']}: op = epilogue takes none from A, steps do;"
            " leave it out, and begin the epilogue with bias, of minus the zero points"
        )
    dtype = parse_dtype(str(values.get("dtype_a", values.get("dtype", "fp16"))))
    return {**values, "k": "0", "dtype_b": dtype.name, "dtype_acc": FP32.name}


def written(spec: GemmSpec) -> list[tuple[str, str]]:
    """The text fields of a spec that differ from their defaults, in the order of `FIELDS`."""
    texts = {
        "op": "" if spec.multiplies else spec.op,
        "m": str(spec.m),
        "n": str(spec.n),
        "k": str(spec.k) if spec.multiplies else "",
        "batch": "" if spec.batch == 1 else str(spec.batch),
        "dtype": str(spec.dtype_a),
        "dtype_b": "" if spec.dtype_b == spec.dtype_a else str(spec.dtype_b),
        "dtype_c": "" if spec.dtype_c is None else str(spec.dtype_c),
        "dtype_d": _output_text(spec),
        "accumulate": "" if spec.accumulate == ACCUMULATE[0] else spec.accumulate,
        "zero_point_a": spec.zero_point_a,
        "zero_point_b": spec.zero_point_b,
        "scale_a": spec.scale_a,
        "scale_b": spec.scale_b,
        "layout": "" if spec.layout == "nn" else spec.layout,
        "layout_d": "" if spec.layout_d == "n" else spec.layout_d,
        **{f"ld{operand}": _leading_text(spec, operand) for operand in "abcd"},
        **{f"stride_{o}": batching.written(getattr(spec, f"stride_{o}")) for o in "abcd"},
        **{f"align_{operand}": _alignment_text(spec, operand) for operand in "abcd"},
        "epilogue": ",".join(map(str, spec.epilogue)),
        "arch": spec.arch,
        "gpu": spec.gpu,
        "sms": str(spec.sms or ""),
        "launch": "" if spec.launch == "plain" else spec.launch,
        "label": spec.label,
        **{name: str(value) for name, value in spec.overrides.items()},
    }
    return [(name, text) for name, text in texts.items() if text]


def _output_text(spec: GemmSpec) -> str:
    """D's type where neither a step nor A's type tells it."""
    usual = result_of(spec.op, spec.dtype_a)
    told = spec.quantizes is not None or spec.dtype_d.name == usual
    return "" if told else str(spec.dtype_d)


def _leading_text(spec: GemmSpec, operand: str) -> str:
    """The leading dimension where it is not the dense one, else empty."""
    leading: int = getattr(spec, f"ld{operand}")
    _, length = spec.stored(operand)
    dense = 0 if length.dynamic else max(length.size, 1)
    return "" if leading in (0, dense) else str(leading)


def _alignment_text(spec: GemmSpec, operand: str) -> str:
    """The base alignment where it is not the default, else empty."""
    align: int = getattr(spec, f"align_{operand}")
    return "" if align == DEFAULT_ALIGNMENT else str(align)
