#!/bin/sh
# Runs named cases on a machine without network and appends one JSON line a result to $OUT/results.jsonl.
#
#   pack/run.sh                                   lists the cases
#   pack/run.sh info selftest demo kernels models
#   pack/run.sh 'kernels softmax_4k --small'      a case with arguments, in quotes
#
# A case is one of the functions case_* below, or a file bench/cases/NAME.sh of this pack, which appends its JSON lines
# to the file that $RESULTS names. What a case prints goes to $OUT/NAME.log. DEVICE is cuda where there is a GPU, else cpu;
# DEVICE=cpu pack/run.sh ... chooses.
set -eu

HERE=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
OUT=${OUT:-$HERE/out}
RESULTS=$OUT/results.jsonl
PYTHON=${STRATA_PYTHON:-python3}
if [ -z "${DEVICE:-}" ]; then
    if nvidia-smi -L >/dev/null 2>&1; then DEVICE=cuda; else DEVICE=cpu; fi
fi
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

case_selftest() { strata selftest "$@"; }

case_demo() { strata demo --folder "$HERE/demo" --device "$DEVICE" "$@"; }

# Kernels and whole models beside eager and Inductor: a JSON line a case and backend.
case_kernels() { "$PYTHON" "$HERE/bench/kernels.py" --device "$DEVICE" --json "$RESULTS" "$@"; }

case_kernels_odd() { case_kernels --odd "$@"; }

case_models() { "$PYTHON" "$HERE/bench/torch_models.py" --device "$DEVICE" --json "$RESULTS" "$@"; }

case_models_dynamic() { case_models --dynamic "$@"; }

case_python_tests() { "$PYTHON" -m pytest -q -p no:cacheprovider "$HERE/python-tests" "$@"; }

list() {
    set +f
    sed -n 's/^case_\([a-z_]*\)().*/\1/p' "$0" | tr _ -
    for file in "$HERE"/bench/cases/*.sh; do
        [ -e "$file" ] && basename "$file" .sh
    done
    return 0
}

# A case's name and its arguments.
one() {
    name=$1
    shift
    if [ -e "$HERE/bench/cases/$name.sh" ]; then
        sh "$HERE/bench/cases/$name.sh" "$@"
    elif list | grep -qx -- "$name"; then
        "case_$(printf '%s' "$name" | tr - _)" "$@"
    else
        echo "no case named $name; the cases are:" && list && return 2
    fi
}

if [ $# -eq 0 ]; then
    list
    exit 0
fi

prepare
export OUT RESULTS PYTHON DEVICE
export PATH="$PREPARED/bin:$PATH"
export STRATA_BIN="$PREPARED/bin/strata"
export PYTHONPATH="$PREPARED/site${PYTHONPATH:+:$PYTHONPATH}"

# Arguments are split at spaces; a * in them is the case's to read.
set -f
failed=0
for words in "$@"; do
    name=${words%% *}
    code=0
    # A sub-shell, so that one case can neither end the others nor change their settings.
    # shellcheck disable=SC2086
    (set -eu; one $words) >"$OUT/$name.log" 2>&1 || code=$?
    printf '{"case":%s,"exit":%s}\n' "$(json "$words")" "$code" >>"$RESULTS"
    if [ "$code" -eq 0 ]; then
        echo "$words: ok, see $OUT/$name.log"
    else
        echo "$words: exit code $code, see $OUT/$name.log"
        tail -n 20 "$OUT/$name.log"
        failed=1
    fi
done
exit $failed
