"""Forms on memory: atomic operations on cells of their own, barriers with reductions."""

from __future__ import annotations

from tests.emulator.forms.form import Form

__all__ = ["forms"]

_BOX = ".shared .align 16 .b8 box[4096];"
_CELL = "mov.u32 %r10, box; mad.lo.u32 %r11, %r0, 8, %r10;"


def _atomic(operation: str, kind: str, word: str, flush: str = "") -> Form:
    """Each thread changes a cell of its own in shared memory: the old value and the new one."""
    operands = "$i1, $i2" if operation == "cas" else "$i1"
    kinds = (kind, kind, kind) if operation == "cas" else (kind, kind)
    body = (
        f"{_CELL} st.shared.{word} [%r11], $i0; "
        f"atom.shared.{operation}{flush}.{kind} $o0, [%r11], {operands}; "
        f"ld.shared.{word} $o1, [%r11];"
    )
    return Form(f"atom.shared.{operation}{flush}.{kind}", body, kinds, (kind, kind), before=_BOX)


def forms() -> list[Form]:
    """All of them."""
    found = [
        _atomic("add", "u32", "b32"), _atomic("add", "u64", "b64"), _atomic("add", "f32", "b32"),
        _atomic("add", "f64", "b64"), _atomic("add", "f16x2", "b32", ".noftz"),
        _atomic("add", "bf16x2", "b32", ".noftz"), _atomic("add", "f16", "b16", ".noftz"),
        _atomic("min", "s32", "b32"), _atomic("max", "u32", "b32"), _atomic("min", "u64", "b64"),
        _atomic("max", "s64", "b64"), _atomic("inc", "u32", "b32"), _atomic("dec", "u32", "b32"),
    ]  # fmt: skip
    # Float additions in global memory flush subnormals.
    for kind, word, flush in (("f32", "b32", ""), ("f16x2", "b32", ".noftz"), ("u64", "b64", "")):
        width = 8 if kind == "u64" else 4
        found.append(
            Form(
                f"atom.global.add{flush}.{kind}",
                f"mad.wide.u32 %d10, %r3, {width}, %d1; st.global.{word} [%d10], $i0; "
                f"atom.global.add{flush}.{kind} $o1, [%d10], $i1; ld.global.{word} $o0, [%d10];",
                (kind, kind),
                (kind, kind),
            )
        )
    for operation, out in (("popc.u32", "$o0"), ("and.pred", "%p2"), ("or.pred", "%p2")):
        found.append(
            Form(
                f"bar.red.{operation}",
                f"setp.lt.u32 %p1, $i0, 100; bar.red.{operation} {out}, 0, %p1;"
                + ("" if out == "$o0" else " selp.u32 $o0, 1, 0, %p2;"),
                ("u32:101",),
                ("u32",),
            )
        )
    return found
