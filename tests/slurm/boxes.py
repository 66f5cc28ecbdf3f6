"""A container runtime for the test cluster, with real walls."""

from __future__ import annotations

# What stands for apptainer: a root of its own, in which there is only the system's /usr, what the image (a list of
# folders) holds, and what was bound. So nothing of this checkout is there, and PATH is the image's own. Bubblewrap
# needs no right of root's.
APPTAINER = """#!/bin/bash
[ "$1" = exec ] || exit 90
shift
binds=()
while [[ "$1" == --* ]]; do
  case "$1" in
    --bind) binds+=("$2"); shift 2 ;;
    --nv) shift ;;
    *) exit 91 ;;
  esac
done
mapfile -t inside < "$1"
shift
walls=()
for name in bin sbin lib lib64; do walls+=(--symlink "usr/$name" "/$name"); done
for place in /usr /etc /proc /sys /dev /tmp "${inside[@]}" "${binds[@]}"; do walls+=(--dev-bind "$place" "$place"); done
path=$(printf '%s/bin:' "${inside[@]}")
exec bwrap "${walls[@]}" --chdir "$PWD" --unsetenv LD_LIBRARY_PATH --setenv PATH "$path/usr/bin:/bin" "$@"
"""
