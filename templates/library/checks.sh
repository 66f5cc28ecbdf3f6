# shellcheck shell=bash
# --- Messages and checks

say() {
  printf 'hpclaunch: %s\n' "$1" >&2
}

check() { # stop if the command before this line failed
  local code=$?
  [ "$code" -eq 0 ] || stop "$1: failed with exit code $code"
  [ "${watches_modules-no}" = no ] || watch_modules # that command may have defined the function module
}

need() { # need [--packages NAME,...] PROGRAM...: stop if a program is missing, or the first, a Python, lacks a package
  local program packages=
  [ "$1" != --packages ] || { packages=$2 && shift 2; }
  for program in "$@"; do
    command -v "$program" > /dev/null || stop "there is no program $program on $HOSTNAME: \
load its module, or set 'environment:' in the job file or the site file"
  done
  [ -z "$packages" ] || need_packages "$1" "$packages"
}

need_packages() { # need_packages PYTHON NAME,...: stop if it lacks one; they are looked up once, and not imported
  local lacks
  lacks=$("$1" -c 'import importlib.util as found, sys
print("lacks", " and ".join(name for name in sys.argv[1].split(",") if not found.find_spec(name)))' "$2" 2> /dev/null)
  [[ $lacks != "lacks "?* ]] || stop "$(command -v "$1") on $HOSTNAME has no ${lacks#lacks }, which this run needs: \
name another environment with --venv, --conda or --python, or 'environment:' in the settings, the job file or the site file"
}

set_legacy_keras() { # set_legacy_keras PYTHON: let tf.keras be Keras 2, if that Python has Keras 3 and beside it tf-keras
  TF_USE_LEGACY_KERAS=$("$1" -c 'from importlib.metadata import version
print(1 if int(version("keras").split(".")[0]) > 2 and version("tf-keras") else "")' 2> /dev/null)
  export TF_USE_LEGACY_KERAS
}

write_file() { # write_file FILE LINE...: write these lines at once, as the tasks of an array write the same file
  printf '%s\n' "${@:2}" > "$1.$HOSTNAME.$$" && mv -f -- "$1.$HOSTNAME.$$" "$1"
}

enter() { # enter a folder
  cd "$1" || stop "the folder $1 does not exist, or cannot be entered"
}

secret() { # secret FOLDER/NAME: export NAME, with its value in the environment or in that file; never write the value
  local file=$1 name=${1##*/} mode
  if [ -z "${!name-}" ]; then
    [ -r "$file" ] || stop "$name is not set on $HOSTNAME, and there is no file $file that holds it"
    mode=$(stat --dereference --format=%a "$file")
    [[ "$mode" == [46]00 ]] || stop "$file can be read by others (mode $mode): chmod 600 it"
    IFS= read -r "${name?}" < "$file"
    [ -n "${!name-}" ] || stop "$file is empty"
  fi
  export "${name?}"
}
