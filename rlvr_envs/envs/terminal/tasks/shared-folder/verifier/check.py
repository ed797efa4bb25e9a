"""Compares the final /srv with what the task asks for; follows no link."""

import json
import os
import stat
import sys

HIDDEN = json.load(open("/verifier/hidden.json"))
TOP = f"/submission/srv/{HIDDEN['project']}"
NONCE = os.environ["RLVR_NONCE"]

PARTS = {  # part: owner (None: as it was), group, folder mode, file mode
    "work": (None, 3001, 0o2770, 0o660),
    "audit": (0, 3002, 0o750, 0o640),
    "public": (0, 0, 0o755, 0o644),
    "secrets": (2100, 2100, 0o500, 0o400),
}


def wanted(path, is_folder):
    owner, group, folder_mode, file_mode = PARTS[path.split("/")[0]]
    mode = folder_mode if is_folder else file_mode
    if path.startswith("work/") and path.endswith(".sh") and not is_folder:
        mode = 0o770
    return HIDDEN["owners"][path] if owner is None else owner, group, mode


def found(path):
    info = os.lstat(path)
    return info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)


def entries():
    names = set()
    for place, folders, files in os.walk(TOP):
        names |= {os.path.relpath(os.path.join(place, name), TOP) for name in folders + files}
    return names


def read(path):
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as source:
        return source.read(1 << 20).decode()


def check_names():
    names = {*HIDDEN["folders"], *HIDDEN["files"], *HIDDEN["links"]}
    assert entries() == names, f"added or removed: {sorted(entries() ^ names)[:5]}"


def check_part(part):
    for path in [*HIDDEN["folders"], *HIDDEN["files"]]:
        if path.split("/")[0] != part:
            continue
        is_folder = path in HIDDEN["folders"]
        info = os.lstat(f"{TOP}/{path}")
        assert (stat.S_ISDIR if is_folder else stat.S_ISREG)(info.st_mode), f"{path} changed its type"
        given, want = found(f"{TOP}/{path}"), wanted(path, is_folder)
        assert given == want, f"{path}: uid, gid, mode {given[0]} {given[1]} {given[2]:o}, not {want[0]} {want[1]} {want[2]:o}"


def check_top():
    assert found(TOP) == (0, 0, 0o755), f"the top folder is {found(TOP)}"


def check_contents():
    for path, content in HIDDEN["files"].items():
        assert read(f"{TOP}/{path}") == content, f"{path} changed its content"
        assert os.lstat(f"{TOP}/{path}").st_nlink == 1, f"{path} is still a hard link"


def check_links():
    for path, (target, uid, gid) in HIDDEN["links"].items():
        info = os.lstat(f"{TOP}/{path}")
        assert stat.S_ISLNK(info.st_mode) and os.readlink(f"{TOP}/{path}") == target, f"{path} is another link"
        assert (info.st_uid, info.st_gid) == (uid, gid), f"{path} has another owner"


def check_outside():
    assert found("/submission/srv/outside.conf") == (2003, 2003, 0o640)
    assert found("/submission/srv/outside.d/file.txt") == (2001, 2001, 0o604)
    assert read("/submission/srv/outside.conf") == "keep me\n"


CHECKS = {
    "names": check_names,
    "top": check_top,
    **{part: (lambda part=part: check_part(part)) for part in PARTS},
    "contents": check_contents,
    "links": check_links,
    "outside": check_outside,
}


def outcome(check):
    try:
        check()
    except (AssertionError, OSError, UnicodeDecodeError) as error:
        return False, str(error) or "not as asked"
    return True, ""


rows = []
for name, check in CHECKS.items():
    passed, reason = outcome(check)
    rows.append({"name": name, "passed": passed, "reason": reason})
with os.fdopen(3, "w") as channel:
    json.dump({"nonce": NONCE, "checks": rows}, channel)
sys.exit(0)
