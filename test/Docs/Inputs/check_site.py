"""Checks the pages in HTML that poplar-doc wrote: check_site.py DIRECTORY

Every page has one, which leads to all others. No link leads to a file or an anchor
that is not there."""

import html.parser
import pathlib
import sys


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.tags = [], set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.add(tag)
        if "id" in values:
            self.anchors.add(values["id"])
        for name in ("href", "src"):
            if name in values and ":" not in values[name]:
                self.links.append(values[name])


root = pathlib.Path(sys.argv[1]).resolve()
paths = [p for p in sorted(root.rglob("*.md")) if "generated" not in p.parts]
errors = [f"{p} has no page in HTML" for p in paths if not p.with_suffix(".html").exists()]
pages = {p.with_suffix(".html"): Page(p.with_suffix(".html")) for p in paths if not errors}
for path, page in pages.items():
    reached = set()
    for link in page.links:
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        reached.add(target)
        if not target.exists():
            errors.append(f"{path}: '{link}' leads to no file")
        elif anchor and target in pages and anchor not in pages[target].anchors:
            errors.append(f"{path}: '{link}' leads to no heading")
    errors += [f"{path}: does not lead to {other}" for other in set(pages) - reached]
if pages and not {"nav", "table", "pre", "img"} <= set().union(*(p.tags for p in pages.values())):
    errors.append("tables, code or pictures are missing")
print("\n".join(errors) or f"{len(pages)} pages in HTML, no dead links")
sys.exit(bool(errors))
