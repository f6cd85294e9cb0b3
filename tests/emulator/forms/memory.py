"""Forms on memory: copies, atomic operations on cells of their own, barriers with reductions."""

from __future__ import annotations

from tests.emulator.forms.form import Form
from tests.emulator.forms.values import width_of

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


def _copy(cache: str, size: int) -> Form:
    """Each thread copies 0 to ``size`` bytes of its own and fills with zeros."""
    words = size // 4
    loads = " ".join(f"ld.shared.b32 $o{i}, [%r11+{4 * i}];" for i in range(words))
    body = (
        f"mov.u32 %r10, box; mad.lo.u32 %r11, %r0, 16, %r10; mad.wide.u32 %d10, %r3, {size}, %d0; "
        f"rem.u32 %r12, %r0, {size + 1}; "
        f"cp.async.{cache}.shared.global [%r11], [%d10], {size}, %r12; "
        f"cp.async.commit_group; cp.async.wait_group 0; {loads}"
    )
    return Form(f"cp.async.{cache} {size}", body, ("u32",) * words, ("u32",) * words, before=_BOX)


def _vector(count: int, kind: str, space: str) -> Form:
    """Each thread writes a vector and reads another thread's of its warp, from the other end."""
    size = count * width_of(kind)
    word = f"v{count}.{kind}"
    sources = ", ".join(f"$i{i}" for i in range(count))
    targets = ", ".join(f"$o{i}" for i in range(count))
    if space == "shared":
        place = (
            f"mov.u32 %r10, box; mad.lo.u32 %r11, %r0, {size}, %r10; "
            f"xor.b32 %r12, %r0, 31; mad.lo.u32 %r13, %r12, {size}, %r10; "
        )
        to, source = "%r11", "%r13"
    else:  # over the outputs, which are written behind it
        place = (
            f"mad.wide.u32 %d10, %r3, {size}, %d1; "
            f"xor.b32 %r12, %r3, 31; mad.wide.u32 %d11, %r12, {size}, %d1; "
        )
        to, source = "%d10", "%d11"
    body = (
        f"{place}st.{space}.{word} [{to}], {{{sources}}}; bar.sync 0; "
        f"ld.{space}.{word} {{{targets}}}, [{source}]; bar.sync 0;"
    )
    return Form(f"ld st {space}.{word}", body, (kind,) * count, (kind,) * count, before=_BOX)


def forms() -> list[Form]:
    """All of them."""
    found = [_copy("ca", 4), _copy("ca", 8), _copy("ca", 16), _copy("cg", 16)]
    found += [
        _vector(count, kind, space)
        for space in ("shared", "global")
        for count, kind in ((2, "u16"), (4, "u16"), (2, "u32"), (4, "u32"), (2, "u64"))
    ]
    found += [
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
