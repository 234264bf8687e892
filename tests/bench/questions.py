#!/usr/bin/env python3
"""questions.py PROGRAM: how long the program takes for what users ask, and the most memory of any of its processes.

Prints a Markdown table: seconds of wall time (the least of three runs, cold: nothing is kept on disk but for the row that says so), MiB,
and what was aimed at. Run it on an idle machine, from the folder of the sources."""
import os
import subprocess
import sys
import tempfile
import time

P5_256 = "compare --instance p5.48xlarge --nodes 256"
NCCL = P5_256 + " --algorithm nccl"
LOG_OF = "compare --instance p5.48xlarge --nodes 64 --algorithm nccl --sizes 8B:8GiB:x2 --format nccl-tests"
QUESTIONS = [  # what, arguments, seconds and MiB aimed at
    ("nccl on 256 p5, 16 sizes", f"{NCCL} --sizes 8B:8GiB:x4", 3, None),
    ("nccl's tree by LL128 on 256 p5, 128 MiB", f"{NCCL} --nccl-algo Tree --nccl-proto LL128 --sizes 128MiB", 0.5, None),
    ("NVLSTree on 256 p5, 2 GiB", f"{NCCL} --nccl-algo NVLSTree --sizes 2GiB", 0.5, None),
    ("NVLSTree on 256 p5, 8 GiB", f"{NCCL} --nccl-algo NVLSTree --sizes 8GiB", 0.5, None),
    ("all algorithms on 256 p5, 3 sizes", f"{P5_256} --sizes 1MiB,64MiB,1GiB", 2, None),
    ("BERT-large on 256 p3dn, 4 algorithms", "predict tests/bench/bert-large-256-nodes.yaml", 1.5, None),
    ("a thousand points", "predict tests/bench/thousand-points.yaml", 10, None),
    ("ring on 8,192 p5, 1 GiB", "compare --instance p5.48xlarge --nodes 8192 --algorithm ring --sizes 1GiB", 1.5, None),
    ("nccl on 8,192 p5, 1 GiB", "compare --instance p5.48xlarge --nodes 8192 --algorithm nccl --sizes 1GiB", 10, None),
    ("check of a log of 64 p5, 8 B to 8 GiB", "check LOG --instance p5.48xlarge --nodes 64", 5, None),
    ("the same, 1.5 times slower from 1 MiB on", "check SLOW --instance p5.48xlarge --nodes 64", 5, None),
    ("nccl on 128 nodes with InfiniBand, 16 GiB",
     "compare --instance topologies/elsewhere/hgx-h100-ib.yaml --nodes 128 --algorithm nccl --sizes 16GiB", 1, 200),
    ("nccl on 32 p5, 110 odd sizes",
     "compare --instance p5.48xlarge --nodes 32 --algorithm nccl --sizes " + ",".join(f"{1000003 + 997 * 4001 * i}B" for i in range(110)),
     10, None),
    ("4 algorithms on 256 p5 below 16 leaves, 24 points", "compare tests/bench/leaves-256-nodes.yaml", 5, None),
    ("ring and nccl on 256 p3dn, one of slow NICs, 3 sizes", "compare tests/bench/slow-node-256-nodes.yaml", None, None),
    ("BERT-large on 256 p5, nccl", "predict tests/bench/bert-large-256-p5.yaml", None, None),
    ("nccl on 255 p4d, 1 GiB", "compare --instance p4d.24xlarge --nodes 255 --algorithm nccl --sizes 1GiB", None, None),
    ("all-gather on 256 p5, 1 GiB", f"{P5_256} --collective all_gather --algorithm nccl --sizes 1GiB", 0.3, None),
    ("reduce-scatter on 256 p5, 1 GiB", f"{P5_256} --collective reduce_scatter --algorithm nccl --sizes 1GiB", 0.3, None),
    ("FSDP step of Llama-2 7B on 2,048 GPUs", "predict tests/bench/fsdp-2048-gpus.yaml", 2, None),
    ("FSDP step of Llama-2 7B on 16,384 GPUs", "predict tests/bench/fsdp-16384-gpus.yaml", 10, None),
    ("the same, sharded within nodes", "predict tests/bench/hsdp-2048-nodes.yaml", 10, None),
    ("DDP step of GPT-2 1.5B on 80,000 GPUs", "predict tests/bench/ddp-10000-nodes.yaml", 10, None),
    ("all published times", "validate --reference", None, None),
    ("a profile fitted to a log of two p4d, one round",
     "calibrate tests/logs/dlami_p4d_2n.txt --instance p4d.24xlarge --nodes 2 --rounds 1", None, None),
    ("the start of the program", "--version", None, None),
]


def run(program, arguments, cache):
    """Seconds, MiB of the largest process, and the exit status."""
    environment = dict(os.environ, FOREDUCE_CACHE="off") if cache is None else dict(os.environ, XDG_CACHE_HOME=cache)
    if cache is not None:
        environment.pop("FOREDUCE_CACHE", None)
    start = time.monotonic()
    process = subprocess.Popen([program, *arguments.split()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):  # 1: an answer with errors in rows, or a log that is not normal
        sys.exit(f"{arguments}: status {code}\n{said.decode()}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def row(what, runs, seconds, mebibytes):
    took, memory = min(r[0] for r in runs), max(r[1] for r in runs)
    aim = "-" if seconds is None else f"{seconds} s" + (f", {mebibytes} MiB" if mebibytes else "")
    print(f"| {what} | {took:.2f} s | {memory:.0f} MiB | {aim} |", flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        log, slow = (os.path.join(folder, name) for name in ("log.txt", "slow.txt"))
        healthy = subprocess.run([program, *LOG_OF.split()], stdout=subprocess.PIPE, check=True, text=True).stdout
        for name, lines in ((log, healthy), (slow, slower(healthy))):
            with open(name, "w", encoding="utf-8") as file:
                file.write(lines)
        answer(program, {"LOG": log, "SLOW": slow})


def slower(log):
    """A log of nccl-tests whose times from 1 MiB on are 1.5 times as long, and its bandwidths as much less."""
    lines = []
    for line in log.splitlines():
        words = line.split()
        if len(words) > 7 and words[0].isdigit() and int(words[0]) >= 1 << 20:
            for at in (5, 9):  # time, algbw, busbw out of place and in place
                if at + 2 < len(words):
                    words[at:at + 3] = [f"{float(words[at]) * 1.5:.2f}"] + [f"{float(w) / 1.5:.2f}" for w in words[at + 1:at + 3]]
            line = " ".join(words)
        lines.append(line)
    return "\n".join(lines) + "\n"


def answer(program, logs):
    print("| question | time | memory | aim |\n|---|--:|--:|--:|")
    for what, arguments, seconds, mebibytes in QUESTIONS:
        for name, file in logs.items():
            arguments = arguments.replace(name, file)
        row(what, [run(program, arguments, None) for _ in range(3)], seconds, mebibytes)
    with tempfile.TemporaryDirectory() as cache:
        again = "predict tests/bench/thousand-points.yaml"
        run(program, again, cache)
        row("the thousand points again", [run(program, again, cache) for _ in range(3)], 1, None)


main()
