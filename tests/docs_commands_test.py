#!/usr/bin/env python3
"""docs_commands_test.py DP [PYTHON LIBRARY]: runs the commands of the documentation, in the order in which a document has them,
in a folder of its own.

Output that a document shows below "$ COMMAND" is compared. Training, evaluation and checks are made small (`reduced`); what
is not run at all is listed in NOT_RUN with the reason, and counted at the end. Python blocks run against the package and
LIBRARY, the operators of this build."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "python/README.md", *sorted(ROOT.glob("docs/*.md")),
             *sorted(ROOT.glob("experiments/*/README.md"))]
NOT_RUN = [
    (r"\./dp test|^cmake|^ninja|^ctest|--preset", "builds the tree"),
    (r"^pip |^python3 -m venv|^g\+\+", "installs; python/tests and tests/consumer do that"),
    (r"\./dp (bench|torture)|deltaproduct\.bench", "measures for minutes; options are compared with the help"),
    (r"\./dp data fetch", "downloads"),
    (r"^(torchrun|mpirun)|^srun .*\.\.\.", "tests/distributed_test.py starts ranks in all of these ways"),
    (r"^curl", "needs the server of the line above; tests/serve_test.py sends requests"),
    (r"^tests/|^fuzz/|^python3 tests/", "other systems or builds, hours"),
    (r"\s(RUN|DIR|SRC|DST|NAME)\b", "has a placeholder; options are compared with the help"),
]
PROGRAMS = r"echo|printf|curl|cmake|ninja|ctest|pip|python3|g\+\+|torchrun|mpirun|srun|fuzz/run|tests/platforms/run"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^ {4}[^\n]*\n)+)", re.M | re.S)
SMALL_RUN = {"--steps": "2", "--batch": "4", "--length": "16", "--hidden": "16", "--heads": "2", "--head-dim": "8",
             "--mlp": "16", "--eval-sequences": "2", "--eval-lengths": "16", "--checkpoint-every": "2"}


def with_values(words, values):
    """`words` with these options, replaced where they are there already."""
    words = list(words)
    for option, value in values.items():
        if option in words:
            words[words.index(option) + 1] = value
        else:
            words += [option, value]
    return words


def small_sweep(file):
    """Rewrites a sweep file: one small run for each task."""
    sweep = json.loads(file.read_text())
    small = {name[2:]: value for name, value in SMALL_RUN.items()}
    keep = {"task"}
    sweep["base"] = {**sweep.get("base", {}), **small}
    sweep["grid"] = {name: values if name in keep else values[:1] for name, values in sweep.get("grid", {}).items()}
    for change in sweep.get("overrides", []):
        change["set"] = {name: value for name, value in change["set"].items() if name not in small}
    text = sweep.get("task") == "text"
    sweep["evaluate"] = {"lengths": [16, 32], "sequences": 2} if not text else {"max-tokens": 100}
    sweep["jobs"] = 1
    file.write_text(json.dumps(sweep))


def reduced(words):
    """The arguments of ./dp, for as little work as possible with the same options."""
    if "--" in words:  # launch -n 2 -- train ...
        cut = words.index("--")
        return [*words[:cut + 1], *reduced(words[cut + 1:])]
    command = words[0] if words else ""
    values = {}
    if command == "train" and len(words) > 1:
        values = SMALL_RUN
    elif command == "eval":
        values = {"--sequences": "2"}
        for option, small in (("--lengths", "16,32"), ("--rank-every", "16")):
            if option in words:
                values[option] = small
    elif command == "analyze":
        values = {"--sequences": "2"}
    elif command in ("verify", "theory"):
        values = {option: small for option, small in (("--words", "all:2"), ("--random", "2x20"), ("--long", "100"))
                  if command == "verify" or option in words and words[words.index(option) + 1] != "none"}
    elif command == "theory-automata":
        values = {"--count": "2", "--words": "all:2", "--random": "2x20", "--long": "100"}
    elif command == "tokenizer" and words[1] == "train":
        values = {"--vocab-size": "300"}
    elif command == "serve":
        values = {"--port": "0"}
    elif command == "demo":
        return [*words, "--quick"]
    elif command == "sweep":
        small_sweep(pathlib.Path(words[1]))
    return with_values(words, values)


def run_dp(program, words):
    """In the place of ./dp. A server is stopped once it serves."""
    words = reduced(words)
    os.environ["OMP_NUM_THREADS"] = "1"
    if words[0] != "serve":
        os.execv(program, [program, *words])
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, text=True) as server:
        serves = server.stdout.readline().startswith("serving")
        server.terminate()
    sys.exit(not serves or server.returncode)


def story(number):
    draw = random.Random(number)
    return " ".join(draw.choice(["the cat", "a dog", "one bird", "nobody"]) + " " + draw.choice(["sees", "hears", "follows"]) +
                    " " + draw.choice(["the cat.", "a dog.", "one bird."]) for _ in range(draw.randint(10, 40)))


def prepare(folder, program, document):
    """What documents take for granted: text, an automaton, sweep files."""
    (folder / "dp").write_text(f"#!/bin/sh\nexec {sys.executable} {__file__} --run-dp {program} \"$@\"\n")
    (folder / "dp").chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin/srun").write_text('#!/bin/sh\nexec "$@"\n')  # one task of the job
    (folder / "bin/srun").chmod(0o755)
    for name in ("books", "corpus"):
        (folder / name).mkdir()
        for i in range(200):
            (folder / name / f"{i}.txt").write_text(story(i) + "\n")
    (folder / "stories.txt").write_text("\n<|endoftext|>\n".join(story(i) for i in range(20)))
    (folder / "tokenizer.json").write_text((ROOT / "fuzz/corpus/tokenizer_json/gpt2.json").read_text())
    (folder / "Qwen2-0.5B").mkdir()
    (folder / "Qwen2-0.5B/tokenizer.json").write_text((ROOT / "fuzz/corpus/tokenizer_json/gpt2.json").read_text())
    (folder / "piqa.jsonl").write_text(json.dumps({"context": "the cat", "choices": [" sees", " zzz"], "answer": 0}) + "\n")
    (folder / "lambada.jsonl").write_text(json.dumps({"text": "the cat sees the cat"}) + "\n")
    (folder / "automaton.json").write_text(json.dumps({
        "alphabet": ["up", "down"], "states": ["low", "high"], "start": "low", "accepting": ["high"],
        "transitions": {"low": {"up": "high", "down": "low"}, "high": {"up": "high", "down": "low"}}}))
    for file in [*ROOT.glob("experiments/*/*.json"), *ROOT.glob("experiments/*/*.py")]:
        copy = folder / file.relative_to(ROOT)
        (copy.parent / "results").mkdir(parents=True, exist_ok=True)
        copy.write_text(file.read_text())
    text = folder / "experiments/language/corpus/text"
    text.mkdir(parents=True)
    (text / "stories.jsonl").write_text("".join(json.dumps({"text": story(i)}) + "\n" for i in range(300)))
    if document.name == "distributed.md":  # begins where language.md ends
        subprocess.run(["./dp", "data", "prepare", "books", "--tokenizer", "bytes", "--validation", "0.2", "--out", "data"],
                       cwd=folder, check=True, capture_output=True)


def steps(text):
    """(kind, what, expected output or None) of a document, in order. kind: sh, file (a JSON block) or python."""
    found = []
    for language, fenced, indented in BLOCK.findall(text):
        body = fenced or indented
        if language == "python":
            found.append(("python", body, None))
        elif language == "json":
            found.append(("file", body, None))
        elif language == "sh" and body.startswith("#!"):
            found.append(("sh", body, None))
        elif language in ("", "sh"):
            lines = body.replace("\\\n", " ").splitlines()
            for i, line in enumerate(lines):
                line = line.strip()
                if line.startswith("$ "):
                    end = next((j for j in range(i + 1, len(lines)) if not lines[j].strip() or lines[j].strip().startswith("$ ")),
                               len(lines))
                    found.append(("sh", line[2:], "\n".join(lines[i + 1:end])))
                elif re.match(rf"(?:\w+=\S+ )?(?:\./dp|{PROGRAMS})(?=\s|$)", line):
                    found.append(("sh", line, None))
                elif "./dp " in line and not any(it.strip().startswith("$ ") for it in lines[:i]):
                    found.append(("sh", line[line.index("./dp "):], None))  # beside a drawing
    return found


def squeezed(text):
    return " ".join(text.split())


def run_document(document, program, python, counts):
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder, program, document)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "3",
                       "SLURM_CPUS_PER_TASK": "1"}
        for kind, what, expected in steps(document.read_text()):
            if kind == "file":  # the sweep that the text describes, before the command that runs it
                (folder / "grid.json").write_text(what)
                continue
            if kind == "python":
                if not python:
                    counts["not run: no python with torch"] = counts.get("not run: no python with torch", 0) + 1
                    continue
                command = [python[0], "-B", "-c", what]
                settings = {**environment, "PYTHONPATH": str(ROOT / "python"), "DELTAPRODUCT_LIBRARY": python[1]}
            else:
                reason = next((why for pattern, why in NOT_RUN if re.search(pattern, what)), None)
                if reason:
                    counts["not run: " + reason] = counts.get("not run: " + reason, 0) + 1
                    continue
                command, settings = ["bash", "-c", what], environment
            result = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, errors="replace", timeout=300)
            counts["run"] = counts.get("run", 0) + 1
            output = result.stdout + result.stderr
            if expected is None:
                if result.returncode:
                    problems.append(f"{what}\n  exits with {result.returncode}: {output[-600:]}")
            elif squeezed(output) != squeezed(expected):
                problems.append(f"{what}\n  prints\n{output}\n  the document has\n{expected}")
    return problems


def check_the_checker(program):
    found = steps("Text\n\n    ./dp fly   # away\n     X   ./dp info 340m_n1\n\n    $ echo a\n    a\n    $ echo b\n    c\n\n```python\n1/0\n```\n")
    assert [it[:2] for it in found] == [("sh", "./dp fly   # away"), ("sh", "./dp info 340m_n1"), ("sh", "echo a"),
                                        ("sh", "echo b"), ("python", "1/0\n")], found
    assert [it[2] for it in found[2:4]] == ["    a", "    c"], found
    with tempfile.NamedTemporaryFile("w", suffix=".md") as wrong:
        wrong.write("    ./dp fly\n\n    $ echo b\n    c\n\n    ./dp compile group S3 --out s3\n")
        wrong.flush()
        counts = {}
        problems = run_document(pathlib.Path(wrong.name), program, None, counts)
        assert counts == {"run": 3} and len(problems) == 2 and "fly" in problems[0] and "echo b" in problems[1], (counts, problems)


def main():
    if sys.argv[1] == "--run-dp":
        run_dp(sys.argv[2], sys.argv[3:])
    program, python = sys.argv[1], [word for word in sys.argv[2:4] if word]
    check_the_checker(program)
    counts, failed = {}, []
    for document in DOCUMENTS:
        failed += [f"{document.relative_to(ROOT)}: {problem}" for problem in run_document(document, program, python, counts)]
    print("\n".join([*failed, *(f"{count} {what}" for what, count in sorted(counts.items(), reverse=True))]))
    sys.exit(bool(failed) or counts.get("run", 0) < 50)


if __name__ == "__main__":
    main()
