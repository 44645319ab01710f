#!/bin/sh
# Locks the peers of `make bench` anew: exact versions with the hashes of their files.
#
# txtai needs torch. Its build for processors only (2.13.0+cpu) is what is meant: its hash is added to the others, and
# the packages that only the CUDA build needs are left out, so the locks are installed with --no-deps. torch has a lock
# of its own: where it cannot be had, the other peers are measured all the same.
set -eu
cd "$(dirname "$0")"
torch_cpu=6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b
uv pip compile bench.in --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
    --output-file bench.all.txt
awk -v cpu="$torch_cpu" '
    /^[^ ]/ { kept = !/^(nvidia-|cuda-|triton==)/ }
    /^[^ ]/ { out = /^torch==/ ? "bench-torch.txt" : "bench.txt" }
    kept { print > out }
    /^torch==/ { print "    --hash=sha256:" cpu " \\" > out }
' bench.all.txt
rm bench.all.txt
