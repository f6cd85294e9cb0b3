"""The mutation score of the CPU judge: which faults `verify` sees, of all that operators plant.

    nice python benchmarks/mutation_score.py --out benchmarks/results [--jobs 2] [--work .mutation]

Draws kernels of every family from the repository's kernel files, plants every fault of every
operator in each, and judges each mutant as `verify` does on the emulator. Writes
``mutation_score.json`` and ``mutation_score.md``. Exit code 1 when less than 97 % of the mutants
die, or when a group of survivors has no explanation in ``tests/mutation/explanations.yaml``.

What is finished is kept in the working folder: a run that was interrupted goes on where it stopped,
and with ``--finished`` only what is there is reported.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from tests.mutation.kernels import Specimen
    from tests.mutation.score import Record

LEAST = 0.97
"""Share of the mutants that must die."""


def file_of(specimen: Specimen, work: Path) -> Path:
    """Where a working folder keeps a kernel's record."""
    from tests.mutation.score import code_digest

    return work / f"{specimen.program.name}-{code_digest(specimen.source)}.json"


def judged(job: tuple[Specimen, Path]) -> Record:
    """The record of a kernel, from the working folder where it is finished already."""
    from tests.mutation.score import Record, examine

    specimen, work = job
    file = file_of(specimen, work)
    if file.exists():
        return Record.of_json(json.loads(file.read_text()))
    record = examine(specimen, lambda line: print(line, file=sys.stderr, flush=True))
    file.write_text(json.dumps(record.as_json()))
    return record


def rank_of(specimens: list[Specimen], index: int) -> int:
    """How many of its family stand before a specimen."""
    family = specimens[index].family
    return sum(specimen.family == family for specimen in specimens[:index])


def main() -> int:
    """Judges all mutants in parallel and writes both files."""
    from tests.mutation.explanations import groups, read
    from tests.mutation.kernels import draw
    from tests.mutation.report import page, share_killed

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=ROOT / ".mutation")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=10, help="of each family")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--families", nargs="*", help="only these")
    parser.add_argument("--finished", action="store_true", help="only what the folder has")
    options = parser.parse_args()
    specimens = draw(options.kernels, options.seed)
    if options.families:
        specimens = [s for s in specimens if s.family in options.families]
    options.work.mkdir(parents=True, exist_ok=True)
    if options.finished:
        specimens = [s for s in specimens if file_of(s, options.work).exists()]
    # The first of every family, then the second: what is interrupted has some of each.
    order = sorted(range(len(specimens)), key=lambda i: rank_of(specimens, i))
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(judged, [(specimens[i], options.work) for i in order])
        judged_at = dict(zip(order, found, strict=True))
    records = [judged_at[i] for i in range(len(specimens))]
    survivors = groups(records, read())
    command = f"python benchmarks/mutation_score.py --kernels {options.kernels}"
    command += f" --seed {options.seed} --out benchmarks/results"
    if options.families:
        command += f" --families {shlex.join(options.families)}"
    if options.finished:
        command += " --finished"
    options.out.mkdir(parents=True, exist_ok=True)
    document = {
        "command": command,
        "kernels_of_family": options.kernels,
        "seed": options.seed,
        "share_killed": round(share_killed(records), 4),
        "kernels": [record.as_json() for record in records],
    }
    text = json.dumps(document, separators=(",", ":")) + "\n"
    (options.out / "mutation_score.json").write_text(text)
    (options.out / "mutation_score.md").write_text(page(records, survivors, command))
    share = share_killed(records)
    print(f"{100 * share:.2f} % killed")
    unexplained = [group for group in survivors if group.explanation is None]
    for group in unexplained:
        print(f"unexplained: {group.family}: {group.operator}: {group.line}")
        for name, fate in group.fates[:3]:
            print(f"    {name}: {fate.what} (PTX line {fate.line}, line {fate.row})")
    return int(share < LEAST or bool(unexplained))


if __name__ == "__main__":
    sys.exit(main())
