#!/usr/bin/env bash
# A minimal Debian with Python 3.13 in a folder, from apt's own mirror.
#
# usage: debian.sh FOLDER     (root on Debian; debootstrap)
set -euo pipefail

root=${1:?usage: debian.sh FOLDER}
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' | awk '$1 == "Debian" && $2 == "Debian" {print $3; exit}')
: "${mirror:?no Debian mirror in the sources of apt: run apt-get update}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
debootstrap --variant=minbase --include=python3 trixie "$root" "$mirror" >"$log" 2>&1 || { tail "$log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info} "$root"/var/log/*
