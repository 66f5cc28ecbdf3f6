#!/usr/bin/env bash
# The main job on this machine: real Horovod training on two ranks. Real CIFAR-10 where HPCLAUNCH_DATA_DIR names its
# folder; stand-in images, and it says so, where there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
options=(--site local --tasks-per-node 2 --set epochs=2 --wait)
if [ -z "${HPCLAUNCH_DATA_DIR:-}" ]; then
  echo "demo: no data (HPCLAUNCH_DATA_DIR is not set), so this trains on stand-in images"
  options+=(--synthetic --set batch_size_per_rank=64) # few images: smaller steps, so that there are some
fi
exec .venv/bin/hpclaunch submit cifar "${options[@]}" "$@"
