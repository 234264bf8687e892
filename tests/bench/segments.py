#!/usr/bin/env python3
"""How far the default number of segments is from the best one.

usage: segments.py PROGRAM

Simulates foreduce's trees and its ring of broadcast on eleven clusters, from 64 KiB to 64 MiB, with
the default and with 1 to 64 segments. Prints each default that takes 1.3 times as long as the best,
and the ratio of all in the geometric mean and at most.
"""
import json
import math
import subprocess
import sys

CLUSTERS = [("p4d.24xlarge", 2), ("p5.48xlarge", 2), ("p4d.24xlarge", 16), ("p4d.24xlarge", 4),
            ("p5.48xlarge", 8), ("g5.48xlarge", 16), ("g4dn.12xlarge", 8), ("l40s-roce", 33),
            ("hgx-h100-ib", 16), ("p3dn.24xlarge", 32), ("gb200-nvl72-ib", 2)]
RUNS = [("all_reduce", "tree,double-tree"), ("broadcast", "ring")]
SIZES = "64KiB,256KiB,1MiB,4MiB,16MiB,64MiB"
DEFAULT = 0


def times(program, instance, nodes, collective, algorithms, segments):
    command = [program, "compare", "--instance", instance, "--nodes", str(nodes), "--collective",
               collective, "--algorithm", algorithms, "--sizes", SIZES, "--format", "json"]
    if segments != DEFAULT:
        command += ["--segments", str(segments)]
    points = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {(p["algorithm"], p["bytes"]): (p["time_us"], p["segments"]) for p in points["points"]}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ratios = []
    for instance, nodes in CLUSTERS:
        for collective, algorithms in RUNS:
            answers = {k: times(sys.argv[1], instance, nodes, collective, algorithms, k)
                       for k in [DEFAULT, 1, 2, 4, 8, 16, 32, 64]}
            for point, (time, segments) in answers[DEFAULT].items():
                best, most = min((a[point][0], k) for k, a in answers.items() if k != DEFAULT)
                ratios.append(time / best)
                if ratios[-1] > 1.3:
                    print(f"{nodes} x {instance}, {collective} of {point[1] / 1024:.0f} KiB by "
                          f"{point[0]}: {time:.0f} us with {segments}, {best:.0f} us with {most}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} defaults: {mean:.2f} times the best, {max(ratios):.2f} at most")


if __name__ == "__main__":
    main()
