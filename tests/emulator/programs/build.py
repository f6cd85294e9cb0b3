"""Compile the programs: ``python tests/emulator/programs/build.py`` writes each NAME.ptx anew.

Needs nvcc 13.0. Folders are taken out of the PTX's file names, and what nvcc makes of them out of
names that its debug information spells in bytes, so that any machine writes the same bytes.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

_INTERNAL = ",".join(str(byte) for byte in b"_INTERNAL_")


def build(source: Path) -> str:
    """The PTX of a program."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.ptx"
        command = ["nvcc", "-ptx", "-arch=sm_90", "-lineinfo", source.name, "-o", str(out)]
        subprocess.run(command, cwd=FOLDER, check=True)
        text = out.read_text()
    text = re.sub(r'(\.file\s+\d+ )"[^"]*/([^"/]+)"', r'\1"/\2"', text)
    return re.sub(rf"({_INTERNAL})(,\d+){{8}},", r"\1" + ",48" * 8 + ",", text)  # eight digits


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.cu")):
        path.with_suffix(".ptx").write_text(build(path))
