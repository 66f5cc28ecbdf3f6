# shellcheck shell=bash
# --- Copies on the nodes: the environment of a run, or the image of its container, and its code, so that the ranks of a
# large job do not open thousands of files on the shared file system. Those of one start are in one folder of each node.

broadcast() { # broadcast required|optional FOLDER [ENVIRONMENT|IMAGE]: copy it, and the code, to FOLDER on every node.
  # The ranks use the copies. If it fails, stop, or let them use the originals.
  local place="$2/hpclaunch-$UID-$start" problem='' base='' files=() size=0 began=$SECONDS text=''
  keep_to_own_cluster
  keep_own_variables
  copies=()
  if has_safe_owner "$2" && pack_copies "${3-}" "$place" && has_room "$2" && send_copies "$place"; then
    text+=", $(in_megabytes "$size"), copied to $place on every node"
    use_copies "$place"
    printf '%s\n' "$text in $((SECONDS - began)) s" > "$attempt/broadcast"
    say "$text in $((SECONDS - began)) s"
    return
  fi
  copies=()
  rm -f "$attempt/code.tar"
  [ "$1" = optional ] || stop "nothing was started: the broadcast failed: $problem. To run without it: --no-broadcast"
  say "the broadcast failed: $problem. The ranks use the files on the shared file system"
}

in_megabytes() {
  printf '%d.%d MB' $(($1 / 1000000)) $(($1 / 100000 % 10))
}

