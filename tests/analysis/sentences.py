# SPDX-License-Identifier: GPL-2.0
"""The sentences of the papers about their curves, by the experiment that draws the figure.

A sentence is judged for each form of a test, and each reading of an energy model, that may have drawn the figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from claims import (
    Judging,
    Sentence,
    above,
    as_much,
    closer,
    equal,
    falling,
    gain,
    none_missed,
    within,
)

MISSES, ENERGY, JOB = "less_missed_percent", "active_less_j", "job_less_mj"
ENERGY_AWARE, UNAWARE = ("sbeet-mg", "mg-offline"), ("ld", "bcf", "lcf")
#: The curves that share a reading, by what the page calls it.
READINGS = {"default": "", "copies": ", copies", "both": ", both"}


def _under(reading: str, *curves: str) -> tuple[str, ...]:
    return tuple(curve + READINGS[reading] for curve in curves)


def _points(text: str, judging: Judging) -> Sentence:
    return Sentence(text, judging, "points")


def _joules(text: str, judging: Judging) -> Sentence:
    return Sentence(text, judging, "J")


def _less(curve: str, *others: str, panels: Sequence[str] = (), least: float = 0, most: float = 9) -> Judging:
    return above(curve, *others, measure=ENERGY, below=True, panels=panels, least=least, most=most)


def _five(figure: str, reading: str, panels: Sequence[str] = ()) -> Iterable[Sentence]:
    best, *others = _under(reading, *ENERGY_AWARE, *UNAWARE)
    yield _points(f"{figure}, {reading}: sbeet-mg misses least of the five",
                  above(best, *others, measure=MISSES, below=True, panels=panels))  # fmt: skip


def _pairs() -> Iterable[Sentence]:
    """Figures 3.7 and 3.8."""
    six, twelve, most = (f"L = {limit}" for limit in (6, 12, 24))
    pair = (six, twelve)
    for reading in READINGS:
        best, offline, ld, bcf, lcf = _under(reading, *ENERGY_AWARE, *UNAWARE)
        yield from _five("3.7", reading)
        for other, percent in ((ld, 23), (bcf, 18)):
            yield _points(f"3.7, {reading}: up to {percent} % fewer misses than {other.partition(',')[0]}, as points",
                          as_much(best, (other,), percent, MISSES))  # fmt: skip
        yield Sentence(f"3.7, {reading}: every curve falls from L = 6 to 12 to 24",
                       falling((best, offline, ld, bcf, lcf), (six, twelve, most), "missed_percent"), "%")  # fmt: skip
        yield Sentence(f"3.7a, {reading}: the five are closer to each other than in 3.7b and 3.7c",
                       closer((best, offline, ld, bcf, lcf), six, (twelve, most), "missed_percent"), "%")  # fmt: skip
        yield _points(f"3.7c, 3.8c, {reading}: bcf misses far more than sbeet-mg, U <= 1.0",
                      above(bcf, best, offline, measure=MISSES, panels=(most,), most=1))  # fmt: skip
        yield _joules(f"3.8c, {reading}: bcf needs marginally less than sbeet-mg, U <= 1.0",
                      _less(bcf, best, panels=(most,), most=1))  # fmt: skip
        for name, policy in zip(ENERGY_AWARE, (best, offline), strict=True):
            said = f"{reading}: {name} needs less than"
            yield _joules(f"3.8, {said} ld, bcf and lcf, L = 6 and 12", _less(policy, ld, bcf, lcf, panels=pair))
            yield _joules(f"3.8c, {said} these, U >= 1.2", _less(policy, ld, bcf, lcf, panels=(most,), least=1.2))
            yield _joules(f"3.8c, {said} ld and lcf, U <= 1.0", _less(policy, ld, lcf, panels=(most,), most=1))
        yield _joules(f"3.8, {reading}: sbeet-mg needs less than mg-offline, U <= 1.0", _less(best, offline, most=1))
        yield _joules(f"3.8c, {reading}: sbeet-mg always needs less than mg-offline",
                      _less(best, offline, panels=(most,)))  # fmt: skip
        yield _joules(f"3.8, {reading}: mg-offline needs least of the five, U >= 1.2, L = 6 and 12",
                      _less(offline, best, ld, bcf, lcf, panels=pair, least=1.2))  # fmt: skip
        yield _by_job("3.8", reading)


def _by_job(figure: str, reading: str) -> Sentence:
    return Sentence(f"ours, {figure}, {reading}: sbeet-mg needs less than mg-offline for each job in time",
                    above(*_under(reading, *ENERGY_AWARE), measure=JOB, below=True), "mJ")  # fmt: skip


def _three() -> Iterable[Sentence]:
    """Figure 3.13."""
    for reading in READINGS:
        best, offline, ld, bcf, lcf = _under(reading, *ENERGY_AWARE, *UNAWARE)
        yield from _five("3.13a", reading)
        for policy in (best, offline):
            yield _joules(f"3.13b, {reading}: {policy.partition(',')[0]} needs less than ld, bcf and lcf in most cases",
                          _less(policy, ld, bcf, lcf))  # fmt: skip
        yield _by_job("3.13b", reading)
    for reading in (*READINGS, "measured"):
        best, offline = (f"{one}{READINGS.get(reading, ', measured')}" for one in ENERGY_AWARE)
        yield _joules(f"3.13b, {reading}: sbeet-mg needs more than mg-offline, U >= 1.6",
                      above(best, offline, measure=ENERGY, least=1.6))  # fmt: skip
        yield _joules(f"3.13b, {reading}: and less, U < 1.6", _less(best, offline, most=1.5))


def _choices(figure: str) -> Iterable[Sentence]:
    """What the choices that the papers leave open change, against the chosen reading."""
    for choice in ("printed", "active", "opt", "hold job"):
        curve = f"sbeet-mg, {choice}"
        yield _joules(f"ours, {figure}: `{curve}` needs more than the chosen reading",
                      above(curve, "sbeet-mg", measure=ENERGY))  # fmt: skip
        yield _points(f"ours, {figure}: `{curve}` misses more", above(curve, "sbeet-mg", measure=MISSES))
    yield _points(f"ours, {figure}: `sbeet-mg, opt` misses more than ld",
                  above("sbeet-mg, opt", "ld", measure=MISSES))  # fmt: skip


def _packings() -> Iterable[Sentence]:
    """Figure 3.10."""
    packed = ("ffd-sbeet", "bfd-sbeet", "wfd-sbeet")
    yield _points("3.10, default: sbeet-mg misses least of the distributions",
                  above("sbeet-mg", "mg-offline", *packed, measure=MISSES, below=True))  # fmt: skip
    for reading in ("copies", "measured", "both"):
        yield _points(f"3.10, {reading}: sbeet-mg misses less than ffd",
                      above(f"sbeet-mg, {reading}", f"ffd-sbeet, {reading}", measure=MISSES, below=True))  # fmt: skip
    yield _points("3.10: ffd and bfd miss the same jobs", equal("ffd-sbeet", "bfd-sbeet", MISSES))


def _utilization() -> Iterable[Sentence]:
    """Figure 2.8."""
    for said, end in (("published kernels", ""), ("kernels / 20", ", kernels / 20")):
        panels = [f"{gpu} alone{end}" for gpu in ("t400", "rtx3070")]
        yield _points(f"2.8a, {said}: sbeet misses least of the four",
                      above("sbeet", "fcfs", "rm", "stgm", measure=MISSES, below=True, panels=panels))  # fmt: skip
        yield _points(f"2.8a, {said}: stgm misses most, U <= 0.7",
                      above("stgm", "fcfs", "rm", "sbeet", measure=MISSES, panels=panels, most=0.7))  # fmt: skip
        yield _points(f"2.8a, {said}: fcfs misses most, U >= 0.8",
                      above("fcfs", "stgm", "rm", "sbeet", measure=MISSES, panels=panels, least=0.8))  # fmt: skip
        yield _points(f"2.8a, {said}: stgm and rm overlap, U > 1.0",
                      equal("stgm", "rm", MISSES, panels, 1.1))  # fmt: skip
        yield _joules(f"2.8b, {said}: stgm needs most energy, U <= 0.7",
                      above("stgm", "fcfs", "rm", "sbeet", measure=ENERGY, panels=panels, most=0.7))  # fmt: skip
        yield _joules(f"2.8b, {said}: sbeet needs more than fcfs, rm and stgm, U >= 0.8",
                      above("sbeet", "fcfs", "rm", "stgm", measure=ENERGY, panels=panels, least=0.8))  # fmt: skip
        yield _points(f"ours, 2.8, {said}: `sbeet, active` misses more than sbeet",
                      above("sbeet, active", "sbeet", measure=MISSES, panels=panels))  # fmt: skip
        yield _joules(f"ours, 2.8, {said}: `sbeet, active` needs more than sbeet",
                      above("sbeet, active", "sbeet", measure=ENERGY, panels=panels))  # fmt: skip


def _alone() -> dict[str, Iterable[Sentence]]:
    gpus = {"T400": ("t400 alone",), "RTX 3070": ("rtx3070 alone",)}
    light = [_points(f"2.9, {name}: sbeet misses fewest light jobs",
                     above("sbeet", "fcfs", "rm", "stgm", measure=MISSES, below=True, panels=panels))
             for name, panels in gpus.items()]  # fmt: skip
    accepted = [sentence for name, panels in gpus.items() for sentence in (
        Sentence(f"2.10, {name}: 15 to 21 % less energy than stgm", within("sbeet", "stgm", 15, 21, panels), "%"),
        Sentence(f"2.10, {name}: sbeet misses no job", none_missed("sbeet", panels), "%"),
        Sentence(f"2.10, {name}: nor does stgm", none_missed("stgm", panels), "%"),
    )]  # fmt: skip
    return {"sbeet-fig2.9": light, "sbeet-fig2.10": accepted}


#: The curves of a form: those of the approach, by waiting mode, and what they are compared with.
_LOCKS = ("mpcp_suspend", "mpcp_busy", "fmlp+_suspend", "fmlp+_busy")
_TURNS = ("tsg_rr_suspend", "tsg_rr_busy")
GCAPS = {
    "sound": (("gcaps_suspend", "gcaps_busy"), (*_TURNS, *_LOCKS)),
    "before Audsley": (("gcaps_suspend, printed", "gcaps_busy, evaluated"),
                       (*(f"{one}, printed" for one in _TURNS), *(f"{one}, published" for one in _LOCKS))),
}  # fmt: skip
THESIS = {
    "sound": (("ioctl_suspend", "ioctl_busy", "kthread_busy"), _LOCKS),
    "as printed": (("ioctl_suspend, printed", "ioctl_busy, printed", "kthread_busy, printed"),
                   tuple(f"{one}, published" for one in _LOCKS)),
}  # fmt: skip


def _gcaps() -> dict[str, list[Sentence]]:
    found: dict[str, list[Sentence]] = {}
    for form, (own, others) in GCAPS.items():
        for letter in "abcdf":
            found.setdefault(f"gcaps-fig8{letter}", []).append(
                _points(f"8{letter}, {form}: in general gcaps_suspend and gcaps_busy outperform previous methods",
                        above(own, *others)))  # fmt: skip
        found["gcaps-fig8f"].append(
            _points(f"abstract, {form}: up to 40 % higher schedulability, as points; 8f has the greatest lead",
                    as_much(own[0], others, 40)))  # fmt: skip
        rivals = [one for one in others if one.startswith(("fmlp+", "tsg_rr_suspend"))]
        found.setdefault("gcaps-fig8e", []).extend((
            _points(f"8e, {form}: below fmlp+ and tsg_rr_suspend at small ratios (0 and 0.2)",
                    _below_all(own, rivals, 0.2)),
            _points(f"8e, {form}: above them as the ratio increases (0.4 on)", above(own, *rivals, least=0.4)),
        ))  # fmt: skip
    gains = {mode: (f"gcaps_{mode}, GPU priorities", f"gcaps_{mode}") for mode in ("suspend", "busy")}
    found["gcaps-fig9"] = [
        *(_points(f"9, sound: gcaps_{mode} benefits from separate GPU priorities", gain(*pair))
          for mode, pair in gains.items()),
        _points("9, sound: busy waiting benefits more", gain(*gains["busy"], over=gains["suspend"])),
    ]  # fmt: skip
    return found


def _below_all(own: Sequence[str], rivals: Sequence[str], most: float) -> Judging:
    return above(own, *rivals, most=most, below=True)


def _thesis() -> dict[str, list[Sentence]]:
    found: dict[str, list[Sentence]] = {}
    for form, (own, others) in THESIS.items():
        suspend, *_, thread = own
        fifo = [one for one in others if one.startswith("fmlp+")]
        for number in (6, 7, 8, 9, 11):
            curves = own if number == 11 else own[:2]
            found.setdefault(f"thesis-fig4.{number}", []).append(
                _points(f"4.{number}, {form}: in general the proposed approaches outperform previous methods",
                        above(curves, *others)))  # fmt: skip
            if number in (6, 7, 9):
                found[f"thesis-fig4.{number}"].append(
                    _points(f"4.{number}, {form}: kthread_busy occasionally falls below previous methods",
                            above(thread, *others, below=True)))  # fmt: skip
        found["thesis-fig4.8"].append(
            _points(f"4.8, {form}: the kernel thread (ioctl_busy in the text) is below fmlp+ as load grows (0.3 on)",
                    above(thread, *fifo, least=0.3, below=True)))  # fmt: skip
        found.setdefault("thesis-fig4.10", []).extend((
            _points(f"4.10, {form}: ioctl_suspend is below fmlp+ at 0.1", above(suspend, *fifo, most=0.1, below=True)),
            _points(f"4.10, {form}: and not beyond", above(suspend, *fifo, least=0.2)),
        ))  # fmt: skip
    found["thesis-fig4.12"] = [
        _points(f"4.12, sound: {one} gains by GPU priority assignment", gain(f"{one}, GPU priorities", one))
        for one in THESIS["sound"][0]
    ]
    found["thesis-fig4.13"] = [
        _points(f"4.13, {form}: {one} gains by the improved analysis", gain(f"{one}, reduced{end}", f"{one}{end}"))
        for form, end in (("sound", ""), ("as printed", ", printed")) for one in ("ioctl_suspend", "ioctl_busy")
    ]  # fmt: skip
    return found


def _units() -> dict[str, list[Sentence]]:
    """RTGPU: the panel's name ends with the number of copies."""
    printed, suspension, stgm = "RTGPU, printed", "self-suspension", "STGM, as probably evaluated"
    three = (printed, suspension, stgm)
    found: dict[str, list[Sentence]] = {}
    for number in (8, 9, 10, 11):
        found[f"rtgpu-fig{number}"] = [
            _points(f"{number}: RTGPU as printed is above self-suspension", above(printed, suspension)),
            _points(f"{number}: RTGPU as printed is above STGM as probably evaluated", above(printed, stgm)),
            _points(f"ours, {number}: RTGPU as printed is above our bound for STGM", above(printed, "STGM, our bound")),
        ]
    found["rtgpu-fig8"] += [
        _points("8: self-suspension is above STGM as probably evaluated", above(suspension, stgm)),
        _points("8: one copy is better than two", falling(three, ("2:1-1", "2:1-2"))),
        _points("8: the same at 1:2", falling(three, ("1:2-1", "1:2-2"))),
        _points("8: the same at 1:8", falling(three, ("1:8-1", "1:8-2"))),
        _points("8: STGM as probably evaluated is good only for short copies and kernels",
                falling((stgm,), ("2:1-2", "1:2-2", "1:8-2"))),
    ]  # fmt: skip
    for number, what, panels in ((9, "subtasks", ("M=3", "M=5", "M=7")), (10, "tasks", ("n=3", "n=5", "n=7"))):
        found[f"rtgpu-fig{number}"] += [
            _points(f"{number}: fewer sets with more {what}, {copies} copies",
                    falling(three, [f"{panel}-{copies}" for panel in panels])) for copies in (2, 1)
        ]  # fmt: skip
    found["rtgpu-fig11"] += [
        _points(f"11: more sets with more SMs, {copies} copies",
                falling(three, [f"SMs={count}-{copies}" for count in (10, 8, 5)])) for copies in (2, 1)
    ]  # fmt: skip
    found["rtgpu-fig11"].append(
        _points("11a: with 5 SMs one copy is better than two", falling(three, ("SMs=5-1", "SMs=5-2")))
    )
    for number, lengths in ((12, "worst"), (13, "random")):
        seen = f"no miss seen, {lengths} lengths"
        found[f"rtgpu-fig{number}"] = [
            _points(f"{number}: measured is above analysed as printed", above(seen, printed)),
            _points(f"{number}: both are better with more SMs",
                    falling((seen, printed), ("SMs=10-2", "SMs=8-2", "SMs=5-2"))),
        ]  # fmt: skip
    return found


SENTENCES: dict[str, Sequence[Sentence]] = {
    "sbeet-fig2.8": list(_utilization()),
    **{name: list(found) for name, found in _alone().items()},
    "mg-fig3.7": [*_pairs(), *_choices("3.7")],
    "mg-fig3.10": list(_packings()),
    "mg-fig3.13": [*_three(), *_choices("3.13")],
    "mg-all-jobs": [
        _joules("ours, until all jobs are done: mg-offline needs less than sbeet-mg", _less("mg-offline", "sbeet-mg")),
        _joules("ours, until all jobs are done: sbeet-mg needs less than ld and bcf", _less("sbeet-mg", "ld", "bcf")),
    ],
    **_gcaps(), **_thesis(), **_units(),
}  # fmt: skip
