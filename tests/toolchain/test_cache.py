"""The cache: right, or absent, whatever other processes and the disk do."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgemm_codegen.errors import EnvironmentLackError
from deepgemm_codegen.toolchain import Cache, CacheWarning
from deepgemm_codegen.toolchain import cache as cache_module
from deepgemm_codegen.toolchain.cache import cache_key

KEY = "ab" + "0" * 62
OTHER = "cd" + "1" * 62


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def entry(cache: Cache, key: str = KEY) -> Path:
    assert cache.folder is not None
    return cache.folder / f"{key}.entry"


def age(cache: Cache, key: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(entry(cache, key), (then, then))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.binary(max_size=3000))
def test_bytes_come_back(cache: Cache, data: bytes) -> None:
    assert cache.put(KEY, "k.cu sm_80 ptx", data)
    assert cache.get(KEY) == data
    assert cache.get(OTHER) is None


def test_n07_the_target_exists_at_rename_time(cache: Cache) -> None:
    """N07: the loser of the race finds an entry in place; both are whole, the latest stays."""
    assert cache.put(KEY, "k", b"winner")
    assert cache.put(KEY, "k", b"loser")
    assert cache.get(KEY) == b"loser"
    assert cache.folder is not None
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.entry"]


def test_n07_a_rename_that_fails_is_no_error(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """N07: a file system that refuses the rename costs the entry, nothing else."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    assert not cache.put(KEY, "k", b"data")
    assert cache.get(KEY) is None
    assert cache.folder is not None
    assert list(cache.folder.iterdir()) == []


