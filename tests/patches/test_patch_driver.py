# SPDX-License-Identifier: GPL-2.0
"""scripts/patch-driver on a tree of two files, with patches of its own for two releases."""

from __future__ import annotations

import difflib
import shutil
from pathlib import Path

import pytest
from trees import SCRIPT, contents, patch_driver

LINES = [f"line {number}\n" for number in range(40)]
TOP, AMD = "drivers/gpu/nvgpu", "drivers/gpu/drm/amd"
A, B, NEW = f"{TOP}/a.c", f"{TOP}/b.c", f"{TOP}/new.c"
Files = dict[str, list[str]]


def written(tree: Path, files: Files) -> Path:
    for name, lines in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("".join(lines))
    return tree


def patch(old: Files, new: Files) -> str:
    """The differences of two trees, as a patch."""
    text = "Subject: [PATCH] change\n\nWhy.\n---\n"
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, []), new.get(name, [])
        if before != after:
            text += f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n" if not before else "")
            text += "".join(difflib.unified_diff(before, after, f"a/{name}" if before else "/dev/null", f"b/{name}"))
    return text


def changed(lines: list[str], at: int, text: str) -> list[str]:
    return [*lines[:at], f"{text}\n", *lines[at + 1 :]]


def steps(release: str) -> list[Files]:
    """The tree of a release, and what each of three patches makes of it."""
    first: Files = {A: changed(LINES, 10, release), B: LINES}
    second = {**first, A: changed(first[A], 12, "patched once")}
    third = {**second, A: changed(second[A], 12, "patched twice"), NEW: ["a new file\n"]}
    return [first, second, third, {**third, B: changed(LINES, 5, "patched"), NEW: ["a new file\n", "of two lines\n"]}]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A copy of the script that has other patches, for nvgpu of releases r1 and r2 and for amdgpu of Linux 6.1."""
    copy = tmp_path / "gpurt/scripts/patch-driver"
    copy.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, copy)
    for release, top in (("nvgpu/r1", TOP), ("nvgpu/r2", TOP), ("amdgpu/6.1", AMD), ("amdgpu/rocm-6.4", "amd/amdkfd")):
        folder = tmp_path / "gpurt/kmod/patches" / release
        folder.mkdir(parents=True)
        trees = steps(release)
        names = [f"{number:04}-change.patch" for number in (1, 2, 3)]
        for name, old, new in zip(names, trees, trees[1:], strict=False):
            (folder / name).write_text(patch(old, new).replace(TOP, top))
        (folder / "series").write_text("\n".join(names) + "\n")
    return copy


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return written(tmp_path / "tree", steps("nvgpu/r2")[0])


def files(state: Files) -> dict[str, bytes]:
    return {name: "".join(lines).encode() for name, lines in state.items()}


def test_applies_and_takes_back_and_is_idempotent(script: Path, tree: Path) -> None:
    trees = steps("nvgpu/r2")
    (tree / A).chmod(0o751)
    assert patch_driver("nvgpu", tree, script=script) == (0, "nvgpu r2: 3 of 3 patches are applied\n", "")
    assert contents(tree) == files(trees[3])
    assert (tree / A).stat().st_mode & 0o777 == 0o751
    assert patch_driver("nvgpu", tree, script=script) == (0, "nvgpu r2: 3 of 3 patches are applied, as before\n", "")
    assert contents(tree) == files(trees[3])
    assert patch_driver("--reverse", "nvgpu", tree, script=script) == (0, "nvgpu r2: 0 of 3 patches are applied\n", "")
    assert contents(tree) == files(trees[0])
    again = patch_driver("--reverse", "nvgpu", tree, script=script)
    assert again == (0, "nvgpu r2: 0 of 3 patches are applied, as before\n", "")


@pytest.mark.parametrize("some", [1, 2])
def test_completes_or_takes_back_what_is_applied_in_part(script: Path, tmp_path: Path, some: int) -> None:
    trees = steps("nvgpu/r1")
    tree = written(tmp_path / "some", trees[some])
    status = patch_driver("--status", "nvgpu", tree, script=script)
    assert status == (0, f"nvgpu r1: {some} of 3 patches are applied, as before\n", "")
    assert contents(tree) == files(trees[some])
    assert patch_driver("nvgpu", tree, script=script)[1] == f"nvgpu r1: 3 of 3 patches are applied; {some} were\n"
    assert contents(tree) == files(trees[3])
    other = written(tmp_path / "other", trees[some])
    assert patch_driver("--reverse", "nvgpu", other, script=script)[0] == 0
    assert contents(other) == files(trees[0])


def test_lines_may_have_moved(script: Path, tree: Path) -> None:
    moved = {name: ["one more\n"] * 7 + lines for name, lines in steps("nvgpu/r2")[0].items()}
    written(tree, moved)
    assert patch_driver("nvgpu", tree, script=script)[0] == 0
    assert "patched twice\n" in (tree / A).read_text()
    assert patch_driver("--reverse", "nvgpu", tree, script=script)[0] == 0
    assert contents(tree) == files(moved)


def test_says_which_patch_does_not_fit_and_changes_nothing(script: Path, tree: Path) -> None:
    written(tree, {B: changed(LINES, 4, "another change")})
    before = contents(tree)
    code, out, err = patch_driver("nvgpu", tree, script=script)
    assert (code, out) == (1, "")
    assert "is of no release that there are patches for (r1, r2)" in err
    assert f"nvgpu r1: 0001-change.patch does not fit {A} at line " in err
    assert f"nvgpu r2: 0003-change.patch does not fit {B} at line " in err
    assert contents(tree) == before


def test_says_all_hunks_that_differ(script: Path, tree: Path) -> None:
    """As for nvgpu of R38 and R39, whose sources were not to be had: a reader who has them looks at each."""
    written(tree, {A: changed(steps("nvgpu/r2")[0][A], 13, "another"), B: changed(LINES, 4, "another change")})
    err = patch_driver("nvgpu", tree, script=script)[2]
    assert f"nvgpu r2: 0001-change.patch does not fit {A} at line " in err
    assert f"3 of its 5 hunks differ: {A}:10, {A}:10, {B}:3" in err


@pytest.mark.parametrize(
    ("line", "said"),
    [(20, "none of its 5 hunks differ, which says nothing"), (4, "1 of its 5 hunks differ: drivers/gpu/drm/amd/b.c:3")],
)
def test_an_amdgpu_without_patches_is_compared_with_the_nearest_that_has(
    script: Path, tmp_path: Path, line: int, said: str
) -> None:
    """As Ubuntu's 6.8, 6.17 and 7.0, whose sources were not to be had."""
    first = steps("amdgpu/6.1")[0]
    state = {name.replace(TOP, AMD): lines for name, lines in first.items()}
    state["drivers/gpu/drm/amd/b.c"] = changed(LINES, line, "another change")
    tree = written(tmp_path / "ubuntu", {**state, "Makefile": ["VERSION = 6\n", "PATCHLEVEL = 8\n"]})
    before = contents(tree)
    code, out, err = patch_driver("amdgpu", tree, script=script)
    assert (code, out) == (1, "")
    assert "is Linux 6.8; there are patches of amdgpu for 6.1\n" in err
    assert f"nearest is amdgpu 6.1: {said}" in err
    assert contents(tree) == before


