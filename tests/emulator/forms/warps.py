"""Forms of whole warps: exchange, votes, reductions."""

from __future__ import annotations

from tests.emulator.forms.form import Form

__all__ = ["forms"]


def forms() -> list[Form]:
    """All of them."""
    found = [
        Form(f"shfl.sync.{mode}.b32",
             f"shfl.sync.{mode}.b32 $o0|%p1, $i0, $i1, $i2, -1; selp.u32 $o1, 1, 0, %p1;",
             ("u32", "u32", "u32"), ("u32", "u32"))
        for mode in ("up", "down", "bfly", "idx")
    ]  # fmt: skip
    test = "setp.lt.u32 %p2, $i0, 150;"
    found += [
        Form(f"vote.sync.{mode}.pred",
             f"{test} vote.sync.{mode}.pred %p1, %p2, -1; selp.u32 $o0, 1, 0, %p1;",
             ("u32:155",), ("u32",))
        for mode in ("all", "any", "uni")
    ]  # fmt: skip
    found.append(
        Form("vote.sync.ballot.b32", f"{test} vote.sync.ballot.b32 $o0, %p2, -1;",
             ("u32:300",), ("u32",))
    )  # fmt: skip
    found += [
        Form("match.any.sync.b32", "match.any.sync.b32 $o0, $i0, -1;", ("u32:6",), ("u32",)),
        Form("match.any.sync.b64", "match.any.sync.b64 $o0, $i0, -1;", ("u64:6",), ("u32",)),
        Form("match.all.sync.b32",
             "shr.u32 %r10, %r3, 6; and.b32 %r10, %r10, $i0; "
             "match.all.sync.b32 $o0|%p1, %r10, -1; selp.u32 $o1, 1, 0, %p1;",
             ("u32:2",), ("u32", "u32")),
    ]  # fmt: skip
    for operation, kinds in (
        ("add", ("u32", "s32")), ("min", ("u32", "s32")), ("max", ("u32", "s32")),
        ("and", ("b32",)), ("or", ("b32",)), ("xor", ("b32",)),
    ):  # fmt: skip
        found += [
            Form(f"redux.sync.{operation}.{kind}", f"redux.sync.{operation}.{kind} $o0, $i0, -1;",
                 ("u32",), ("u32",))
            for kind in kinds
        ]  # fmt: skip
    return found
