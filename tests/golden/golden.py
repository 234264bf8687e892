#!/usr/bin/env python3
"""golden.py PROGRAM SOURCES [--accept]: whether a few answers are what they were.

Each file of tests/golden/ is what one command answers, less what it cost to answer (see VOLATILE). Numbers may differ by 1e-9 of
themselves, everything else must be equal. A change that is not meant is a fault: find it. One that is meant is accepted with
--accept, which writes the files anew: commit them with it, and say in the message which numbers moved, by how much and why."""
import json
import os
import subprocess
import sys
from pathlib import Path

QUESTIONS = {
    "first-look": "predict scenarios/first-look.yaml",
    "fsdp": "predict scenarios/llama2-7b-p4d-fsdp.yaml",
    "experts": "predict scenarios/mixtral-8x7b-p5-experts.yaml --set cluster.nodes=2",
    "plan": "plan scenarios/plan-resnet50.yaml",
    "compare": "compare --instance p5.48xlarge --nodes 2,8 --algorithm nccl,ring,hierarchical --sizes 8KiB,1MiB,256MiB",
    "all-gather": "compare --instance p4d.24xlarge --nodes 4 --collective all_gather --algorithm nccl,ring --sizes 64KiB,64MiB",
    "check": "check tests/logs/skypilot_p4d_2n_one_efa.txt --instance p4d.24xlarge",
    "explain": "explain --instance p4d.24xlarge --nodes 2 --algorithm nccl --size 4MiB",
    "tune": "tune --instance p4d.24xlarge --nodes 2 --sizes 64KiB,4MiB,256MiB",
    "topology": "topology g5.12xlarge",
}
VOLATILE = {"foreduce_version", "scenario", "scenario_hash", "scenario_text", "engine", "wall_seconds", "peak_rss_bytes",
            "simulated_messages", "mode", "cluster", "file"}
TOLERANCE = 1e-9
MOST_TOLD = 20


def kept(value):
    """Without what is volatile, and with as many digits as are compared, and some more."""
    if isinstance(value, dict):
        return {k: kept(v) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [kept(v) for v in value]
    return float(f"{value:.13g}") if isinstance(value, float) else value


def answer(program, sources, question):
    """Exit status 1 is an answer too."""
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"FOREDUCE_CACHE": "off", "FOREDUCE_DATA": str(sources)}
    done = subprocess.run([program, *question.split(), "--format", "json"], cwd=sources, env=environment, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode not in (0, 1):
        raise SystemExit(f"foreduce {question}: status {done.returncode}\n{done.stderr}")
    return kept(json.loads(done.stdout))


def differences(was, now, path=""):
    """Each as "path: was -> now"."""
    number = (int, float)
    if isinstance(was, number) and isinstance(now, number) and not isinstance(was, bool) and not isinstance(now, bool):
        if abs(was - now) > TOLERANCE * max(abs(was), abs(now)):
            yield f"{path}: {was} -> {now} ({(now - was) / abs(was):+.3%})" if was else f"{path}: {was} -> {now}"
    elif isinstance(was, dict) and isinstance(now, dict):
        for key in list(was) + [k for k in now if k not in was]:
            if key not in was or key not in now:
                yield f"{path}.{key}: {'new' if key not in was else 'gone'}"
            else:
                yield from differences(was[key], now[key], f"{path}.{key}" if path else key)
    elif isinstance(was, list) and isinstance(now, list):
        if len(was) != len(now):
            yield f"{path}: {len(was)} -> {len(now)} entries"
        for i, (a, b) in enumerate(zip(was, now)):
            yield from differences(a, b, f"{path}[{i}]")
    elif was != now:
        yield f"{path}: {was!r} -> {now!r}"


def text_of(report):
    """A line for each entry of a list at the top, so that a diff shows which rows moved."""
    parts = []
    for key, value in report.items():
        if isinstance(value, list) and value:
            rows = ",\n  ".join(json.dumps(v, ensure_ascii=False) for v in value)
            parts.append(f"{json.dumps(key)}: [\n  {rows}]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{" + ",\n".join(parts) + "}\n"


def main():
    program, sources = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    accept, folder, changed = "--accept" in sys.argv[3:], sources / "tests" / "golden", 0
    for name, question in QUESTIONS.items():
        now, file = answer(program, sources, question), folder / f"{name}.json"
        if accept:
            file.write_text(text_of(now))
            continue
        if not file.exists():
            raise SystemExit(f"{file} is missing: --accept writes it")
        found = list(differences(json.loads(file.read_text()), now))
        changed += bool(found)
        if found:
            print(f"foreduce {question}: {len(found)} differences from tests/golden/{name}.json")
            print("".join(f"  {line}\n" for line in found[:MOST_TOLD]) + ("  ...\n" if len(found) > MOST_TOLD else ""))
    unknown = {f.stem for f in folder.glob("*.json")} - set(QUESTIONS)
    if unknown:
        raise SystemExit(f"nothing asks for {', '.join(sorted(unknown))}.json in {folder}")
    if changed:
        raise SystemExit(f"If the change is meant: {sys.argv[0]} PROGRAM SOURCES --accept, and say in the commit what moved and why.")


if __name__ == "__main__":
    main()
