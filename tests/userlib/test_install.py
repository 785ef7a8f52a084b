# SPDX-License-Identifier: GPL-2.0
"""`make install` and `make uninstall`: what is written, what finds it, and what is removed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from library import PATIENCE, ROOT

PROGRAM = "#include <gpurt.h>\nint main(void) { return gpurt_segment_begin(NULL, 0, 0) != -19; }\n"
#: Installs into the default prefix of a machine with an own /usr/local and /etc, and starts a program.  /etc gets what
#: a compiler and the loader read there: other tests and packages change the machine's while a copy is made.
DEFAULT_PREFIX = """set -e
mount -t tmpfs none "$1"
mkdir "$1/local" "$1/etc"
cp -a /etc/alternatives /etc/ld.so.conf /etc/ld.so.conf.d "$1/etc"
mount --bind "$1/etc" /etc
mount --bind "$1/local" /usr/local
make -s -C "$2/userlib" install BUILD="$3"
cc "$3/program.c" -I/usr/local/include -L/usr/local/lib -lgpurt -o "$1/program"
GPURT_DEVICE=/none "$1/program"
make -s -C "$2/userlib" uninstall BUILD="$3"
/sbin/ldconfig -p | grep -c libgpurt || true
"""


def make(build: Path, *words: str) -> str:
    command = ["make", "-s", "-C", str(ROOT / "userlib"), f"BUILD={build}", *words]
    return subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def build(prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a plain `make` builds, and a program."""
    folder = tmp_path_factory.mktemp("install") / "build"
    shutil.copytree(prefix / "build", folder, symlinks=True)  # with the times of files: nothing is built again
    (folder / "program.c").write_text(PROGRAM)
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def test_each_prefix_gets_its_own_pkg_config_file(build: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(build, "install", f"PREFIX={tmp_path / name}")
    for name in ("one", "two"):
        assert f"prefix={tmp_path / name}\n" in (tmp_path / name / "lib/pkgconfig/gpurt.pc").read_text()


def test_destdir_is_where_files_go_and_not_what_they_name(build: Path, tmp_path: Path) -> None:
    said = make(build, "install", "PREFIX=/opt/gpurt", f"DESTDIR={tmp_path}")
    assert said == ""  # no word of the loader: nothing is loaded from there
    assert "prefix=/opt/gpurt\n" in (tmp_path / "opt/gpurt/lib/pkgconfig/gpurt.pc").read_text()
    assert all(name.startswith("opt/gpurt/") for name in files(tmp_path))


def test_uninstall_removes_what_install_wrote_and_nothing_else(build: Path, tmp_path: Path) -> None:
    others = {"lib/libother.so", "include/gpurt/mine.h", "bin/gpurt", "lib/pkgconfig/other.pc"}
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    make(build, "install", f"PREFIX={tmp_path}")
    assert len(files(tmp_path) - others) > 8
    make(build, "uninstall", f"PREFIX={tmp_path}")
    assert files(tmp_path) == others
    (tmp_path / "include/gpurt/mine.h").unlink()
    make(build, "install", f"PREFIX={tmp_path}")
    make(build, "uninstall", f"PREFIX={tmp_path}")
    assert not (tmp_path / "include/gpurt").exists()


def test_a_prefix_that_the_loader_does_not_search_is_said(build: Path, tmp_path: Path) -> None:
    said = make(build, "install", f"PREFIX={tmp_path}")
    assert said.count("\n") == 1
    assert f"LD_LIBRARY_PATH={tmp_path}/lib" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give itself other mounts")
def test_in_the_default_prefix_programs_find_the_library(build: Path, tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine permits no mount namespaces")
    command = ["unshare", "--mount", "sh", "-c", DEFAULT_PREFIX, "sh", tmp_path, ROOT, build]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_the_page_builds_its_program_installed_and_from_a_checkout(build: Path, tmp_path: Path) -> None:
    """Each command of docs/library.md, in a copy of the checkout, with a prefix of its own and without sudo."""
    text = (ROOT / "docs/library.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^\$ (.*?)(?:\s+#.*)?$", text, re.MULTILINE)
    install, link, checkout = [line for line in shown if "userlib" in line or line.startswith("cc ")]
    for folder in ("userlib", "kmod/uapi"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/userlib").symlink_to(build)
    (tmp_path / "program.c").write_text(program)
    (tmp_path / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "sudo").chmod(0o755)
    prefix = tmp_path / "prefix"
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PREFIX": str(prefix), "GPURT_DEVICE": "/none",
        "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig",
    }  # fmt: skip
    if not shutil.which("pkg-config"):
        link = f"cc program.c -I{prefix}/include -L{prefix}/lib -lgpurt"
    for commands, found in ((f"{install} && {link}", f"{prefix}/lib"), (checkout, "")):
        environment["LD_LIBRARY_PATH"] = found
        script = f"set -e; {commands}; ./a.out; rm a.out"
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "no host at /none" in done.stderr
