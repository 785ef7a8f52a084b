# SPDX-License-Identifier: GPL-2.0
"""The packages: what pip builds from the source distribution and installs, and what Debian's are made of."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import tomlkit
from once import once

ROOT = Path(__file__).resolve().parents[2]
LONG = bool(os.environ.get("GPURT_LONG"))
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
SUITES = ("bookworm", "trixie", "jammy", "noble")
UPGRADED = ("bookworm", "trixie")
BINARIES = {"gpurt", "libgpurt0", "libgpurt-dev", "gpurt-preload", "gpurt-dkms"}
#: A command of each group that needs no host.
OF_EACH_GROUP = (
    ("analyze", "two-programs.toml"), ("plan priorities", "minimal.toml"), ("plan modes", "minimal.toml"),
    ("simulate", "minimal.toml", "--runs", "2"), ("report", "minimal.toml", "-o", "report.html"),
    ("plan partitions", "partitions.toml"), ("plan energy explain", "energy/toy.toml"),
    ("help", "schema"), ("experiment", "run"), ("help", "completion", "bash"),
)  # fmt: skip
#: How setuptools makes either, without the network: the backend that pip calls.
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
WHEEL = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def call(*command: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    made = {**os.environ, **environment}
    return subprocess.run(list(map(str, command)), cwd=cwd, env=made, capture_output=True, text=True, check=False)


def done(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    run = call(*command, cwd=cwd, **environment)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of what git's index has."""
    folder = tmp_path_factory.mktemp("sdist")
    done("git", "checkout-index", "-a", f"--prefix={folder}/tree/")
    done(sys.executable, "-c", SDIST, folder, cwd=folder / "tree")
    (made,) = folder.glob("*.tar.gz")
    return made


def test_the_source_distribution_has_what_the_extension_is_compiled_of(sdist: Path) -> None:
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8")).unwrap()
    (extension,) = project["tool"]["setuptools"]["ext-modules"]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {*extension["sources"], *extension["depends"], "userlib/include/gpurt/uapi.h", "pycontrol/bin/gpurt"}
    assert needed <= names
    assert not [name for name in names if name.startswith(("tests/", "build/"))]


def says_what_it_lacks(gpurt: Path, folder: Path) -> None:
    """Each command that misses what pip cannot install says so in one line, with the package that has it."""
    nothing = {"GPURT_TASK": "", "GPURT_PRELOAD": "", "GPURT_DEVICE": "", "XDG_RUNTIME_DIR": str(folder)}
    lacks = {"gpurt": ["demo", "--duration", "0.1s"], "gpurt-preload": ["run", "--auto", "--", "/bin/true"]}
    for package, arguments in lacks.items():
        run = call(gpurt, *arguments, cwd=folder, PATH=str(gpurt.parent), **nothing)
        if package != "gpurt" and run.returncode == 0:
            continue  # this machine has the library
        assert (run.returncode, run.stderr.count("\n")) == (6, 1), run.stderr
        install = f"`make -C userlib install PREFIX={gpurt.parent.parent}`"
        assert f"Debian's package {package}, or run {install}" in run.stderr


@pytest.mark.slow
def test_a_wheel_of_the_source_distribution_works_and_says_what_it_lacks(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "tree", filter="data")
    (tree,) = (tmp_path / "tree").iterdir()
    done(sys.executable, "-c", WHEEL, tmp_path, cwd=tree)
    (wheel,) = tmp_path.glob("*.whl")
    shutil.rmtree(tmp_path / "tree")
    clean = tmp_path / "clean"
    done(sys.executable, "-m", "venv", "--without-pip", clean)
    # Dependencies are there already; files that name folders are not read from a folder that one of them names.
    (site,) = clean.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{Path(tomlkit.__file__).parents[1]}\n")
    done(sys.executable, "-m", "pip", f"--python={clean}/bin/python", "install", "-q", "--no-deps", wheel)
    gpurt = clean / "bin/gpurt"
    where = "import gpurt, analysis; print(gpurt.__file__, analysis.__file__)"
    found = done(clean / "bin/python", "-c", where, cwd=tmp_path)
    assert found.count(str(clean)) == 2
    assert done(gpurt, "--version", cwd=tmp_path).startswith("gpurt, version")
    assert "schedulable" in done(gpurt, "analyze", clean / "share/gpurt/examples/two-programs.toml", cwd=tmp_path)
    says_what_it_lacks(gpurt, tmp_path)


