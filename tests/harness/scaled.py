"""What scales by block mean, written down once more: block by block, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from deepgemm_codegen.harness.numbers import decode, encode
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.spec.block_scales import BLOCK

__all__ = ["SCALES", "by_hand"]

SCALES = "scale_a=1x128 scale_b=128x128"


def by_hand(m: int, n: int, k: int, values: dict[str, Any], **product: int) -> Any:
    """What D is in float64, block by block; ``product`` says which matrix is whose, if not 0."""

    def operand(name: str, rows: int, columns: int, dtype: Any = None) -> Any:
        raw = values[name].at(
            product.get(name, 0), np.arange(rows)[:, None], np.arange(columns)[None, :], np
        )
        return raw.astype(float) if dtype is None else decode(encode(raw, dtype, np), dtype, np)

    dtype = GemmSpec.from_text("m=1 n=1 k=1 dtype=e4m3").dtype_a
    a, b = operand("a", m, k, dtype), operand("b", k, n, dtype)
    blocks_k, blocks_n = -(-k // BLOCK), -(-n // BLOCK)
    of_rows = operand("scale_a", blocks_k, m)
    of_columns = operand("scale_b", blocks_n, blocks_k)
    d = np.zeros((m, n))
    for s in range(blocks_k):
        along = slice(s * BLOCK, min((s + 1) * BLOCK, k))
        for j in range(blocks_n):
            columns = slice(j * BLOCK, min((j + 1) * BLOCK, n))
            share = a[:, along] @ b[along, columns]
            d[:, columns] += of_rows[s][:, None] * of_columns[j, s] * share
    return d
