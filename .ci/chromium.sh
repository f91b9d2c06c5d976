#!/bin/sh
# Make sure there is a Chromium for the browser tests: install the system's where that is allowed, else say what is missed.
set -u
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests"
    if { apt-get update; DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium fonts-dejavu-core; } >/dev/null; then
        exit 0
    fi
fi
echo "No Chromium: the browser tests are skipped. As root on Debian or Ubuntu: apt-get install chromium" >&2
exit 0
