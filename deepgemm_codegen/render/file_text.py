"""The words that all kernels of a generated file share: its header and its launcher.

Pure text derived from a program; the templates get it as ``file`` next to ``program``. A kernel's
own words are in `deepgemm_codegen.render.kernel_text`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen import __version__
from deepgemm_codegen.plan import Rows
from deepgemm_codegen.plan.expressions import in_c
from deepgemm_codegen.plan.reduce import Reduce
from deepgemm_codegen.plan.repack import Repack
from deepgemm_codegen.plan.row_scales import RowScales
from deepgemm_codegen.plan.tma import TMA_ALIGNMENT
from deepgemm_codegen.plan.turn import Turn
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.plan.workspace import ALIGNMENT
from deepgemm_codegen.plan.zero_points import ZeroPoints
from deepgemm_codegen.render.epilogue_text import matrices_of
from deepgemm_codegen.spec.block_scales import BLOCK, SCALES, line
from deepgemm_codegen.spec.naming import spec_digest
from deepgemm_codegen.spec.precision import integer_sums

if TYPE_CHECKING:
    from deepgemm_codegen.dtypes import DType
    from deepgemm_codegen.plan import KernelPlan, Program
    from deepgemm_codegen.plan.signature import Parameter
    from deepgemm_codegen.plan.tiles import Extent
    from deepgemm_codegen.plan.workspace import Region
    from deepgemm_codegen.spec import GemmSpec
    from deepgemm_codegen.spec.batching import Stride

_FORMULA_COLUMNS = 60
"""The longest formula that the line it stands in has room for."""

POINTER_BYTES = 8
"""Size and alignment of a pointer."""

__all__ = ["FileText", "RegionText", "command_line", "file_text_of"]


@dataclass(frozen=True, slots=True)
class RegionText:
    """A region of the workspace as the launcher places it; where it starts is a C expression."""

    name: str
    dtype: str
    start: str


class FileText(NamedTuple):
    """Everything textual about one generated file; see `file_text_of`.

    Attributes:
        version: of this package.
        spec, solved: what was asked for, and what is computed, where that is another spec.
        command, digest: the flags that generate the file again; the spec's hash.
        formula: what D is, such as ``relu(alpha * A * B)``.
        storage_types: (name, C type) of every element type.
        fixed_extents, dynamic_extents: m, n and k: constants, and arguments.
        fixed_strides, batch_strides: (constant, elements) from row to row; from product to product.
        signature: the launcher's parameters.
        alignments: (pointer, bytes) that the launcher checks.
        refusals: C conditions under which the launcher refuses.
        maps, deep_maps: whether the launcher builds tensor maps, and any of three dimensions.
        regions, workspace_bytes, workspace_signature: of the workspace: where regions start, how
            many bytes it takes, and of which sizes that is a function.
        rounds_up: whether a size of these is divided, rounding up, at run time.
    """

    version: str
    spec: str
    solved: str
    command: str
    digest: str
    formula: str
    storage_types: tuple[tuple[str, str], ...]
    fixed_extents: tuple[Extent, ...]
    dynamic_extents: tuple[Extent, ...]
    fixed_strides: tuple[tuple[str, int], ...]
    batch_strides: tuple[tuple[str, Stride], ...]
    signature: str
    alignments: tuple[tuple[str, int], ...]
    refusals: tuple[str, ...]
    maps: bool
    deep_maps: bool
    regions: tuple[RegionText, ...]
    workspace_bytes: str
    workspace_signature: str
    rounds_up: bool


def command_line(program: Program) -> str:
    """Flags that generate the same file again."""
    words = program.spec.shell_words()
    flags = (f"--{key.replace('_', '-')}={value}" for key, value in words)
    return " ".join((*flags, "--emit", "cu"))


def _formula(program: Program) -> str:
    """What D is; a long chain of steps goes by its general name, since the spec stands above."""
    spec = program.solved
    inner = "alpha * A * B" if spec.multiplies else "A"
    inner += " + beta * C" if spec.dtype_c is not None else ""
    nested = inner
    for step in spec.epilogue:
        nested = f"{step.kind}({nested})"
    return nested if len(nested) <= _FORMULA_COLUMNS else f"epilogue({inner})"


def _storage_types(
    program: Program, arguments: tuple[Parameter, ...]
) -> tuple[tuple[str, str], ...]:
    """(name, C type) of every element type, in the order of the arguments."""
    types: dict[str, DType] = {p.dtype.name: p.dtype for p in arguments if p.dtype}
    types |= {region.dtype.name: region.dtype for region in program.workspace.regions}
    return tuple((name, dtype.storage) for name, dtype in types.items())


def _alignments(program: Program, arguments: tuple[Parameter, ...]) -> tuple[tuple[str, int], ...]:
    """(pointer, bytes) that the code relies on, not more than the spec promised."""
    found: dict[str, int] = {}
    for plan in program.kernels:
        body, output = plan.body, plan.output
        if isinstance(body, ZeroPoints):
            continue
        if isinstance(body, Repack):
            found |= {m.source: m.dtype.bytes for m in body.matrices if m.dtype.bytes > 1}
            continue
        if isinstance(body, Turn):
            found |= {m.name: m.vector * m.dtype.bytes for m in body.matrices}
            continue
        if isinstance(body, Rows):
            found |= _row_alignments(plan, body)
        elif not isinstance(body, (Reduce, RowScales, Wgmma)):
            found |= {o.source: o.vector_bytes for o in body.operands}
        if output.c_dtype is not None:
            found[output.c_pointer] = output.vector * output.c_dtype.bytes
        if not output.partial and output.pointer == "d":
            found["d"] = output.vector * output.dtype.bytes
        found |= {
            plan.place_of(name): output.vector * operand.dtype.bytes
            for name, operand in matrices_of(plan)
        }
        found |= {tensor_map.pointer: TMA_ALIGNMENT for tensor_map in plan.tensor_maps}
    if program.workspace.regions:
        found["workspace"] = ALIGNMENT
    regions = {region.name for region in program.workspace.regions}
    arrays = {p.name: p.symbol for p in arguments if p.array}
    found |= dict.fromkeys(arrays, POINTER_BYTES)
    return tuple(
        sorted((arrays.get(name, name), n) for name, n in found.items() if name not in regions)
    )


def _row_alignments(plan: KernelPlan, body: Rows) -> dict[str, int]:
    """The same of a row kernel's own: A, and the vectors of its norm."""
    spec = plan.spec
    found = {} if body.parts else {body.source: body.vector * spec.dtype_a.bytes}
    for operand in () if spec.norm is None else spec.epilogue[spec.norm].operands:
        name = operand.argument(spec.norm or 0)
        found[name] = min(body.vector * operand.dtype.bytes, 16)
    return found


