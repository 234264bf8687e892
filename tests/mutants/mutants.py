#!/usr/bin/env python3
"""mutants.py PROGRAM SOURCE [--each N] [--seed S] [--kind K ...] [--keep FOLDER]

Damages every kind of file that foreduce reads, by a fixed seed, and gives each to the command that reads it. A file is
answered or refused in words of foreduce's own: exit status 0, 1 or 2, within 10 s and 1 GB. Exits with 1 if one is not."""
import argparse
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS, BYTES = 10, 1 << 30
ANSWERED, REFUSED = (None, "answered"), (None, "refused")  # how a program may end, beside what is wrong
TRAPS = ["-1", "0", "-0", "1e308", "1e999", "-1e308", "5e-324", "nan", "inf", "2147483647", "2147483648", "4294967296",
         "9223372036854775807", "9223372036854775808", "18446744073709551616", "1.5", "1e18", "1000000", "99999999",
         "0x10", "1e-9", "-2147483648", "65536", "1024", "4000", "٣", "1_000", "+5", "1e5", "2000000000"]
WRONG = ["[]", "{}", "null", '""', "true", "~", "[1, 2]", "{a: 1}", '{"a": 1}', "'", '"', "&a", "*a", "!!int 3", "|", "- 1",
         "/dev/null", "/", ".", "..", "\\u0000", "\x1b[31m", "\ufeff", "%s%n", "1..64:x2", "1..9999999", "a" * 300]
NUMBER = re.compile(r"(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9.-]*")
VALUE = re.compile(r"(?<=[:=,\[ ])[^\s:=,\[\]{}]+")
FOREIGN = re.compile(r"exception|std::|bad_alloc|basic_string|vector::|stoi|stod|terminate|backtrace|Sanitizer|Assertion",
                     re.I)


def splice(dice, text, pattern, made):
    found = list(pattern.finditer(text))
    if not found:
        return text
    at = dice.choice(found)
    return text[:at.start()] + made(at.group()) + text[at.end():]


def nested(dice):
    depth = dice.choice([30, 70, 500, 20000])
    return dice.choice(["[" * depth, "{a: " * depth, '{"a":' * depth, "[" * depth + "]" * depth, "- " * depth,
                        "<a>" * depth])


def lines_changed(dice, text):
    lines = text.splitlines(keepends=True) or [""]
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    way = dice.randrange(6)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, lines[other])
    elif way == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif way == 3:
        lines[at:at] = [lines[at]] * dice.choice([10, 1000])
    elif way == 4:
        lines[at] = " " * dice.randrange(1, 9) + lines[at]
    else:
        del lines[at:at + dice.randrange(1, 9)]
    return "".join(lines)


def mutant(dice, text):
    """One to three changes of a text."""
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        way = dice.randrange(12)
        if way < 5:
            text = splice(dice, text, NUMBER, lambda old: dice.choice(TRAPS))
        elif way == 5:
            text = splice(dice, text, VALUE, lambda old: dice.choice(WRONG))
        elif way == 6:
            text = splice(dice, text, WORD, lambda old: dice.choice(WRONG + [old * 2, old[:-1], old.upper()]))
        elif way == 7:
            text = splice(dice, text, VALUE, lambda old: "[" + ", ".join([old] * dice.choice([2, 300, 20000])) + "]")
        elif way == 8:
            text = splice(dice, text, VALUE, lambda old: nested(dice))
        elif way == 9:
            text = text[:dice.randrange(len(text) + 1)]
        elif way == 10 and text:
            at = dice.randrange(len(text))
            text = text[:at] + dice.choice("\0\x7f\t\n\r{}[]<>&'\":,-#@é") + text[at + 1:]
        else:
            text = lines_changed(dice, text)
    return text


