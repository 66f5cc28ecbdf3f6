#!/usr/bin/env bash
# The main job on this machine: real Horovod training on two ranks. Real CIFAR-10 where HPCLAUNCH_DATA_DIR names its
# folder; stand-in images, and it says so, where there is none. At the end it prints how long each part took.
set -euo pipefail
cd "$(dirname "$0")/.."
# Nobody serves a model of two epochs, so none is exported.
options=(--site local --tasks-per-node 2 --set epochs=2 --set export_model=false --wait)
if [ -z "${HPCLAUNCH_DATA_DIR:-}" ]; then
  echo "demo: no data (HPCLAUNCH_DATA_DIR is not set), so this trains on stand-in images"
  options+=(--synthetic --set batch_size_per_rank=64) # few images: smaller steps, so that there are some
fi
echo 'demo: two epochs on two ranks of this machine (about 20 s on free cores); their output follows' >&2
began=$(date +%s.%N)
seconds=$SECONDS
while sleep 15 > /dev/null 2>&1; do echo "demo:   $((SECONDS - seconds)) s" >&2; done &
ticker=$!
trap 'kill "$ticker" 2> /dev/null || :' EXIT
run=$(.venv/bin/hpclaunch submit cifar "${options[@]}" "$@")
echo "$run"
.venv/bin/python -S - "$began" "$(date +%s.%N)" "${run##*$'\n'}/metrics.jsonl" >&2 << 'EOF_OF_PYTHON'
import json
import sys

began, ended = map(float, sys.argv[1:3])
times = [(line["event"], line["time"]) for line in map(json.loads, open(sys.argv[3]))]
started = next(time for event, time in times if event == "start")
trained = [time for event, time in times if event == "epoch"][-1]
print(
    f"demo: {ended - began:.1f} s: {started - began:.1f} s until both ranks have model and data, "
    f"{trained - started:.1f} s of training, {ended - trained:.1f} s of evaluation and the end"
)
EOF_OF_PYTHON