def _refusals(program: Program, arguments: tuple[Parameter, ...]) -> tuple[str, ...]:
    """C conditions under which the launcher refuses: null where a pointer will be followed."""
    spec = program.solved
    conditions = []
    for parameter in arguments:
        when = _followed(spec, parameter) if parameter.pointer else None
        if when is not None:
            conditions.append(" && ".join([f"{parameter.symbol} == nullptr", *when]))
    if program.workspace.regions:
        conditions.append("workspace == nullptr")
    for parameter in arguments:
        if parameter.role == "stride":
            matrix = parameter.name[2:]
            letter = matrix if matrix in "abc" else "d"  # a step's matrix is stored like D
            _, length = spec.stored(letter)
            least = _dim_name(program, letter) if length.dynamic else str(length)
            conditions.append(f"{parameter.name} < {least}")
    if integer_sums(spec.dtype_d):
        scalars = [p.name for p in arguments if p.role in ("alpha", "beta")]
        conditions.extend(f"{name} != 0.0f && {name} != 1.0f" for name in scalars)
    return tuple(conditions)


def _followed(spec: GemmSpec, parameter: Parameter) -> list[str] | None:
    """C conditions under which kernels follow a pointer, all of them together; None for never.

    A and B of no elements may be null, as empty tensors are; an array of pointers to them not.
    """
    if parameter.role == "c":
        return ["beta != 0.0f"]
    if not (parameter.role in ("a", "b", "scales") and spec.multiplies):
        return []
    if parameter.array or not (spec.k.dynamic or spec.k.size == 0):
        return ["alpha != 0.0f"]
    return ["alpha != 0.0f", "k != 0"] if spec.k.dynamic else None


def _dim_name(program: Program, letter: str) -> str:
    """The argument that holds the contiguous length of an operand."""
    spec = program.solved
    if not spec.multiplies:
        return "m" if (spec.layout[0] if letter == "a" else spec.layout_d) == "t" else "n"
    layout = {"a": spec.layout[0], "b": spec.layout[1]}.get(letter, spec.layout_d)
    normal, transposed = {"a": ("k", "m"), "b": ("n", "k")}.get(letter, ("n", "m"))
    name = transposed if layout == "t" else normal
    return f"{spec.halves} * n" if (letter, name) == ("b", "n") and spec.halves > 1 else name


