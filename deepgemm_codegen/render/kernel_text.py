"""The words a kernel's section of a generated file needs beside the plan's numbers.

Pure text derived from a plan: the C signature, which primitives to include, what the launcher
passes. The templates get it as ``text`` next to ``plan``. `file_text` has the words that all
kernels of a file share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from deepgemm_codegen.plan import MmaSync, Persistent, Rows
from deepgemm_codegen.plan.expressions import in_c
from deepgemm_codegen.plan.schedules import clusters_at_once
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.render.epilogue_text import (
    Float8Text,
    StepText,
    VectorText,
    float8_text,
    reads,
    staged_vectors,
    steps_of,
    types_of_matrices,
)
from deepgemm_codegen.render.primitives import mma_primitive, primitives_of
from deepgemm_codegen.render.rows_text import RowsText, rows_text
from deepgemm_codegen.render.stride_text import (
    PointerText,
    batch_pointers,
    batch_strides,
    blocks_along_k,
    scales_line,
)
from deepgemm_codegen.render.wgmma_text import (
    MapText,
    SumText,
    accumulator_names,
    accumulator_operands,
    cluster_load,
    early_slices,
    instruction_flags,
    map_texts,
    own_slices,
    readers_of,
    release_of,
    store_chunk,
    sums_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.tiles import Extent

_CACHE_OF = {16: "cg", 8: "ca", 4: "ca"}
"""cp.async past L1 (``cg``) exists for 16 bytes only (PTX ISA)."""

__all__ = ["Text", "text_of"]


class Text(NamedTuple):
    """Everything textual about one kernel; see `text_of`. Words are C expressions, unless said.

    Attributes:
        fixed_extents, dynamic_extents: m, n and k: constants, and arguments.
        batch_strides: (pointer, elements) of what moves on from product to product.
        batch_pointers: what each product has a pointer of its own to, from an array.
        product: the number of the product that a block works on.
        primitives: (template below ``primitives/``, width) of what the kernel calls.
        mma: the wrapper of the matrix instruction.
        sums: how PTX names and constrains the sums' type.
        steps: the epilogue's steps, in order; of a gated pair those behind it.
        pair, pair_steps: the step that pairs columns, and those before it on either half.
        step_kinds: a step of each kind, whose device functions are printed.
        vectors: what steps read by columns that a consumer of wgmma keeps of its tile.
        matrix_types, stored_types: of the matrices that steps read, and of those they write.
        float8: the numbers of a D of e4m3 or e5m2.
        cache_of: cp.async's cache operator by the bytes of a vector.
        kernel_signature, arguments: the kernel's parameters, and what a launch passes.
        map_texts: the tensor maps that the launcher builds.
        wgmma_names, wgmma_operands, wgmma_results, wgmma_flags: parts of the asm statement.
        blocks, launch_blocks, grid: all blocks as the kernel counts them, and as the launcher
            does; those that it launches.
        rows, columns: tiles, or clusters of tiles, down and across one product's D.
        height, most_rows: rows of a raster group; of most groups, where the last one is lower.
        first_tile, tile_stride: where a persistent block begins, and how far it goes on.
        loop_depth: columns by which the tile loop's text is moved in.
        release, readers: how a consumer gives a slot of the ring back; how many have to.
        early_slices, own_slices: slices begun before the threads meet; those that a block sums.
        cluster_load, cluster_results, cluster_operands: parts of the asm statement that reads
            another block's sums.
        store_chunk: the swizzled 16-byte chunk of a row of D's panel.
        warp_columns, slab_columns, slab_parts, slab_ragged: D's columns of a warp and of a slab;
            slabs along a row, of which the last may be narrower.
        clamped_row, clamped_column: whether what lies outside D is read at the nearest place in it.
        reads_rows, reads_columns: whether C or a step reads at a row, or a column, of D.
        inside, outside: conditions: (row, column) is in D; no vector of D is the thread's.
        fragment_columns, fragment_row, warp_column: fragments along a row; where they begin.
        row_scales_line, column_scales_line: elements from line to line of scales by block.
        add: the function that adds two sums.
        unit, units, own_tiles: names of a tile, or a part of k of one, and of their numbers.
        block, threads, shared, thread: the block, its threads and bytes, and the thread, of one of
            the tiles that a block may compute abreast.
        whole_rows: the words of a kernel that has whole rows.
    """

    fixed_extents: tuple[Extent, ...]
    dynamic_extents: tuple[Extent, ...]
    batch_strides: tuple[tuple[str, str], ...]
    batch_pointers: tuple[PointerText, ...]
    product: str
    primitives: tuple[tuple[str, int], ...]
    mma: str
    sums: SumText
    steps: tuple[StepText, ...]
    pair: StepText | None
    pair_steps: tuple[tuple[StepText, StepText], ...]
    step_kinds: tuple[StepText, ...]
    vectors: tuple[VectorText, ...]
    matrix_types: tuple[str, ...]
    stored_types: tuple[str, ...]
    float8: Float8Text | None
    cache_of: Mapping[int, str]
    kernel_signature: str
    arguments: str
    map_texts: tuple[MapText, ...]
    wgmma_names: tuple[str, ...]
    wgmma_operands: tuple[str, ...]
    wgmma_results: tuple[str, ...]
    wgmma_flags: str
    blocks: str
    launch_blocks: str
    grid: str
    rows: str
    height: str
    most_rows: str
    columns: str
    first_tile: str
    tile_stride: str
    loop_depth: int
    release: str
    readers: str
    early_slices: str
    own_slices: str
    cluster_load: str
    cluster_results: str
    cluster_operands: str
    store_chunk: str
    warp_columns: str
    slab_columns: str
    slab_parts: str
    slab_ragged: bool
    few_passes: bool
    clamped_row: bool
    clamped_column: bool
    reads_rows: bool
    reads_columns: bool
    inside: str
    outside: str
    fragment_columns: str
    fragment_row: str
    warp_column: str
    row_scales_line: str
    column_scales_line: str
    blocks_along_k: str
    add: str
    block: str
    threads: str
    shared: str
    thread: str
    unit: str
    units: str
    own_tiles: str
    whole_rows: RowsText | None


def _blocks_c(plan: KernelPlan) -> str:
    """The factors of the number of blocks in C; `KernelPlan.blocks` is the same in Python."""
    factors = [plan.m.count_symbol, plan.n.count_symbol]
    if isinstance(plan.body, Rows):
        rows = f"i64{{ {plan.m.symbol} }}"
        factors = [rows if plan.body.warps_n > 1 else f"(({rows} + TILE_M - 1) / TILE_M)"]
    if _clustered(plan):
        factors = ["clusters_m", "clusters_n", "CLUSTER"]
    elif isinstance(plan.body, Wgmma) and plan.body.meets:
        factors.append("CLUSTER_K")
    if plan.batch > 1:
        factors.append(str(plan.batch))
    return " * ".join(factors)


def _grid_c(plan: KernelPlan) -> str:
    """The grid of the launch in C: all blocks, or as many as stay resident."""
    if not isinstance(plan.schedule, Persistent):
        return "static_cast<unsigned>(blocks)"
    if isinstance(plan.body, Wgmma) and _clustered(plan):
        most = "i64{sms / CLUSTER * CLUSTER}"
        if plan.body.cluster > 2:
            most = f"{in_c(clusters_at_once(plan.body.cluster))} * CLUSTER"
        return f"static_cast<unsigned>(min(blocks, {most}))"
    return "static_cast<unsigned>(min(blocks, i64{sms}))"


def _clustered(plan: KernelPlan) -> bool:
    """Whether what a block computes at a time is part of a cluster's tiles."""
    return isinstance(plan.body, Wgmma) and plan.body.cluster > 1 and not plan.body.meets


