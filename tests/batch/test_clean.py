"""Cleaning removes what a manifest says the tool has made, and nothing else."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.batch import generate
from deepgemm_codegen.batch.manifest import MANIFEST
from deepgemm_codegen.errors import EnvironmentLackError, InputError
from deepgemm_codegen.spec.naming import kernel_name

from .conftest import HEADER, LISTS, files, program_of, some

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Make

    Fake = Callable[[Make], None]

FIRST, SECOND, THIRD = (f"{kernel_name(entry.spec)}.cu" for entry in some(3))


def left(folder: Path) -> list[str]:
    return [each["file"] for each in json.loads((folder / MANIFEST).read_text()).get("left", [])]


def test_what_is_not_asked_for_is_remembered_until_it_is_cleaned(
    tmp_path: Path, fake: Fake
) -> None:
    """Two runs without cleaning later the tool still knows the file as its own."""
    out = tmp_path / "out"
    generate(some(3), out)
    generate(some(2), out)
    generate(some(1), out)
    assert left(out) == [SECOND, THIRD]
    assert generate(some(1), out, check=True).named("orphan") == [SECOND, THIRD]
    report = generate(some(1), out, clean=True)
    assert report.named("deleted") == [SECOND, THIRD]
    assert list(files(out)) == sorted([FIRST, *LISTS])
    assert left(out) == []
    assert generate(some(1), out, check=True).exit_code == 0


def test_an_edited_file_stays_and_says_so(tmp_path: Path, fake: Fake) -> None:
    out = tmp_path / "out"
    generate(some(2), out)
    (out / SECOND).write_text(f"{HEADER}// my own work\n")
    report = generate(some(1), out, clean=True)
    (orphan,) = [outcome for outcome in report.outcomes if outcome.status == "orphan"]
    assert str(orphan) == (
        f"orphan    {SECOND}: it was edited; delete it by hand, or give it another name"
    )
    assert (out / SECOND).read_text() == f"{HEADER}// my own work\n"
    check = generate(some(1), out, check=True)
    assert (check.exit_code, check.cleanable) == (1, False)
    assert "--clean" not in check.fix


def test_a_generated_file_that_no_manifest_lists_stays(tmp_path: Path, fake: Fake) -> None:
    out = tmp_path / "out"
    generate(some(1), out)
    (out / "copied_01234567.cu").write_text(HEADER)
    report = generate(some(1), out, clean=True)
    assert [str(o) for o in report.outcomes if o.status == "orphan"] == [
        "orphan    copied_01234567.cu: the manifest does not list it; delete it by hand"
    ]
    assert (out / "copied_01234567.cu").exists()


def test_a_manifest_cannot_reach_out_of_its_folder(tmp_path: Path, fake: Fake) -> None:
    """Names in a manifest that somebody has tampered with are never followed."""
    out = tmp_path / "out"
    generate(some(2), out)
    victim = tmp_path / "victim_01234567.cu"
    victim.write_text(HEADER)
    text = (out / MANIFEST).read_text().replace(SECOND, "../victim_01234567.cu")
    (out / MANIFEST).write_text(text)
    generate(some(1), out, clean=True)
    assert victim.exists()
    assert left(out) == []


def test_a_failed_kernels_file_stays_ours(tmp_path: Path, fake: Fake) -> None:
    out = tmp_path / "out"
    generate(some(2), out)
    fake(lambda spec: (program_of(spec), str(1 // 0)))
    generate(some(1), out, clean=True)
    assert list(files(out)) == sorted([FIRST, SECOND, *LISTS])  # nothing was finished


@pytest.mark.parametrize("name", LISTS)
def test_somebody_elses_file_under_one_of_our_names(name: str, tmp_path: Path, fake: Fake) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).write_text("// mine\n")
    with pytest.raises(InputError, match=rf"{name}' is not a (file|manifest) of this tool"):
        generate(some(1), out)
    assert files(out) == {name: b"// mine\n"}


def test_a_file_that_cannot_be_deleted(
    tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(some(2), "out")

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(EnvironmentLackError) as caught:
        generate(some(1), "out", clean=True)
    assert str(caught.value) == (
        f"cannot delete 'out/{SECOND}': permission denied; choose a folder you may write to"
    )


def test_what_killed_runs_left_is_swept_up_in_time(tmp_path: Path, fake: Fake) -> None:
    out = tmp_path / "out"
    out.mkdir()
    stale, fresh = out / f".{FIRST[:32]}.12.0123abcd.tmp", out / f".{FIRST[:32]}.13.0123abcd.tmp"
    other = out / ".cache.tmp"
    for path in (stale, fresh, other):
        path.touch()
    for path in (stale, other):
        os.utime(path, (1, 1))
    generate(some(1), out, check=True)
    assert stale.exists()
    generate(some(1), out)
    assert [path.exists() for path in (stale, fresh, other)] == [False, True, True]