def test_n09_an_entry_cut_to_half_is_reported_and_missed(cache: Cache) -> None:
    """N09: truncate a cached entry to half, run again: a warning, and a rebuild."""
    cache.put(KEY, "k", b"0123456789" * 100)
    raw = entry(cache).read_bytes()
    entry(cache).write_bytes(raw[: len(raw) // 2])
    left = len(raw) // 2 - raw.index(b"\n") - 1
    with pytest.warns(CacheWarning) as caught:
        assert cache.get(KEY) is None
    assert str(caught[0].message) == (
        f"cache entry {entry(cache)} is damaged ({left} of 1000 bytes); it is built again"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get(KEY, warn=False) is None
    cache.put(KEY, "k", b"again")
    assert cache.get(KEY) == b"again"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_n09_no_damage_goes_unnoticed(cache: Cache, data: st.DataObject) -> None:
    """N09: any one byte changed, or any part cut off or put on, gives a miss or the truth."""
    good = b"the right bytes"
    cache.put(KEY, "label", good)
    raw = entry(cache).read_bytes()
    place = data.draw(st.integers(0, len(raw) - 1))
    damaged = data.draw(
        st.sampled_from(
            [
                raw[:place],
                raw + b"x",
                raw[:place] + bytes([raw[place] ^ 0x20]) + raw[place + 1 :],
                b"",
                b"[]\n",
                b"{}\nxx",
                b"null\n",
                b"\xff\xfe\n",
            ]
        )
    )
    entry(cache).write_bytes(damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert cache.get(KEY) in {None, good}


def test_n10_an_entry_moved_to_another_key_is_missed(cache: Cache) -> None:
    """N10: the source of one kernel is never paired with the binary of another."""
    cache.put(KEY, "k", b"data")
    entry(cache).rename(entry(cache, OTHER))
    with pytest.warns(CacheWarning, match=r"is damaged \(it belongs to another key\)"):
        assert cache.get(OTHER) is None


def test_n22_the_key_is_the_digest_of_its_parts() -> None:
    """N22: the same parts give the same key on every machine and in every process."""
    key = cache_key(source="text", name="/k.cu", compiler="nvrtc 13.0 1", flags=["-x"])
    assert len(key) == 64
    program = (
        "from deepgemm_codegen.toolchain.cache import cache_key\n"
        "print(cache_key(flags=['-x'], compiler='nvrtc 13.0 1', name='/k.cu', source='text'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.strip() == key


@given(
    st.dictionaries(st.sampled_from("abcd"), st.text(max_size=5), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.text(max_size=5), min_size=1),
)
def test_n10_different_parts_have_different_keys(one: dict[str, Any], two: dict[str, Any]) -> None:
    """N10: no two sets of parts run together into one key."""
    assert (cache_key(**one) == cache_key(**two)) == (one == two)


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=3 * 400)
    keys = [f"{number:064x}" for number in range(4)]
    for number, key in enumerate(keys[:3]):
        cache.put(key, "k", b"x" * 150)
        age(cache, key, 100 - number)
    assert cache.get(keys[0]) is not None
    assert cache.info().entries[0].key == keys[0]
    age(cache, keys[0], 10)  # file times are too coarse to tell now from now
    size = entry(cache, keys[0]).stat().st_size
    small = Cache(cache.folder, limit_bytes=3 * size)
    small.put(keys[3], "k", b"x" * 150)
    assert [found.key for found in small.info().entries] == [keys[3], keys[0], keys[2]]
    assert small.info().size_bytes <= small.limit_bytes


def test_an_entry_beyond_the_limit_does_not_stay(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit_bytes=100)
    cache.put(KEY, "k", b"x" * 1000)
    assert cache.info().entries == ()


def test_what_killed_processes_leave_is_removed_in_time(cache: Cache) -> None:
    cache.put(KEY, "k", b"data")
    assert cache.folder is not None
    stale, fresh = cache.folder / ".k.1.aa.tmp", cache.folder / ".k.2.bb.tmp"
    stale.touch()
    fresh.touch()
    os.utime(stale, (1, 1))
    cache.put(OTHER, "k", b"data")
    assert not stale.exists()
    assert fresh.exists()
    assert cache.clear() == 2
    assert not fresh.exists()


def test_info_lists_and_clear_removes(cache: Cache) -> None:
    assert cache.info().entries == ()
    assert cache.clear() == 0
    cache.put(KEY, "k.cu sm_80 ptx", b"12345")
    cache.put(OTHER, "j.cu sm_90a cubin", b"123")
    age(cache, KEY, 50)
    (entry(cache, "zz")).write_bytes(b"not an entry\n")
    age(cache, "zz", 100)
    info = cache.info()
    assert [(found.key, found.label) for found in info.entries] == [
        (OTHER, "j.cu sm_90a cubin"),
        (KEY, "k.cu sm_80 ptx"),
        ("zz", "(unreadable)"),
    ]
    assert info.folder == cache.folder
    assert info.size_bytes == sum(found.size_bytes for found in info.entries)
    assert cache.clear() == 3
    assert cache.info().entries == ()


def test_clear_says_what_it_could_not_remove(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, "k", b"data")

    def refuse(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(EnvironmentLackError) as caught:
        cache.clear()
    assert str(caught.value) == (
        f"cannot remove cache entry {entry(cache)} (Permission denied); remove the folder "
        f"{cache.folder} with the rights of its owner"
    )


def test_no_folder_is_no_cache() -> None:
    cache = Cache(None)
    assert not cache.put(KEY, "k", b"data")
    assert cache.get(KEY) is None
    with cache.lock(KEY):
        pass
    assert cache.info().entries == ()
    assert cache.clear() == 0


@pytest.mark.parametrize("blocked", ["file", "under a file"])
def test_a_folder_that_cannot_be_is_no_cache(tmp_path: Path, blocked: str) -> None:
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" if blocked == "file" else tmp_path / "file" / "cache")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with cache.lock(KEY):
            assert not cache.put(KEY, "k", b"data")
        assert cache.get(KEY) is None
        assert cache.info().entries == ()


def test_a_read_only_file_system_is_read(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, "k", b"data")

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for call in ("utime", "mkdir", "replace", "link", "unlink"):
        monkeypatch.setattr(os, call, refuse)
    assert cache.get(KEY) == b"data"
    assert not cache.put(OTHER, "k", b"data")
    with cache.lock(KEY):
        pass


def test_the_folder_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Cache.from_env({"DGEMM_CACHE_DIR": str(tmp_path)}).folder == tmp_path
    monkeypatch.chdir(tmp_path)
    assert Cache.from_env({"DGEMM_CACHE_DIR": "here"}).folder == tmp_path / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert Cache.from_env({}).folder == tmp_path / "xdg" / "deepgemm_codegen"


def test_a_missing_home_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwd = pytest.importorskip("pwd")

    def nobody(_: int) -> NoReturn:
        raise KeyError

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert Cache.from_env({}).folder is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("answer", [Path("~/.cache/x"), RuntimeError("no home")])
def test_whatever_a_missing_home_looks_like(
    monkeypatch: pytest.MonkeyPatch, answer: Path | RuntimeError
) -> None:
    """Releases of platformdirs differ: one raises, another leaves the tilde in the path."""

    def user_cache_path(*_: object, **__: object) -> Path:
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    monkeypatch.setattr("platformdirs.user_cache_path", user_cache_path)
    assert Cache.from_env({}).folder is None


def test_a_lock_holds_others_back(cache: Cache) -> None:
    events: list[str] = []
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with cache.lock(KEY):
            events.append("first in")
            taken.set()
            leave.wait(10)
            events.append("first out")

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(10)
    threading.Timer(0.2, leave.set).start()
    with cache.lock(KEY):
        events.append("second in")
    holder.join()
    assert events == ["first in", "first out", "second in"]


def test_a_lock_that_is_never_let_go_is_done_without(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_LOCK_WAIT_SECONDS", 0.1)
    leave, taken = threading.Event(), threading.Event()

    def hold() -> None:
        with cache.lock(KEY):
            taken.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(10)
    with cache.lock(KEY):
        assert holder.is_alive()
    leave.set()
    holder.join()


def test_a_dead_holder_does_not_block(cache: Cache) -> None:
    """A process killed inside the lock frees it; nothing needs cleaning up."""
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from deepgemm_codegen.toolchain import Cache\n"
        "with Cache(Path(sys.argv[1])).lock(sys.argv[2]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(cache.folder), KEY], check=False)
    started = time.monotonic()
    with cache.lock(KEY):
        pass
    assert time.monotonic() - started < 5


def test_an_error_inside_the_lock_is_the_callers(cache: Cache) -> None:
    with pytest.raises(OSError, match="mine"), cache.lock(KEY):
        raise OSError("mine")
    with cache.lock(KEY):
        pass


def test_an_entry_states_what_it_is(cache: Cache) -> None:
    cache.put(KEY, "k.cu sm_80 ptx", b"data")
    header = json.loads(entry(cache).read_bytes().partition(b"\n")[0])
    assert header == {
        "format": 1,
        "key": KEY,
        "label": "k.cu sm_80 ptx",
        "length": 4,
        "sha256": "3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7",
    }


WRITER = """\
import sys
from pathlib import Path
from deepgemm_codegen.toolchain import Cache
cache = Cache(Path(sys.argv[1]), limit_bytes=40_000)
me = int(sys.argv[2])
for turn in range(60):
    key = f"{turn % 7:064x}"
    cache.put(key, "k", key.encode() * 100)
    got = cache.get(f"{(turn + me) % 7:064x}")
    assert got is None or got == f"{(turn + me) % 7:064x}".encode() * 100
    cache.info()
    if turn % 20 == me:
        cache.clear()
"""


def test_n06_many_processes_write_read_evict_and_clear(cache: Cache) -> None:
    """N06: nobody sees a part of an entry, nobody fails."""
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, str(cache.folder), str(number)],
            stderr=subprocess.PIPE,
        )
        for number in range(6)
    ]
    for process in running:
        _, stderr = process.communicate(timeout=60)
        assert (process.returncode, stderr) == (0, b"")