has_safe_owner() { # is this a folder in which no other user can change what is ours?
  local owner mode
  problem="$1 is not a folder on $HOSTNAME"
  [ -d "$1" ] || return
  read -r owner mode < <(stat --dereference --format='%u %a' "$1")
  problem="in $1 on $HOSTNAME other users can change what this job writes"
  [[ "$owner" == 0 || "$owner" == "$UID" ]] && ((!(8#$mode & 8#22) || (8#$mode & 8#1000)))
}

pack_copies() { # pack_copies ENVIRONMENT|IMAGE PLACE: set copies, files (what to send, each with its path on the nodes),
  # their size, and the text that names the originals
  local code="${HPCLAUNCH_ARRAY_DIR:-$HPCLAUNCH_RUN_DIR}/code" file
  if [ -f "$1" ]; then
    files+=("$1" "$2.image")
    copies+=("$1" "$2/${1##*/}")
  elif is_environment "$1"; then
    base=$(find_base "$1")
    pack_environment "$1" "$2.env.tar" || return
    copies+=("$1" "$2/env")
  elif [ -n "$1" ]; then
    say "$1 is no environment that can be copied (it has no pyvenv.cfg and no conda-meta)"
  fi
  if [ -d "$code" ]; then
    problem="$code cannot be packed"
    (umask 077 && tar --create --file="$attempt/code.tar" --directory="$code" .) || return
    files+=("$attempt/code.tar" "$2.code.tar")
    copies+=("$code" "$2/code")
  fi
  problem='there is nothing to copy'
  [ ${#files[@]} -gt 0 ] || return
  for ((file = 0; file < ${#files[@]}; file += 2)); do
    size=$((size + $(stat --dereference --format=%s "${files[file]}")))
  done
  text="${copies[0]}${copies[2]:+ and ${copies[2]}}"
  [ "${copies[1]}" != "$2/env" ] || add_other_paths "$1" "$2/env"
}

add_other_paths() { # add_other_paths ENVIRONMENT COPY: add pairs to copies for other paths of the same folder. A venv's
  # activate and programs name the path at which it was made, and a home folder often has two.
  local path
  for path in "${VIRTUAL_ENV-}" "${CONDA_PREFIX-}" "$(readlink --canonicalize "$1")"; do
    [ "$path" = "$1" ] || [ ! "$path" -ef "$1" ] || copies+=("$path" "$2")
  done
}

is_environment() { # is this the folder of a venv or of a conda environment?
  [ -e "$1/pyvenv.cfg" ] || [ -d "$1/conda-meta" ]
}

find_base() { # print the standard library and the program from which a venv was made, if they are on a shared file
  # system too
  local program library
  program=$(readlink --canonicalize "$1/bin/python")
  for library in "$1"/lib/python3.*; do
    library="${program%/bin/*}/lib/${library##*/}"
    [ ! -e "$1/pyvenv.cfg" ] || [ ! -e "$library/os.py" ] || is_local "$library" || printf '%s\n' "$library" "$program"
  done
}

is_local() { # is this a part of the system, or on a file system of this node alone?
  case $1:$(stat --file-system --format=%T "$1") in
    /usr/* | *:btrfs | *:ext2/ext3 | *:overlayfs | *:ramfs | *:squashfs | *:tmpfs | *:xfs | *:zfs) ;;
    *) return 1 ;;
  esac
}

pack_environment() { # pack_environment FOLDER PATH: pack it, unless an earlier job has packed the same files
  local folder="${HPCLAUNCH_ARRAY_DIR:-$HPCLAUNCH_RUN_DIR}" archive parts=()
  folder="${folder%/*}/.broadcast-$UID"
  problem="$folder cannot be written, or belongs to another user"
  (umask 077 && mkdir -p "$folder") && [ -O "$folder" ] || return
  archive="$folder/$(sum_of_files "$1").tar"
  if [ ! -e "$archive" ]; then
    say "packing $1 for the nodes"
    problem="$1 cannot be packed into $archive"
    [ ! -d "$1/conda-meta" ] || parts=(--exclude=./pkgs --exclude=./envs) # those of other environments
    (umask 077 && tar --create --file="$archive.$start" --directory="$1" --anchored "${parts[@]}" .)
    [ $? -le 1 ] || return # 1: a file has changed meanwhile
    [ -z "$base" ] || add_base "$archive.$start" || return
    mv -f "$archive.$start" "$archive" || return
  fi
  touch "$archive"
  find "$folder" -maxdepth 1 -name '*.tar*' -mtime +30 -delete
  files+=("$archive" "$2")
}

add_base() { # add the program and the standard library of a venv's Python to an archive, in the folder .base
  local library=${base%%$'\n'*} program=${base#*$'\n'}
  tar --append --file="$1" --directory="${library%/lib/*}" --anchored --transform='s,^,.base/,S' \
    --exclude="lib/${library##*/}/site-packages" --exclude="lib/${library##*/}/test" \
    "lib/${library##*/}" "bin/${program##*/}"
}

sum_of_files() { # print a checksum of the names, sizes and times of the files in an environment, and of its Python
  {
    printf '%s\n' "$1" "$base"
    stat --dereference --format='%s %Y' "$1/bin/python"
    find "$1/" \( -type f -o -type l \) -printf '%P %m %s %T@ %l\n'
  } 2> /dev/null | LC_ALL=C sort | sha256sum | cut --delimiter=' ' --fields=1
}

has_room() { # has this node room in a folder for the archives and what is unpacked from them?
  local needed=$((size * 9 / 4)) free memory job_memory
  free=$(($(stat --file-system --format='%a * %S' "$1")))
  problem="$1 of each node needs $(in_megabytes "$needed"), and has $(in_megabytes "$free") on $HOSTNAME"
  [ "$needed" -le "$free" ] || return
  case $(stat --file-system --format=%T "$1") in
    tmpfs | ramfs) ;; # what is written there is in memory, which the job has to share with its ranks
    *) return 0 ;;
  esac
  memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo) * 1024))
  job_memory=$(($("${scheduler}_memory") * 1048576))
  [ "$job_memory" -eq 0 ] || [ "$job_memory" -gt "$memory" ] || memory=$job_memory
  problem="$1 of each node needs $(in_megabytes "$needed"), which is more than half of the memory that this job has \
($(in_megabytes "$memory") on $HOSTNAME)"
  [ "$needed" -le $((memory / 2)) ]
}

send_copies() { # send_copies PLACE: send the files to all nodes, and unpack them there
  local file
  for ((file = 0; file < ${#files[@]}; file += 2)); do
    problem="${files[file]} was not sent to all nodes (see the lines above)"
    "${scheduler}_send" "${files[file]}" "${files[file + 1]}" || { remove_copies "$1" && return 1; }
  done
  rm -f "$attempt/code.tar"
  problem="the copies were not unpacked on all nodes (see the lines above)"
  "${scheduler}_on_nodes" bash -c "$(declare -f unpack_copies remove_old relocate link_base processes_with)
unpack_copies \"\$@\"" hpclaunch "$1" "$base" "${copies[@]}" || { remove_copies "$1" && return 1; }
}

remove_copies() { # remove_copies PLACE: remove the copies from all nodes
  "${scheduler}_on_nodes" rm -rf "$1" "$1.env.tar" "$1.code.tar" "$1.image" > /dev/null 2>&1
  return 0
}

unpack_copies() { # unpack_copies PLACE BASE FROM TO [FROM TO]...: what each node does with the files that it got
  local name
  umask 077
  remove_old "${1%/*}"
  mkdir "$1" || return
  [ ! -e "$1.image" ] || mv "$1.image" "$4" || return
  for name in env code; do
    [ -e "$1.$name.tar" ] || continue
    mkdir "$1/$name" && tar --extract --file="$1.$name.tar" --directory="$1/$name" || return
    rm -f "$1.$name.tar"
  done
  [ ! -d "$1/env" ] || relocate "$1/env" "${@:2}"
}

remove_old() { # remove what earlier jobs of this user, which were killed, have left in this folder
  local old
  find "$1" -maxdepth 1 -uid "$UID" -name "hpclaunch-$UID-*" -mmin +60 -print0 |
    while IFS= read -r -d '' old; do
      [ -n "$(processes_with HPCLAUNCH_BROADCAST "$old")" ] || rm -rf -- "$old"
    done
}

relocate() { # relocate COPY BASE FROM TO [FROM TO]...: let the programs of an environment's copy start the Python of
  # the copy
  local copy=$1 base=$2 file text
  shift 2
  while [ $# -gt 0 ]; do
    while IFS= read -r -d '' file; do
      IFS= read -r -d '' text < "$file"
      text=${text//"$1/bin/"/$copy/bin/}
      [ -L "$file" ] || printf '%s' "$text" > "$file"
    done < <([ "$2" != "$copy" ] ||
      grep --files-with-matches --null --no-messages -I --fixed-strings "$1/bin/" "$copy"/bin/*)
    shift 2
  done
  [ -z "$base" ] || link_base "$copy" "${base%%$'\n'*}" "${base#*$'\n'}"
}

link_base() { # link_base COPY LIBRARY PROGRAM: let a venv's copy use the copy of the standard library
  local entry
  for entry in "${2%/*}"/* "$2/site-packages"; do # what was not copied stays where it is
    [ -e "$1/.base/${entry#"${2%/lib/*}/"}" ] || ln -s "$entry" "$1/.base/${entry#"${2%/lib/*}/"}"
  done
  for entry in "$1"/bin/python*; do
    [ ! -L "$entry" ] || ln -sfn "$1/.base/bin/${3##*/}" "$entry"
  done
  sed -i "s,^home *=.*,home = $1/.base/bin," "$1/pyvenv.cfg"
}

use_copies() { # use_copies PLACE: let this script and the ranks find the copies, whatever variables name the originals
  local name i
  export HPCLAUNCH_BROADCAST=$1
  while IFS= read -r name; do
    [[ "$name" != HPCLAUNCH_* ]] || continue
    for ((i = 0; i < ${#copies[@]}; i += 2)); do
      [[ "${!name}" != *"${copies[i]}"* ]] || export "$name=$(in_copies "${!name}")"
    done
  done < <(compgen -e)
  hash -r
}

in_copies() { # print a text with the paths of the copies in place of those of the originals
  local i commands=''
  for ((i = 0; i < ${#copies[@]}; i += 2)); do # a path, and not a part of a longer one
    commands+="s/(^|[ :;=,({'\"])$(in_sed "${copies[i]}")([ /:;,)}'\"]|\$)/\1$(in_sed "${copies[i + 1]}")\2/g;"
  done
  printf '%s' "$1" | sed -E -e "$commands" -e "$commands" # twice: two paths may share what stands between them
}

in_sed() { # print a text as sed reads it literally
  printf '%s' "$1" | sed 's/[][\.*^)(+?}{|/&$]/\\&/g'
}

leave_copies() { # the last rank of a node removes the copies of a job that is being ended: no more steps can start
  local ended
  : > "$HPCLAUNCH_BROADCAST/ended-$$"
  [ "$is_ended" = yes ] || return 0
  ended=("$HPCLAUNCH_BROADCAST"/ended-*)
  [ ${#ended[@]} -lt "${HPCLAUNCH_LOCAL_WORLD_SIZE:-${LOCAL_WORLD_SIZE:-1}}" ] || rm -rf "$HPCLAUNCH_BROADCAST"
} 2> /dev/null
