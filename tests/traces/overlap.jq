# Communication overlapped with computation, as get_comm_comp_overlap of Holistic Trace Analysis
# defines it: the share of the union of NCCL's kernels during which another kernel runs.
def merge: sort_by(.[0]) | reduce .[] as $i ([]; if length > 0 and $i[0] <= .[-1][1]
  then .[-1][1] = ([.[-1][1], $i[1]] | max) else . + [$i] end);
[.traceEvents[] | select(.cat == "kernel" and .ph == "X")
  | {nccl: (.name | startswith("nccl")), time: [.ts, .ts + .dur]}] as $kernels
| ([$kernels[] | select(.nccl) | .time] | merge) as $communication
| ([$kernels[] | select(.nccl | not) | .time] | merge) as $computation
| ([$communication[] | .[1] - .[0]] | add) as $all
| ([$communication[] as $a | $computation[] | ([.[1], $a[1]] | min) - ([.[0], $a[0]] | max)
  | select(. > 0)] | add) as $both
| $both / $all