@pytest.mark.skipif(not LONG, reason="compiles, and fetches packages: GPURT_LONG=1")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_pip_installs_the_source_distribution(version: str, sdist: Path, tmp_path: Path) -> None:
    """As a user does: a clean environment, what is needed comes from the package index."""
    builds = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    # first: what stands for a kept one in PATH works only where that is chosen
    python = str(builds[-1]) if builds else shutil.which(f"python{version}")
    if not python:
        pytest.skip(f"there is no Python {version}")
    done(python, "-m", "venv", tmp_path / "clean")
    done(tmp_path / "clean/bin/pip", "install", "-q", sdist)
    assert done(tmp_path / "clean/bin/gpurt", "--version", cwd=tmp_path).startswith("gpurt, version")
    examples = tmp_path / "clean/share/gpurt/examples"
    kept = {str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*") if path.is_file()}
    assert all((examples / name).is_file() for name in kept)
    for arguments in OF_EACH_GROUP:
        name, *more = arguments
        done(tmp_path / "clean/bin/gpurt", *name.split(), *more, cwd=examples)
    says_what_it_lacks(tmp_path / "clean/bin/gpurt", tmp_path)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree that dpkg-buildpackage gets.  A folder is looked for where the caller is."""

    def stage(folder: Path) -> None:
        said = done(ROOT / "scripts/package", "stage", "here", cwd=folder).strip()
        assert said == str(folder / "here/gpurt-0.1.0")

    return once(tmp_path_factory, "staged", stage) / "here/gpurt-0.1.0"


def test_a_folder_is_looked_for_where_the_caller_is(staged: Path, tmp_path: Path) -> None:
    assert (staged / "debian/rules").is_file()
    run = call(ROOT / "scripts/package", "try", "bookworm", "arm64", "none here", cwd=tmp_path)
    assert (run.returncode, run.stderr.count(f"no packages in {tmp_path}/none here;")) == (3, 1)


def test_the_debian_tree_is_complete(staged: Path) -> None:
    control = (staged / "debian/control").read_text()
    assert set(re.findall(r"^Package: (.*)$", control, re.MULTILINE)) == BINARIES
    assert "@" not in control.replace(re.findall(r"^Maintainer: (.*)$", control, re.MULTILINE)[0], "")
    assert os.access(staged / "debian/rules", os.X_OK)
    exported = set(re.findall(r"^\t(gpurt_\w+);$", (ROOT / "userlib/gpurt.map").read_text(), re.MULTILINE))
    assert len(exported) > 20
    symbols = (staged / "debian/libgpurt0.symbols").read_text()
    assert set(re.findall(r"^ (gpurt_\w+)@GPURT_1 ", symbols, re.MULTILINE)) == exported
    soversion = re.search(r"^SOVERSION = (\d+)$", (ROOT / "userlib/Makefile").read_text(), re.MULTILINE)
    assert soversion
    assert symbols.startswith(f"libgpurt.so.{soversion.group(1)} libgpurt{soversion.group(1)} ")
    for line in (staged / "debian/libgpurt-dev.examples").read_text().splitlines():
        assert (staged / line).is_file()
    # where a command looks for them (pycontrol/act/demo), and where people do
    assert "examples/* usr/share/gpurt/examples" in (staged / "debian/gpurt.install").read_text().splitlines()
    links = (staged / "debian/gpurt.links").read_text()
    assert links == "usr/share/gpurt/examples usr/share/doc/gpurt/examples\n"


def test_gpurt_task_s_manual_page_has_what_the_program_prints(staged: Path, tmp_path: Path) -> None:
    done(sys.executable, staged / "debian/extension.py", "page", tmp_path / "gpurt-task.1")
    page = (tmp_path / "gpurt-task.1").read_text().replace("\\-", "-")
    source = (ROOT / "userlib/examples/gpurt_task_args.c").read_text()
    options = set(re.findall(r'^\s+\{ "([a-z-]+)", [A-Z]+,', source, re.MULTILINE))
    assert len(options) > 10
    assert options - {"help"} <= set(re.findall(r"--([a-z-]+)", page))
    assert "_task" not in page


def test_what_pip_installs_is_what_debian_s_package_has(staged: Path, tmp_path: Path) -> None:
    done(sys.executable, staged / "debian/extension.py", "install", tmp_path / "site")
    packages = ("analysis", "pycontrol", "gpurt")
    wanted = {str(path.relative_to(ROOT)) for name in packages[:2] for path in (ROOT / name).rglob("*.py")}
    wanted |= {str(path.relative_to(ROOT)) for path in (ROOT / "pycontrol").rglob("templates/*")}
    wanted |= {f"gpurt/{path.name}" for path in (ROOT / "userlib/gpurt").glob("*.py")}
    copied = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*") if path.is_file()}
    assert {name for name in copied if "dist-info" not in name} == wanted


def test_what_debian_s_package_needs_is_what_pip_installs() -> None:
    project = tomlkit.parse((ROOT / "pyproject.toml").read_text(encoding="utf-8")).unwrap()["project"]
    wanted = set(re.findall(r"([a-z0-9]+)>=([0-9.]+)", " ".join(project["dependencies"])))
    assert len(wanted) == len(project["dependencies"])
    control = (ROOT / "scripts/debian/control.in").read_text()
    (control,) = re.findall(r"^Package: gpurt\n(.*?)^Recommends:", control, re.MULTILINE | re.DOTALL)
    found = re.findall(r"python3-([a-z0-9]+)(?:-backend)? \(>= (?:1:)?([0-9.]+)\)", control)
    assert set(found) == wanted
    assert control.count("python3-") == len(found)


def test_no_command_asks_for_a_late_release_of_click() -> None:
    """Debian 12's has no generic types of parameters; commands derive from what options.py has for either."""
    files = (ROOT / "pycontrol").rglob("*.py")
    assert [path.name for path in files if "click.ParamType[" in path.read_text(encoding="utf-8")] == ["options.py"]


@pytest.mark.parametrize(
    "arguments", ["", "nope", "stage", "try", "try a b c d", "upgrade", "upgrade a", "upgrade a b c"]
)
def test_wrong_calls_say_how(arguments: str) -> None:
    run = call("scripts/package", *arguments.split())
    assert run.returncode == 2
    assert "stage" in run.stderr or "takes" in run.stderr


def test_no_packages_is_said() -> None:
    run = call("scripts/package", "try", "bookworm", "arm64", "/nonexistent")
    assert (run.returncode, run.stderr) == (
        3, "package: no packages in /nonexistent; scripts/package deb bookworm arm64 makes them\n",
    )  # fmt: skip


def test_no_such_commit_is_said() -> None:
    run = call("scripts/package", "upgrade", "bookworm", "v99")
    assert (run.returncode, run.stderr) == (2, "package: there is no commit v99\n")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A package of another architecture than this machine's."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("needs dpkg-deb")
    other = "arm64" if done("dpkg", "--print-architecture") != "arm64\n" else "amd64"
    control = tmp_path / "tree/DEBIAN/control"
    control.parent.mkdir(parents=True)
    control.write_text(f"Package: libgpurt0\nVersion: 1\nArchitecture: {other}\nMaintainer: a <a@b>\nDescription: x\n")
    done("dpkg-deb", "-b", tmp_path / "tree", tmp_path / f"libgpurt0_1_{other}.deb")
    return tmp_path


def test_packages_of_another_architecture_are_not_taken_for_the_one_that_is_asked_for(foreign: Path) -> None:
    run = call("scripts/package", "try", "bookworm", done("dpkg", "--print-architecture").strip(), foreign)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "are for a" in run.stderr


def test_a_machine_that_cannot_execute_the_other_architecture_says_what_to_install(foreign: Path) -> None:
    tester = foreign / "bin/arch-test"
    tester.parent.mkdir()
    tester.write_text("#!/bin/sh\nexit 1\n")
    tester.chmod(0o755)
    (package,) = foreign.glob("*.deb")
    arch = package.stem.rpartition("_")[2]
    run = call("scripts/package", "try", "bookworm", arch, foreign, PATH=f"{tester.parent}:{os.environ['PATH']}")
    assert (run.returncode, run.stderr) == (
        3, f"package: this machine executes no programs for {arch}: apt-get install qemu-user-static\n",
    )  # fmt: skip


def test_the_trials_leave_out_what_dkms_keeps_and_nothing_else(tmp_path: Path) -> None:
    """`files` of scripts/debian/steps, of a system that has what follows."""
    steps = (ROOT / "scripts/debian/steps").read_text()
    (function,) = re.findall(r"^kept_by_dkms=.*?^}$", steps, re.MULTILINE | re.DOTALL)
    kept = ["/usr/lib/modules/6.1.0-1-amd64/modules.dep", "/lib/modules/5.15.0-1-generic/modules.alias.bin",
            "/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"]  # fmt: skip
    others = ["/lib/modules/6.1.0-1-amd64/updates/dkms/gpurt.ko", "/lib/modules/6.1.0-1-amd64/updates/modules.dep",
              "/usr/lib/modules-load.d/modules.conf", "/usr/share/lib/modules/6.1.0/modules.dep",
              "/var/lib/dkms/mok.keys/gpurt", "/var/lib/dkms/gpurt/mok.key", "/var/lib/dkms/mok.pub.gpurt"]  # fmt: skip
    find = tmp_path / "find"
    find.write_text("#!/bin/sh\nprintf '%s\\n' " + " ".join([*kept, *others]) + "\n")
    find.chmod(0o755)
    listed = done("sh", "-c", f"{function}\nfiles", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert listed.split() == sorted(others)


def needs_debhelper(staged: Path) -> None:
    if not shutil.which("dpkg-buildpackage") or call("dpkg-checkbuilddeps", cwd=staged).returncode:
        pytest.skip("needs dpkg-buildpackage and what debian/control says")


@pytest.mark.slow
def test_cleaning_the_debian_tree_leaves_only_sources(tmp_path: Path) -> None:
    staged = Path(done("scripts/package", "stage", tmp_path).strip())
    needs_debhelper(staged)
    sources = {path for path in staged.rglob("*") if path.is_file()}
    done("debian/rules", "override_dh_auto_build-arch", "LIBRARY=true", "CC=true", cwd=staged)
    assert (staged / "build/_gpurt.c").is_file()
    done("debian/rules", "clean", cwd=staged)
    assert {path for path in staged.rglob("*") if path.is_file()} == sources


@pytest.mark.skipif(not LONG, reason="builds the packages three times: GPURT_LONG=1")
@pytest.mark.timeout(1800)
def test_the_debian_packages_are_the_same_bytes_wherever_and_however_often_they_are_built(tmp_path: Path) -> None:
    built = []
    for name, mask, zone in (("first", "022", "UTC"), ("second-folder", "077", "Asia/Tokyo")):
        call_to = f'umask {mask} && mkdir "$0" && scripts/package stage "$0"'
        tree = Path(done("sh", "-c", call_to, tmp_path / name).strip())
        needs_debhelper(tree)
        for _ in range(1 if built else 2):
            done("sh", "-c", f"umask {mask} && dpkg-buildpackage -us -uc", cwd=tree, TZ=zone)
            if shutil.which("lintian"):
                (changes,) = tree.parent.glob("*.changes")
                unreleased = ("--suppress-tags", "bad-distribution-in-changes-file")
                done("lintian", "--allow-root", "--fail-on", "error", *unreleased, changes)
            files = [path for path in tree.parent.iterdir() if path.suffix in (".deb", ".dsc", ".xz")]
            built.append({path.name: path.read_bytes() for path in files})
    assert built[0].keys() >= {"gpurt_0.1.0.dsc", "gpurt_0.1.0.tar.xz"}
    for again in built[1:]:
        assert [name for name in built[0] if again[name] != built[0][name]] == []


#: The last commit of which somebody may have packages: gpurt's examples were elsewhere then.
EARLIER = "b60bf56"


def needs_the_archive() -> None:
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("needs root and mmdebstrap")


@pytest.mark.skipif(not LONG, reason="makes systems of their own from the archive: GPURT_LONG=1")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", SUITES)
def test_debian_packages_on_a_clean_system(suite: str) -> None:
    needs_the_archive()
    made = done("scripts/package", "deb", suite)
    assert {Path(name).name.partition("_")[0] for name in made.split() if name.endswith(".deb")} == BINARIES
    tried = done("scripts/package", "try", suite)
    assert tried.count("ok: ") > 8
    if suite in UPGRADED:
        assert done("scripts/package", "upgrade", suite, EARLIER).count("ok: ") > 8


@pytest.mark.skipif(not LONG, reason="makes systems of their own from the archive: GPURT_LONG=1")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", UPGRADED)
def test_debian_packages_for_arm64_on_a_clean_system(suite: str) -> None:
    needs_the_archive()
    if not shutil.which("arch-test") or call("arch-test", "arm64").returncode:
        pytest.skip("needs arch-test, and a machine that executes programs for arm64")
    done("scripts/package", "deb", suite, "arm64")
    assert done("scripts/package", "try", suite, "arm64").count("ok: ") > 8
