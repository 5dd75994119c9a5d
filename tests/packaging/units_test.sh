#!/bin/sh
# systemd reads our units without a complaint and finds them well shut in.
# Usage: units_test.sh PACKAGING_FOLDER PROGRAM
set -eu
if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: systemd-analyze is not installed"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
for unit in "$1"/*.service; do
  name=$(basename "$unit")
  # The program where it is now.
  sed "s|/usr/bin/monkeytree |$2 |" "$unit" >"$folder/$name"
  said=$(systemd-analyze verify --man=no "$folder/$name" 2>&1) || failed=1
  if [ -n "$said" ]; then
    echo "$name: $said"
    failed=1
  fi
done
for unit in "$folder"/*.service; do
  # 0 is shut in, 10 is open to everything; the option counts in tenths.
  if ! systemd-analyze security --offline=true --threshold=30 "$unit" >"$folder/exposure" 2>&1; then
    tail -n 1 "$folder/exposure"
    failed=1
  fi
done
exit $failed
