"""The scripts that put kernels under NVIDIA's tools, as far as they go without a GPU."""

from __future__ import annotations

import importlib.util
import pickle
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from deepgemm_codegen.arch import load_arch
from deepgemm_codegen.decide import MmaSyncChoice
from deepgemm_codegen.emulator import GlobalBuffer, Kernel, Launch, parse, run
from deepgemm_codegen.render import render_program
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.toolchain import compile_ptx
from tests.mutation.kernels import Specimen
from tests.mutation.score import Fate, attempts, ptx_of

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    """A script as a module; what it imports beside it is found."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


SANITIZERS = load("sanitizers")
JOBS = load("gpu_jobs")
SINGLE = load("gpu_single")

SEEN = {
    "loop_barrier": {"race"},
    "slabs_over_slice": {"race"},
    "warp_barrier": {"race"},
    "wait_loosened": {"in-flight-read"},
    "split_barrier": {"divergent-barrier"},
    "read_behind_a": {"out-of-bounds-read"},
    "write_behind_d": {"out-of-bounds-write"},
    "write_padding": {"race"},
    "read_unwritten_c": {"out-of-bounds-read"},
    "unwritten_slot": {"uninitialised-read"},
    "wrong_slice": set(),
    "tiles_overlap": {"race"},
    "full_wait": {"in-flight-read"},
    "empty_wait": {"in-flight-write"},
    "released_early": {"in-flight-write"},
    "proxy_fence": {"missing-fence"},
    "panel_reused": {"in-flight-write"},
    "panel_barrier": {"race"},
    "exit_early": {"exit-in-flight"},
    "init_fence": {"missing-fence"},
    "consumers_overlap": {"race"},
}
"""What the emulator finds of each planted fault; of one it sees the values alone."""
SAMPLED = {"read_unwritten_c", "tiles_overlap", "init_fence"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in SAMPLED else [pytest.mark.full]) for n in SANITIZERS.FAULTS],
)
def test_the_emulator_sees_the_planted_fault(name: str) -> None:
    job = SANITIZERS.build(name)
    assert set(job.about["emulator"]) >= SEEN[name]
    if not SEEN[name]:
        sound = SANITIZERS.build(job.about["base"])
        assert (job.wanted != sound.wanted).any()


def test_every_fault_can_be_planted() -> None:
    assert set(SEEN) == set(SANITIZERS.FAULTS)
    for fault in SANITIZERS.FAULTS.values():
        program = SANITIZERS.base_program(fault.base)
        source = render_program(program)
        planted = fault.apply(source)
        assert planted != source
        compile_ptx(planted, name=program.name, arch=program.target)


def test_the_kernels_are_there_and_of_both_families() -> None:
    names = [*JOBS.SHIPPED, *JOBS.SMALL]
    programs = {name: JOBS.program_of(name) for name in names}
    assert len({program.name for program in programs.values()}) == len(names)
    shipped = [type(programs[name].product.body).__name__ for name in JOBS.SHIPPED]
    assert Counter(shipped)["MmaSync"] >= 2
    assert Counter(shipped)["Wgmma"] >= 2
    assert len(shipped) >= 5


class FakeCupy:
    """What the runner uses of cupy, on the emulator."""

    def __init__(self, ptx: str, job: Any) -> None:
        self.kernels = {
            kernel.name: (kernel, Kernel(parse(ptx), kernel.name, "sm_90"))
            for kernel in job.problem.program.kernels
        }
        self.held: dict[int, Any] = {}
        attributes = {"MultiProcessorCount": 4}
        self.cuda = SimpleNamespace(
            function=SimpleNamespace(Module=lambda: self),
            Device=lambda: SimpleNamespace(attributes=attributes),
            driver=SimpleNamespace(
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
                funcSetAttribute=lambda *_: None,
            ),
            runtime=SimpleNamespace(deviceSynchronize=lambda: None),
        )

    def empty(self, count: int, dtype: Any) -> Any:
        return self.asarray(np.full(count, 0x77, dtype))

    def asarray(self, bits: Any) -> Any:
        place = SimpleNamespace(ptr=(len(self.held) + 1) << 32)
        self.held[place.ptr] = bits
        return SimpleNamespace(data=place, bits=bits)

    def asnumpy(self, array: Any) -> Any:
        return array.bits

    def load(self, cubin: bytes) -> None:
        assert cubin.startswith(b"\x7fELF")

    def get_function(self, name: str) -> Any:
        plan, kernel = self.kernels[name]

        def call(grid: Any, block: Any, arguments: Any, shared_mem: int) -> None:
            params = [
                GlobalBuffer(parameter.name, self.held[int(value)], writable=parameter.written)
                if parameter.pointer
                else value
                for parameter, value in zip(plan.kernel_parameters, arguments, strict=True)
            ]
            report = run(kernel, Launch(grid, block, shared_mem, params))
            assert report.findings == (), str(report)

        call.ptr = 0  # type: ignore[attr-defined]
        return call


def test_the_runner_launches_what_the_caller_meant() -> None:
    program = SANITIZERS.base_program("tails")
    job = JOBS.job_of("tails", program, render_program(program), fresh=("c",))
    # It travels in a file, without the PTX.
    ptx = job.about.pop("ptx")
    again = pickle.loads(pickle.dumps([job]))[0]
    assert "c" not in again.bits
    d = SINGLE.launch(FakeCupy(ptx, again), again)
    wanted = SANITIZERS.build("sound_tails").wanted
    np.testing.assert_array_equal(SINGLE.elements(again.problem, d), wanted)


LOG = """\
========= COMPUTE-SANITIZER
@@ job sound_tails
@@ end sound_tails right
@@ job read_behind_a
========= Invalid __global__ read of size 16 bytes
=========     at gemm_x+0x1230 in gemm_x.cu:229
=========     by thread (32,0,0) in block (2,0,0)
=========     Access at 0x7f0000ea60 is out of bounds
=========
========= Invalid __global__ read of size 16 bytes
=========     at gemm_x+0x1230 in gemm_x.cu:229
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA
@@ end read_behind_a failed: unspecified launch failure
@@ job loop_barrier
========= Error: Race reported between Write access at gemm_x+0x1b0 in gemm_x.cu:213
=========     and Read access at gemm_x+0x1f0 in gemm_x.cu:254 [15872 hazards]
=========
@@ end loop_barrier wrong: 3 of 9 elements
@@ job split_barrier
========= Barrier error detected. Divergent thread(s) in warp.
=========     at gemm_x+0x100 in gemm_x.cu:300
@@ job exit_early
"""


def test_what_the_tools_say_is_read() -> None:
    found = SANITIZERS.parse(LOG)
    assert {name: (dict(each["reports"]), each["values"]) for name, each in found.items()} == {
        "sound_tails": ({}, "right"),
        "read_behind_a": (
            {"Invalid __global__ read of size 16 bytes": 2},
            "failed: unspecified launch failure",
        ),
        "loop_barrier": (
            {"Race reported between Write access": 1}, "wrong: 3 of 9 elements",
        ),
        "split_barrier": (
            {"Barrier error detected. Divergent thread(s) in warp.": 1}, "did not end",
        ),
        "exit_early": ({}, "did not end"),
    }  # fmt: skip
    cells = [SANITIZERS.verdict_of(each) for each in found.values()]
    assert cells == [
        "clean",
        "**Invalid __global__ read of size 16 bytes** x2",
        "**Race reported between Write access**",
        "**Barrier error detected. Divergent thread(s) in warp.**",
        "stopped",
    ]
    assert SANITIZERS.verdict_of(None) == "not run"


def test_the_tables() -> None:
    names = ("sound_tails", "tiles_overlap", "wrong_slice")
    jobs = [SANITIZERS.build(name) for name in names]
    result = {"reports": Counter(), "values": "right"}
    wrong = {"reports": Counter(), "values": "wrong: 1 of 2 elements"}
    found = {
        "memcheck": dict(zip(names, (result, result, wrong), strict=True)),
        "racecheck": dict(zip(names, (result, result, wrong), strict=True)),
    }
    jobs[2].about["emulator"] = ["wrong values"]
    text = SANITIZERS.tables(jobs, found, {"gpu": "some"})
    assert "| sound_tails | " in text
    row = next(line for line in text.splitlines() if line.startswith("| tiles_overlap"))
    assert row.endswith("| clean | clean | right | race |")
    assert "Seen by the emulator alone: tiles_overlap, wrong_slice." in text


NCU = load("ncu_conflicts")
RAW = """\
==PROF== Connected to process 1
"ID","Process ID","Kernel Name","Block Size","smsp__inst_executed_op_ldsm.sum","x.sum"
"","","","","","inst"
"0","7","gemm_a","(128, 1, 1)","1,234,567","12"
"1","7","gemm_b(const int *)","(128, 1, 1)","8","n/a"
"""


def test_what_ncu_says_is_read() -> None:
    assert NCU.read_csv(RAW) == {
        "gemm_a": {"smsp__inst_executed_op_ldsm": 1234567.0, "x": 12.0},
        "gemm_b": {"smsp__inst_executed_op_ldsm": 8.0},
    }
    assert NCU.read_csv("==ERROR== no permission\n") == {}


def test_counts_are_put_beside_each_other() -> None:
    job = NCU.build("mma_tn_c_fp32")
    ((kernel, counts),) = job.about["counts"].items()
    # 16 tiles, 8 slices of two steps and the step behind the last, whose fragments nobody uses,
    # four warps, A's fragments and B's by one ldmatrix each.
    assert counts["ldmatrix"]["requests"] == 16 * (8 * 2 + 1) * 4 * (2 + 2)
    assert counts["ldmatrix"]["wavefronts"] == 4 * counts["ldmatrix"]["requests"]
    assert counts["cp.async"]["sectors"] == 16 * 8 * 2 * (64 * 32 * 2 // 32)
    assert all(not kind.get("excess") for kind in counts.values())
    metric = NCU.QUANTITIES["shared load wavefronts"].metric
    loads = sum(counts[kind]["wavefronts"] for kind in ("ld.shared", "ldmatrix"))
    rows = {row["quantity"]: row for row in NCU.compared(counts, {metric: loads + 10})}
    # What cp.async reads is a global load to ncu.
    read = rows["global load sectors"]["emulator"]
    assert read == counts["cp.async"]["sectors"] + counts.get("ld.global", {}).get("sectors", 0)
    assert rows["shared load wavefronts"]["emulator"] == loads
    told = NCU.difference(rows["shared load wavefronts"])
    assert told.startswith("+10 (+0.0")
    assert NCU.difference(rows["shared store wavefronts"]) == "no such metric here"
    record = {"name": "n", "kernel": kernel, "problem": "p", "rows": list(rows.values())}
    text = NCU.table([record], {"gpu": "some"})
    assert f"| `{metric}.sum` | {loads + 10:,} | {loads:,} | +10 (" in text


def test_every_kernel_of_a_program_is_counted_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = NCU.build("mma_split_nt")
    names = [kernel.name for kernel in job.problem.program.kernels]
    assert list(job.about["counts"]) == names
    product, reduce = job.about["counts"].values()
    assert product["ldmatrix"]["requests"] > 0
    assert "ldmatrix" not in reduce
    assert reduce["ld.global"]["sectors"] > 0

    # An ncu that measures what its filter names, and does not run anything.
    ncu = tmp_path / "ncu"
    ncu.write_text(f"""#!{sys.executable}
