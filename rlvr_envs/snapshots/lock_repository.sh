# Lock a git repository to the history of its declared refs.
# Arguments: work tree or bare repository, owner's uid (empty: leave), refs to keep.
set -eu
place=$1 owner=$2
shift 2
if [ -d "$place/.git" ]; then own=$place/.git; else own=$place; fi
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_NO_REPLACE_OBJECTS=1
export LC_ALL=C

git_() {
  git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false \
    -c gc.auto=0 -c pack.threads=1 -c repack.writeBitmaps=false \
    --git-dir="$own" "$@"
}

# A packed repository may carry marks that keep old packs alive.
rm -f "$own"/objects/pack/*.keep "$own"/objects/pack/*.promisor
rm -rf "$own/logs" "$own/worktrees" "$own/modules" "$own/shallow"

head=$(git_ symbolic-ref -q HEAD || true)
keep=" $head $* "
git_ for-each-ref --format='%(refname)' | while read -r ref; do
  case $keep in
    *" $ref "*) ;;
    *) git_ update-ref --no-deref -d "$ref" ;;
  esac
done
git_ remote | while read -r remote; do
  case $keep in
    *" refs/remotes/$remote/"*) ;;
    *) git_ config --remove-section "remote.$remote" ;;
  esac
done
git_ config --list --name-only --local | sort -u | while read -r key; do
  case $key in
    core.repositoryformatversion | core.filemode | core.bare | core.logallrefupdates) ;;
    core.ignorecase | core.autocrlf | core.eol | core.safecrlf | core.symlinks) ;;
    core.precomposeunicode | user.name | user.email | init.defaultbranch) ;;
    pull.rebase | pull.ff | merge.conflictstyle | receive.deny* | remote.*) ;;
    *) git_ config --local --unset-all "$key" ;;
  esac
done

# An index records inode numbers and times; one made anew holds content alone.
if [ -f "$own/index" ]; then
  git_ ls-files --stage -z >"$own/staged"
  rm -f "$own/index"
  git_ update-index -z --index-info <"$own/staged"
fi

for entry in "$own"/* "$own"/.[!.]*; do
  case ${entry##*/} in
    HEAD | config | description | index | packed-refs) ;;
    refs | objects | info | hooks | branches) ;;
    *) rm -rf -- "$entry" ;;
  esac
done
rm -rf "$own/hooks" "$own/branches"

git_ pack-refs --all --prune
git_ repack -a -d -f -n -q
git_ prune --expire=now
rm -rf "$own/objects/info"
[ ! -d "$own/info" ] || find "$own/info" -mindepth 1 ! -name exclude -delete
find "$own/objects/pack" -type f ! -name 'pack-*.pack' ! -name 'pack-*.idx' -delete
find "$own/objects" "$own/refs" -mindepth 1 -type d -empty -delete
mkdir -p "$own/objects/info" "$own/objects/pack" "$own/refs/heads" "$own/refs/tags"
rm -f "$own/packed-refs.lock" "$own/gc.pid"
[ -z "$owner" ] || chown -R "$owner:$owner" "$own"
