# shellcheck shell=bash
# --- The sampler of a node (hpclaunch docs efficiency). No fault of it may reach the job.

sampler_sha256=66b85dd25ff613fa582e3cf147684c315fec7eeaec84015cb4cb881bdc36906c # of sampler.py

find_sampler() { # print the path of the sampler; nothing if this run has none
  local file="${HPCLAUNCH_ARRAY_DIR:-${HPCLAUNCH_RUN_DIR-}}/sampler.py"
  [ -e "$file" ] || return 0
  [ "$(sha256sum 2> /dev/null < "$file")" != "$sampler_sha256  -" ] || { printf %s "$file" && return; }
  say "no samples: $file is not the sampler of this script (its SHA-256 is not $sampler_sha256)"
}

sample_rank() { # list this rank for the sampler of its node; the first rank of a node starts it
  local start=${HPCLAUNCH_EXIT_FILE%/*} folder="$HPCLAUNCH_RUN_DIR/samples" node me
  read -r node < /proc/sys/kernel/hostname # HOSTNAME may come from the first node, with its other variables
  sampled="$folder/$node-${start##*/}.ranks"
  me="begin $RANK $$ $(began_at $$)"
  [ -d "$folder" ] || mkdir -p "$folder" 2> /dev/null
  if ! (set -o noclobber && echo "$me" > "$sampled") 2> /dev/null; then
    echo "$me" 2> /dev/null >> "$sampled"
  elif command -v python3 > /dev/null; then # it ends with the ranks, and not as a process that the run left behind
    (
      trap '' HUP INT QUIT TERM USR1 USR2 # the ranks may continue after these
      exec env -u HPCLAUNCH_EXIT_FILE -u HPCLAUNCH_RANK_OF HPCLAUNCH_SAMPLES_OF="$HPCLAUNCH_EXIT_FILE" \
        python3 -I -S "$sampler" "$node" "${start##*/}" "$folder"
    ) < /dev/null > /dev/null 2>&1 &
    disown 2> /dev/null # else this shell reports how it ended; it may have ended by now
  elif [ "$RANK" = 0 ]; then
    echo "hpclaunch: no samples: there is no program python3 on $node" >&2
  fi
}

end_sampler() { # end this node's sampler, which ends by itself, but perhaps a moment later
  local left
  [ -d "$HPCLAUNCH_RUN_DIR/samples" ] || return 0
  for _ in {1..50}; do
    mapfile -t left < <(processes_with HPCLAUNCH_SAMPLES_OF "$HPCLAUNCH_EXIT_FILE")
    [ ${#left[@]} -gt 0 ] || return 0
    kill -s KILL "${left[@]}" 2> /dev/null
    sleep 0.02
  done
}

count_rank() { # write the kernel's account of this rank: core-milliseconds, and bytes of its read and write calls
  local stat fields name input=0 output=0
  IFS= read -r stat < "/proc/$$/stat" && read -r -a fields <<< "${stat##*) }"
  { read -r name input && read -r name output; } < "/proc/$$/io"
  # utime, stime, and those of children that have ended, in units of 10 ms (USER_HZ)
  printf 'end %s %(%s)T %s %s %s\n' "$RANK" -1 \
    $(((fields[11] + fields[12] + fields[13] + fields[14]) * 10)) "$input" "$output" >> "$sampled"
} 2> /dev/null