def test_what_is_unsupported_is_said_with_the_reason(script: Path, tmp_path: Path) -> None:
    old = written(tmp_path / "old", {f"{TOP}/gk20a/fifo_gk20a.c": LINES})
    code, _, err = patch_driver("nvgpu", old, script=script)
    assert (code, "L4T R32: unsupported, for its kernel is 4.9" in err) == (1, True)


def test_amds_own_tree_has_patches_of_its_own(script: Path, tmp_path: Path) -> None:
    """Of amdgpu-dkms, whose releases are not Linux's; it has a Makefile, and DKMS alone can build it."""
    state = {name.replace(TOP, "amd/amdkfd"): lines for name, lines in steps("amdgpu/rocm-6.4")[0].items()}
    own = written(tmp_path / "own", {**state, "Makefile": ["all:\n"]})
    before = contents(own)
    assert patch_driver("amdgpu", own, script=script)[:2] == (0, "amdgpu rocm-6.4: 3 of 3 patches are applied\n")
    code, _, err = patch_driver("--build", "amdgpu", own, script=script)
    assert (code, "sudo dkms build --force amdgpu/VERSION" in err) == (2, True)
    assert patch_driver("--reverse", "amdgpu", own, script=script)[0] == 0
    assert contents(own) == before
    written(own, {"amd/amdkfd/b.c": changed(LINES, 4, "another change")})
    code, _, err = patch_driver("amdgpu", own, script=script)
    assert code == 1
    assert "there are patches for (rocm-6.4), or was changed otherwise" in err
    assert "1 of its 5 hunks differ: amd/amdkfd/b.c:3" in err
    code, _, err = patch_driver("amdgpu", own / "amd", script=script)
    assert (code, "name the folder that has amd/amdkfd in it" in err) == (2, True)