CLUSTER = """name: x
cluster: { instance: ./four.yaml, nodes: 4 }
allreduce: { algorithm: ring }
messages: { sizes: 64 KiB }
"""
STEP = """name: x
workload: { model: ./MODEL, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
"""
BESIDE = {  # what stands beside a mutant
    "four.yaml": """instance: f
gpu: { model: mine, count: 1, reduce_bandwidth: 9 GB/s }
nic: { count: 1, bandwidth: 10 Gbps, latency: 20 us }
""",
    "with-tensors.yaml": """workload: w
tensors: mutant.csv
variants: [{ sample: 512 tokens, flops: 900 TFLOP }]
estimate: { fp16: 0.4, source: none }
""",
    "cluster.yaml": CLUSTER,
    "node.yaml": CLUSTER.replace("./four.yaml, nodes: 4", "p4d.24xlarge, nodes: 1, gpus_per_node: 4"),
    "workload.yaml": STEP.replace("MODEL", "mutant.yaml"),
    "tensors.yaml": STEP.replace("MODEL", "with-tensors.yaml"),
}
FLAGS = "--no-cache --jobs 1 --point-timeout 1"  # one simulation; a point may need several
SWEEP = "compare --instance p4d.24xlarge --nodes 2 --algorithm ring,tree,nccl --sizes 1KiB:1MiB:x32 --format json"
RUN = "run --algorithm ring --ranks 4 --iterations 1 --warmup 0 --format json"
SMALL = f"--nodes 2 --algorithm ring,nccl --sizes 64KiB --no-cost {FLAGS}"


def probes():
    """What `calibrate --keep` writes."""
    return json.dumps({"kind": "probe", "points": [
        {"kind": kind, "path": way, "bytes": size, "fan": 1, "samples_s": [1e-5 + size * 1e-9]}
        for kind in ("exchange", "burst", "reduce") for way in ("network", "memory")
        for size in (4, 1024, 65536, 1 << 18, 1 << 20, 1 << 22, 1 << 24)]}, indent=1)


def kinds_of_files(source, says):
    """By kind: seeds, and the command that reads FILE. `says` runs a command."""
    def every(pattern):
        return [p.read_text(encoding="utf-8") for p in sorted(source.glob(pattern))]
    step = f"--workload {source}/models/workloads/resnet50.yaml --compute-scale 1e-3"
    runs = [says(f"{RUN} {more}") for more in ("--sizes 1KiB,64KiB --check", "--sizes 1KiB --segments 2", step,
                                               f"{step} --sharding full")]
    reports = [*runs, says(SWEEP)] + [says(f"{command} --format json") for command in (
        f"predict {source}/scenarios/first-look.yaml", "topology p4d.24xlarge", "list algorithms",
        "list instances", f"check {source}/tests/logs/dlami_p4d_2n.txt --instance p4d.24xlarge",
        f"plan {source}/scenarios/plan-resnet50.yaml --set cluster.nodes=2",
        f"explain {source}/scenarios/first-look.yaml --point 0 --no-changes", "test-algorithm ring --ranks 2",
        f"workload from-trace {source}/tests/traces/recommender-128ranks.json.gz")]
    catalogue = every("topologies/ec2/[!s]*.yaml")
    logs = f"check FILE --instance p4d.24xlarge --nodes 2 {FLAGS}"
    return {
        "scenario": (every("scenarios/*.yaml"), f"predict FILE --point 0 {FLAGS}"),
        "goal": (every("scenarios/plan-*.yaml"), f"plan FILE {FLAGS} --set cluster.nodes=2"),
        "machine": (catalogue + every("topologies/elsewhere/*.yaml"), "topology FILE"),
        "machine-run": (catalogue, f"compare --instance FILE {SMALL}"),
        "profile": (every("models/profiles/*.yaml"), f"compare --profile FILE --instance p4d.24xlarge {SMALL}"),
        "workload": (every("models/workloads/[!trv]*.yaml"), f"predict workload.yaml {FLAGS}"),
        "tensors": (every("models/workloads/tensors/*.csv"), f"predict tensors.yaml {FLAGS}"),
        "log": (every("tests/logs/*.txt"), logs),
        "log-json": (every("tests/fuzz/nccl_json/*"), logs),
        "shard": ([says(f"{SWEEP} --shard 1/2")], "merge FILE other-shard.json"),
        "report": (reports, "show FILE --wide --explain"),
        "report-page": (reports, "show FILE --format html"),
        "report-csv": (reports, "show FILE --format csv"),
        "runs": (runs, f"validate ideal FILE --cluster node.yaml {FLAGS}"),
        "probe": ([probes()], "calibrate FILE --cluster cluster.yaml"),
        "schedule": ([says("algorithm export ring --ranks 8"),
                      says("algorithm export ring --ranks 8 --format mscclpp-json")],
                     f"compare --instance p4d.24xlarge --nodes 1 --algorithm FILE --sizes 64KiB {FLAGS}"),
        "config": (every("tests/configs/*.json"), "workload from-config FILE"),
        "trace": (every("tests/fuzz/import/trace"), "workload from-trace FILE"),
        "dump": (every("tests/topologies/*.[xt]*"), "topology import FILE --like p4d.24xlarge"),
    }


