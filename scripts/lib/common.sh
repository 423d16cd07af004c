# Shared functions, sourced by the scripts in scripts/. Changes to the checkout's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=scripts/$(basename "$0")
# CMake and Ninja, if scripts/setup fetched them.
[ ! -d .deps/site/bin ] || PATH=$PWD/.deps/site/bin:$PATH

say() { printf '%s: %s\n' "$program" "$*" >&2; }
fail() { say "$*"; exit 1; }

# Parallel compilations: one per core, limited by memory: 1.5 GB per file that includes LibTorch.
build_jobs() {
  local cores memory_kb
  cores=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  local fits=$((memory_kb / 1500000))
  [ "$fits" -ge 1 ] || fits=1
  echo $((cores < fits ? cores : fits))
}

# For ctest -j: thirds of a processor (cmake/AxonnTest.cmake).
test_slots() { echo $((3 * $(nproc))); }

# 375 -> 6:15
duration() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }
