"""The state of thread blocks that run together: registers, memories, pending copies."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from deepgemm_codegen.emulator.asynchronous import AsyncState
from deepgemm_codegen.emulator.listeners import make_ids
from deepgemm_codegen.emulator.registerpool import RegisterPool
from deepgemm_codegen.emulator.registry import RUNTIME

if TYPE_CHECKING:
    from deepgemm_codegen.emulator.findings import Collector
    from deepgemm_codegen.emulator.memory import GlobalMemory
    from deepgemm_codegen.emulator.shared import SharedMemory
    from deepgemm_codegen.emulator.tensormap import PlacedMap
    from deepgemm_codegen.emulator.translate import Translation

__all__ = ["DTYPES", "Context"]

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16), "f16": np.dtype(np.float16),
    "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32), "f32": np.dtype(np.float32),
    "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64), "f64": np.dtype(np.float64),
    "pred": np.dtype(np.bool_),
}  # fmt: skip
_UFUNCS = (
    "add", "subtract", "multiply", "negative", "absolute", "minimum", "maximum", "bitwise_and",
    "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift", "logical_and",
    "logical_or", "logical_xor", "logical_not", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "copyto", "where", "isnan", "divide", "sqrt",
)  # fmt: skip


class Context:
    """Everything generated code and run-time functions work on.

    Lanes are the threads of all blocks of the batch, block by block; a block whose size is no
    multiple of 32 is filled up with lanes that never live.

    Attributes:
        blocks, threads, lanes: numbers; threads is rounded up to whole warps.
        banks: register bank to array (rows, lanes).
        lane_ids: int64 arange(lanes).
        alive: bool, lanes that have not ended; alive0 at the start.
    """

    def __init__(
        self,
        translation: Translation,
        blocks: int,
        block_shape: tuple[int, int, int],
        cluster: tuple[int, int, int] = (1, 1, 1),
    ) -> None:
        x, y, z = block_shape
        self.translation = translation
        self.block_shape = block_shape
        self.cluster = cluster
        self.real_threads = x * y * z
        self.blocks = blocks
        self.threads = -(-self.real_threads // 32) * 32
        self.lanes = blocks * self.threads
        self.lane_ids = np.arange(self.lanes, dtype=np.int64)
        rows = translation.program.rows
        self.banks: dict[str, Array] = {
            "p": np.zeros((rows["p"], self.lanes), np.bool_),
            "h": np.zeros((rows["h"], self.lanes), np.uint16),
            "r": np.zeros((rows["r"], self.lanes), np.uint32),
            "d": np.zeros((rows["d"], self.lanes), np.uint64),
        }
        self.alive0 = (self.lane_ids % self.threads) < self.real_threads
        self.alive = self.alive0.copy()
        self.collector: Collector
        self.memory: GlobalMemory
        self.shared: SharedMemory
        self.local = np.zeros((self.lanes, translation.program.local_bytes), np.uint8)
        self.parameters = b""
        self.tensor_maps: dict[int, PlacedMap] = {}
        self.state: AsyncState
        self.registers: RegisterPool
        # cp.async: groups committed by each lane, and copies not waited for yet.
        self.committed = np.zeros(self.lanes, np.int64)
        self.copies: list[Any] = []
        self.carry = np.zeros(self.lanes, bool)  # the flag of add.cc and its kin
        self._ids: dict[int, Array] = {}
        self.cache: dict[Any, Any] = {}
        self.special = self._special()
        self.namespace = self._namespace()

    def ids(self, site: int) -> Array:
        """Identities of one instruction's accesses in all lanes."""
        found = self._ids.get(site)
        if found is None:
            found = make_ids(site, self.lane_ids)
            self._ids[site] = found
        return found

    def place(self, coordinates: Array, grid: tuple[int, int, int]) -> None:
        """Set block indices: int, shape (blocks, 3), and the grid's real size."""
        for axis, name in enumerate("xyz"):
            self.special[f"s_ctaid_{name}"][...] = np.repeat(coordinates[:, axis], self.threads)
            self.special[f"s_nctaid_{name}"][...] = grid[axis]
            size = self.cluster[axis]
            index = coordinates[:, axis] // size
            self.special[f"s_clusterid_{name}"][...] = np.repeat(index, self.threads)
            self.special[f"s_nclusterid_{name}"][...] = grid[axis] // size
            rank = np.repeat(coordinates[:, axis] % size, self.threads)
            self.special[f"s_cluster_ctaid_{name}"][...] = rank

    def reset(self) -> None:
        """Forget the state of the blocks that ran before.

        A register that nobody wrote holds all ones, which is NaN in every type of float: never what
        another block left there, and no zero that a sum could well begin with.
        """
        for bank in self.banks.values():
            bank.view(np.uint8)[...] = 1 if bank.dtype == np.bool_ else 0xFF
        self.carry[...] = True
        self.committed[...] = 0
        self.copies = []
        self.state = AsyncState(self.blocks, self.threads, prod(self.cluster))
        self.registers = RegisterPool(
            self.blocks, self.threads, self.translation.program.bounds.registers
        )
        self.local[...] = 0xFF

    def _special(self) -> dict[str, Array]:
        thread = (self.lane_ids % self.threads).astype(np.uint32)
        x, y, _ = self.block_shape
        lane = thread % 32
        one = np.uint64(1)
        bit = one << lane.astype(np.uint64)
        every = np.uint64(0xFFFFFFFF)
        values: dict[str, Any] = {
            "tid_x": thread % x, "tid_y": thread // x % y, "tid_z": thread // (x * y),
            "ntid_x": x, "ntid_y": y, "ntid_z": self.block_shape[2],
            "ctaid_x": 0, "ctaid_y": 0, "ctaid_z": 0, "nctaid_x": 1, "nctaid_y": 1, "nctaid_z": 1,
            "laneid": lane, "warpid": thread // 32, "nwarpid": self.threads // 32,
            "clusterid_x": 0, "clusterid_y": 0, "clusterid_z": 0,
            "nclusterid_x": 1, "nclusterid_y": 1, "nclusterid_z": 1,
            "cluster_ctaid_x": 0, "cluster_ctaid_y": 0, "cluster_ctaid_z": 0,
            "cluster_nctaid_x": self.cluster[0], "cluster_nctaid_y": self.cluster[1],
            "cluster_nctaid_z": self.cluster[2], "cluster_nctarank": prod(self.cluster),
            "cluster_ctarank": self.lane_ids // self.threads % prod(self.cluster),
            "smid": 0, "nsmid": 1, "dynamic_smem_size": 0,
            "lanemask_eq": bit, "lanemask_lt": bit - one, "lanemask_le": bit | (bit - one),
            "lanemask_gt": every & ~(bit | (bit - one)), "lanemask_ge": every & ~(bit - one),
        }  # fmt: skip
        result = {}
        for name, value in values.items():
            array = np.empty(self.lanes, np.uint32)
            array[...] = value
            result[f"s_{name}"] = array
        return result

    def _namespace(self) -> dict[str, Any]:
        space: dict[str, Any] = {name: getattr(np, name) for name in _UFUNCS}
        space |= {name: partial(function, self) for name, function in RUNTIME.items()}
        space |= {f"d_{code}": dtype for code, dtype in DTYPES.items()}
        self.extend(space)
        return space

    def extend(self, space: dict[str, Any]) -> None:
        """Bind the names that the source uses and the namespace lacks."""
        names = self.translation.names
        bank_of = {"16": "h", "32": "r", "64": "d"}
        views = {
            code: self.banks[bank_of[code[1:]]].view(dtype)
            for code, dtype in DTYPES.items()
            if code[1:] in bank_of
        }
        for name in names.names:
            if name in space:
                continue
            head, _, row = name.partition("_")
            if head == "p":
                space[name] = self.banks["p"][int(row)]
            elif head == "s":
                space[name] = self.special[name]
            elif head[0] == "t":
                space[name] = np.zeros(self.lanes, DTYPES[row])
            else:
                space[name] = views[head][int(row)]
        for name, (code, value) in names.values.items():
            if name not in space:
                space[name] = np.full(self.lanes, value, DTYPES[code])
        space.update(names.objects)
