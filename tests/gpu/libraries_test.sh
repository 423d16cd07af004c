#!/usr/bin/env bash
# libraries_test.sh PROGRAM...: each program needs LibTorch with CUDA and its OpenMP, NCCL, the CUDA
# runtime and the C and C++ libraries, but no others, so it can be copied to a machine that has
# these.
set -u
torch='libtorch_cuda|libtorch_cpu|libc10|libc10_cuda|libgomp|libnccl|libcudart'
system='libstdc\+\+|libgcc_s|libc|libm|libdl|libpthread|librt|ld-linux-x86-64'
allowed="^($torch|$system)\.so(\.[0-9]+)*$"
status=0
for program in "$@"; do
  needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  if ! grep -q '^libtorch_cuda\.so' <<<"$needed"; then
    echo "$program does not name libtorch_cuda, so it has no CUDA"
    status=1
  fi
  if other=$(grep -vE "$allowed" <<<"$needed"); then
    echo "$program also needs" $other
    status=1
  fi
done
exit $status