def _heights(plan: KernelPlan) -> tuple[str, str]:
    """(tile rows of a raster group, in clusters; those of most groups, where they differ).

    A constant where all groups have as many: a division by it then is no division, on the way to
    a block's first copy. Where they differ the kernel asks for the most, which is a number.
    """
    group = plan.schedule.raster_group
    clustered = _clustered(plan)
    rows = plan.m.tiles
    if clustered and isinstance(plan.body, Wgmma):
        rows = -(-rows // plan.body.cluster_m)
    symbol = "clusters_m" if clustered else plan.m.count_symbol
    if group == 1 or (not plan.m.dynamic and rows % group == 0):
        return "RASTER_GROUP", ""
    if plan.m.dynamic and rows == 1:
        return "1", ""
    if not plan.m.dynamic and rows < group:
        return symbol, ""
    most = "RASTER_GROUP" if rows >= group else str(rows)
    return f"min(static_cast<int>(RASTER_GROUP), {symbol} - group * RASTER_GROUP)", most


def _clamped(plan: KernelPlan, extent: Extent) -> bool:
    """Whether a TMA epilogue reads at the nearest place inside D for what lies outside.

    Not beside a C, which D may be: the nearest element is another thread's. No C has 8 bits.
    """
    alone = plan.output.c_dtype is None or plan.output.dtype.bits == 8
    return extent.tail and bool(plan.epilogue) and alone


def _inside(plan: KernelPlan) -> str:
    """C condition under which (row, column) lies in D; empty where it always does."""
    return " && ".join(f"{name} < {size}" for name, size in _tests(plan))


def _outside(plan: KernelPlan) -> str:
    """C condition under which no vector of D is a thread's, where blocks along k share a tile."""
    tests = _tests(plan)
    body = plan.body
    if isinstance(body, Wgmma) and body.store == "gather":
        vectors, rounds = body.tile_m * body.tile_n // plan.output.vector, 128 * body.consumers
        whole = 32 // plan.output.vector  # as `BANK_VECTORS`
        own = -(-vectors // whole // body.cluster_k) * whole
        past = [("mine", "OWN_VECTORS")] if own % rounds else []
        past += [("vector", "VECTORS")] if own * body.cluster_k > vectors else []
        tests = [*past, *tests]
    return " || ".join(f"{name} >= {size}" for name, size in tests)


def _tests(plan: KernelPlan) -> list[tuple[str, str]]:
    """What of (row, column) may lie beyond D, and from where on."""
    places = (("row", plan.m), ("column", plan.n))
    return [(name, extent.symbol) for name, extent in places if extent.tail]


def _fragment_row(plan: KernelPlan) -> str:
    """The first row of D of a warp's fragment i."""
    body = plan.body
    if not isinstance(body, Wgmma):
        return "m0 + warp_m * WARP_M + i * MMA_M"
    # Where blocks along k share a tile, m0 is the tile's first row, else the consumer's.
    together = body.meets and body.consumers > 1
    return f"m0 + {'consumer * CONSUMER_M + ' if together else ''}i * 64 + warp * 16"


def text_of(plan: KernelPlan) -> Text:
    """All the text of one kernel."""
    steps, arguments = steps_of(plan), plan.kernel_parameters
    reads_rows, reads_columns = reads(plan, "row"), reads(plan, "column")
    used = plan.extents if plan.multiplies else (plan.m, plan.n)
    extents = sorted(used, key=lambda extent: "MNK".index(extent.name))
    height, most_rows = _heights(plan)
    clustered = _clustered(plan)
    per_cluster = " / CLUSTER" if clustered else ""
    columns = "WARP_D" if plan.paired else "WARP_N"
    whole = isinstance(plan.body, Wgmma)  # an instruction spans the tile's columns
    ragged = isinstance(plan.body, Wgmma) and plan.body.slab_ragged
    return Text(
        fixed_extents=tuple(e for e in extents if not e.dynamic),
        dynamic_extents=tuple(e for e in extents if e.dynamic),
        batch_strides=batch_strides(plan) if plan.batch > 1 else (),
        batch_pointers=batch_pointers(plan, arguments),
        product="unit / SPLIT_K" if plan.output.partial and plan.k.split > 1 else "batch",
        primitives=primitives_of(plan),
        steps=steps.steps,
        pair=steps.pair,
        pair_steps=steps.pair_steps,
        mma=mma_primitive(plan),
        sums=sums_of(plan),
        step_kinds=steps.kinds,
        vectors=staged_vectors(plan),
        matrix_types=types_of_matrices(plan, written=False),
        stored_types=types_of_matrices(plan, written=True),
        float8=float8_text(plan.output.dtype),
        cache_of=_CACHE_OF,
        kernel_signature=",\n    ".join([argument.declaration for argument in arguments]),
        arguments=", ".join([argument.symbol for argument in arguments]),
        map_texts=map_texts(plan),
        wgmma_names=accumulator_names(plan),
        wgmma_operands=accumulator_operands(plan),
        wgmma_results=accumulator_operands(plan, "="),
        wgmma_flags=instruction_flags(plan),
        blocks=_blocks_c(plan),
        launch_blocks=in_c(plan.blocks),
        rows="clusters_m" if clustered else plan.m.count_symbol,
        height=height,
        most_rows=most_rows,
        columns="clusters_n" if clustered else plan.n.count_symbol,
        first_tile=f"blockIdx.x{per_cluster}",
        tile_stride=f"gridDim.x{per_cluster}",
        loop_depth=-4 if isinstance(plan.body, Wgmma) and plan.body.meets else 0,
        release=release_of(plan),
        readers=readers_of(plan),
        early_slices=early_slices(plan),
        own_slices=own_slices(plan),
        **cluster_load(plan),
        store_chunk=store_chunk(plan),
        warp_columns=columns,
        slab_columns="SLAB_D" if plan.paired else "SLAB_N",
        slab_parts="SLAB_PARTS" if ragged else "(TILE_N / SLAB_N)",
        slab_ragged=ragged,
        few_passes=isinstance(plan.body, MmaSync) and plan.body.few_passes,
        clamped_row=reads_rows and _clamped(plan, plan.m),
        clamped_column=reads_columns and _clamped(plan, plan.n),
        reads_rows=reads_rows,
        reads_columns=reads_columns,
        grid=_grid_c(plan),
        inside=_inside(plan),
        outside=_outside(plan),
        fragment_columns="TILE_N / 8" if whole else "FRAGMENTS_N",
        fragment_row=_fragment_row(plan),
        row_scales_line=scales_line("a", plan.m),
        column_scales_line=scales_line("b", plan.k),
        blocks_along_k=blocks_along_k(plan),
        warp_column="n0" if whole else f"n0 + warp_n * {columns}",
        add="wrapping_add" if plan.spec.dtype_acc.integer else "__fadd_rn",
        unit="unit" if plan.output.partial else "tile",
        units="units" if plan.output.partial else "tiles",
        block="block" if plan.abreast > 1 else "blockIdx.x",
        threads="THREADS * ABREAST" if plan.abreast > 1 else "THREADS",
        shared="AREA_BYTES * ABREAST" if plan.abreast > 1 else "SHARED_BYTES",
        thread="threadIdx.x % THREADS" if plan.abreast > 1 else "threadIdx.x",
        own_tiles="own_tiles" if plan.batch > 1 else "tiles",
        whole_rows=rows_text(plan),
    )
