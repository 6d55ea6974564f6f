#!/usr/bin/env bash
# A stand-in for the base image of Lambda's python3.13, made from Debian packages and PyPI alone: for machines
# that can run containers but reach no container registry. Where a registry answers, SAM pulls the real image.
# As in Lambda: Python 3.13 with the runtime interface client in /var/runtime, a user without rights, no usable /dev/shm.
# Unlike Lambda: Debian 13 (glibc 2.41) for Amazon Linux 2023 (2.34), and no boto3, which no handler may lean on.
#
# usage: lambda_image.sh IMAGE     (root on Debian; debootstrap, a running Docker, uv; the mirror is apt's own)
set -euo pipefail

image=${1:?usage: lambda_image.sh IMAGE}
here=$(cd "$(dirname "$0")" && pwd)
uv=${UV:-$here/../../.venv/bin/uv}

case $(uname -m) in
  x86_64) arch=x86_64 ;;
  aarch64) arch=arm64 ;;
  *) echo "lambda_image: Lambda has no $(uname -m)" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
"$here/debian.sh" "$root"

mkdir -p "$root"/var/{runtime,task,rapid,lang/bin} "$root/opt"
ln -s /usr/bin/python3.13 "$root/var/lang/bin/python3.13"
"$uv" pip install --quiet --target "$root/var/runtime" --python-version 3.13 \
  --python-platform "${arch/arm64/aarch64}-manylinux_2_28" --only-binary :all: --require-hashes -r "$here/requirements-image.lock"

# as on the real image: nobody may write it later
chroot "$root" python3.13 -m compileall -q /var/runtime

cat >"$root/var/runtime/bootstrap" <<'BOOTSTRAP'
#!/bin/sh
chmod 0000 /dev/shm 2>/dev/null
export LAMBDA_TASK_ROOT=/var/task LAMBDA_RUNTIME_DIR=/var/runtime HOME=/tmp
export PYTHONPATH=/var/task:/opt/python:/var/runtime
cd /var/task
[ "$(id -u)" != 0 ] || as_user="setpriv --reuid=993 --regid=990 --clear-groups"
exec $as_user /var/lang/bin/python3.13 -m awslambdaric "$_HANDLER"
BOOTSTRAP
cat >"$root/lambda-entrypoint.sh" <<'ENTRYPOINT'
#!/bin/sh
[ $# -eq 0 ] || export _HANDLER="$1"
exec /var/rapid/aws-lambda-rie /var/runtime/bootstrap
ENTRYPOINT
chmod 755 "$root/var/runtime/bootstrap" "$root/lambda-entrypoint.sh"

tar -C "$root" -c . | docker import \
  -c 'WORKDIR /var/task' -c 'ENTRYPOINT ["/lambda-entrypoint.sh"]' \
  -c 'ENV PATH=/var/lang/bin:/usr/bin:/bin TZ=:UTC LANG=C.UTF-8' - "$image" >/dev/null
# SAM adds its emulator to an image once and keeps the result under this tag
docker image rm --force "${image%%:*}:rapid-$arch" >/dev/null 2>&1 || true
docker image inspect --format '{{.RepoTags}} {{.Size}} bytes' "$image"
