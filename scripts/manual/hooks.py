# SPDX-License-Identifier: GPL-2.0
"""Steps of mkdocs besides reading pages: makes reference pages from the code, and turns links to sources into names."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import gpurt
from pycontrol.cli import cli

ROOT = Path(__file__).resolve().parents[2]
#: Each page, and the header whose opening comment it shows.
HEADERS = {
    "reference/c.md": ("The C library", "userlib/include/gpurt.h"),
    "reference/interface.md": ("The kernel interface", "kmod/uapi/gpurt.h"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made from the code."""
    made = {"reference/commands.md": commands(), "reference/python.md": python()}
    made |= {page: header(title, ROOT / path) for page, (title, path) in HEADERS.items()}
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replaces links to files that are no pages by the files' names, since the manual may lack the sources."""
    folder = (Path(config.docs_dir) / page.file.src_uri).parent

    def plain(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        return link[0] if target.is_relative_to(Path(config.docs_dir).resolve()) else f"`{target.relative_to(ROOT)}`"

    return re.sub(r"\[([^\]]*)\]\((\.\./[^)#]*)(?:#[^)]*)?\)", plain, markdown)


def verbatim(text: str) -> str:
    """Text in a block of code."""
    return "```text\n" + text.rstrip() + "\n```\n"


def commands() -> str:
    """Every command with its --help."""
    context = click.Context(cli, info_name="gpurt", **cli.context_settings)
    return "# Commands\n\n" + verbatim(cli.get_help(context)) + "".join(below(cli, context))


def below(group: click.Group, context: click.Context) -> list[str]:
    """The sections of the commands of a group, in its order."""
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, info_name=name)
        found.append(f"\n## {inner.command_path}\n\n{verbatim(command.get_help(inner))}")
        if isinstance(command, click.Group):
            found += below(command, inner)
    return found


def python() -> str:
    """The names that `import gpurt` offers: signature and docstring of each, and the public methods of classes."""
    parts = ["# Python\n", verbatim(inspect.getdoc(gpurt) or "")]
    for name in sorted(gpurt.__all__):
        thing = getattr(gpurt, name)
        parts.append(described("##", f"gpurt.{name}", thing))
        if inspect.isclass(thing):
            methods = inspect.getmembers(thing, inspect.isfunction)
            parts += [described("###", f"{name}.{one}", what) for one, what in methods if not one.startswith("_")]
    return "\n".join(parts)


def described(level: str, name: str, thing: object) -> str:
    """A section about a function or a class."""
    assert callable(thing)
    return f"{level} {name}\n\n" + verbatim(f"{name}{inspect.signature(thing)}\n\n{inspect.getdoc(thing) or ''}")


def header(title: str, path: Path) -> str:
    """The opening comment of a header, which is its manual."""
    found = re.search(r"^/\*\n(.*?)\n \*/$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, path
    text = re.sub(r"^ \*(?: |(?=\t)|$)", "", found[1], flags=re.MULTILINE)
    return f"# {title}\n\n`{path.relative_to(ROOT)}`\n\n{verbatim(text)}"