def test_a_change_beside_patches_that_are_applied_is_named(script: Path, tree: Path) -> None:
    written(tree, {**steps("nvgpu/r2")[1], B: changed(LINES, 4, "another change")})
    code, _, err = patch_driver("nvgpu", tree, script=script)
    assert code == 1
    assert f"nvgpu r2: 0003-change.patch does not fit {B} at line " in err


def test_a_file_that_is_missing_is_named(script: Path, tree: Path) -> None:
    (tree / B).unlink()
    code, _, err = patch_driver("nvgpu", tree, script=script)
    assert code == 1
    assert f"nvgpu r2: 0003-change.patch does not fit {B}" in err
    assert not (tree / NEW).exists()


def test_nothing_changes_if_a_file_cannot_be_written(script: Path, tree: Path) -> None:
    """A folder has the name of the copy that the script puts beside b.c: that stops root as well."""
    (tree / f"{B}.gpurt-new").mkdir()
    before = contents(tree)
    code, out, err = patch_driver("nvgpu", tree, script=script)
    assert (code, out) == (3, "")
    assert err.startswith(f"patch-driver: cannot write {tree}/{B}.gpurt-new: ")
    assert err.endswith("is as it was\n")
    assert contents(tree) == before


@pytest.mark.parametrize("version", ["6.1", "6.6"])
def test_linux_says_which_release_it_is(script: Path, tmp_path: Path, version: str) -> None:
    state = {name.replace(TOP, AMD): lines for name, lines in steps("amdgpu/6.1")[0].items()}
    major, minor = version.split(".")
    tree = written(tmp_path / "linux", {**state, "Makefile": [f"VERSION = {major}\n", f"PATCHLEVEL = {minor}\n"]})
    code, out, err = patch_driver("amdgpu", tree, script=script)
    if version == "6.1":
        assert (code, out) == (0, "amdgpu 6.1: 3 of 3 patches are applied\n")
    else:
        assert code == 1
        assert err.startswith(f"patch-driver: {tree} is Linux 6.6; there are patches of amdgpu for 6.1\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nvgpu", "{tmp}"], 2, "has no drivers/gpu/nvgpu; name the folder that has it"),
        (["amdgpu", "{tree}"], 2, "has no drivers/gpu/drm/amd; name the folder that has it"),
        (["nouveau", "{tree}"], 2, "invalid choice: 'nouveau'"),
        (["nvidia-open", "{tmp}"], 2, "has no src/nvidia/src/kernel; name the folder that has it"),
        (["--reverse", "--build", "nvgpu", "{tree}"], 2, "not allowed with argument"),
        (["--compile", "--kernel", "0.1-none", "nvgpu", "{tree}"], 3, "0.1-none/build/Makefile is not there"),
        (["--compile", "--kernel", "{kernel}", "nvgpu", "{tree}"], 2, "name their folder (nvidia-oot) with --oot"),
    ],
)
def test_wrong_usage(script: Path, tree: Path, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    kernel = written(tmp_path / "kernel", {"Makefile": ["all:\n"]})
    (tmp_path / "empty").mkdir()
    places = {"tree": tree, "tmp": tmp_path / "empty", "kernel": kernel}
    got, _, err = patch_driver(*[one.format(**places) for one in arguments], script=script)
    assert (got, said in err) == (code, True), err


def test_says_that_the_machine_has_no_patch(script: Path, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    code, out, err = patch_driver("nvgpu", tree, script=script, path=tmp_path / "bin")
    assert (code, out, err) == (3, "", "patch-driver: needs the program patch (Debian, Ubuntu: apt install patch)\n")


def test_the_whole_of_nvgpu_needs_what_its_build_finds_out(script: Path, tree: Path, tmp_path: Path) -> None:
    kernel = written(tmp_path / "kernel", {"Makefile": ["%:\n", "\t@echo $@ $(srctree.nvconftest)\n"]})
    written(tree, {f"{TOP}/Makefile": ["LINUXINCLUDE += -I$(srctree.nvconftest)\n"]})
    arguments = ["--build", "--kernel", kernel, "--oot", tmp_path, "nvgpu", tree]
    code, _, err = patch_driver(*arguments, script=script)
    assert code == 2
    assert "needs nvidia/conftest.h" in err
    assert "srctree.nvconftest=FOLDER" in err
    if shutil.which("make"):
        code, out, err = patch_driver(*arguments, f"srctree.nvconftest={tmp_path}", script=script)
        assert (code, out.splitlines()[-1]) == (0, f"nvgpu r2: built for {kernel}")
        assert f"modules {tmp_path}" in err


def test_compiles_the_files_that_the_patches_change(script: Path, tree: Path, tmp_path: Path) -> None:
    """With a kernel whose Makefile writes down what it is to make, and cannot make the file `new.o`."""
    if not shutil.which("make"):
        pytest.skip("needs make")
    rules = ["%.o:\n", '\t@echo "$(M) $@ $(srctree.nvidia)" >>$(LOG)\n', "\t@test $@ != $(BAD)\n"]
    kernel = written(tmp_path / "kernel", {"Makefile": rules})
    log = tmp_path / "log"
    arguments = ["--compile", "--kernel", kernel, "--oot", tmp_path, "nvgpu", tree, f"LOG={log}"]
    code, out, _ = patch_driver(*arguments, "BAD=none", script=script)
    assert (code, out.splitlines()[-1]) == (0, f"nvgpu r2: compiled what the patches change for {kernel}")
    made = [f"{tree}/{TOP} {name} {tmp_path}" for name in ("a.o", "b.o", "new.o")]
    assert sorted(log.read_text().splitlines()) == made
    code, _, err = patch_driver(*arguments, "BAD=new.o", script=script)
    assert code == 1
    assert f"nvgpu r2 does not compile for {kernel}; the patches stay applied" in err


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("535.261.03", "is of release 535, which does not keep the process of a client"),
        ("550.163.01", "is of release 550, which keeps a thread of a client instead of its process"),
        ("575.64.05", "is of release 575, which has no patches"),
        ("610.43.02", "is of release 610, which has no patches: its sources could not be had"),
    ],
)
def test_releases_of_nvidia_without_patches_are_refused_with_the_reason(tmp_path: Path, version: str, why: str) -> None:
    tree = written(tmp_path, {"version.mk": [f"NVIDIA_VERSION = {version}\n"], "src/nvidia/src/kernel/a.c": LINES})
    before = contents(tree)
    code, out, err = patch_driver("nvidia-open", tree)
    assert (code, out, why in err) == (1, "", True), err
    assert "there are patches of nvidia-open for 570, 580, 590, 595" in err
    assert ("nearest is nvidia-open " in err) == (version[0] == "6")
    assert contents(tree) == before


