#!/usr/bin/env bash
# Runs commands on the Slurm and the Open MPI of Debian 13, in a folder that debootstrap makes (README.md beside this file).
# Usage, as root: tests/cluster/newer.sh setup; tests/cluster/newer.sh run COMMAND...
# HPCLAUNCH_NEWER_SLURM is the folder, HPCLAUNCH_DEBIAN_MIRROR a mirror other than that of this machine's apt.
set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD
folder=${HPCLAUNCH_NEWER_SLURM:-/var/tmp/hpclaunch-debian13}
# Python 3.11 comes from Debian 12: TensorFlow 2.15 has no build for the 3.13 of Debian 13. Horovod 0.28.1 does not compile
# with its g++ 14.
packages=(python3.11 libpython3.11-dev python3 python3-venv gcc-12 g++-12 make git ca-certificates procps)

mirror() {
  local address=${HPCLAUNCH_DEBIAN_MIRROR:-}
  [ -n "$address" ] ||
    address=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' 'Label: Debian' | head -n 1)
  echo "${address:?no Debian mirror: set HPCLAUNCH_DEBIAN_MIRROR}"
}

bootstrap() {
  local from
  from=$(mirror)
  command -v debootstrap > /dev/null || apt-get install -y -qq --no-install-recommends debootstrap
  if [ ! -f "$folder/.unpacked" ]; then
    echo "newer: unpacking Debian 13 into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    debootstrap --variant=minbase trixie "$folder" "$from" > "$folder.log" 2>&1
    echo "deb $from bookworm main" > "$folder/etc/apt/sources.list.d/bookworm.list"
    # Debian 12 gives only what Debian 13 does not have, and its libmariadb3: through that of MariaDB 11.8.9, slurmdbd
    # 24.11.5 ends at its first question ("Number of columns in result (=1) set execeeds ... (=0)").
    printf 'Package: *\nPin: release n=bookworm\nPin-Priority: 100\n\nPackage: libmariadb3\nPin: release n=bookworm\nPin-Priority: 1001\n' \
      > "$folder/etc/apt/preferences.d/bookworm"
    touch "$folder/.unpacked"
  fi
  echo "newer: installing packages"
  enter --ipc sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends ${packages[*]}" >> "$folder.log" 2>&1
  enter --ipc python3 tests/cluster/cluster.py install
  # Python 3.11 without the part of Debian's that makes virtual environments, which cannot stand beside Debian 13's Python.
  enter --ipc sh -c 'python3 -m venv /opt/uv && /opt/uv/bin/pip install -q "uv>=0.9" && /opt/uv/bin/uv venv -q --seed --python 3.11 .venv'
  touch "$folder/.complete"
}

setup() {
  [ -f "$folder/.complete" ] || bootstrap
  enter --ipc env CC=gcc-12 CXX=g++-12 make setup-dev
}

# Enter the folder. Processes and mounts are of a world of their own, and end with it; with --net its network is, too.
enter() {
  local kind=$1
  shift
  mkdir -p "$folder/venv" "$folder$checkout" "$checkout/.venv"
  FOLDER=$folder CHECKOUT=$checkout unshare "$kind" --mount --propagation private --pid --fork --kill-child \
    bash -euc '
      mount --bind "$FOLDER" "$FOLDER"
      mount -t proc proc "$FOLDER/proc"
      mount -t sysfs sys "$FOLDER/sys"
      mount --rbind /dev "$FOLDER/dev"
      mount -t tmpfs -o mode=1777 shm "$FOLDER/dev/shm"
      mount -t tmpfs -o mode=755 run "$FOLDER/run"
      mount --bind "$CHECKOUT" "$FOLDER$CHECKOUT"
      mount --bind "$FOLDER/venv" "$FOLDER$CHECKOUT/.venv" # the Horovod of the checkout itself needs Open MPI 4
      mkdir -p "$FOLDER/etc/ssl/certs"
      for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || [ "$file" -ef "$FOLDER$file" ] || cat "$file" > "$FOLDER$file"
      done
      if [ -d "${HPCLAUNCH_TEST_DATA:-}" ]; then
        mkdir -p "$FOLDER$HPCLAUNCH_TEST_DATA"
        mount --bind "$HPCLAUNCH_TEST_DATA" "$FOLDER$HPCLAUNCH_TEST_DATA"
      fi
      export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
      # Not chroot: who lives in one may make no user namespace, as containers of ordinary users do.
      cd "$FOLDER"
      pivot_root . mnt
      cd "$CHECKOUT"
      umount -l /mnt
      [ ! -x /usr/sbin/ip ] || ip link set lo up
      # This shell stays, as the process that takes note of the end of orphans.
      "$@"
      exit $?
    ' newer "$@"
}

case ${1:-} in
  setup) setup ;;
  run) shift && enter --net "$@" ;;
  *) sed -n '2,4s/^# //p' "$0" >&2 && exit 2 ;;
esac
