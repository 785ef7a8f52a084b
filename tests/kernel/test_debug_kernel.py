# SPDX-License-Identifier: GPL-2.0
"""The module in a kernel that reports whatever it can (scripts/debug-run): abused, and with memory that is short.

Mistakes that are planted in debug/planted are reported there, hence silence about gpurt.ko means something.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from kernels import COMPLAINED, HERE, ROOT, explain, fake_driver, helper_module, kfd_driver, run_script, static_program
from kunit import cases, results

LONG = bool(os.environ.get("GPURT_LONG"))
pytestmark = [pytest.mark.slow(8), pytest.mark.timeout(28_800)]
#: Module parameters, and how many random operations the module gets with them.
ROUNDS = {
    "": 400_000 if LONG else 2_500,
    "vgpus=2 vgpu_alpha_ns=20000 policy=5 normal=49": 200_000 if LONG else 1_500,
    "vgpu_sleeps=1 policy=5 normal=49": 200_000 if LONG else 1_500,
    "agent_gpus=1 agent_bound_ms=2": 200_000 if LONG else 1_500,
}
#: How many with the GPU of a patched driver.
PATCHED = 100_000 if LONG else 1_500
#: Meanwhile TSGs come and go, and so do GPUs; there are resets, lists that the driver builds, and failures.
MISHAPS = """
p=/sys/module/fake_driver/parameters
(while :; do (exec 3<>/dev/fake_gpu; echo 0 >&3; sleep 0.1); done) 2>/dev/null & first=$!
(while :; do
for what in "reset 5" "rebuild 0" "kill $first" "fail 2" "gpus 3" "late_ms 2" "break_down 0" "reset 0" "late_ms 0" \\
    "gpus 1"; do echo ${what#* } >$p/${what% *}; sleep 0.05; done
done) & second=$!
"""
#: How many with the queue manager of patched amdgpu; meanwhile processes are evicted, and the firmware hangs.  Then no
#: queue can be made.
QUEUES = 30_000 if LONG else 1_000
AMDGPU = f"""
p=/sys/module/kfd_driver/parameters
(while :; do (exec 3<>/dev/fake_gpu; echo 0 >&3; sleep 0.1) || sleep 0.01; done) 2>/dev/null & first=$!
$GPURT_OUT/hammer {QUEUES} 7 $processes & hammer=$!
for what in {" ".join(["reset=0 evict=0 fail=1 gpus=2 restore=0 late_ms=2 gpus=1 late_ms=0"] * (30 if LONG else 3))}; do
    echo ${{what#*=}} >$p/${{what%=*}}; sleep 0.05
done
wait $hammer; kill $first; wait $first || true; echo 0 >$p/fail
"""
#: How many processes do them.  They are asleep for most of the time.
PROCESSES = 64 if LONG else 4
#: How many clients of killed.c die in a segment; three of four are killed.
VICTIMS = 13_400 if LONG else 50
KILLED = re.compile(r"^killed: (\d+) victims, (\d+) of them killed", re.MULTILINE)
#: Module parameters with which a user attacks the module beside a real-time client, by one means after the other, and
#: for how long each.  The long round only.
ATTACKED = ("", "vgpu_sleeps=1 agent_gpus=1 agent_bound_ms=5", "policy=5 normal=49") if LONG else ()
SECONDS = 1
#: The attacks that there are; and what is said of one: how often it was tried, how often it got what it tried, and how
#: often the client was served meanwhile.
ATTACKS = re.findall(r'\{ "(\w+)", \1 \}', (HERE / "guest/attacker.c").read_text(encoding="utf-8"))
ATTACK = re.compile(r"^attack (\w+) (\d+) (\d+) (\d+)\b", re.MULTILINE)
#: A success that no attack may ever have counts as so many.
BREACH = 1 << 63
COUNTS = re.compile(r"^(\w+) (\d+) (\d+)$", re.MULTILINE)
ALL_WENT_WELL = 7
#: What the output of these parts says when they did their work.
SAYS = {"failslab": "policy", "copies": "the bus was handed on each time"}
#: What the kernel says of each planted bug, in the order of planting: lockdep is off once it or KASAN reported
#: something; the last one never ends.
REPORTS = {
    "lock_inversion": "possible circular locking dependency detected",
    "sleep_in_atomic": "scheduling while atomic",
    "active_timer": "ODEBUG: free active",
    "use_after_free": "KASAN: use-after-free in use_after_free",
    "overflow": "KASAN: slab-out-of-bounds in overflow",
    "leak": "unreferenced object",
    "hang": "blocked for more than",
}


def share_of(folder: Path, *files: Path) -> Path:
    """A folder with copies of these files, by name without what was added to it."""
    folder.mkdir()
    for file in files:
        shutil.copy(file, folder / (file.name if file.suffix == ".ko" else file.name.split("-")[0]))
    return folder


def removed(module: str) -> str:
    """The shell command that removes a module; processes that were killed may still be on their way out."""
    return f"until rmmod {module} 2>/dev/null; do sleep 0.1; done"


#: The shell commands that load the module without a virtual GPU, and remove it, with that of virtual GPUs.
ALONE = "sh /run/load-gpurt $GPURT_OUT vgpus=0"
UNLOADED = "until sh /run/load-gpurt none 2>/dev/null; do sleep 0.1; done"


def amdgpu(firmware: str) -> list[str]:
    """The shell commands that abuse the module beside the queue manager of patched amdgpu."""
    lines = [f"insmod $GPURT_OUT/kfd_driver.ko mes={int(firmware == 'MES')}"]
    lines += [ALONE, f"processes={PROCESSES}", AMDGPU]
    return [*lines, UNLOADED, removed("kfd_driver"), ALONE]


def loaded(*commands: str, options: str = "") -> list[str]:
    """These shell commands with the module loaded anew."""
    return [UNLOADED, f"sh /run/load-gpurt $GPURT_OUT {options}", *commands]


#: The parts of the abuse: shell commands that begin and end with a loaded module.
PARTS = {
    "kunit": ["dmesg"],
    **{
        f"round {options}".strip(): loaded(
            f"$GPURT_OUT/hammer {count} {count + len(options)} {PROCESSES}", options=options
        )
        for options, count in ROUNDS.items()
    },
    "killed": loaded(f"$GPURT_OUT/killed {VICTIMS}"),
    "killed in groups": loaded(f"$GPURT_OUT/killed {VICTIMS} 2 grouped", options="vgpus=2"),
    "copies": loaded(f"$GPURT_OUT/copies {VICTIMS}"),
    "failslab": loaded("$GPURT_OUT/failslab"),
    **{
        f"attacked {options}".strip(): loaded(
            f"python3 tests/kernel/guest/attack.py $GPURT_OUT few {SECONDS}", options=options
        )
        for options in ATTACKED
    },
    "patched driver": [
        *(UNLOADED, "insmod $GPURT_OUT/fake_driver.ko", ALONE, MISHAPS),
        *(f"$GPURT_OUT/hammer {PATCHED} 5 {PROCESSES}", "kill $first $second; wait $first $second || true"),
        *("echo 0 >$p/late_ms", UNLOADED, removed("fake_driver"), ALONE),
    ],
    "amdgpu HWS": [UNLOADED, *amdgpu("HWS")],
    "amdgpu MES": [UNLOADED, *amdgpu("MES")],
}


def abuse(parts: Iterable[str]) -> str:
    """The shell commands of a boot without complaints: each part's output follows a line "== NAME"."""
    lines = ["set -e"]
    for part in parts:
        lines += [f"echo '== {part}'", *PARTS[part]]
    lines += ["echo '== planted'", UNLOADED, "insmod $GPURT_OUT/planted.ko bug=none", "rmmod planted"]
    return "\n".join([*lines, f"exit {ALL_WENT_WELL}"])


def sections(output: str) -> dict[str, str]:
    """Output by name."""
    parts = re.split(r"^== (.*)\n", output, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def check_hammer(output: str, count: int) -> int:
    """As much was done as was asked for; every kind of thing was done, and some of each went well.  How much it was."""
    # a shell may have something to say of what was killed
    counts = {name: (int(tried), int(well)) for name, tried, well in COUNTS.findall(output)}
    assert sum(tried for tried, _ in counts.values()) == count, output
    assert all(well for _, well in counts.values()), counts
    return sum(tried for tried, _ in counts.values())


def done_in(part: str, output: str) -> str:
    """What a part did, in a line, when it did all that was asked of it."""
    if part == "kunit":
        assert results(output) == dict.fromkeys(cases(), "ok")
        return f"{len(cases())} KUnit cases"
    if part.startswith("killed"):
        killed = KILLED.search(output)
        assert killed, output
        assert int(killed[1]) == VICTIMS
        return f"{killed[2]} clients killed in a segment"
    if part.startswith("attacked"):
        attacks = {name: tuple(map(int, counts)) for name, *counts in ATTACK.findall(output)}
        assert list(attacks) == ATTACKS, output
        assert all(0 < good < BREACH and served for _, good, served in attacks.values()), attacks
        return f"{sum(tried for tried, _, _ in attacks.values())} attacks of {len(attacks)} kinds"
    if part in SAYS:
        assert SAYS[part] in output
        return SAYS[part]
    counts = {f"round {options}".strip(): count for options, count in ROUNDS.items()}
    counts |= {"patched driver": PATCHED, "amdgpu HWS": QUEUES, "amdgpu MES": QUEUES}
    return f"{check_hammer(output, counts[part])} random operations"


@pytest.mark.parametrize(
    "parts", [[part] for part in PARTS] if LONG else [list(PARTS)], ids=" ".join if LONG else lambda _: "all"
)
def test_self_tests_random_operations_and_failing_allocations_never_make_it_complain(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], parts: list[str]
) -> None:
    """The KUnit suites, random operations under every set of options, kills, every allocation failing once.

    Afterwards a module without bugs: nothing is reported, no memory is lost, and the exit code comes back.  One boot,
    or one for each part of the long round.
    """
    kernel = run_script("kernel", "debug")
    assert kernel.returncode == 0, kernel.stderr
    module = run_script("kmod-build", kernel.stdout.strip())
    assert module.returncode == 0, module.stderr
    names = ("debug/hammer", "debug/failslab", "guest/killed", "guest/copies", "guest/attacker", "guest/victim")
    programs = [static_program(HERE / f"{name}.c") for name in names]
    ours = Path(module.stdout.strip()).parent.glob("*.ko")
    modules = [*ours, helper_module(HERE / "debug/planted", "debug"), fake_driver("debug")]
    queue_manager = kfd_driver("debug")
    assert queue_manager, "the debug kernel is built from sources that have amdgpu"
    share = share_of(tmp_path / "share", *programs, *modules, queue_manager)
    kunit = ["--kunit"] if "kunit" in parts else []
    # what dead descriptors hold is given back by workers, which the long round's processes outrun
    memory = ["--memory", "3072"] if LONG else []
    done = run_script("debug-run", *kunit, *memory, "--with", share, "sh", "-c", abuse(parts))
    assert done.returncode == ALL_WENT_WELL, explain(done)
    seen = sections(done.stdout)
    with capfd.disabled():
        for part in parts:
            print(f"\nunder the debug kernel: {part}: {done_in(part, seen[part])}", end="")


def reported(bug: str) -> str:
    """The shell commands that plant a bug, and mark in the kernel's log where its reports begin."""
    mark = f"echo '== {bug}' >/dev/kmsg"
    load = f"insmod $GPURT_OUT/planted.ko bug={bug}"
    return f"{mark}; {load} & sleep 15" if bug == "hang" else f"{mark}; {load} && rmmod planted"


@pytest.mark.slow(3)  # not beside the other, which builds the kernel
def test_planted_bugs_are_reported(tmp_path: Path) -> None:
    """All in one boot; each report is one that debug-run takes for a complaint."""
    share = share_of(tmp_path / "share", helper_module(HERE / "debug/planted", "debug"))
    script = ["echo 5 >/proc/sys/kernel/hung_task_timeout_secs", *map(reported, REPORTS), "dmesg"]
    done = run_script("debug-run", "--append", "kasan_multi_shot", "--with", share, "sh", "-c", "\n".join(script))
    assert done.returncode == COMPLAINED, explain(done)
    log = re.sub(r"^\[[ .\d]+\] ", "", done.stdout, flags=re.MULTILINE)
    # leaks are looked for at the end, and shown after the log
    seen = {**sections(log), "leak": done.stderr.partition("memory that leaked:\n")[2]}
    for bug, report in REPORTS.items():
        lines = [line for line in seen[bug].splitlines() if report in line]
        assert lines, bug
        assert is_complaint(lines[0]), bug


#: Waits of the module at wrong places: the file, the line after which each is planted, and what lockdep names.
WAITS = {
    "the gate is held": ("clients/client.c", "WRITE_ONCE(u->client->gone, true);", "client_take_off"),
    "the client's lock is held": ("state/boost.c", "rt_mutex_lock(&client->boost.lock);", "boost_work"),
}


@pytest.mark.slow(2)
@pytest.mark.skipif(not LONG, reason="GPURT_LONG is not set: builds the module anew and boots twice")
@pytest.mark.parametrize("where", WAITS)
def test_a_wait_of_the_module_at_a_wrong_place_is_reported(tmp_path: Path, where: str) -> None:
    """Lockdep sees no flush of a thread's work, nor the gate, except what kmod/base/deps.h tells it of them.

    Nothing hangs: only the order is told that a flush at that place has.
    """
    name, after, dep = WAITS[where]
    source = ROOT / "build/planted_kmod" / dep
    shutil.copytree(ROOT / "kmod", source, dirs_exist_ok=True)
    text = (source / name).read_text(encoding="utf-8")
    before, found, rest = text.rpartition(after)
    assert found
    (source / name).write_text(f"{before}{found}\ngpurt_dep_wait(&{dep});{rest}", encoding="utf-8")
    names = ("debug/hammer", "guest/killed")
    module = helper_module(source, "debug")
    programs = [static_program(HERE / f"{one}.c") for one in names]
    share = share_of(tmp_path / "share", *module.parent.glob("*.ko"), *programs)
    load = "sh /run/load-gpurt none; sh /run/load-gpurt $GPURT_OUT"
    script = f"{load}; $GPURT_OUT/killed 8; {load} policy=5 normal=49; $GPURT_OUT/hammer 300 7 4; dmesg"
    done = run_script("debug-run", "--no-leaks", "--with", share, "sh", "-c", script)
    assert done.returncode == COMPLAINED, explain(done)
    report = re.search(r"possible (circular|recursive) locking", done.stdout)
    assert report, explain(done)
    assert f"gpurt {dep}" in done.stdout[report.end() :]


def is_complaint(line: str) -> bool:
    """Whether the scripts take such a line of the kernel's log for a complaint."""
    command = f". {ROOT}/scripts/kernels/machine; complaints -q"
    return subprocess.run(["bash", "-c", command], input=line, text=True, check=False).returncode == 0
