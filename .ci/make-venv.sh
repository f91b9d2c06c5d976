#!/bin/sh
# make-venv.sh DIR [PYTHON]: an environment made by the first Python that fits, with a message that helps when none does.
set -eu
dir=$1
wanted=${2:-}

# Runs, is new enough, and can make environments (Debian ships ensurepip apart). $2: the newest minor version accepted.
fits() {
    "$1" -c "import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $2))" >/dev/null 2>&1
}

pick() {
    if [ -n "$wanted" ]; then
        fits "$wanted" 99 && echo "$wanted"
        return
    fi
    for candidate in python3.12 python3.11 python3; do
        if fits "$candidate" 12; then echo "$candidate"; return; fi
    done
    for candidate in python3.14 python3.13 python3; do
        if fits "$candidate" 99; then echo "$candidate"; return; fi
    done
}

python=$(pick || true)
if [ -z "$python" ]; then
    echo "No usable Python found${wanted:+ at $wanted}: BCVM needs Python 3.11 or 3.12 with its venv module." >&2
    echo "On Debian and Ubuntu: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python3.12 ..." >&2
    exit 1
fi
echo "Making $dir with $("$python" --version) ($python)"
"$python" -m venv "$dir"
