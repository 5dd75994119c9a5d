#!/bin/sh
# The Debian packages in a bare Debian: installed, upgraded from an older version, removed, purged.
# Usage: deb_test.sh SOURCE_FOLDER BUILD_FOLDER     needs root, mmdebstrap and Debian's mirror
set -eu
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then
  echo "skipped: needs root and mmdebstrap"
  exit 77
fi
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
if ! cpack --config "$build/CPackConfig.cmake" -B "$work/deb" >"$work/log" 2>&1; then
  cat "$work/log"
  fail "the packages cannot be made"
fi
if ! mmdebstrap --quiet --variant=apt bookworm "$root" 2>"$work/log"; then
  cat "$work/log"
  echo "skipped: no Debian can be made here"
  exit 77
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp "$source/examples/four_racks.json" "$root/root/"

# The same programs as an older version, which is what an upgrade replaces.
mkdir "$root/new" "$root/old"
for package in "$work"/deb/*.deb; do
  cp "$package" "$root/new/"
  dpkg-deb -R "$package" "$work/unpacked"
  sed -i 's/^Version: .*/Version: 0.0.9/' "$work/unpacked/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$work/unpacked" "$root/old/" >/dev/null
  rm -r "$work/unpacked"
done

# /proc, gone again with the namespace.
inside() {
  unshare --mount --pid --fork --mount-proc="$root/proc" chroot "$root" /bin/sh -euc "$1"
}
if ! inside 'apt-get -qq update >/root/apt.log 2>&1'; then
  cat "$root/root/apt.log"
  echo "skipped: Debian's mirror does not answer"
  exit 77
fi
install() {
  inside "DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 --no-install-recommends \
    -y install $1 >/root/apt.log 2>&1 || { cat /root/apt.log; exit 1; }"
}

install '/old/*.deb'
inside 'getent passwd monkeytree >/dev/null' || fail "no user monkeytree"
for file in usr/bin/monkeytree usr/bin/monkeytree-notify usr/lib/monkeytree/slurm-notify.sh \
  usr/lib/systemd/system/monkeytree-controller.service usr/share/man/man1/monkeytree.1.gz \
  usr/share/bash-completion/completions/monkeytree etc/monkeytree/controller.yaml; do
  test -s "$root/$file" || fail "$file is not there"
done
inside 'monkeytree --version; monkeytree analyze /root/four_racks.json >/dev/null' ||
  fail "the program does not run"
inside 'python3 -c "import monkeytree"' || fail "the Python package cannot be imported"

# An operator's own: configuration, a token, a journal of the first version.
cat >"$root/etc/monkeytree/controller.yaml" <<YAML
scheduler: {kind: recorded, snapshots: [/root/four_racks.json]}
tokens: /etc/monkeytree/tokens
YAML
inside 'monkeytree token add ann --role operate --out /root/token >/dev/null'
mkdir -p "$root/var/lib/monkeytree"
python3 - "$root/var/lib/monkeytree/journal.db" "$source/tests/data/journal/version1.sql" <<'PY'
import sqlite3, sys
journal = sqlite3.connect(sys.argv[1])
journal.executescript(open(sys.argv[2]).read())
journal.execute("UPDATE plans SET state='done'")
journal.commit()
PY

install '/new/*.deb'
grep -q four_racks "$root/etc/monkeytree/controller.yaml" || fail "the upgrade lost a configuration"
inside '
  monkeytree controller --config /etc/monkeytree/controller.yaml >/root/log 2>&1 &
  controller=$!
  tries=0
  until monkeytree status >/root/status 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 300 ]; then cat /root/log /root/status; exit 1; fi
    sleep 0.2
  done
  monkeytree history --plans | grep -q done
  monkeytree pause --token-file /root/token >/dev/null
  monkeytree history --audit | grep -q "ann (operate)"
  kill $controller
  wait $controller' || fail "the new controller does not go on from the old journal"

inside 'apt-get -qq -y remove monkeytree python3-monkeytree >/dev/null 2>&1'
test ! -e "$root/usr/bin/monkeytree" || fail "removed, and still there"
test -s "$root/etc/monkeytree/tokens" || fail "a removal took the tokens"
test -s "$root/var/lib/monkeytree/journal.db" || fail "a removal took the journal"
inside 'dpkg --purge monkeytree >/dev/null 2>&1'
for path in etc/monkeytree var/lib/monkeytree usr/lib/monkeytree; do
  test ! -e "$root/$path" || fail "purged, and $path is still there"
done
inside '! getent passwd monkeytree >/dev/null' || fail "purged, and the user is still there"
