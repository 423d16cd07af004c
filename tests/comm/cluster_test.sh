#!/usr/bin/env bash
# cluster_test.sh CLUSTER PROBE: tests scripts/cluster with tests/comm/cluster_probe as the MPI
# program. Exit status 77: skipped.
set -euo pipefail
cluster=$1 probe=$2
rate=100mbit

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; exit 1; }
expect() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }

[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
{ command -v ip && command -v tc; } >/dev/null || skip "ip and tc (package iproute2) are missing"
! ip link show axonn-bridge >/dev/null 2>&1 || skip "somebody's cluster is up; scripts/cluster down removes it"
ip netns add axonn-try 2>/dev/null || skip "this container does not let root make network namespaces"
ip netns del axonn-try

scratch=$(mktemp -d)
trap '"$cluster" down; rm -rf "$scratch"' EXIT

nothing_is_left() {
  local left
  left=$(ip netns list; ip -o link; find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'ompi.axonn*')
  ! grep axonn- <<<"$left" || fail "$1: something is left"
}

# Whether the process exists and is not a zombie that its new parent has not reaped yet.
runs() { grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null; }

refused() {
  local words=$1 output
  shift
  ! output=$("$@" 2>&1) || fail "not refused: $*"
  grep -q -- "$words" <<<"$output" || fail "'$*' says '$output', not '$words'"
}

refused "no cluster is up" "$cluster" run -n 2 -- hostname
refused "need up, run or down" "$cluster" upp
refused "go together" "$cluster" up --nodes 2
refused "such as 200mbit" "$cluster" up --nodes 2 --rate 200
refused "at least 1" "$cluster" up --nodes 0 --rate $rate
refused "unknown option '--speed'" "$cluster" up --speed 3
mkdir "$scratch/bin"
printf '#!/bin/sh\necho 1000\n' >"$scratch/bin/id"
chmod +x "$scratch/bin/id"
refused "need root" env PATH="$scratch/bin:$PATH" "$cluster" up --nodes 2 --rate $rate
nothing_is_left "after refusals"

"$cluster" up --nodes 2 --rate $rate
refused "2 hosts is up already" "$cluster" up --nodes 2 --rate $rate
expect "ranks go to hosts in even blocks" "axonn-node0 axonn-node0 axonn-node1" \
  "$("$cluster" run -n 3 -- hostname | sort | xargs)"
expect "an MPI program runs over both" "3 ranks on 2 hosts, 0 wrong bytes" "$("$cluster" run -n 3 -- "$probe" 1000000)"
# The rank on host 1 has sent a million bytes to each of the two ranks on host 0 over its link, and
# the shaper has held some of them back.
read -r sent held_back < <(nsenter --net=/var/run/netns/axonn-node1 tc -s qdisc show dev eth0 |
  sed -n 's/.*Sent \([0-9]*\) .*overlimits \([0-9]*\) .*/\1 \2/p')
[ "$sent" -ge 2000000 ] || fail "only $sent bytes went over the link of host 1"
[ "$held_back" -gt 0 ] || fail "the link of host 1 is not shaped"
status=0
"$cluster" run -n 2 -- sh -c 'exit 7' >/dev/null 2>&1 || status=$?
expect "the command's exit status" 7 $status
"$cluster" down
nothing_is_left "after down"
"$cluster" down
nothing_is_left "after a second down"

expect "hosts for one command" axonn-node0 "$("$cluster" run --nodes 2 --rate $rate -n 1 -- hostname)"
nothing_is_left "after run --nodes"

# A shell starts background jobs with interrupts ignored.
for signal in INT TERM; do
  env --default-signal=$signal "$cluster" run --nodes 2 --rate $rate -n 2 -- sleep 600 >/dev/null 2>&1 &
  running=$!
  sleeper=
  for ((i = 0; i < 300; i++)); do
    for pid in $(ip netns pids axonn-node1 2>/dev/null || true); do
      [ "$(cat "/proc/$pid/comm" 2>/dev/null || true)" != sleep ] || sleeper=$pid
    done
    [ -z "$sleeper" ] || break
    sleep 0.1
  done
  [ -n "$sleeper" ] || fail "the command did not start"
  kill -$signal $running
  ! wait $running || fail "an interrupted run must not end with status 0"
  nothing_is_left "after SIG$signal"
  ! runs "$sleeper" || fail "the command survived SIG$signal"
done
echo "scripts/cluster keeps its promises"