def file_text_of(program: Program) -> FileText:
    """All the text of one file that is no kernel's own."""
    spec, plan, arguments = program.solved, program.product, program.parameters
    used = plan.extents if spec.multiplies else (plan.m, plan.n)
    extents = sorted(used, key=lambda extent: "MNK".index(extent.name))
    strides = (
        ("LDA", spec.lda),
        ("LDB", spec.ldb if spec.multiplies else 0),
        ("LDC", spec.ldc),
        ("LDD", spec.ldd),
        *_of_matrices(program),
        *_pitches(program),
        *_scale_lines(program),
    )
    apart = [(f"STRIDE_{x.upper()}", getattr(spec, f"stride_{x}")) for x in "abcd"]
    dynamic = tuple(e for e in extents if e.dynamic)
    return FileText(
        version=__version__,
        spec=str(program.spec),
        solved="" if program.spec == spec else str(spec),
        command=command_line(program),
        digest=spec_digest(program.spec),
        formula=_formula(program),
        storage_types=_storage_types(program, arguments),
        fixed_extents=tuple(e for e in extents if not e.dynamic),
        dynamic_extents=dynamic,
        fixed_strides=tuple((name, value) for name, value in strides if value),
        batch_strides=tuple(
            (name, value) for name, value in apart if isinstance(value, int) and value
        ),
        signature=_signature(program, arguments),
        alignments=_alignments(program, arguments),
        refusals=_refusals(program, arguments),
        maps=any(kernel.tensor_maps for kernel in program.kernels),
        deep_maps=any(
            each.batch > 1 or each.panels > 0
            for kernel in program.kernels
            for each in kernel.tensor_maps
        ),
        regions=tuple(
            RegionText(region.name, region.dtype.name, _start(region))
            for region in program.workspace.regions
        ),
        workspace_bytes=in_c(program.workspace.bytes),
        workspace_signature=", ".join(f"i64 {extent.symbol}" for extent in dynamic),
        rounds_up=_rounds_up(program),
    )


def _rounds_up(program: Program) -> bool:
    """Whether the launcher of several kernels divides what is known at run time only."""
    sizes = [program.workspace.bytes, *(region.offset for region in program.workspace.regions)]
    sizes += [kernel.blocks for kernel in program.kernels]
    return any("ceildiv(" in in_c(size) for size in sizes)


def _pitches(program: Program) -> tuple[tuple[str, int], ...]:
    """(constant, elements from row to row) of what lies in the workspace: copies, and values.

    Beside matrices of steps that are turned stand those of the caller's, too.
    """
    bodies = [kernel.body for kernel in program.kernels]
    copies = [m for body in bodies if isinstance(body, Repack) for m in body.matrices]
    turned = [m for body in bodies if isinstance(body, Turn) for m in body.matrices]
    regions = {matrix.region for matrix in turned}
    outputs = [kernel.output for kernel in program.kernels if kernel.output.pointer != "d"]
    return (
        *((matrix.pitch_symbol, matrix.pitch) for matrix in copies),
        *((m.leading_symbol, m.leading or 0) for m in turned if len(m.name) > 1),
        *((m.pitch_symbol, m.pitch) for m in turned),
        *((o.leading_symbol, o.leading or 0) for o in outputs if o.pointer not in regions),
    )


def _scale_lines(program: Program) -> tuple[tuple[str, int], ...]:
    """(constant, elements from line to line) of scales by block whose lines have a fixed length."""
    plan = program.product
    if not plan.scaled:
        return ()
    counts = ((SCALES[0], plan.m, plan.m.size), (SCALES[1], plan.k, -(-plan.k.size // BLOCK)))
    return tuple((f"LD{name.upper()}", line(n)) for name, e, n in counts if not e.dynamic)


def _of_matrices(program: Program) -> list[tuple[str, int]]:
    """(constant, elements from row to row) of the matrices of steps that kernels find by rows."""
    return [
        (f"LD{name.upper()}", kernel.spec.leading_of(operand))
        for kernel in program.kernels
        for name, operand in matrices_of(kernel)
        if name not in kernel.turned
    ]


def _start(region: Region) -> str:
    offset = in_c(region.offset)
    return "start" if offset == "0" else f"start + {offset}"


def _signature(program: Program, arguments: tuple[Parameter, ...]) -> str:
    words = [parameter.declaration for parameter in arguments]
    if program.workspace.regions:
        words.append("void* workspace")
    return ",\n    ".join(words)
