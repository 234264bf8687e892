#!/usr/bin/env python3
"""Reads a page of foreduce as XML and as HTML, and prints what a test wants to know of it as JSON.

check_page.py PAGE: whether it is well-formed, what it would fetch, its tables, charts and report.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

VOID = {"meta", "input", "link", "br", "img", "hr"}
FETCHING = {"src", "href", "srcset", "data", "action", "poster", "background"}


class Reader(HTMLParser):
    """HTML as a browser reads it: open elements must be closed in their order."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.fetches = [], [], []

    def handle_starttag(self, tag, attributes):
        self.fetches += [f"{tag} {k}={v}" for k, v in attributes if k in FETCHING]
        self.faults += [f"{tag} {k}" for k, _ in attributes if k.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.fetches += [f"{tag} {k}={v}" for k, v in attributes if k in FETCHING]
        if tag not in VOID:
            self.faults.append(f"<{tag}/> is no end in HTML")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    root = ElementTree.fromstring(text)  # throws if it is not well-formed
    reader = Reader()
    reader.feed(text)
    style = "".join(e.text for e in root.iter("style"))
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    scripts = {e.get("id"): e.text for e in root.iter("script") if e.get("id")}
    words = lambda e: "".join(e.itertext()).strip()
    print(json.dumps({
        "bytes": len(text.encode()),
        "faults": reader.faults + reader.open,
        "fetches": reader.fetches + re.findall(r"@import|url\(", style),
        "doubled_ids": sorted({i for i in ids if ids.count(i) > 1}),
        "title": root.findtext("head/title"),
        "headings": [words(e) for e in root.iter("h1")],
        "text": " ".join(" ".join(words(e) for e in root.iter(t)) for t in ("h1", "h2", "p", "pre")),
        "tables": [[[words(c) for c in row] for row in t.iter("tr")] for t in root.iter("table")],
        "captions": [words(e) for e in root.iter("figcaption")],
        "nodes": [{"viewbox": svg.get("viewBox"), "boxes": [words(t) for t in svg.iter("text")],
                   "links": [[path.get("class").split()[-1], words(path.find("title"))] for path in svg.iter("path")]}
                  for svg in root.iter("svg") if svg.get("role") == "img"],
        "charts": json.loads(scripts["charts"]),
        "report": json.loads(scripts["report"]) if "report" in scripts else None,
    }))


if __name__ == "__main__":
    main()
