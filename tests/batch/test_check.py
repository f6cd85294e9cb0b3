"""`check` tells what would change, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepgemm_codegen.batch import Outcome, generate
from deepgemm_codegen.batch.manifest import MANIFEST
from deepgemm_codegen.spec.naming import kernel_name
from deepgemm_codegen.specfile import SpecEntry

from .conftest import HEADER, LISTS, entry, fake_make, files, program_of, some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from deepgemm_codegen.plan import Program
    from deepgemm_codegen.spec import GemmSpec

    from .conftest import Make

    Fake = Callable[[Make], None]


def file_of(found: SpecEntry) -> str:
    return f"{kernel_name(found.spec)}.cu"


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}


def test_nothing_to_do(fake: Fake) -> None:
    generate(some(3), "out")
    report = generate(some(3), "out", check=True)
    assert (report.exit_code, report.drift, str(report)) == (0, False, "6 unchanged")


def test_an_absent_folder_is_not_made(tmp_path: Path, fake: Fake) -> None:
    report = generate(some(2), "out dir", check=True)
    assert report.exit_code == 1
    assert str(report).splitlines() == [
        *(f"new       {file_of(e)}" for e in some(2)),
        *(f"new       {name}" for name in LISTS),
        "5 new",
        "to bring the folder up to date: deepgemm_codegen generate k.yaml --out 'out dir'",
    ]
    assert not (tmp_path / "out dir").exists()


def test_new_changed_missing_and_orphan_each_by_name(tmp_path: Path, fake: Fake) -> None:
    folder = tmp_path / "out"
    first, second, third, fourth = some(4)
    generate([first, second, third], "out")
    (folder / file_of(first)).write_text("edited by hand\n", encoding="utf-8")
    (folder / file_of(second)).unlink()
    before = state(folder)
    report = generate([first, second, fourth], "out", check=True)
    assert report.exit_code == 1
    assert state(folder) == before
    assert str(report).splitlines() == [
        f"changed   {file_of(first)}",
        f"missing   {file_of(second)}",
        f"new       {file_of(fourth)}",
        f"orphan    {file_of(third)}",
        *(f"changed   {name}" for name in LISTS),
        "1 new, 4 changed, 1 missing, 1 orphan",
        "to bring the folder up to date: deepgemm_codegen generate k.yaml --out out --clean",
    ]
    # what the command does
    done = generate([first, second, fourth], "out", clean=True)
    assert done.exit_code == 0
    assert done.named("deleted") == [file_of(third)]
    assert generate([first, second, fourth], "out", check=True).exit_code == 0


def test_orphans_stay_without_prune(tmp_path: Path, fake: Fake) -> None:
    generate(some(2), "out")
    report = generate(some(1), "out")
    assert report.exit_code == 0
    assert report.named("orphan") == [file_of(some(2)[1])]
    assert (tmp_path / "out" / file_of(some(2)[1])).exists()


def test_nothing_is_pruned_while_a_kernel_fails(tmp_path: Path, fake: Fake) -> None:
    """A batch that is not whole does not say what is superfluous."""
    generate(some(2), "out")
    fake(lambda spec: (program_of(spec), str(1 // 0)))
    report = generate([entry(7)], "out", clean=True)
    assert len(report.named("orphan")) == 2
    assert len(files(tmp_path / "out")) == 2 + len(LISTS)


def test_check_never_prunes(tmp_path: Path, fake: Fake) -> None:
    generate(some(2), "out")
    before = state(tmp_path / "out")
    generate(some(1), "out", check=True, clean=True)
    assert state(tmp_path / "out") == before


def test_only_generated_files_are_orphans(tmp_path: Path, fake: Fake) -> None:
    generate(some(1), "out")
    folder = tmp_path / "out"
    for name in ("mine.cu", "notes_deadbeef.cu", "README.md", "k_00000000.ptx", "K_00000000.CU"):
        (folder / name).write_text("mine\n", encoding="utf-8")
    (folder / "folder_00000000.cu").mkdir()
    assert generate(some(1), "out", check=True).exit_code == 0
    generate(some(1), "out", clean=True)
    assert len(list(folder.iterdir())) == 7 + len(LISTS)


def test_a_real_kernel_is_known_as_an_orphan(tmp_path: Path) -> None:
    """The header that real templates print is the one that is looked for."""
    generate([entry(1), entry(2)], "out")
    assert generate([entry(1)], "out", check=True).named("orphan") == [file_of(entry(2))]


def test_diff_shows_what_would_change(tmp_path: Path, fake: Fake) -> None:
    first = some(1)[0]
    generate([first], "out")
    path = tmp_path / "out" / file_of(first)
    path.write_bytes(path.read_bytes() + b"\xffmine")
    seen: list[Outcome] = []
    report = generate([first], "out", check=True, diffs=9, progress=seen.append)
    assert seen[0].diff == (
        f"--- a/{path.name}\n+++ b/{path.name}\n@@ -1,3 +1,2 @@\n {HEADER} // {first.spec}\n"
        "-\ufffdmine\n"
    )
    assert report.outcomes[0].diff == ""


def test_no_diff_unless_asked_for(tmp_path: Path, fake: Fake) -> None:
    generate(some(1), "out")
    (tmp_path / "out" / file_of(some(1)[0])).write_text("x", encoding="utf-8")
    seen: list[Outcome] = []
    generate(some(1), "out", check=True, progress=seen.append)
    assert [outcome.diff for outcome in seen] == [""] * (1 + len(LISTS))


def test_a_failure_outranks_a_difference(fake: Fake) -> None:
    def make(spec: GemmSpec) -> tuple[Program, str]:
        if spec.m.size == 2:
            return program_of(spec), str(1 // (spec.m.size - 2))
        return fake_make(spec)

    fake(make)
    report = generate(some(3), "out", check=True)
    assert report.exit_code == 70
    assert MANIFEST not in report.named("new", "changed")  # it would list too few


def test_line_ends_count(tmp_path: Path, fake: Fake) -> None:
    generate(some(1), "out")
    path = tmp_path / "out" / file_of(some(1)[0])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert generate(some(1), "out", check=True).named("changed") == [path.name]


def test_the_command_names_each_file_once_and_quotes(fake: Fake) -> None:
    entries = [
        SpecEntry(entry(i).spec, name, i) for i, name in ((1, "b.yaml"), (2, "a b"), (3, "b.yaml"))
    ]
    report = generate(entries, "out", check=True)
    assert report.fix == "deepgemm_codegen generate b.yaml 'a b' --out out"


def test_no_command_for_specs_from_no_file(fake: Fake) -> None:
    report = generate([SpecEntry(entry(1).spec)], "out", check=True)
    assert report.fix == ""
    assert str(report).splitlines()[-1] == "4 new"


def test_check_equals_generate(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check writes nothing even where the writer is out of order."""

    def refuse(*_: object) -> None:
        raise AssertionError

    generate(some(2), "out")
    monkeypatch.setattr("deepgemm_codegen.batch.folder.atomic_write", refuse)
    monkeypatch.setattr("os.unlink", refuse)
    monkeypatch.setattr("os.makedirs", refuse)
    assert generate(some(4), "out", check=True).exit_code == 1
