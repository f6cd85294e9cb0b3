"""Which wrappers of instructions a kernel prints: templates under ``templates/primitives/``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.plan import ASIDE, Rows
from deepgemm_codegen.plan.bandwidth import Bandwidth
from deepgemm_codegen.plan.mma_sync import MmaSync
from deepgemm_codegen.plan.reduce import Reduce
from deepgemm_codegen.plan.repack import VECTOR_BYTES, Repack
from deepgemm_codegen.plan.simt import Simt
from deepgemm_codegen.plan.turn import Turn
from deepgemm_codegen.plan.wgmma import Wgmma
from deepgemm_codegen.plan.zero_points import ZeroPoints
from deepgemm_codegen.render.epilogue_text import output_primitives
from deepgemm_codegen.render.rows_text import row_primitives

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepgemm_codegen.plan import KernelPlan
    from deepgemm_codegen.plan.simt import SimtOperand
    from deepgemm_codegen.plan.tiles import Operand

__all__ = ["mma_primitive", "primitives_of"]


def primitives_of(plan: KernelPlan) -> tuple[tuple[str, int], ...]:
    """(template, width) of the wrappers this kernel uses, each once, in reading order.

    The width is for templates that print one function a width; others ignore it.
    """
    body = plan.body
    if isinstance(body, ASIDE):
        return tuple(dict.fromkeys((*_side_primitives(plan), *_common_primitives(plan))))
    leaving: str
    if isinstance(body, Wgmma):
        names = _wgmma_primitives(plan, body)
        leaving = _leaving(body)
    elif isinstance(body, Bandwidth):
        names = [*_lane_primitives(plan, body), (f"mma_m16n8k{body.mma_k}", 0)]
        leaving = "lane_slab"
    elif isinstance(body, Simt):
        names, leaving = _simt_primitives(plan, body), ""
    else:
        names = [("tile_offset", 0), *_copy_primitives(body.operands)]
        names.append(("ldmatrix_x4" if body.a.k_major else "ldmatrix_x4_trans", 0))
        trans = "" if body.b.k_major else "_trans"
        quads = body.b_pairs or body.b.bytewise
        names.append((f"ldmatrix_x{4 if quads else 2}{trans}", 0))
        if body.a.bytewise or body.b.bytewise:
            names.append(("permute_bytes", 0))
        names.append((mma_primitive(plan), 0))
        if body.promoted:
            names.append(("pace", 0))
        leaving = "slab"
    names.extend((name, 0) for name in output_primitives(plan, leaving))
    names.extend(_common_primitives(plan))
    return tuple(dict.fromkeys(names))


def _leaving(body: Wgmma) -> str:
    """How D leaves a wgmma kernel, as `output_primitives` names it."""
    return {"gather": "cluster_sums", "lanes": "", "whole": ""}.get(body.store, body.store)


def _copy_primitives(operands: Sequence[Operand | SimtOperand]) -> list[tuple[str, int]]:
    found = [
        ("cp_async_partial" if operand.tail else "cp_async", operand.vector_bytes)
        for operand in operands
        if operand.in_flight
    ]
    paired = [("column_of_b", 0)] if any(operand.paired for operand in operands) else []
    return [*paired, *dict.fromkeys(found), *([("cp_async_group", 0)] if found else [])]


def _simt_primitives(plan: KernelPlan, body: Simt) -> list[tuple[str, int]]:
    """The wrappers that bring operands to shared memory and to floats, and sums away."""
    names = [*_copy_primitives(body.operands), ("load_quad", 0)]
    if plan.output.partial:
        names.append(("store_d", 0))
    narrow = [o.dtype.name for o in body.operands if o.dtype.name != "fp32"]
    return [*names, *((f"{name}_to_float", 0) for name in dict.fromkeys(narrow))]


def _side_primitives(plan: KernelPlan) -> list[tuple[str, int]]:
    """Those of a kernel that multiplies nothing."""
    if isinstance(plan.body, Rows):
        return row_primitives(plan)
    if isinstance(plan.body, Repack):
        return [("load_words", VECTOR_BYTES), ("shift_words", 0), ("request_16", 0)]
    if isinstance(plan.body, Turn):
        return []
    if isinstance(plan.body, ZeroPoints):
        less = any(operand.less for operand in plan.body.operands)
        return [("with_zero", 0), *([("less_zero", 0)] if less else [])]
    own = ["load_values", "at_least"]
    if isinstance(plan.body, Reduce):
        own = [*(["wrapping_add"] if plan.spec.dtype_acc.integer else []), "load_sums"]
    return [(name, 0) for name in (*own, *output_primitives(plan, ""))]


def _wgmma_primitives(plan: KernelPlan, body: Wgmma) -> list[tuple[str, int]]:
    """The wrappers of copies, barriers and products of the wgmma family."""
    names = [("tensor_map", 0), ("mbarrier", 0), ("elect_one", 0), ("setmaxnreg", 0), ("wgmma", 0)]
    if (body.sharers == 1 and body.turns) or body.tiles_at_once > 1:
        names.append(("mbarrier_arrive", 0))
    if body.cluster > 1:
        names.append(("cluster_rank", 0))
    if body.sharers > 1 or body.tells:
        names += [("cluster_sync", 0), ("mbarrier_arrive_at", 0)]
    if body.sharers > 1:
        names.append(("tma_multicast", 0))
    if body.tells:
        names.append(("tell", 0))
    if body.promoted:
        names.append(("hide", 0))
    if body.lag:
        names.append(("lag", 0))
    alone = [operand for operand in body.operands if not operand.shared]
    names.extend(("tma_load" if o.batch == 1 else "tma_load_3d", 0) for o in alone)
    if body.cleared:
        names.append(("fence_proxy_async", 0))
    if body.store == "gather":
        names += [("consumers_barrier", 0)] if body.consumers > 1 else []
        names += [("wrapping_add", 0)] if plan.spec.dtype_acc.integer else []
    return names


def _lane_primitives(plan: KernelPlan, body: Bandwidth) -> list[tuple[str, int]]:
    """The wrappers that bring operands straight into registers, or to the warp's own slots."""
    if body.ring == "shared":
        return [
            ("cp_async", 16),
            ("cp_async_once", 16),
            ("cp_async_group", 0),
            ("take_16", 0),
        ]
    names = [
        ("stream_words" if operand.streams else "load_words", operand.vector_bytes)
        for operand in body.operands
        if operand.vector > 1
    ]
    if plan.k.tail or any(o.vector == 1 or o.checked for o in body.operands):
        names.append(("load_pair", 0))
    if not body.long_operand.k_major:
        names.extend((("half_pair", 0), ("hide", 0)))
    return names


def _common_primitives(plan: KernelPlan) -> list[tuple[str, int]]:
    """The wrappers that any kernel may use: to overlap with its neighbours, for zero points."""
    wanted = {
        "take_zeros": plan.zeroed,
        "launch_dependents": plan.followed,
        "wait_for_kernel_before": plan.dependent,
    }
    return [(name, 0) for name, needed in wanted.items() if needed]


def mma_primitive(plan: KernelPlan) -> str:
    """The wrapper of the instruction that multiplies fragments; empty where none does."""
    if not isinstance(plan.body, MmaSync):
        return ""
    rows = 8 if plan.body.halves_rows else 16
    return f"mma_m{rows}n8k{plan.body.mma_k}{'_apart' if plan.body.promoted else ''}"