def run(program, command, folder):
    """How the program ended: its status (none if it had to be killed), what it used, and its two outputs."""
    def limits():
        resource.setrlimit(resource.RLIMIT_AS, (4 * BYTES, 4 * BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.setpgid(0, 0)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen([program, *command.split()], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 preexec_fn=limits)
        end, late, pid = time.monotonic() + 6 * SECONDS, False, 0  # on a busy machine the clock says little
        while not pid:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if not pid and time.monotonic() > end:
                late = True
                os.killpg(child.pid, signal.SIGKILL)
            time.sleep(0 if pid else 0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        answer, said = (file.read().decode("utf-8", "replace") for file in (out, err))
        return None if late else child.returncode, used, answer, said


def judged(program, command, folder, text):
    """What is wrong with how the program ends, and what it says; or ANSWERED or REFUSED."""
    status, used, answer, said = run(program, command, folder)
    seconds = used.ru_utime + used.ru_stime
    if status is None or seconds > SECONDS:
        return f"took {seconds:.1f} s", said
    if status not in (0, 1, 2):
        return f"exit status {status}", said
    if used.ru_maxrss * 1024 > BYTES or "not enough memory" in said:
        return f"took {used.ru_maxrss >> 10} MiB", said
    if status == 2 and not said.strip():
        return "refused without a word", said
    if FOREIGN.search(re.sub(r"(?m)^ +\d+ \| .*$", "", said)):  # lines of the file are its own words
        return "words of a library", said
    if status == 2 and not re.search(r"error: |foreduce: ", said):
        return "refused in a form of its own", said
    if re.search(r"\x1b|[\x00-\x08]", said):
        return "control characters on the terminal", said
    number = re.compile(r"(?<![A-Za-z0-9_./-])-?(nan|inf)(?![A-Za-z_])")
    if status == 0 and number.search(answer) and not re.search("nan|inf(?!iniband)", text):  # a note is repeated
        return "nan or inf in the answer", answer[-2000:]
    return ANSWERED if status < 2 else REFUSED


def cpu_seconds():
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def ending_of(kind, seed):
    return ".csv" if kind == "tensors" else {"<": ".xml", "{": ".json"}.get(seed[0], ".yaml")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("source", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--each", type=int, default=100, help="mutants of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", help="only these kinds")
    parser.add_argument("--keep", type=pathlib.Path, help="write damaged files that were not answered well here")
    given = parser.parse_args()
    os.environ.update(FOREDUCE_CACHE="off", FOREDUCE_DATA=str(given.source))
    findings = tried = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def says(command):
            done = subprocess.run([given.program, *command.split()], capture_output=True, text=True, cwd=folder)
            assert done.returncode <= 1 and done.stdout, f"{command}: {done.stderr}"
            return done.stdout

        def give(text, kind, seed, command):
            file = "mutant" + ending_of(kind, seed)
            (folder / file).write_bytes(text.encode("utf-8", "surrogatepass"))
            return file, judged(given.program, command.replace("FILE", "./" + file), folder, text)

        for beside, text in BESIDE.items():
            (folder / beside).write_text(text, encoding="utf-8")
        (folder / "other-shard.json").write_text(says(f"{SWEEP} --shard 2/2"), encoding="utf-8")
        kinds = kinds_of_files(given.source, says)
        for kind in given.kind or kinds:
            seeds, command = kinds[kind]
            assert any(give(seed, kind, seed, command)[1] == ANSWERED for seed in seeds), f"{kind}: each seed is refused"
            dice = random.Random(f"{given.seed} {kind}")
            began, first = cpu_seconds(), tried
            while tried - first < given.each:
                seed = dice.choice(seeds)
                file, (wrong, said) = give(mutant(dice, seed), kind, seed, command)
                if wrong:
                    findings += 1
                    print(f"{kind} {tried - first}: {wrong}\n  {said.strip()[:400]}", flush=True)
                    if given.keep:
                        given.keep.mkdir(parents=True, exist_ok=True)
                        shutil.copy(folder / file, given.keep / f"{kind}-{tried - first}-{file}")
                tried += 1
            print(f"{kind}: {tried - first} mutants, {cpu_seconds() - began:.1f} s", flush=True)
    print(f"{tried} mutants, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
