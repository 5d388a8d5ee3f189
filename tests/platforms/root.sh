# Roots of other Debian releases: made, filled and entered. Sourced by tests/platforms/run.

tree_in_root=/root/deltaproduct

roots_folder() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/deltaproduct/platforms
  mkdir -p "$folder"
  echo "$folder"
}

# The address from which apt gets Debian itself on this machine.
debian_mirror() {
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | awk '$1 == "Debian" && $2 !~ /security/ {print $2; exit}'
}

make_root() {  # make_root SUITE FOLDER
  command -v mmdebstrap >/dev/null || die "needs mmdebstrap: apt-get install mmdebstrap"
  local mirror
  mirror=$(debian_mirror)
  [[ -n $mirror ]] || die "apt knows no Debian repository here; run apt-get update"
  echo "platforms: making $2" >&2
  rm -rf --one-file-system "$2.part"
  mmdebstrap --quiet --variant=apt --include=ca-certificates --aptopt='Acquire::Languages "none"' \
    --aptopt='Acquire::Check-Valid-Until "false"' "$1" "$2.part" "$mirror"
  echo force-unsafe-io >"$2.part/etc/dpkg/dpkg.cfg.d/unsafe-io"  # no sync after each file
  mv "$2.part" "$2"
}

# The files that git tracks, as they are now. Without KEEP nothing else is left there.
copy_tree() {  # copy_tree TREE TARGET KEEP
  if [[ -z $3 ]]; then rm -rf --one-file-system "$2"; fi
  mkdir -p "$2"
  (cd "$1" && git -c safe.directory="*" ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' file; do if [[ -e $file ]]; then printf '%s\0' "$file"; fi; done |
    tar --create --no-recursion --null --files-from -) | tar --extract --directory "$2"
}

# Runs a command in the tree inside the root, in namespaces of its own: mounts and processes end with it.
in_root() {  # in_root FOLDER COMMAND...
  local registry= cafile=
  if command -v npm >/dev/null; then  # npm there asks where npm here asks
    registry=$(npm config get registry 2>/dev/null)
    cafile=$(npm config get cafile 2>/dev/null)
    if [[ -f $cafile ]]; then
      cp "$cafile" "$1/root/npm-ca.crt"
      cafile=/root/npm-ca.crt
    else
      cafile=
    fi
  fi
  local environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
                     TERM="${TERM:-dumb}" CCACHE_MAXSIZE=10G)
  [[ -z $registry ]] || environment+=(npm_config_registry="$registry")
  [[ -z $cafile ]] || environment+=(npm_config_cafile="$cafile" NODE_EXTRA_CA_CERTS="$cafile")
  unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    root=$1 tree=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mkdir -p "$root/run/lock"
    for file in resolv.conf hosts; do cat "/etc/$file" >"$root/etc/$file"; done
    exec chroot "$root" env -i --chdir="$tree" "$@"
  ' in_root "$1" "$tree_in_root" "${environment[@]}" "${@:2}"
}
