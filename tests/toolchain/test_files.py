"""A file is written whole or not at all, and a refusal says what to do."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deepgemm_codegen import files
from deepgemm_codegen.errors import CodegenError, EnvironmentLackError, InputError
from deepgemm_codegen.files import atomic_write

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(params=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write: the Linux one, and the one for everything else."""
    if request.param == "named":
        monkeypatch.setattr(files, "_write_nameless", lambda *_: False)
    return str(request.param)


def refuse(code: int) -> object:
    def refuses(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return refuses


@pytest.mark.usefixtures("way")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data=st.binary(max_size=5000), old=st.none() | st.binary(max_size=50))
def test_bytes_come_back(tmp_path: Path, data: bytes, old: bytes | None) -> None:
    path = tmp_path / "out.bin"
    path.unlink(missing_ok=True)
    if old is not None:
        path.write_bytes(old)
    atomic_write(path, data)
    assert path.read_bytes() == data
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.bin"]


@pytest.mark.usefixtures("way")
def test_text_is_utf8_with_its_own_line_ends(tmp_path: Path) -> None:
    atomic_write(str(tmp_path / "k.cu"), "// \u00d7\r\n\n")
    assert (tmp_path / "k.cu").read_bytes() == b"// \xc3\x97\r\n\n"


@linux_only
def test_the_nameless_way_is_in_use(tmp_path: Path) -> None:
    """If this fails the other tests test the named way twice."""
    if not files._write_nameless(str(tmp_path), str(tmp_path / "x"), b"data", None):
        pytest.skip("this file system has no O_TMPFILE")
    assert (tmp_path / "x").read_bytes() == b"data"


@pytest.mark.usefixtures("way")
def test_a_new_file_honours_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "new", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("mode", [0o600, 0o755, 0o444])
def test_an_existing_file_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(mode)
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.usefixtures("way")
def test_a_link_keeps_pointing(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real/k.cu")
    atomic_write(link, b"first")  # it dangled
    atomic_write(link, b"second")
    assert link.is_symlink()
    assert (tmp_path / "real" / "k.cu").read_bytes() == b"second"
    assert [entry.name for entry in (tmp_path / "real").iterdir()] == ["k.cu"]


def test_a_relative_path_is_the_working_directorys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    atomic_write("k.cu", b"here")
    assert (tmp_path / "k.cu").read_bytes() == b"here"


MISSING = "its folder does not exist; create the folder first (mkdir -p)"
FOLDER = "it is a folder; name a file inside it"
THROUGH_A_FILE = "a part of the path is a file, not a folder; choose another path"
LOOP = "its symbolic links form a loop; choose another path"
NO_NAME = "the name is not valid on this file system; choose another name"


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("no/k.cu", MISSING),
        ("folder", FOLDER),
        ("folder/", FOLDER),
        ("new/", FOLDER),
        ("file/k.cu", THROUGH_A_FILE),
        ("loop", LOOP),
        ("", NO_NAME),
    ],
)
def test_a_wrong_path_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, cause: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError) as caught:
        atomic_write(path, b"data")
    assert str(caught.value) == f"cannot write '{path}': {cause}"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder", "loop"]


def test_a_long_or_broken_name_is_the_users(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"too long for this file system; choose a shorter name$"):
        atomic_write(tmp_path / ("k" * 300), b"")
    with pytest.raises(InputError, match=r"null.*; choose another name$"):
        atomic_write("k\0.cu", b"")


def test_a_name_as_long_as_allowed_is_written(tmp_path: Path) -> None:
    atomic_write(tmp_path / ("\u00e9" * 127), b"x")
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (errno.ENOSPC, "the disk is full; free some space, or choose a path on another disk"),
        (errno.EDQUOT, "the disk quota is used up; free some space, or choose another disk"),
        (errno.EIO, "the system says Input/output error; choose another path"),
    ],
)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, cause: str
) -> None:
    path = tmp_path / "k.cu"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "write", refuse(code))
    with pytest.raises(EnvironmentLackError) as caught:
        atomic_write(path, b"new")
    assert str(caught.value) == f"cannot write '{path}': {cause}"
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["k.cu"]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (errno.EACCES, "permission denied; choose a folder you may write to"),
        (errno.EROFS, "the file system is read-only; choose a path on a writable one"),
    ],
)
def test_a_refused_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, cause: str
) -> None:
    monkeypatch.setattr(os, "open", refuse(code))
    with pytest.raises(EnvironmentLackError) as caught:
        atomic_write(tmp_path / "k.cu", b"new")
    monkeypatch.undo()
    assert str(caught.value) == f"cannot write '{tmp_path / 'k.cu'}': {cause}"
    assert caught.value.exit_code == 3


