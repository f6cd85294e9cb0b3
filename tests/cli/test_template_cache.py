"""Compiled templates on disk: never stale, never trusted when damaged, never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from deepgemm_codegen.cli.cache import SHOWN, _as_text
from deepgemm_codegen.render import rendering as render
from deepgemm_codegen.render.template_cache import template_cache
from deepgemm_codegen.resources import data_folder
from deepgemm_codegen.toolchain import CacheEntry, CacheInfo
from tests.cli.conftest import SMALL, Cli, process

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, and an engine that has read nothing yet."""
    monkeypatch.setenv("DGEMM_CACHE_DIR", str(tmp_path / "cache"))
    render.environment.cache_clear()
    yield tmp_path / "cache" / "templates"
    render.environment.cache_clear()


def fresh(cli: Cli) -> str:
    """The source by an engine that knows the disk alone."""
    render.environment.cache_clear()
    result = cli(*SMALL, "--emit=cu")
    assert (result.code, result.err) == (0, "")
    return result.out


def test_the_second_run_compiles_nothing(
    cli: Cli, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = fresh(cli)
    assert len(list(cache.iterdir())) > 10
    render.environment.cache_clear()
    engine = render.environment()
    monkeypatch.setattr(engine, "_parse", lambda *_: pytest.fail("a template was compiled"))
    assert cli(*SMALL, "--emit=cu").out == text


def test_an_edited_template_is_seen(
    cli: Cli, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = fresh(cli)
    copytree(data_folder("templates"), tmp_path / "templates")
    monkeypatch.setattr(render, "data_folder", lambda name: tmp_path / name)
    template = tmp_path / "templates" / "file.cu.j2"
    assert fresh(cli) == text
    before, status = template.read_text(), template.stat()
    template.write_text(before + "// one\n")
    assert fresh(cli) == text + "// one\n"
    template.write_text(before + "// two\n")
    os.utime(template, ns=(status.st_atime_ns, status.st_mtime_ns))  # as a version control may
    assert fresh(cli) == text + "// two\n"
    assert cache.is_dir()


@pytest.mark.parametrize(
    "damage", [b"", b"x", b"\0" * 40, None], ids=["empty", "x", "zeros", "cut"]
)
def test_damaged_entries_are_made_again(cli: Cli, cache: Path, damage: bytes | None) -> None:
    text = fresh(cli)
    whole = {path: path.read_bytes() for path in cache.iterdir()}
    for path, data in whole.items():
        path.write_bytes(data[:-3] if damage is None else damage)
    assert fresh(cli) == text
    assert {path: path.read_bytes() for path in cache.iterdir()} == whole


def test_processes_at_once(cache: Path) -> None:
    words = [sys.executable, "-m", "deepgemm_codegen", *SMALL, "--emit=cu"]
    running = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        for _ in range(6)
    ]
    outputs = {run.communicate() for run in running}
    assert len(outputs) == 1
    assert [run.returncode for run in running] == [0] * 6
    assert all(path.suffix == ".code" for path in cache.iterdir())


def test_a_folder_that_others_can_write_is_not_trusted(cli: Cli, cache: Path) -> None:
    text = fresh(cli)
    cache.chmod(0o777)
    for path in cache.iterdir():
        path.write_bytes(b"")
    assert fresh(cli) == text
    assert all(path.stat().st_size == 0 for path in cache.iterdir())


def test_the_folder_is_private(cli: Cli, cache: Path) -> None:
    fresh(cli)
    assert stat.S_IMODE(cache.stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null", "/dev/null/below"])
def test_no_place_for_a_cache(place: str) -> None:
    result = process(*SMALL, "--emit=cu", env={"DGEMM_CACHE_DIR": place})
    assert (result.code, result.err) == (0, "")


def test_another_configuration_is_another_entry(tmp_path: Path) -> None:
    env = {"DGEMM_CACHE_DIR": str(tmp_path)}
    (tmp_path / "one").write_text("trim = 1")
    (tmp_path / "two").write_text("trim = 2")
    caches = [template_cache(str(tmp_path / name), env) for name in ("one", "two", "one")]
    salts = [cache._salt for cache in caches if cache]
    assert salts[0] == salts[2] != salts[1]


def test_old_entries_leave(cli: Cli, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepgemm_codegen.render.template_cache._MOST_ENTRIES", 8)
    text = fresh(cli)
    assert len(list(cache.iterdir())) <= 9
    assert fresh(cli) == text


def test_the_cache_command_counts_and_removes(cli: Cli, cache: Path) -> None:
    fresh(cli)
    count = len(list(cache.iterdir()))
    assert f"templates  {count}, " in cli("cache", "info").out
    assert cli("cache", "clear").err == f"removed 0 kernels and {count} compiled templates\n"
    assert list(cache.iterdir()) == []


def test_what_is_listed_is_what_was_used_last() -> None:
    entries = tuple(CacheEntry(f"{i:064x}", f"kernel{i}", 1024, 0.0) for i in range(SHOWN + 3))
    text = _as_text(CacheInfo(Path("/cache"), entries, 1 << 20), None, SHOWN)
    assert text.splitlines()[-2:] == [
        f"      1 KiB  kernel{SHOWN - 1}",
        "  and 3 used before; -v lists all",
    ]
    assert len(_as_text(CacheInfo(Path("/cache"), entries, 1 << 20), None, None).splitlines()) == (
        3 + len(entries)
    )
