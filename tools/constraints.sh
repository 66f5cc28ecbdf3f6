#!/usr/bin/env bash
# Renews tools/constraints.txt: the newest versions that pyproject.toml allows, for every Python and platform, with the
# hashes of all their files, and without the address of the index that this machine asks.
set -euo pipefail
cd "$(dirname "$0")/.."
export UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1
.venv/bin/uv lock --quiet --upgrade
{
  echo '# Written by `make constraints`. Versions and hashes of all that tools/setup.sh installs, for any index.'
  .venv/bin/uv export --quiet --frozen --extra train --extra plot --all-groups --no-emit-project --no-annotate --no-header
} > tools/constraints.new
mv tools/constraints.new tools/constraints.txt
