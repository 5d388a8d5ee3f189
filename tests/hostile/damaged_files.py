#!/usr/bin/env python3
"""Damaged files of the program's own: damaged_files.py DP --seed N --count N.

A bit is flipped, or the end cut off, in one file of a dataset, a saved state, a compiled model, a model in 8 bits, or a
training run if there is dp-lab. Promises: `verify-files` names the file; whoever reads datasets, states and checkpoints refuses it by name or
does what it did before the damage; attack.check. config.json, tokenizers and metrics carry no checksums."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attack
import real_files

MOST_MB = 3000
# What is damaged, and a command that reads it; its output depends on every byte that it reads.
READERS = {
    "data": ["data", "show", "data/train"],
    "state.safetensors": ["generate", "model", "--ids", "5", "--max-tokens", "3", "--state", "state.safetensors"],
    "s3": None,  # weights that are only run are compared by verify-files alone: opening a model reads no more of it than its header
    "int8": None,
}
RUN = ["train", "word-problem", "--out", "run", "--resume"]


def checked(file):
    return file.suffix in (".safetensors", ".tokens", ".documents") or file.name in ("manifest.json", "compiled.json", "run.json", "trainer.json")


def damage(draw, file):
    content = file.read_bytes()
    at = draw.randrange(len(content))
    if draw.random() < 0.25:
        file.write_bytes(content[:at])
        return f"cut at {at}", False
    file.write_bytes(content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1:])
    # Spaces after a header, and the name of the checksum's own field, say nothing.
    begin = content.find(b'"checksum"') if file.suffix == ".json" else content.find(b"}  ") if file.suffix == ".safetensors" else -1
    idle = begin >= 0 and (begin <= at < begin + 10 if file.suffix == ".json" else begin < at < 8 + int.from_bytes(content[:8], "little"))
    return f"bit of byte {at}", idle


def main():
    options = attack.arguments(__doc__, 300)
    draw = attack.stream(options.seed)
    results, named, same, idle_count = [], 0, 0, 0
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root).resolve()
        base, folder = root / "base", root / "work"
        has_lab = pathlib.Path(options.dp).with_name("dp-lab").exists()
        environment = real_files.make_files(options.dp, base, root, has_lab)
        subprocess.run([options.dp, "convert", "model", "int8", "--dtype", "int8"], cwd=base, check=True, capture_output=True)
        readers = dict(READERS)
        if has_lab:
            shutil.rmtree(base / "run/checkpoints/step-000000002")  # so that there is something left to do
            readers["run"] = RUN

        def outcome(words):
            result = attack.run([options.dp, *words], folder, seconds=120, env=environment)
            attack.check(result, words, MOST_MB if options.bounded else 1 << 40)
            results.append(result)
            return result

        def written():
            return {name: content for name, content in attack.listing(folder).items() if name.startswith(("run/model", "state", "run/checkpoints/step-000000002/opt"))}

        whole = {}
        for name, words in readers.items():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            whole[name] = (outcome(words).stdout, written()) if words else None
        for number in range(options.count):
            name = sorted(readers)[number % len(readers)]
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(base, folder)
            files = [file for file in ([folder / name] if (folder / name).is_file() else sorted((folder / name).rglob("*"))) if file.is_file() and checked(file)]
            file = draw.choice(files)
            how, idle = damage(draw, file)
            shown = f"seed {options.seed}, input {number}: {how} of {file.relative_to(folder)}"
            verified = outcome(["verify-files", name])
            if idle:
                idle_count += 1
            elif verified.code != 1 or file.stem.encode() not in verified.stdout:
                raise attack.Broken(f"{shown} was not named: {verified.code} {verified.stdout}")
            if options.verbose:
                print(shown, verified.stdout[:200], flush=True)
            if readers[name] is None:
                continue
            result = outcome(readers[name])
            reads_it = name != "run" or "checkpoints" in str(file) or file == folder / "run/run.json"
            if result.code == 0:
                same += 1
                tell = lambda text: re.sub(rb"\d+(\.\d+)? (s|ms)\b|[0-9.]+ tokens/s", b"", text)
                if name == "run" and written() != whole[name][1] or name != "run" and (tell(result.stdout), written()) != (tell(whole[name][0]), whole[name][1]):
                    raise attack.Broken(f"{shown} was not noticed by {readers[name]}: {result.stdout} {result.stderr}")
            elif result.code != 2 or (reads_it and file.stem.encode() not in result.stderr):
                raise attack.Broken(f"{shown} was not named by {readers[name]}: {result.code} {result.stderr}")
            else:
                named += 1
    attack.report(f"damaged files of {len(readers)} kinds: all named by verify-files but {idle_count} in bytes that say nothing; readers refused {named} and were not misled by {same}",
                  options.seed, options.count, results)


main()
