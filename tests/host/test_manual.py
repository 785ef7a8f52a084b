# SPDX-License-Identifier: GPL-2.0
"""The manual: it builds without a warning, and the commands of its pages work; the tutorial's: tests/preload."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from manual_pages import HOST, MANUAL, PATIENCE, ROOT, carry_out, execute
from processes import StartHost

CONFIGURATION = ROOT / "scripts/manual/mkdocs.yml"
#: A page that needs a GPU's driver, which is a fake one (tests/preload/test_preload_manual.py).
TUTORIAL = MANUAL / "tutorial.md"
PAGES = [page for page in sorted(MANUAL.glob("*.md")) if page != TUTORIAL]
WITH_COMMANDS = [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=[page.stem for page in WITH_COMMANDS])
def test_the_commands_of_a_page_work(
    page: Path, start_host: StartHost, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    text = page.read_text(encoding="utf-8")
    if "pkg-config" in text:
        if not shutil.which("pkg-config"):
            pytest.skip("needs pkg-config")
        prefix = request.getfixturevalue("prefix")
        environment |= {"LD_LIBRARY_PATH": f"{prefix}/lib", "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    if host := HOST.search(text):
        environment["GPURT_DEVICE"] = str(start_host(*host.group(1).split(), policy=None))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert carry_out(page, tmp_path, environment)


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `make install` put the library."""
    folder = tmp_path_factory.mktemp("prefix")
    command = ["make", "-s", "-C", ROOT / "userlib", "install", f"PREFIX={folder}", f"BUILD={folder}/build"]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
    return folder


def test_a_command_that_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit 3"):
        execute("$ exit 3", tmp_path, os.environ)
    execute("$ exit 3    # exit code 1 or 3: said", tmp_path, os.environ)
    with pytest.raises(AssertionError, match="without output"):
        execute("what it prints", tmp_path, os.environ)


def test_every_page_that_is_named_in_the_contents_is_there_and_the_manual_pages_are_named() -> None:
    named = re.findall(r": (\S+\.md)$", CONFIGURATION.read_text(encoding="utf-8"), re.MULTILINE)
    made = [name for name in named if name.startswith("reference/")]
    assert len(made) == 4
    assert all((ROOT / "docs" / name).is_file() for name in named if name not in made)
    assert {f"manual/{page.name}" for page in MANUAL.glob("*.md")} <= set(named)


def test_mkdocs_builds_the_manual_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "-f", CONFIGURATION, "-d", tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    commands = (tmp_path / "site/reference/commands.html").read_text(encoding="utf-8")
    assert "gpurt plan energy explain" in commands
    assert "GPURT_IOC_" in (tmp_path / "site/reference/interface.html").read_text(encoding="utf-8")
    assert "Client.submit" in (tmp_path / "site/reference/python.html").read_text(encoding="utf-8")
    outside = re.compile(r'(?:src|href)="\.\./\.\./\.\./')
    assert not [page for page in (tmp_path / "site").rglob("*.html") if outside.search(page.read_text(encoding="utf-8"))
                and page.parent.name == "manual"]  # fmt: skip
