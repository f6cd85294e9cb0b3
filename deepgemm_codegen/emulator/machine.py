"""Runs thread blocks: which basic block comes next, and for which lanes.

While all lanes agree, a basic block runs for all of them at once. Where they part, the lanes with
the smallest block number go first, under a mask, until they agree again: compilers lay code out so
that this reconverges, with no knowledge of the program's structure. Now and then the lanes passed
over longest get a turn, so that lanes may wait for each other in loops. Lanes whose wait on an
mbarrier failed sleep until its phase completes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.barriers import Barriers
from deepgemm_codegen.emulator.inflight import check_untouched, note_written

if TYPE_CHECKING:
    from collections.abc import Callable

    from deepgemm_codegen.emulator.basicblock import Terminator
    from deepgemm_codegen.emulator.context import Context

__all__ = ["Machine"]

WARPGROUP = 128
# Steps that a lane may be passed over before its turn comes, whatever its block number.
_PATIENCE = 2000
# Steps that a lane rests after it polled memory in vain, while others can run.
_REST = 100
# Polls in a row, with nothing else between, after which registers are held against those of as many
# polls before: if they are the same, so is all that will ever follow.
_VAIN = 2000

Array = np.ndarray[Any, np.dtype[Any]]


class Machine:
    """Executes one batch of blocks in a context.

    Args:
        context: prepared for the batch.
        limit: basic blocks to execute before the run counts as endless.
    """

    def __init__(self, context: Context, limit: int) -> None:
        self.context = context
        self.limit = limit
        self.translation = context.translation
        self.blocks = self.translation.blocks
        self.full: list[Callable[[], None]] = [
            context.namespace[f"b{i}"] for i in range(len(self.blocks))
        ]
        self.executed = np.zeros(len(self.blocks), np.int64)
        lanes = context.lanes
        self.steps = self.looked = 0
        self.endless = False
        self.last_run = np.zeros(lanes, np.int64)
        self.rest = np.zeros(lanes, np.int64)
        self.resting = False
        # The last step that polled in vain, how many did without a break before it, and what the
        # registers held then.
        self.polled = self.vain = 0
        self.seen: list[Array] = []
        self.state = context.state
        self.registers = context.registers
        self.alive = context.alive
        self.alive[...] = context.alive0
        self.pcs = np.zeros(lanes, np.int64)
        self.barriers = Barriers(context)
        self.waiting, self.wait_site = self.barriers.waiting, self.barriers.site

    def run(self) -> bool:
        """Run until all lanes have ended, or none can go on; whether they ended."""
        pc = 0
        together = bool(self.alive.all())
        while True:
            if together:
                pc = self._run_together(pc)
                if pc < 0:
                    return not self.endless
            chosen = self._next()
            if chosen is None:
                return not self.alive.any()
            pc, mask = chosen
            together = bool(mask.all())
            if together:
                continue
            if self._count(pc, int(np.count_nonzero(mask))):
                return False
            self.last_run[mask] = self.steps
            self._execute(self.masked(pc), pc, mask)
            self._end(self.blocks[pc].terminator, pc, mask)
            if self.endless:
                return False

    def _next(self) -> tuple[int, Array] | None:
        """The next basic block and the lanes that run it; None if no lane can go on."""
        state = self.state
        while True:
            if state.recheck:
                self._release()
            runnable = self.alive & (self.waiting == -1)
            if state.sleeping:
                runnable = state.awake(runnable)
            if self.registers.waiting:
                runnable = runnable & ~self.registers.starved
            if not runnable.any():
                return None
            pc, mask = self._pick(runnable)
            if state.sleeping:
                state.rouse(mask)
            if self.blocks[pc].collective >= 0:
                mask = self._gather(self.blocks[pc].collective, mask)
                if not mask.any():
                    continue
            return pc, mask

    def _pick(self, runnable: Array) -> tuple[int, Array]:
        """The next basic block and its lanes, of some that could run.

        Lanes that rest come last. So do those at what their warp executes together, while others
        of it are sure to come there, too.
        """
        left = runnable
        while True:
            fresh = left & (self.rest <= self.steps) if self.resting else left
            pc = self._choose(fresh if fresh.any() else left)
            mask = left & (self.pcs == pc)
            if self.resting and fresh.any():
                mask &= fresh
            if not self.blocks[pc].converged:
                return pc, mask
            coming = runnable & self.translation.coming(pc)[self.pcs]
            if not coming.any():
                return pc, mask
            whole = mask & ~np.repeat(coming.reshape(-1, 32).any(axis=1), 32)
            if whole.any():
                return pc, whole
            left = left & ~mask
            if not left.any():  # in a loop without an end all ways lead everywhere
                return pc, mask

    def _execute(self, function: Callable[..., None], pc: int, mask: Array | None) -> None:
        """Run a basic block's function, with the checks of registers that wgmma writes."""
        active = self.alive if mask is None else mask
        if self.state.hot:
            check_untouched(self.context, pc, active)
        if mask is None:
            function()
        else:
            function(mask)
        if self.blocks[pc].written:
            note_written(self.context, pc, active)

    def _choose(self, runnable: Array) -> int:
        """The next basic block: the smallest, unless some lanes have not run for long.

        Lanes that wait for others in a loop would otherwise keep them from ever running.
        """
        if self.steps - self.looked > _PATIENCE:
            self.looked = self.steps
            oldest = int(np.where(runnable, self.last_run, np.iinfo(np.int64).max).argmin())
            if self.steps - int(self.last_run[oldest]) > _PATIENCE:
                return int(self.pcs[oldest])
        return int(self.pcs[runnable].min())

    def _gather(self, site: int, mask: Array) -> Array:
        """The lanes of whole warpgroups; the others wait for the rest of theirs.

        Warps behind the last whole warpgroup of a block are let pass: the instruction reports them.
        """
        threads = self.context.threads
        whole = threads // WARPGROUP
        groups = mask.reshape(-1, threads)[:, : whole * WARPGROUP].reshape(-1, WARPGROUP)
        partial = np.asarray(groups.any(axis=1)) & ~np.asarray(groups.all(axis=1))
        if not partial.any():
            return mask
        go = mask.copy()
        for group in np.flatnonzero(partial).tolist():
            start = group // whole * threads + group % whole * WARPGROUP
            part = slice(start, start + WARPGROUP)
            here, waiting, pcs = mask[part], self.waiting[part], self.pcs[part]
            there = here | ((waiting == -4) & (pcs == pcs[here][0]))
            if (there >= self.alive[part]).all():
                waiting[there] = -1
                go[part] = there
            else:
                waiting[here] = -4
                go[part] = False
        self.wait_site[self.waiting == -4] = site
        return go

    def _count(self, pc: int, lanes: int) -> bool:
        """Count a basic block; whether the run is endless."""
        self.executed[pc] += lanes
        self.steps += 1
        if self.steps > self.limit:
            self._stop(
                pc,
                f"still running after {self.limit:,} basic blocks (Checks.step_limit); give it more"
                " if it is meant to take so long",
            )
        return self.endless

    def _poll(self, pc: int) -> None:
        """Lanes polled memory in vain: endless, where all lanes left do so again and again."""
        self.vain = self.vain + 1 if self.polled == self.steps - 1 else 0
        self.polled = self.steps
        if self.vain % _VAIN:
            return
        before, self.seen = self.seen, []
        if self.vain:
            self.seen = [bank.copy() for bank in self.context.banks.values()]
            if before and all(map(np.array_equal, before, self.seen)):
                self._stop(
                    pc,
                    "a wait for memory that nobody is left to write: the threads that could go on"
                    f" only polled for {self.vain:,} basic blocks; blocks that wait for each other"
                    " have to run at once (Checks.lanes)",
                )

    def _run_together(self, pc: int) -> int:
        """Run while all lanes go the same way; -1 at the end, else the block where they parted."""
        lanes = self.context.lanes
        plain = not self.translation.asynchronous
        while True:
            if self._count(pc, lanes):
                return -1
            if plain:
                self.full[pc]()
            else:
                self._execute(self.full[pc], pc, None)
            end = self.blocks[pc].terminator
            held = self.state.sleeping or self.registers.waiting
            after = -2 if held else self._follow(end, pc)
            if after == -2:
                break
            if after == -1:
                return -1
            pc = after
        self.pcs[...] = pc
        self.last_run[...] = self.steps
        self._end(end, pc, self.alive.copy())
        return pc

    def _follow(self, end: Terminator, pc: int) -> int:
        """The block that all lanes run after one; -1 if they end, -2 where they part."""
        if end.kind == "branch":
            lanes = taken = self.context.lanes
            if end.predicate >= 0:
                taken = int(np.count_nonzero(self.context.banks["p"][end.predicate]))
                taken = lanes - taken if end.negated else taken
            if taken == lanes:
                if self.blocks[pc].polls:
                    self._poll(pc)
                return -1 if self.endless else end.target
            return -2 if taken else pc + 1
        if end.kind == "exit" and end.predicate < 0:
            return -1
        return pc + 1 if end.kind == "next" or self._meet_together(end) else -2

    def _meet_together(self, end: Terminator) -> bool:
        """A barrier that all lanes reached at once; whether it was such a simple one."""
        listeners = self.context.shared.listeners
        if end.kind == "barrier" and self.translation.forms[end.site].simple:
            for listener in listeners:
                listener.barrier(None)
            return True
        if end.kind == "warp-barrier" and bool((self._members(end) == 0xFFFFFFFF).all()):
            groups = self.context.lane_ids.reshape(-1, 32)
            for listener in listeners:
                listener.meet(groups)
            return True
        return False

    def masked(self, pc: int) -> Callable[[Array], None]:
        """The function of a basic block under a mask, compiled when first needed."""
        name = f"m{pc}"
        space = self.context.namespace
        if name not in space:
            code = self.translation.masked_code(pc)
            self.context.extend(space)
            exec(code, space)  # noqa: S102  our own generated source
        found: Callable[[Array], None] = space[name]
        return found

    # -- ends of basic blocks --

    def _members(self, end: Terminator) -> Array:
        """Lanes that a warp barrier names, one mask a lane."""
        ins = self.translation.program.instructions[end.site]
        return self.barriers.operand(ins.operands[0]) if ins.operands else np.array([0xFFFFFFFF])

    def _end(self, end: Terminator, pc: int, mask: Array) -> None:
        """Move the lanes of a mask on from the end of block ``pc``."""
        kind = end.kind
        if kind == "next":
            self.pcs[mask] = pc + 1
            return
        if kind in ("branch", "exit"):
            taken = mask
            if end.predicate >= 0:
                predicate = self.context.banks["p"][end.predicate]
                taken = mask & (~predicate if end.negated else predicate)
            self.pcs[mask] = pc + 1
            if kind == "branch":
                self.pcs[taken] = end.target
                if self.blocks[pc].polls:
                    self.rest[mask] = 0  # who goes on is no later for it than its warp
                    if taken.any():
                        self.rest[taken] = self.steps + _REST
                        self.resting = True
                        self._poll(pc)
            else:
                self.alive &= ~taken
                self._release()
            return
        self.pcs[mask] = pc + 1
        if kind == "cluster-barrier":
            aligned = "aligned" in self.translation.program.instructions[end.site].opcode
            self.barriers.enter_cluster(end.site, mask, aligned=aligned)
        elif kind == "warp-barrier":
            self.barriers.enter_warp(self._members(end), end.site, mask)
        else:
            self.barriers.enter(self.translation.forms[end.site], end.site, mask)
        self._release()

    def _release(self) -> None:
        """Let go all lanes whose barrier is complete."""
        self.state.recheck = False
        self.barriers.release()

    def _stop(self, pc: int, why: str) -> None:
        """The run counts as endless, for it would come to no other end."""
        self.endless = True
        site = max(self.blocks[pc].terminator.site, 0)
        lane = int(np.flatnonzero(self.alive)[0])
        self.context.collector.add("timeout", why, site, lane)
