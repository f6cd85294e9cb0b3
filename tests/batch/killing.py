"""A program that generates, is killed at a random moment, and looks at what is left.

``python -m tests.batch.killing FOLDER ROUNDS``: forks itself for each round, so that a round costs
a batch and not a start. It prints how many rounds were killed before their end, and ends with a
message and exit code 1 at the first file that is neither whole and old nor whole and new.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path

from deepgemm_codegen.batch import generate
from deepgemm_codegen.spec import GemmSpec
from deepgemm_codegen.specfile import SpecEntry

TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")


def entries() -> list[SpecEntry]:
    """Some thirty kernels of both families."""
    fields = [
        {"m": m, "n": 64, "k": 64, "arch": arch, "layout": "nt", "epilogue": epilogue}
        for m in (16, 64, 200, "dynamic:512", 4096)
        for arch in ("sm_80", "sm_90", "sm_90a")
        for epilogue in ("", "bias,relu")
    ]
    return [SpecEntry(GemmSpec.from_fields(each), "k.yaml", i) for i, each in enumerate(fields)]


def whole(path: Path, new: dict[str, bytes]) -> bool:
    """Whether a file has its old bytes or its new ones."""
    data = path.read_bytes()
    if TEMPORARY.fullmatch(path.name):  # complete, and between its name and its place
        return data in new.values()
    return data in (old_bytes(new[path.name]), new[path.name])


def old_bytes(data: bytes) -> bytes:
    """What a file held before: other bytes of the same header."""
    return data.replace(b"\n", b"\n\n", 1) + b"\n" * 5000


def main() -> None:
    """Runs the rounds."""
    out, rounds = Path(sys.argv[1]), int(sys.argv[2])
    asked = entries()
    generate(asked, out / "warm")
    started = time.perf_counter()
    generate(asked, out)
    took = time.perf_counter() - started
    shutil.rmtree(out / "warm")
    new = {path.name: path.read_bytes() for path in out.iterdir()}
    source = random.Random(rounds)
    killed = 0
    for _ in range(rounds):
        for path in out.iterdir():
            path.unlink()
        for name, data in new.items():
            if source.random() < 0.6:
                (out / name).write_bytes(old_bytes(data))
        child = os.fork()
        if child == 0:
            generate(asked, out, clean=True)
            os._exit(0)
        time.sleep(source.random() * took)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
        torn = [path.name for path in out.iterdir() if not whole(path, new)]
        if torn:
            sys.exit(f"torn: {torn}")
    generate(asked, out)
    left = {path.name: path.read_bytes() for path in out.iterdir() if path.name in new}
    if left != new:
        sys.exit("a run after the kills does not repair the folder")
    print(killed)  # noqa: T201  it is a program


if __name__ == "__main__":
    main()
