#!/bin/sh
# The table of real/README.md: a cluster of eight hosts is calibrated from point-to-point messages, then every algorithm is run on it, on the
# same with a 4:1 trunk, and with one slow host, and held against the prediction. About ten minutes; as root.
set -eu
foreduce=$(readlink -f "${1:?the program}"); folder=${2:?a folder for the results}; rate=${3:-200}
bed="$(dirname "$(readlink -f "$0")")/testbed.py --hosts 8 --rate $rate"
mkdir -p "$folder" && cd "$folder"
$bed --write uniform -- "$foreduce" calibrate --transport ofi --cluster uniform/cluster.yaml --name testbed --keep points.json -o profile.yaml > calibration.txt
$bed --write pairs --ranks-per-host 2 -- "$foreduce" calibrate --transport ofi --per-process 2 --cluster pairs/cluster.yaml --name testbed-pairs --keep points2.json -o profile2.yaml >> calibration.txt
measure() {
  name=$1; shift
  $bed --write "$name" "$@" -- "$foreduce" run --transport ofi --algorithm ring,double-tree,halving-doubling,direct,reduction-server --sizes 64KiB:16MiB:x4 --iterations 3 --warmup 1 --format json -o "$name.json"
  $bed --write "$name-2" --ranks-per-host 2 "$@" -- "$foreduce" run --transport ofi --per-process 2 --algorithm hierarchical --sizes 64KiB:16MiB:x4 --iterations 3 --warmup 1 --format json -o "$name-2.json"
  echo "== $name"
  "$foreduce" validate ./profile.yaml "$name.json" --cluster "$name/cluster.yaml"
  echo "== $name, 2 ranks a host"
  "$foreduce" validate ./profile2.yaml "$name-2.json" --cluster "$name-2/cluster.yaml"
}
measure uniform
measure trunk --leaves 2 --oversubscription 4
measure slow --slow "3:$(awk "BEGIN { print $rate / 2 }")"
