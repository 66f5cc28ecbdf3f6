#!/usr/bin/env bash
# Makes .venv in this checkout: hpclaunch (editable), TensorFlow and Horovod, and with "dev" what the tests need.
# Quick when all is there. Horovod is compiled once (2 to 4 minutes); it uses MPI where its headers are installed. Each part
# says what it does and how long that takes; a part that lasts says every ten seconds how far it is.
# Everything that is installed, also to build it, has the version and a hash of tools/constraints.txt, whatever index serves it.
set -euo pipefail
cd "$(dirname "$0")/.."
group=${1:-}
constraints=tools/constraints.txt
times=()
cache='' # of uv
ticker=''
trap 'stop_ticker' EXIT

begin() { # begin PART TIME: say what comes next
  echo "setup: $1 (about $2)"
}

watched() { # watched COMMAND...: run it; meanwhile a line every ten seconds says how far it is
  local code=0
  printf -v since '%(%s)T'
  while sleep 10 > /dev/null 2>&1; do how_far; done &
  ticker=$!
  "$@" || code=$?
  stop_ticker
  return "$code"
}

stop_ticker() { # end the lines of `watched`
  [ -z "$ticker" ] || { kill "$ticker" && wait "$ticker"; } 2> /dev/null || :
  ticker=''
}

how_far() { # say how far the part is: CMake keeps a file for each hundredth of what it has compiled
  local progress changed what="$doing"
  for progress in "$cache"/sdists-*/*/horovod/*/*/src/build/temp.*/*/CMakeFiles/Progress; do
    changed=$(stat --format=%Y "$progress" 2> /dev/null || echo 0) # 0: no folder matches, or it is gone
    [ "$changed" -ge "$since" ] || continue
    what="compiling Horovod: $(find "$progress" -name '[0-9]*' | wc -l) % of its files have begun"
  done
  echo "setup:   $((SECONDS - noted)) s: $what"
}

lap() { # lap PART: note how long it took, since the part before it
  times+=("$1 $((SECONDS - noted)) s")
  noted=$SECONDS
}
noted=$SECONDS

find_python() {
  local name
  for name in "${PYTHON:-python3.11}" python3.11 python3.10 python3; do
    if "$name" -c 'import sys, venv; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 11))' 2> /dev/null; then
      command -v "$name"
      return
    fi
  done
  echo "setup: Python 3.10 or 3.11 with venv is needed (TensorFlow 2.15 has no build for others)." >&2
  echo "       On Debian 12: apt install python3.11-venv; or name one: make PYTHON=/path/to/python3.11 ..." >&2
  return 1
}

begin 'an environment in .venv, with uv' '10 s'
pinned_uv() { sed -n '/^uv==/,/[^\\]$/p' "$constraints"; }
make_environment() {
  local python wanted
  if [ ! -x .venv/bin/python ]; then
    python=$(find_python) && "$python" -m venv .venv || return
  fi
  wanted=$(pinned_uv | sed -n 's/^uv==\([^ ]*\).*/\1/p')
  [ "$(.venv/bin/uv --version 2> /dev/null | cut -d' ' -f2)" = "$wanted" ] ||
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r <(pinned_uv)
}
doing='making the environment'
watched make_environment
lap "environment with uv"

# pip trusts the machine's certificates, also those of an institute's proxy; uv needs a setting for it
# (of which it has a newer and an older name), and the file that pip is set to.
export UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1
if [ -z "${SSL_CERT_FILE:-}" ]; then
  certificates=${PIP_CERT:-$(.venv/bin/python -m pip config get global.cert 2> /dev/null || true)}
  [ ! -f "$certificates" ] || export SSL_CERT_FILE=$certificates
fi

# A second set-up waits for the Horovod that the first one compiles; uv would give up after five minutes.
export UV_LOCK_TIMEOUT=3600

# Horovod is compiled with what runs here alone, unless another toolchain is named.
export CMAKE_TOOLCHAIN_FILE=${CMAKE_TOOLCHAIN_FILE:-$PWD/tools/horovod-build.cmake}

# `make setup-dev PYTHON=…` exports MAKEFLAGS, and Horovod then compiles one file after the other instead of eight at once.
unset MAKEFLAGS MAKEOVERRIDES

# Byte code is compiled here, for where PYTHONDONTWRITEBYTECODE is set (as in many images) every start would compile anew.
export UV_COMPILE_BYTECODE=1
checked=()
install=(.venv/bin/uv pip install --quiet --python .venv/bin/python)
if [ -z "${HPCLAUNCH_UNPINNED:-}" ]; then
  install+=(--preview-features build-dependency-hashes --build-constraints "$constraints" --require-build-hashes)
  checked=(--constraints "$constraints" --require-hashes)
fi
dependencies=("${install[@]}" "${checked[@]}" -r pyproject.toml --extra train)
[ -z "$group" ] || dependencies+=(--group "$group")
if compgen -G '.venv/lib/python3.*/site-packages/horovod' > /dev/null; then
  begin 'TensorFlow, Horovod and other packages, which are there' '5 s'
else
  begin 'TensorFlow and other packages (400 MB), and Horovod, which is compiled' '2 to 5 minutes on free cores, once'
fi
cache=$(.venv/bin/uv cache dir)
doing='downloading, unpacking and installing packages'
if ! watched "${dependencies[@]}"; then
  echo "setup: where the index lacks a file of $constraints: HPCLAUNCH_UNPINNED=1 takes any version that fits, unchecked." >&2
  exit 1
fi

# A Horovod that was compiled (here or in the cache) before MPI was installed cannot be started by mpirun or srun.
libraries=(.venv/lib/python3.*/site-packages/horovod/tensorflow/mpi_lib*.so)
linked=$(ldd "${libraries[0]}") # into a variable: a pipe to grep -q can end ldd early, and then looks like a failure
if command -v mpicxx > /dev/null && [[ $linked != *libmpi* ]]; then
  begin 'MPI is installed now; compiling Horovod again with it' '2 to 4 minutes on free cores'
  .venv/bin/uv cache clean --quiet horovod
  watched "${dependencies[@]}" --reinstall-package horovod
fi
lap "TensorFlow, Horovod and other packages"
begin 'hpclaunch itself' '5 s'
"${install[@]}" --no-deps --editable .
.venv/bin/python -m compileall -q hpclaunch
lap hpclaunch
echo "setup: ready: .venv/bin/hpclaunch $(.venv/bin/hpclaunch --version | cut -d' ' -f2)"
printf -v parts ', %s' "${times[@]}"
echo "setup: $SECONDS s: ${parts:2}"
