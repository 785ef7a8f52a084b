"""gpurt.ko in a real kernel: loaded, used and removed in a virtual machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def boot(program: Path, options: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a static program in a virtual machine with the module loaded."""
    command = ["env", f"GPURT_MODULE_OPTIONS={options}", str(ROOT / "scripts/vm-test"), str(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode == 3:
        pytest.skip(run.stderr.strip())
    return run


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke test, linked statically."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    program = tmp_path_factory.mktemp("vm") / "smoke"
    source = ROOT / "tests/kernel/smoke.c"
    flags = ["-static", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}/userlib/include"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("options", ["", "vgpu_alpha_ns=200000 vgpu_theta_ns=100000"])
def test_segments_survive_dying_clients(smoke: Path, options: str) -> None:
    run = boot(smoke, options)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "smoke ok" in run.stdout


def test_a_failing_program_fails_the_run() -> None:
    """The machine really brings exit codes back, so that silence means something."""
    run = boot(Path(shutil.which("busybox") or pytest.skip("needs busybox")))
    assert run.returncode not in {0, 124, 126}
