#!/bin/sh
# Runs named cases on a machine without network and appends one JSON line a result to $OUT/results.jsonl.
#
#   pack/run.sh              lists the cases
#   pack/run.sh info digits-cuda
#
# A case is one of the functions case_* below, or a file bench/cases/NAME.sh or bench/NAME.py of this pack.
# Such a file writes its JSON lines to the file that $RESULTS names; what it prints goes to $OUT/NAME.log.
set -eu

HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
OUT=${OUT:-$HERE/out}
RESULTS=$OUT/results.jsonl
PYTHON=${STRATA_PYTHON:-python3}
# Outside of the pack, and named after its contents: carrying the pack anew keeps what is unpacked already.
PREPARED=${TMPDIR:-/tmp}/strata-pack-$(cat "$HERE"/strata.* "$HERE"/wheels/*.whl 2>/dev/null | cksum | tr ' ' -)
mkdir -p "$OUT"

# Unpacks once: the binary and its links, and into one folder our wheel and those that this Python lacks.
prepare() {
    [ -e "$PREPARED/done" ] && return
    mkdir -p "$PREPARED/bin" "$PREPARED/site"
    if [ -e "$HERE/strata.xz" ]; then
        if command -v xz >/dev/null; then
            xz --decompress --stdout "$HERE/strata.xz" >"$PREPARED/bin/strata"
        else
            "$PYTHON" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' \
                "$HERE/strata.xz" >"$PREPARED/bin/strata"
        fi
    else
        zstd --decompress --quiet --force --stdout "$HERE/strata.zst" >"$PREPARED/bin/strata"
    fi
    chmod +x "$PREPARED/bin/strata"
    for tool in opt run compile translate reduce bench cache report serve lsp; do
        ln -sf strata "$PREPARED/bin/strata-$tool"
    done
    for wheel in "$HERE"/wheels/*.whl; do
        [ -e "$wheel" ] || continue
        package=$(basename "$wheel" | cut -d- -f1)
        case $package in
        strata*) ;;
        *) "$PYTHON" -c "import importlib.metadata as m; m.version('$package')" 2>/dev/null && continue ;;
        esac
        "$PYTHON" -m zipfile -e "$wheel" "$PREPARED/site"
    done
    : >"$PREPARED/done"
}

# Quotes a text as a JSON string.
json() {
    printf '%s' "$1" | "$PYTHON" -c 'import json, sys; print(json.dumps(sys.stdin.read()), end="")'
}

case_info() {
    gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo none)
    torch=$("$PYTHON" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo none)
    strata=$(strata --version 2>/dev/null || echo unknown)
    printf '{"case":"info","gpu":%s,"torch":%s,"strata":%s}\n' \
        "$(json "$gpu")" "$(json "$torch")" "$(json "$strata")" >>"$RESULTS"
}

case_digits_cpu() { strata run "$HERE/demo/digits.onnx" --device cpu; }

case_digits_cuda() { strata run "$HERE/demo/digits.onnx" --device cuda; }

case_python_tests() { "$PYTHON" -m pytest -q -p no:cacheprovider "$HERE/python-tests"; }

list() {
    sed -n 's/^case_\([a-z_]*\)().*/\1/p' "$0" | tr _ -
    for file in "$HERE"/bench/cases/*.sh "$HERE"/bench/*.py; do
        [ -e "$file" ] && basename "$file" | sed 's/\.[a-z]*$//'
    done
    return 0
}

one() {
    function=case_$(printf '%s' "$1" | tr - _)
    if [ -e "$HERE/bench/cases/$1.sh" ]; then
        sh "$HERE/bench/cases/$1.sh"
    elif [ -e "$HERE/bench/$1.py" ]; then
        "$PYTHON" "$HERE/bench/$1.py"
    elif list | grep -qx -- "$1"; then
        "$function"
    else
        echo "no case named $1; the cases are:" && list && return 2
    fi
}

if [ $# -eq 0 ]; then
    list
    exit 0
fi

prepare
export OUT RESULTS PYTHON
export PATH="$PREPARED/bin:$PATH"
export STRATA_BIN="$PREPARED/bin/strata"
export PYTHONPATH="$PREPARED/site${PYTHONPATH:+:$PYTHONPATH}"

failed=0
for name in "$@"; do
    code=0
    # A sub-shell, so that one case can neither end the others nor change their settings.
    (set -eu; one "$name") >"$OUT/$name.log" 2>&1 || code=$?
    printf '{"case":%s,"exit":%s}\n' "$(json "$name")" "$code" >>"$RESULTS"
    if [ "$code" -eq 0 ]; then
        echo "$name: ok"
    else
        echo "$name: exit code $code, see $OUT/$name.log"
        tail -n 20 "$OUT/$name.log"
        failed=1
    fi
done
exit $failed
