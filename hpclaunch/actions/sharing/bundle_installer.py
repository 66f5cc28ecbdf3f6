"""The shell script at the head of a bundle, which checks and installs the wheels behind it."""

from __future__ import annotations

from collections.abc import Mapping

_SCRIPT = """\
#!/bin/sh
# hpclaunch VERSION for Python WANTED on MACHINE, with all packages that it needs. To install it, without internet:
#     sh THIS_FILE [FOLDER]        FOLDER: a new folder [default: ~/hpclaunch-env]
# PYTHON=/path/to/pythonWANTED names the Python. Behind the last line of this script is a tar archive of wheels.
set -eu
fail() { printf 'error: %s\\n    next: %s\\n' "$1" "$2" >&2; exit 1; }
unset PYTHONPATH PYTHONHOME
folder=${1:-$HOME/hpclaunch-env}
case $folder in -*) fail "unknown option $folder" "sh $0 [FOLDER]" ;; esac
[ ! -e "$folder" ] || fail "$folder exists" "name a new folder: sh $0 FOLDER"
[ "$(uname -m)" = MACHINE ] || fail "this bundle is for MACHINE, and this machine is $(uname -m)" \\
  "make another: hpclaunch bundle --machine $(uname -m)"
python=
for name in ${PYTHON:+"$PYTHON"} pythonWANTED python3; do
  if [ "$("$name" -c 'import sys, venv; print("%d.%d" % sys.version_info[:2])' 2> /dev/null)" = WANTED ]; then
    python=$name
    break
  fi
done
[ -n "$python" ] || fail "there is no Python WANTED with the module venv on PATH" \\
  "load a module with it, set PYTHON=/path/to/pythonWANTED, or make another bundle: hpclaunch bundle --python X.Y"
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo "hpclaunch: checking the files" >&2
tail -n +LINES "$0" | tar -xf - -C "$wheels" || fail "$0 is damaged" "copy it again"
cat > "$wheels/SHA256SUMS" << 'END'
SUMS
END
(cd "$wheels" && sha256sum --check --strict --quiet SHA256SUMS >&2) || fail "$0 is damaged" "copy it again"
echo "hpclaunch: installing into $folder with $python" >&2
pip=$(echo "$wheels"/pip-*.whl)/pip
if ! "$python" -m venv --without-pip "$folder" ||
  ! "$folder/bin/python" "$pip" install --isolated --no-index --find-links "$wheels" --no-cache-dir \\
    --quiet --disable-pip-version-check 'REQUIREMENT'; then
  rm -rf "$folder"
  fail "hpclaunch could not be installed into $folder (above)" \\
    "if a package is missing, make the bundle with Python WANTED"
fi
"$folder/bin/hpclaunch" --version >&2
echo "hpclaunch: to use it: export PATH=$folder/bin:\\$PATH" >&2
exit 0
"""


def installer_text(about: Mapping[str, str], sums: Mapping[str, str]) -> str:
    """Return the script; ``sums`` has the SHA-256 of each file behind it.

    ``about`` has the VERSION, the WANTED version of Python, the MACHINE and the REQUIREMENT that pip gets.
    """
    text = _SCRIPT.replace("SUMS\nEND", "".join(f"{value}  {name}\n" for name, value in sums.items()) + "END", 1)
    text = text.replace("LINES", str(text.count("\n") + 1))
    for name, value in about.items():
        text = text.replace(name, value)
    return text
