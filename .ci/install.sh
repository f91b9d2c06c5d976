#!/bin/sh
# install.sh PYTHON EXTRAS: install this checkout with EXTRAS and MindSpore; where MindSpore has no wheel, say so and go on without.
# The extra `models` is dropped likewise where the package index has no mindcv.
set -u
python=$1
extras=$2
log=$(mktemp)
trap 'rm -f "$log"' EXIT

pip_install() { "$python" -m pip install --quiet --disable-pip-version-check --editable ".[$1]" 2>"$log"; }
lacks() { grep -q "No matching distribution found for $1" "$log"; }
without_models() { printf %s "$extras" | sed 's/,models//; s/^models,*//'; }

pip_install "$extras,mindspore" && exit 0
if lacks mindcv; then
    echo "mindcv is left out: the package index has no 0.3.0. The tests of its models are skipped."
    extras=$(without_models)
    pip_install "$extras,mindspore" && exit 0
fi
if lacks mindspore; then
    echo "MindSpore is left out: there is no wheel of 2.10 for $("$python" --version) on $(uname -s) $(uname -m)."
    echo "NumPy code runs; MindSpore tensors need Python 3.11 or 3.12."
    extras=$(without_models)
    pip_install "$extras" && exit 0
fi
cat "$log" >&2
exit 1
