#!/bin/sh
# Gathers the whole file system of the image: the bundle, the Node that the lockfile pins, the shared libraries that both
# load, and the three small files that libc asks for. No shell, no package manager: nothing else to keep patched.
#   gather-root.sh NODE BUNDLE ROOT
set -eu
node=$(readlink -f "$1")
bundle=$2
root=$3

mkdir -p "$root/usr/bin" "$root/etc" "$root/belfry"
install -m 755 "$node" "$root/usr/bin/node"
cp -R "$bundle/." "$root/belfry/"

# ldd prints a path for each; links are followed, so that every name is a file.
find "$bundle" -name '*.node' | while read -r object; do ldd "$object"; done > "$root/etc/libraries"
ldd "$node" >> "$root/etc/libraries"
sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' "$root/etc/libraries" | sort -u | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
rm "$root/etc/libraries"

# Their licences ask to travel with every copy.
licence() {
  if [ -f "$2" ]; then install -D -m 644 "$2" "$root/usr/share/doc/$1/copyright"; fi
}
licence node "$(dirname "$node")/../LICENSE"
for package in libc6 libstdc++6; do licence "$package" "/usr/share/doc/$package/copyright"; done

echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0:root:/:/none' 'belfry:x:65532:65532:belfry:/:/none' > "$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'belfry:x:65532:' > "$root/etc/group"
# Where a volume may be mounted: with a read-only root nothing can be made later.
mkdir -p "$root/proc" "$root/dev" "$root/sys" "$root/tmp"
chmod 1777 "$root/tmp"
