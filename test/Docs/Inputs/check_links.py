"""Finds dead links and names of files that are not there:

  check_links.py source            the pages of the repository
  check_links.py built DIRECTORY   those that poplar-doc wrote

A link leads to a file, and its anchor to a heading. In the repository, a path in
backticks, or its end, is that of a file, but for what a build or a job has, and
no page is too long. docs/index.md leads to every page."""

import pathlib
import re
import subprocess
import sys

# Whoever reads a page reads all of it.
MOST_LINES = 150
ROOT = pathlib.Path(__file__).resolve().parents[3]
GENERATED = re.compile(r"docs/\w*(Dialect|Passes)\.md$")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# A path in backticks: it has a directory and an extension that sources have.
PATH = re.compile(
    r"`((?:[\w.-]+/)+[\w.-]+\.(?:cpp|h|td|py|sh|mlir|test|md|txt|cmake))(?::\d+)?`"
)


def list_anchors(text):
    """Anchors of the headings, as GitHub makes them."""
    anchors, counts = set(), {}
    for heading in re.findall(r"^#+ +(.*?) *#*$", FENCE.sub("", text), re.MULTILINE):
        heading = LINK.sub("]", heading).replace("[", "").replace("]", "")
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = counts.get(anchor, 0)
        counts[anchor] = number + 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


def check_page(page, is_source, tracked):
    """What is wrong with a page, as messages."""
    text = page.read_text()
    prose = FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        place = f"{page}:{number}"
        # Code is not a link.
        for link in LINK.findall(re.sub(r"`[^`]*\]\([^`]*`", "", line)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if is_source and GENERATED.search(str(target)):
                continue
            if not target.exists():
                yield f"{place}: '{link}' leads to no file"
            elif anchor and anchor not in list_anchors(target.read_text()):
                yield f"{place}: '{link}' leads to no heading"
        if not is_source:
            continue
        for path in PATH.findall(line):
            if path.startswith(("build/", "job/")):
                continue
            if not any(name == path or name.endswith("/" + path) for name in tracked):
                yield f"{place}: there is no file '{path}'"
    lines = len(FENCE.sub("", text).splitlines())
    if is_source and page.is_relative_to(ROOT / "docs") and lines > MOST_LINES:
        yield f"{page}: has {lines} lines; a page has at most {MOST_LINES}, without code"


def main():
    is_source = sys.argv[1] == "source"
    top = ROOT if is_source else pathlib.Path(sys.argv[2]).resolve()
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.splitlines()
    if not files:  # Not a clone.
        files = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
    files = [name for name in files if (ROOT / name).exists()]
    if is_source:
        pages = [ROOT / name for name in files if name.endswith(".md")]
        docs = ROOT / "docs"
    else:
        pages = [p for p in sorted(top.rglob("*.md")) if "generated" not in p.parts]
        docs = top
    errors = [e for page in pages for e in check_page(page, is_source, files)]
    index = docs / "index.md"
    listed = {
        (docs / link.partition("#")[0]).resolve()
        for link in LINK.findall(index.read_text())
    }
    for page in pages:
        if page.is_relative_to(docs) and page != index and page not in listed:
            errors.append(f"{index}: does not lead to {page.relative_to(docs)}")
    print("\n".join(errors) or f"{len(pages)} pages, no dead links")
    sys.exit(bool(errors))


main()