import re, sys
words = sys.argv[1:]
if "--query-metrics" in words:
    sys.exit()
log = words[words.index("--log-file") + 1]
pattern = words[words.index("--kernel-name") + 1].removeprefix("regex:")
rows = [name for name in {names} if re.fullmatch(pattern, name)]
lines = ['"ID","Kernel Name","x.sum"', '"","","inst"']
open(log, "w").write("\\n".join(lines + [f'"0","{{name}}(int)","3"' for name in rows]))
print("@@ end mma_split_nt ran")
""")
    ncu.chmod(0o755)
    assert NCU.run_ncu(str(ncu), [job], 20.0) == {name: {"x": 3.0} for name in names}


def script(tmp_path: Path, body: str) -> list[str]:
    file = tmp_path / "runner.py"
    file.write_text(f"import subprocess, sys, time\n{body}")
    return [sys.executable, str(file)]


def test_a_command_that_falls_silent_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    child = f"{tmp_path}/child.py"
    Path(child).write_text("import time; time.sleep(60)")
    command = script(
        tmp_path,
        f"child = subprocess.Popen([sys.executable, {child!r}])\n"
        "print('@@ job one', child.pid, flush=True)\nchild.wait()",
    )
    begun = time.monotonic()
    text, code = SANITIZERS.watched(command, tmp_path / "log", begun + 60, 1.0)
    assert time.monotonic() - begun < 30
    assert code == SANITIZERS.STOPPED
    said = text.split()
    assert said[:3] == ["@@", "job", "one"]
    patience = time.monotonic() + 20  # a signal is on its way for a while on a busy machine
    while not (ended := _has_ended(said[3])) and time.monotonic() < patience:
        time.sleep(0.05)
    assert ended


def _has_ended(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").split()[2] == "Z"
    except OSError:
        return True


def test_a_command_is_stopped_in_time_however_much_it_says(tmp_path: Path) -> None:
    command = script(tmp_path, "while True: print('x', flush=True); time.sleep(0.1)")
    begun = time.monotonic()
    text, code = SANITIZERS.watched(command, tmp_path / "log", begun + 1.0, 60.0)
    assert time.monotonic() - begun < 30
    assert (code, text[:2]) == (SANITIZERS.STOPPED, "x\n")


def test_jobs_go_on_behind_one_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["first", "hangs", "last"]
    runner = script(
        tmp_path,
        f"for name in {names}[int(sys.argv[-1]):]:\n"
        "    print('@@ job', name, flush=True)\n"
        "    time.sleep(60 if name == 'hangs' else 0)\n"
        "    print('@@ end', name, 'right', flush=True)\n",
    )
    monkeypatch.setattr(SANITIZERS, "command_of", lambda _: runner)
    found = SANITIZERS.run_tool("memcheck", names, 60.0, 1.0)
    assert {name: each["values"] for name, each in found.items()} == {
        "first": "right", "hangs": "did not end", "last": "right",
    }  # fmt: skip


def test_racecheck_gets_small_kernels_of_every_kind_and_the_faults() -> None:
    names = [*JOBS.SHIPPED, *JOBS.SMALL, "sound_tails", *SANITIZERS.FAULTS]
    few = [name for name in names if SANITIZERS.wanted_under("racecheck", name)]
    assert few == names[len(JOBS.SHIPPED) :]
    assert all(SANITIZERS.wanted_under("memcheck", name) for name in names)
    bodies = {type(JOBS.program_of(name).product.body).__name__ for name in JOBS.SMALL}
    assert bodies == {"MmaSync", "Wgmma", "Bandwidth", "Simt"}
    assert {len(JOBS.program_of(name).kernels) for name in JOBS.SMALL} == {1, 2}


MUTATION = load("mutation_sanitizer")


def test_mutants_are_prepared_with_their_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = GemmSpec.from_text("m=70 n=72 k=200 layout=nt arch=sm_80")
    choice = MmaSyncChoice(64, 64, 32, 2, 2, 3, 2, 8)
    specimen = Specimen.of(choice.program(spec, load_arch("sm_80")), "here")
    module = parse(ptx_of(specimen.program, specimen.source))
    mutants = [
        next(a for a in attempts(specimen, module) if a.operator == operator)
        for operator in ("wait loosened", "barrier moved")
    ]
    monkeypatch.setattr(MUTATION, "attempts", lambda *_: mutants)
    lived = mutants[1]
    fate = Fate(lived.operator, lived.what, lived.line, lived.row, "", same_code=False)
    gone = replace(fate, what="what no operator does")
    jobs = MUTATION.prepare(MUTATION.Errand(specimen, (fate, gone), planted=True, arch="sm_90"))
    kinds = [(job.about["kind"], job.about["operator"], job.about["judged"]) for job in jobs]
    assert kinds == [
        ("unbroken", "", "passes"),
        ("planted", "wait loosened", "in-flight-read"),
        ("survivor", "barrier moved", "lives"),
    ]
    assert len({job.name for job in jobs}) == len(jobs)
    assert all(job.cubin.startswith(b"\x7fELF") for job in jobs)
    assert jobs[0].cubin != jobs[1].cubin
    # What the emulator makes of the same job is what the GPU must make of it.
    kernel = FakeCupy(ptx_of(specimen.program, specimen.source), jobs[0])
    d = SINGLE.launch(kernel, jobs[0])
    np.testing.assert_array_equal(SINGLE.elements(jobs[0].problem, d), jobs[0].wanted)
    assert SINGLE.mistakes(jobs[0], d) == 0
    assert SINGLE.mistakes(jobs[0], d ^ 1) == jobs[0].wanted.size

    clean = {"reports": Counter(), "values": "right"}
    found = {"memcheck": {job.name: clean for job in jobs}}
    assert {MUTATION.values_of(job, found) for job in jobs} == {"right"}
    text = MUTATION.page(jobs, found, {"gpu": "some"})
    assert text.index("## Planted faults") < text.index("## Survivors") < text.index("## The kern")
    assert "| mma_sync | wait loosened: " in text
    jobs[0].about["work"] = MUTATION.RACE_WORK + 1
    assert not MUTATION.wanted_under("racecheck", jobs[0])
    assert MUTATION.wanted_under("memcheck", jobs[0])
    assert "| left out |" in MUTATION.page(jobs, {"racecheck": {}}, {})
