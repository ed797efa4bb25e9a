"""A shared tree with wrong owners and modes, links out of it, and a hard link."""

from rlvr_envs.tasks.making import pick, picks, text, whole
from rlvr_envs.tasks.task import Recipe

PROJECTS = ["atlas", "harbour", "meridian", "quarry"]
TEAMS = ["editors", "drafters", "surveyors"]
NAMES = ["plan.txt", "budget 2024.csv", "run.sh", "notes.md", "map-ö.svg", "deploy.sh", "list.sh.txt", "-rf", "a b  c.txt", "x.sh"]
OWNERS = [2001, 2002]


def _tree(rng):
    """Relative folders and files; the first part decides what they need."""
    folders, files = [], {}
    for part in ("work", "audit", "public", "secrets"):
        places = [part, f"{part}/inner", f"{part}/inner/deep er"]
        folders += places
        for place in places:
            for name in picks(rng, NAMES, whole(rng, 2, 4)):
                files[f"{place}/{name}"] = f"{part} {name} {whole(rng, 0, 10**9)}\n"
    return folders, files


def _setup(rng, project, team, folders, files):
    top = f"/srv/{project}"
    lines = ["set -eu"]
    for name, uid in (("ana", 2001), ("ben", 2002), ("eva", 2003), ("web", 2100)):
        lines.append(f"echo '{name}:x:{uid}:{uid}::/nonexistent:/usr/sbin/nologin' >> /etc/passwd")
        lines.append(f"echo '{name}:x:{uid}:' >> /etc/group")
    lines.append(f"echo '{team}:x:3001:ana,ben' >> /etc/group; echo 'auditors:x:3002:eva' >> /etc/group")
    for path in [*folders, *files]:
        uid = pick(rng, OWNERS) if path.startswith("work") else pick(rng, [0, 2001, 2003, 2100])
        gid = pick(rng, [0, 2001, 2002, 3001, 3002])
        mode = pick(rng, ["777", "777", "4755", "1777", "2755", "600", "755"])
        lines.append(f"chown {uid}:{gid} '{top}/{path}'; chmod {mode} '{top}/{path}'")
    lines.append(f"chmod 777 {top}; chown 2002:2002 {top}")
    lines.append(f"ln -s /srv/outside.conf {top}/work/outside.conf; ln -s ../../outside.d {top}/public/inner/elsewhere")
    lines.append(f"ln -s plan.txt '{top}/work/inner/current'; chown -h 2001:2001 {top}/work/outside.conf")
    lines.append(f"chown -h 0:0 {top}/work/inner/current {top}/public/inner/elsewhere")
    return ("bash", "-c", "\n".join(lines) + "\n")


def generate(rng, number):
    project, team = pick(rng, PROJECTS), pick(rng, TEAMS)
    folders, files = _tree(rng)
    top = f"/srv/{project}"
    owners = {path: pick(rng, OWNERS) for path in [*folders, *files] if path.startswith("work")}
    shared = f"shared {whole(rng, 0, 10**9)}\n"
    files |= {"work/shared.txt": shared, "work/inner/plan.txt": "the plan\n"}
    specs = [text(f"{top}/{path}", content, user=0) for path, content in files.items()]
    specs += [text("/srv/outside.conf", "keep me\n", mode=0o640, user=2003)]
    specs += [text("/srv/outside.d/file.txt", "keep me too\n", mode=0o604, user=2001)]
    command = _setup(rng, project, team, folders, files)
    chown = "\n".join(f"chown {uid} '{top}/{path}'" for path, uid in owners.items())
    link = f"chmod u-s '{top}/work/shared.txt'; ln {top}/work/shared.txt {top}/audit/inner/shared.txt"
    files["audit/inner/shared.txt"] = shared
    fixed = {path: uid for path, uid in owners.items()}
    return Recipe(
        files=tuple(specs),
        setup=(command, ("bash", "-c", f"set -eu\n{chown}\nchown 2001 {top}/work/shared.txt\nchown 2001 {top}/work/inner/plan.txt\n{link}\n")),
        values={"project": project, "team": team},
        hidden={
            "project": project,
            "folders": folders,
            "files": files,
            "owners": {**fixed, "work/shared.txt": 2001, "work/inner/plan.txt": 2001},
            "links": {
                "work/outside.conf": ["/srv/outside.conf", 2001, 2001],
                "public/inner/elsewhere": ["../../outside.d", 0, 0],
                "work/inner/current": ["plan.txt", 0, 0],
            },
        },
    )