@pytest.mark.usefixtures("way")
def test_a_failed_rename_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", refuse(errno.EACCES))
    monkeypatch.setattr(os, "link", refuse(errno.EACCES))
    with pytest.raises(EnvironmentLackError, match="permission denied"):
        atomic_write(tmp_path / "k.cu", b"new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("way")
def test_an_interrupt_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "k.cu", b"new")
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    atomic_write(tmp_path / "k.cu", b"0123456789" * 10)
    assert (tmp_path / "k.cu").read_bytes() == b"0123456789" * 10


@linux_only
def test_a_kill_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from deepgemm_codegen import files\n"
        "def half(fd, data):\n"
        "    real(fd, data[: len(data) // 2])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "real, files.os.write = os.write, half\n"
        "files.atomic_write(sys.argv[1], b'new' * 100000)\n"
    )
    if not files._write_nameless(str(tmp_path), str(tmp_path / "x"), b"", None):
        pytest.skip("this file system has no O_TMPFILE")
    (tmp_path / "x").unlink()
    path = tmp_path / "k.cu"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["k.cu"]


@linux_only
def test_a_size_limit_is_named(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from deepgemm_codegen.errors import EnvironmentLackError\n"
        "from deepgemm_codegen.files import atomic_write\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    atomic_write(sys.argv[1], b'x' * 5000)\n"
        "except EnvironmentLackError as error:\n"
        "    print(error, end='')\n"
    )
    path = tmp_path / "k.cu"
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        f"cannot write '{path}': the file would exceed the size limit; raise the limit (ulimit -f)"
    )
    assert list(tmp_path.iterdir()) == []


@linux_only
def test_a_full_device_is_named() -> None:
    with pytest.raises(EnvironmentLackError) as caught:
        atomic_write("/dev/full", b"data")
    assert str(caught.value) == (
        "cannot write '/dev/full': the disk is full; free some space, or choose a path on another "
        "disk"
    )
    assert Path("/dev/full").is_char_device()


@linux_only
def test_a_null_device_stays_a_device() -> None:
    atomic_write("/dev/null", b"data")
    assert Path("/dev/null").is_char_device()


@linux_only
def test_a_fifo_is_written_directly(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    atomic_write(fifo, b"through the pipe")
    reader.join()
    assert got == [b"through the pipe"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


@linux_only
@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_stdout_takes_its_turn(tmp_path: Path, path: str) -> None:
    """Also where it is redirected to a file: what came before and after stays in place."""
    program = (
        "import sys\nfrom deepgemm_codegen.files import atomic_write\n"
        "print('before')\natomic_write(sys.argv[1], 'data\\n')\nprint('after')\n"
    )
    out = tmp_path / "out"
    with out.open("wb") as stdout:
        stdout.write(b"earlier\n")
        stdout.flush()
        buffered = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
        command = [sys.executable, "-c", program, path]
        subprocess.run(command, stdout=stdout, check=True, env=buffered)
    assert out.read_text() == "earlier\nbefore\ndata\nafter\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@linux_only
def test_a_closed_pipe_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        with pytest.raises(EnvironmentLackError) as caught:
            atomic_write(f"/dev/fd/{writer}", b"data")
    finally:
        os.close(writer)
    assert str(caught.value) == (
        f"cannot write '/dev/fd/{writer}': its reader closed the pipe; let the reader take all of "
        f"its input"
    )


@pytest.mark.usefixtures("way")
def test_readers_see_old_or_new_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    texts = [b"a" * 100_000, b"b" * 60_000]
    path.write_bytes(texts[0])
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(200):
        atomic_write(path, texts[turn % 2])
    stop.set()
    reader.join()
    assert seen <= set(texts)
    assert seen


def test_every_cause_is_an_error_with_an_exit_code() -> None:
    for code in errno.errorcode:
        error = files.refusal("k.cu", OSError(code, os.strerror(code)))
        assert isinstance(error, CodegenError)
        assert error.exit_code in {2, 3}
        assert str(error).startswith("cannot write 'k.cu': ")
