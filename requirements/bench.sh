#!/bin/sh
# Locks the peers of `make bench` anew: exact versions with the hashes of their files.
#
# txtai needs torch, whose build for processors only stands in bench-torch.txt, by itself: where it cannot be had, the
# other peers are measured all the same. What only the CUDA build needs is left out, so both are installed with --no-deps.
set -eu
cd "$(dirname "$0")"
uv pip compile bench.in --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
    --output-file bench.all.txt
awk '/^[^ ]/ { kept = !/^(torch==|nvidia-|cuda-|triton==)/ } kept' bench.all.txt > bench.txt
rm bench.all.txt
