#!/bin/sh
# install.sh PYTHON EXTRAS: install this checkout with EXTRAS and MindSpore; where MindSpore has no wheel, say so and go on without.
set -u
python=$1
extras=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

pip_install() { "$python" -m pip install --quiet --disable-pip-version-check --editable ".[$1]"; }

pip_install "$extras,mindspore" 2>"$log"
status=$?
if [ $status -ne 0 ] && grep -q "No matching distribution found for mindspore" "$log"; then
    echo "MindSpore is left out: there is no wheel of 2.10 for $("$python" --version) on $(uname -s) $(uname -m)."
    echo "NumPy code runs; MindSpore tensors need Python 3.11 or 3.12."
    pip_install "$extras"
    exit $?
fi
if [ $status -ne 0 ]; then cat "$log" >&2; fi
exit $status
