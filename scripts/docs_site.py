# ===- docs_site.py - Pages as plain HTML with navigation ------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Writes PAGE.html beside each PAGE.md of a directory, with a list of all pages
in the order of index.md:

  python3 scripts/docs_site.py DIRECTORY

Needs the module markdown (Debian's python3-markdown)."""

import html
import os
import pathlib
import re
import sys

import markdown

STYLE = """
body { margin: 0 auto; max-width: 75rem; display: flex; gap: 2rem; padding: 0 1rem;
       font: 16px/1.5 system-ui, sans-serif; color: #1f2328; background: #fff; }
nav { flex: 0 0 15rem; font-size: 0.85rem; height: 100vh; overflow-y: auto;
      position: sticky; top: 0; }
nav ul { list-style: none; padding: 0; margin: 0; }
nav h2 { font-size: 0.85rem; margin: 1rem 0 0.25rem; }
nav .here { font-weight: 600; }
main { flex: 1; min-width: 0; padding-bottom: 4rem; }
pre { overflow-x: auto; padding: 0.75rem; background: #f6f8fa; border-radius: 6px; }
code { font-family: ui-monospace, monospace; font-size: 0.875em; }
table { border-collapse: collapse; display: block; margin: 1em 0; overflow-x: auto; }
th, td { border: 1px solid #d0d7de; padding: 0.25rem 0.6rem; text-align: left; }
img { max-width: 100%; }
a { color: #0969da; }
@media (max-width: 50rem) { body { flex-direction: column; }
  nav { order: 1; flex: none; position: static; height: auto; } }
@media (prefers-color-scheme: dark) {
  body { color: #e6edf3; background: #0d1117; }
  pre { background: #161b22; } th, td { border-color: #3d444d; } a { color: #58a6ff; }
}
"""
HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+\.md)\)")
HREF = re.compile(r'href="([^":#]+)\.md(#[^"]*)?"')


def read_navigation(index):
    """[(heading, [(title, page)])]: the links of the sections of index.md, the
    first to each page."""
    parts = HEADING.split(index)[1:]
    seen, sections = set(), []
    for heading, text in zip(parts[::2], parts[1::2]):
        links = [link for link in LINK.findall(text) if link[1] not in seen]
        seen.update(page for _, page in links)
        if links:
            sections.append((heading, links))
    return sections


def slugify(heading, _separator):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def format_navigation(sections, page):
    def link(title, target):
        path = os.path.relpath(target, os.path.dirname(page) or ".")
        here = ' class="here"' if target == page else ""
        title = html.escape(title.replace("`", ""), quote=False)
        title = title[0].upper() + title[1:]
        return f'<li{here}><a href="{path[: -len(".md")]}.html">{title}</a></li>'

    text = f"<ul>{link('Poplar', 'index.md')}</ul>"
    for heading, links in sections:
        items = "".join(link(title, target) for title, target in links)
        text += f"<h2>{html.escape(heading)}</h2><ul>{items}</ul>"
    return text


def format_page(path, root, sections):
    text = path.read_text()
    page = path.relative_to(root).as_posix()
    body = markdown.markdown(
        text,
        extensions=["tables", "fenced_code", "sane_lists", "toc"],
        extension_configs={"toc": {"slugify": slugify}},
    )

    def to_html(match):
        target = path.parent / f"{match[1]}.md"
        is_page = target.resolve().is_relative_to(root)
        return f'href="{match[1]}.{"html" if is_page else "md"}{match[2] or ""}"'

    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    title = html.escape(title[1].replace("`", "") if title else page)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title} - Poplar</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<nav>{format_navigation(sections, page)}</nav>\n"
        f"<main>\n{HREF.sub(to_html, body)}\n</main>\n</body>\n</html>\n"
    )


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    sections = read_navigation((root / "index.md").read_text())
    for path in sorted(root.rglob("*.md")):
        if "generated" not in path.parts:
            path.with_suffix(".html").write_text(format_page(path, root, sections))


if __name__ == "__main__":
    main()
