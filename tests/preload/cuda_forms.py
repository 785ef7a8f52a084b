# SPDX-License-Identifier: GPL-2.0
"""Writes a libcuda.so.1 and its caller, in C, from CUDA's headers: each function of the library notes its arguments.

The headers' own prototypes are used on both sides, so what the caller passes and what the function gets is what CUDA
says.  The preload library's table of functions is not used.
"""

from __future__ import annotations

import re

from cuda_headers import Headers, base

PRELUDE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda.h>
#define EXPORT __attribute__((visibility("default")))
struct noted { const char *symbol; int times, count, result; unsigned long long values[16]; };
"""

LIBRARY = """
EXPORT struct noted noted;

static unsigned long long value_of(const void *argument, size_t size)
{
	unsigned long long value = 0;

	memcpy(&value, argument, size < sizeof(value) ? size : sizeof(value));
	return value;
}

#define NOTE(argument) noted.values[noted.count++] = value_of(&argument, sizeof(argument))
#define CALLED(name, other) if (!noted.symbol || strcmp(noted.symbol, name)) { other; } noted.times++; noted.count = 0
"""
#: The bodies of functions that are called by others than the caller.
ANSWERS = {
    "cuDriverGetVersion": "*driverVersion = CUDA_VERSION; return CUDA_SUCCESS",
    "cuGetExportTable": "return CUDA_ERROR_NOT_FOUND",
}

LOOK_UP = """
/* As cuda.h documents it: the newest form that the version has. */
static CUresult look_up(const char *name, void **found, int version, cuuint64_t flags)
{
	const char *asked = getenv("FAKE_ASKED");
	FILE *log = asked ? fopen(asked, "a") : NULL;
	size_t i;

	if (log) {
		fprintf(log, "%s %d %d\\n", name, version, flags & 2 ? 1 : 0);
		fclose(log);
	}
	*found = NULL;
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (!strcmp(forms[i].name, name) && version >= forms[i].since && !forms[i].per_thread)
			*found = forms[i].function;
	for (i = 0; i < sizeof(forms) / sizeof(forms[0]) && flags & 2; i++)
		if (!strcmp(forms[i].name, name) && version >= forms[i].since && forms[i].per_thread)
			*found = forms[i].function;
	return *found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
"""

LOOK_UPS = """
#define GIVEN const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags
#define NOTE_GIVEN NOTE(symbol); NOTE(pfn); NOTE(cudaVersion); NOTE(flags)

EXPORT CUresult cuGetProcAddress(GIVEN)
{
	CALLED("cuGetProcAddress", return look_up(symbol, pfn, cudaVersion, flags));
	NOTE_GIVEN;
	return noted.result;
}

EXPORT CUresult cuGetProcAddress_v2(GIVEN, CUdriverProcAddressQueryResult *status)
{
	CALLED("cuGetProcAddress_v2", return look_up(symbol, pfn, cudaVersion, flags));
	NOTE_GIVEN;
	NOTE(status);
	return noted.result;
}
"""

CALLER = """
#define MASK(value) (sizeof(value) < 8 ? (1ull << 8 * sizeof(value)) - 1 : -1ull)
static struct noted *noted;
static char buffers[16][4096];
static int failed;

/* Whether the preload library, not the driver, has the function. */
static int is_wrapper(void *function)
{
	Dl_info info;

	return dladdr(function, &info) && strstr(info.dli_fname, "libgpurt-preload") != NULL;
}

static void expect(const char *symbol, int result)
{
	*noted = (struct noted){ .symbol = symbol, .result = result };
}

static void check(const char *symbol, int result, const unsigned long long *passed, int count)
{
	int i;

	if (noted->times != 1 || result != noted->result || noted->count != count)
		failed = printf("%s: called %d times, %d arguments, result %d\\n", symbol, noted->times, noted->count, result);
	for (i = 0; i < count; i++)
		if (noted->values[i] != passed[i])
			failed = printf("%s: argument %d is %llx, not %llx\\n", symbol, i, noted->values[i], passed[i]);
}
"""


MAIN = """
int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *f;
	CUresult (*get)(const char *, void **, int, cuuint64_t, void *) = dlsym(library, "cuGetProcAddress_v2");
	int i;

	noted = dlsym(library, "noted");
	setvbuf(stdout, NULL, _IOLBF, 0);
"""


def parameters_of(text: str) -> list[tuple[str, str]]:
    """The types and names of parameters."""
    found = []
    for one in text.split(","):
        match = re.fullmatch(r"\s*(.*?[\s*])(\w+)(\[\w*\])?\s*", one.replace("\n", " "))
        if match:
            found.append((match[1].strip() + ("*" if match[3] else ""), match[2]))
    return found


def functions(text: str) -> dict[str, list[tuple[str, str]]]:
    """The functions that preprocessed headers declare, with the types and names of their parameters."""
    found = re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;()]*)\)\s*;", text)
    return {symbol: parameters_of(parameters) for symbol, parameters in found}


def forms(headers: Headers) -> list[tuple[str, int, bool, str]]:
    """Name, version, per-thread or not, and symbol of each form: the symbols' order is that of the versions."""
    found = []
    for name in sorted({name for name, _, _ in headers.forms}):
        versions = sorted(version for other, version, ending in headers.forms if other == name and not ending)
        plain = sorted((one for one in headers.symbols if re.fullmatch(rf"{name}(_v\d+)?", one)), key=_number)
        if len(versions) != len(plain):  # without a prototype of its own, as that of another header
            continue
        found += [(name, version, False, symbol) for version, symbol in zip(versions, plain, strict=True)]
        for other, version, ending in headers.forms:
            if other == name and ending:
                older = [symbol for since, symbol in zip(versions, plain, strict=True) if since <= version]
                found.append((name, version, True, older[-1] + ending))
    return sorted(found)


def _number(symbol: str) -> int:
    match = re.search(r"_v(\d+)$", symbol)
    return int(match[1]) if match else 1


def library(declared: dict[str, list[tuple[str, str]]], known: list[tuple[str, int, bool, str]]) -> str:
    """The code of the library."""
    code = [PRELUDE, LIBRARY]
    for symbol, parameters in declared.items():
        if base(symbol) == "cuGetProcAddress":
            continue
        head = ", ".join(f"{kind} {name}" for kind, name in parameters) or "void"
        notes = " ".join(f"NOTE({name});" for _, name in parameters)
        called = f'CALLED("{symbol}", {ANSWERS.get(symbol, "return CUDA_SUCCESS")})'
        code.append(f"EXPORT CUresult {symbol}({head}) {{ {called}; {notes} return noted.result; }}")
    code.append("static const struct { const char *name; int since, per_thread; void *function; } forms[] = {")
    code += [f'{{ "{name}", {since}, {int(per)}, {symbol} }},' for name, since, per, symbol in known]
    code += ["};", LOOK_UP, LOOK_UPS]
    return "\n".join(code) + "\n"


def caller(declared: dict[str, list[tuple[str, str]]], known: list[tuple[str, int, bool, str]]) -> str:
    """The code of a program that calls each function by its symbol and each form by its version.

    It prints the symbols and forms that are wrapped, and what goes wrong.
    """
    code = [PRELUDE, CALLER]
    for symbol, parameters in declared.items():
        code.append(f"static void call_{symbol}(void *function, int result)\n{{")
        for i, (kind, name) in enumerate(parameters):
            code.append(f"\tunion {{ {kind} it; unsigned long long value; }} a{i} = {{ .value = 0 }};")
            if "*" in kind:
                value = f"(uintptr_t)buffers[{i}]"
            elif name == "numDevices":  # of an array that the wrapper reads
                value = "2"
            else:
                value = f"0x{f'1{i:x}' * 4}{f'2{i:x}' * 4}ull & MASK(a{i}.it)"
            code.append(f"\ta{i}.value = {value};")
        given = ", ".join(f"a{i}.it" for i in range(len(parameters)))
        values = ", ".join(f"a{i}.value" for i in range(len(parameters))) or "0"
        code.append(f'\texpect("{symbol}", result);')
        code.append(f"\tresult = ((__typeof__({symbol}) *)function)({given});")
        code.append(f'\tcheck("{symbol}", result, (unsigned long long[]){{ {values} }}, {len(parameters)});\n}}')
    code.append(MAIN)
    for symbol in declared:
        code.append(f'\tf = dlsym(library, "{symbol}"); if (is_wrapper(f)) puts("symbol {symbol}");')
        code.append(f"\tfor (i = 0; i < 2; i++) call_{symbol}(f, i ? 719 : 0);")
    for name, since, per, symbol in known:
        code.append(f'\t*noted = (struct noted){{ 0 }}; f = NULL; get("{name}", &f, {since}, {2 * per}, NULL);')
        code.append(f'\tif (is_wrapper(f)) puts("form {name} {since} {int(per)}");')
        code.append(f"\tcall_{symbol}(f, 0);")
    code.append("\treturn failed != 0;\n}")
    return "\n".join(code) + "\n"
