#!/bin/sh
# Writes the locks anew from pyproject.toml: exact versions with the hashes of their files, for every platform.
set -eu
cd "$(dirname "$0")/.."
compile() {
    out=$1
    shift
    uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
        --no-annotate --quiet --group build "$@" --output-file "requirements/$out"
}
compile core.txt
compile service.txt --extra service --extra office --extra pdf
compile cluster.txt --extra service --extra office --extra pdf --extra postgres --extra milvus --extra redis --extra mysql
compile dev.txt --group dev --extra all