def test_a_point_release_that_nobody_has_seen_is_named(script: Path, tmp_path: Path) -> None:
    """It is patched if every hunk fits, which is not to say that it is supported."""
    name = "src/nvidia/src/kernel/a.c"
    text = patch({name: LINES}, {name: changed(LINES, 3, "x")})
    base = ["seen: 2026-03-05 to 2026-03-13: 595.44.02\n", "    595.45.04\n"]
    files: Files = {"0001-a.patch": [text], "series": ["0001-a.patch\n"], "base": base}
    written(script.parents[1] / "kmod/patches/nvidia-open/595", files)
    for version, new in (("595.45.04", False), ("595.71.05", True)):
        tree = written(tmp_path / version, {name: LINES, "version.mk": [f"NVIDIA_VERSION = {version}\n"]})
        code, out, err = patch_driver("nvidia-open", tree, script=script)
        assert (code, f"{version} is not among the 2 releases, of 2026-03-05 to 2026-03-13," in out) == (0, new), err


def test_a_package_with_rm_as_a_binary_is_refused(tmp_path: Path) -> None:
    tree = written(tmp_path, {"kernel-open/nvidia/nv.c": LINES, "version.mk": ["NVIDIA_VERSION = 595.45.04\n"]})
    code, _, err = patch_driver("nvidia-open", tree)
    assert (code, "has RM as a binary only" in err) == (2, True), err


