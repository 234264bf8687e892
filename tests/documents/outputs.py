#!/usr/bin/env python3
"""outputs.py PROGRAM SOURCES [--write]: whether documents show what the program prints.

A comment `<!-- output: COMMAND -->` says what printed the block behind it. The command runs in an empty folder that has what a
clone has, and the files that the document said to write ("Write this as `mine.yaml`"). With --write the blocks are made anew.
A comment `<!-- output to the end: COMMAND -->` is of all that follows, which is Markdown itself.
A comment `<!-- example output: ... -->` is of measurements, which differ every time: it is left alone.
Simulations are kept in FOREDUCE_CACHE, or until the document ends."""
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCUMENTS = ["README.md", "docs/tutorial.md", "docs/accuracy.md", "docs/accuracy-notes.md", "scenarios/README.md"]
OUTPUT = re.compile(r"<!-- output: (.*) -->$")
TO_THE_END = re.compile(r"<!-- output to the end: (.*) -->$")
FILE = re.compile(r"(?:^|\W)[Ww]rite(?: this as)?\s+`([\w.-]+)`")


def block_at(lines, start):
    """The fenced block that begins at or after a line: its first line and the line behind its last."""
    first = next(i for i in range(start, len(lines)) if lines[i].startswith("```"))
    return first + 1, next(i for i in range(first + 1, len(lines)) if lines[i] == "```")


def run(command, folder, program):
    """What it prints. Exit status 1 is an answer too."""
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    environment.update(XDG_CACHE_HOME=str(folder / "cache"), FOREDUCE=str(program))
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: status {done.returncode}\n{done.stderr}")
    return done.stdout.rstrip("\n").split("\n")


def renewed(text, folder, program):
    """The document with every output as it is now."""
    lines, made, i, wanted = text.split("\n"), [], 0, None
    while i < len(lines):
        line = lines[i]
        if named := FILE.search(line if i + 1 == len(lines) else f"{line} {lines[i + 1]}"):
            wanted = named[1]
        if output := TO_THE_END.match(line):
            return "\n".join(lines[: i + 1] + [""] + run(output[1], folder, program) + [""])
        if output := OUTPUT.match(line):
            first, end = block_at(lines, i)
            made += lines[i:first] + run(output[1], folder, program) + ["```"]
            i = end + 1
            continue
        if line.startswith("```") and wanted:
            first, end = block_at(lines, i)
            (folder / wanted).write_text("\n".join(lines[first:end]) + "\n")
            wanted = None
        made.append(line)
        i += 1
    return "\n".join(made)


def main():
    program, sources = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    stale = 0
    for name in DOCUMENTS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for entry in sources.iterdir():
                if entry.name not in ("run", "build", ".git"):
                    (folder / entry.name).symlink_to(entry)
            (folder / "run").write_text('#!/bin/sh\nexec "$FOREDUCE" "$@"\n')
            (folder / "run").chmod(0o755)
            old = (sources / name).read_text()
            new = renewed(old, folder, program)
        if new == old:
            continue
        if "--write" in sys.argv:
            (sources / name).write_text(new)
            print(f"{name}: renewed")
            continue
        stale += 1
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "what the program prints now"))
    if stale:
        raise SystemExit(f"{stale} documents are stale; tests/documents/outputs.py PROGRAM SOURCES --write renews them")


main()
