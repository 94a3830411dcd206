# ===- check_page.py - Is a report a page that needs nothing else? ---------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_page.py HTML [SECTION...]

Checks that the page is well-formed, refers to nothing outside of itself, is
readable on a phone and in the dark, and has exactly these sections."""

import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
REFERENCES = {"src", "href", "xlink:href", "action", "data", "poster", "srcset"}
REFUSED = {"script", "link", "iframe", "object", "embed", "img", "base"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.errors = [], []
        self.sections, self.texts, self.tags = [], [], {}
        self.metas = []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if tag in REFUSED:
            self.errors.append(f"<{tag}>")
        for name, value in attributes:
            if name in REFERENCES or name.startswith("on"):
                self.errors.append(f"<{tag} {name}>")
            if "nan" in (value or "").split() or "inf" in (value or "").split():
                self.errors.append(f"<{tag} {name}={value}>")
        if tag == "meta":
            self.metas.append(dict(attributes))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        if not self.stack or self.stack.pop() != tag:
            self.errors.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "h2":
            self.sections.append(data)
        if self.stack and self.stack[-1] != "style":
            self.texts.append(data)


def main():
    path, expected = sys.argv[1], sys.argv[2:]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = Page()
    page.feed(text)
    page.close()
    page.errors += [f"<{tag}> is not closed" for tag in page.stack]
    for word in ("http://", "https://", "url(", "@import", "javascript:"):
        if word in text:
            page.errors.append(f"refers to {word}")
    if "prefers-color-scheme: dark" not in text:
        page.errors.append("has no colours for the dark")
    if not any(m.get("name") == "viewport" for m in page.metas):
        page.errors.append("has no viewport")
    if page.sections != expected:
        page.errors.append(f"has the sections {page.sections}, expected {expected}")
    for error in page.errors:
        print(f"error: {path}: {error}")
    # For FileCheck: what a reader sees.
    print(" ".join(" ".join(page.texts).split()))
    print(" ".join(f"{tag}={count}" for tag, count in sorted(page.tags.items())))
    sys.exit(1 if page.errors else 0)


main()
