#!/usr/bin/env bash
# A stand-in for python:3.13-slim: for machines that can run containers but reach no container registry.
#
# usage: base_image.sh IMAGE     (root on Debian; debootstrap, a running Docker)
set -euo pipefail

image=${1:?usage: base_image.sh IMAGE}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$(dirname "$0")/debian.sh" "$work/root"
tar -C "$work/root" -c . | docker import - "$image" >/dev/null
