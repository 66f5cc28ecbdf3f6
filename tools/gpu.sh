#!/usr/bin/env bash
# make gpu: the tests of tests/gpu, with the wheel alone, on a machine with a GPU and PyTorch or JAX. It needs no TensorFlow,
# no Horovod, no MPI and no root, and takes five minutes at most. Elsewhere every test is skipped by its group's name.
#
# PYTHON=... names the Python that has PyTorch or JAX (default: python3). Without a network, WHEELS=FOLDER names a folder
# with the wheels of hpclaunch's dependencies, hatchling, hatch-fancy-pypi-readme, pytest and pytest-timeout.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
python=${PYTHON:-python3}
place=$(mktemp -d "${TMPDIR:-/tmp}/hpclaunch-gpu.XXXXXX")
trap 'rm -rf "$place"' EXIT
from=(${WHEELS:+--no-index --find-links "$WHEELS"})

echo "the wheel, in an environment over $("$python" -c 'import sys; print(sys.executable)') (a minute) ..."
"$python" -m venv --system-site-packages "$place/env"
"$place/env/bin/python" -m pip wheel --quiet --no-deps ${from[@]+"${from[@]}"} --wheel-dir "$place/dist" .
"$place/env/bin/python" -m pip install --quiet ${from[@]+"${from[@]}"} "$place"/dist/*.whl 'pytest>=8' 'pytest-timeout>=2.3'

# Beside tests/ and pyproject.toml there is nothing of the checkout: what runs is the wheel.
mkdir "$place/beside"
cp -r tests pyproject.toml "$place/beside/"
cd "$place/beside"
HPCLAUNCH_GPU_FIGURES=${FIGURES:-$checkout/gpu-figures.json} PATH=$place/env/bin:$PATH \
  "$place/env/bin/python" -m pytest -p no:cacheprovider -v -s tests/gpu ${TESTS:+-k "$TESTS"}