def test_what_is_made_of_nvidias_driver(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First RM, then what is around it, for a kernel whose headers are in two folders as distributions have them."""
    if not shutil.which("make"):
        pytest.skip("needs make")
    rm, around = "src/nvidia/src/kernel/a.c", "kernel-open/nvidia/b.c"
    old: Files = {rm: LINES, around: LINES}
    text = patch(old, {name: changed(LINES, 3, "x") for name in old})
    patches = script.parents[1] / "kmod/patches/nvidia-open/595"
    written(patches, {"0001-a.patch": [text], "series": ["0001-a.patch\n"]})
    log = tmp_path / "log"
    monkeypatch.setenv("LOG", str(log))
    note = '\t@echo "$@ $(TARGET_ARCH) $(M)" >>$(LOG)\n'
    rules = ["all modules:\n", note, "%.o:\n", note]
    tree = written(tmp_path / "tree", {**old, "version.mk": ["NVIDIA_VERSION = 595.1\n"], "src/nvidia/Makefile": rules})
    common = written(tmp_path / "common", {"Makefile": rules})
    headers = written(tmp_path / "amd64", {"Makefile": [f"include {common}/Makefile\n"]})
    for option, inner, outer in (("--compile", "_out/Linux_x86_64/a.o", "nvidia/b.o"), ("--build", "all", "modules")):
        code, _, err = patch_driver(option, "--kernel", headers, "nvidia-open", tree, "ARCH=x86_64", script=script)
        assert code == 0, err
        assert log.read_text().splitlines() == [f"{inner} x86_64 ", f"{outer}  {tree}/kernel-open"]
        log.unlink()
    assert (tree / "kernel-open/nvidia/nv-kernel.o_binary").is_symlink()
    written(headers, {".config": ["CONFIG_PREEMPT_RT=y\n"]})
    arguments = ["--compile", "--kernel", headers, "nvidia-open", tree, "ARCH=x86_64"]
    code, _, err = patch_driver(*arguments, script=script)
    assert (code, "say IGNORE_PREEMPT_RT_PRESENCE=1" in err) == (2, True), err
    assert patch_driver(*arguments, "IGNORE_PREEMPT_RT_PRESENCE=1", script=script)[0] == 0
