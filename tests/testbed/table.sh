#!/bin/sh
# The table of docs/testbed.md: a cluster of eight hosts is calibrated from point-to-point messages, then every algorithm is run on it, on the
# same with 4:1 oversubscription, and with one slow host, and held against the prediction. About 15 minutes; as root,
# and on a machine that does nothing else: all hosts share its cores.
set -eu
foreduce=$(readlink -f "${1:?the program}"); folder=${2:?a folder for the results}; rate=${3:-100}
bed="$(dirname "$(readlink -f "$0")")/testbed.py --hosts 8 --rate $rate"
mkdir -p "$folder" && cd "$folder"
$bed --write uniform -- "$foreduce" calibrate --transport ofi --cluster uniform/cluster.yaml --name testbed --keep points.json -o profile.yaml > calibration.txt
$bed --write pairs --ranks-per-host 2 -- "$foreduce" calibrate --transport ofi --per-process 2 --cluster pairs/cluster.yaml --name testbed-pairs --keep points2.json -o profile2.yaml >> calibration.txt
run() {  # ranks a host, folder, report, algorithms, what of sizes and repetitions, the bed's options
  ranks=$1 name=$2 report=$3 algorithms=$4 how=$5; shift 5
  # shellcheck disable=SC2086
  $bed --write "$name" --ranks-per-host "$ranks" "$@" -- "$foreduce" run --transport ofi --per-process "$ranks" --algorithm "$algorithms" $how --format json -o "$report.json"
}
small="--sizes 64KiB,256KiB,1MiB --warmup 5 --iterations 7"  # a small all-reduce can be repeated more often than one of seconds
large="--sizes 4MiB,16MiB --warmup 1 --iterations 2"
measure() {
  bed_name=$1; shift
  single=ring,double-tree,halving-doubling,direct,reduction-server
  run 1 "$bed_name" "$bed_name-small" $single "$small" "$@"
  run 1 "$bed_name" "$bed_name-large" $single "$large" "$@"
  run 2 "$bed_name-pairs" "$bed_name-pairs-small" hierarchical "$small" "$@"
  run 2 "$bed_name-pairs" "$bed_name-pairs-large" hierarchical "$large" "$@"
  echo "== $bed_name"
  "$foreduce" validate ./profile.yaml "$bed_name-small.json" "$bed_name-large.json" --cluster "$bed_name/cluster.yaml"
  echo "== $bed_name, 2 ranks a host"
  "$foreduce" validate ./profile2.yaml "$bed_name-pairs-small.json" "$bed_name-pairs-large.json" --cluster "$bed_name-pairs/cluster.yaml"
}
measure uniform
measure uplink --leaves 2 --oversubscription 4
measure slow --slow "3:$(awk "BEGIN { print $rate / 2 }")"
