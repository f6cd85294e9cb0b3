"""A word that no instruction has, anywhere in an opcode, is an error with the PTX line."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.emulator import UnsupportedError, parse
from deepgemm_codegen.emulator.generations import arithmetic
from deepgemm_codegen.emulator.program import link
from deepgemm_codegen.emulator.translate import translate
from tests.emulator.forms import FORMS
from tests.emulator.programs import PROGRAMS, ptx
from tests.emulator.support import DATA, entry

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.nodes import Instruction
    from deepgemm_codegen.emulator.program import Program

# What neither the forms nor the programs hold.
MORE = """
cp.async.ca.shared.global [%r1], [%d1], 16;
cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;
mbarrier.init.shared::cta.b64 [%r1], 1; mbarrier.inval.shared::cta.b64 [%r1];
mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 16;
mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;
mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0;
cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r1], [%d1, {%r2, %r2, %r2}], [%r3];
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r2, %r2}], [%r1];
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d1], 16, [%r3];
cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r1], 16;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.bulk.wait_group.read 0;
fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster; fence.acq_rel.gpu; membar.gl;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
mapa.shared::cluster.u32 %r1, %r2, %r3; getctarank.shared::cluster.u32 %r1, %r2;
isspacep.shared %p1, %d1; setmaxnreg.inc.sync.aligned.u32 232; elect.sync _|%p1, -1;
ld.shared::cluster.u32 %r1, [%r2]; st.shared::cluster.u32 [%r1], %r2;
ld.acquire.gpu.global.u32 %r1, [%d1]; st.release.gpu.global.u32 [%d1], %r1;
atom.acq_rel.gpu.global.add.u32 %r1, [%d1], 1; red.relaxed.gpu.global.add.u32 [%d1], 1;
bar.arrive 1, 64; barrier.cta.sync.aligned 1, 64; bar.warp.sync -1; nanosleep.u32 5; pmevent 3;
griddepcontrol.wait; griddepcontrol.launch_dependents; prefetch.global.L2 [%d1]; activemask.b32 %r1;
set.lt.u32.s32 %r1, %r2, %r3; cnot.b32 %r1, %r2; exit; trap;
"""


@cache
def _examples() -> dict[tuple[str, ...], tuple[Program, int]]:
    """One instruction of each opcode: its program and its number there."""
    texts = [form.ptx() for form in FORMS.values()]
    texts += [ptx(program.name) for program in PROGRAMS]
    texts += [path.read_text() for path in sorted(DATA.glob("*.ptx"))]
    texts.append(entry(MORE))
    found: dict[tuple[str, ...], tuple[Program, int]] = {}
    for text in texts:
        module = parse(text)
        program = link(module, module.entries()[0])
        for number, ins in enumerate(program.instructions):
            found.setdefault(ins.opcode, (program, number))
    return found


def _alone(program: Program, ins: Instruction) -> Program:
    """A program of one instruction, with the labels of the whole."""
    labels = dict.fromkeys(program.labels, 0)
    return dataclasses.replace(program, instructions=(ins,), labels=labels)


def _check(opcode: tuple[str, ...]) -> None:
    program, number = _examples()[opcode]
    ins = program.instructions[number]
    rules = arithmetic("sm_90")
    translate(_alone(program, ins), rules)  # as it stands it is fine
    for place in range(1, len(opcode) + 1):
        wrong = (*opcode[:place], "bogus", *opcode[place:])
        with pytest.raises(UnsupportedError, match=rf"^PTX line {ins.line}: "):
            translate(_alone(program, dataclasses.replace(ins, opcode=wrong)), rules)


def test_an_unknown_word_anywhere_in_some_opcodes() -> None:
    for opcode in list(_examples())[::6]:
        _check(opcode)


@pytest.mark.full
def test_an_unknown_word_anywhere_in_any_opcode() -> None:
    assert len(_examples()) > 500
    for opcode in _examples():
        _check(opcode)
