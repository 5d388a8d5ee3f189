#!/usr/bin/env python3
"""docs_examples_test.py DP COMPILER [INCLUDE_DIR...]: compiles the C++ blocks of the documentation, and compares its ./dp
commands with the help of the program: every command, subcommand and option must exist.

A C++ block whose first line is a comment with a path, // src/lab/tasks/majority.h, is a file that later blocks of the same
document can include."""
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")),
             *sorted(ROOT.glob("experiments/*/README.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.M)
SHELL_END = re.compile(r"\s(?:&&|\|\||\||;|>|<)(?:\s|$)|\s#")


def cpp_blocks(text):
    return [body for language, body in FENCED.findall(text) if language == "cpp"]


def commands(text):
    """Arguments after ./dp of every command in a code block, up to a pipe, a redirection or a comment."""
    found = []
    blocks = [body for language, body in FENCED.findall(text) if language in ("sh", "")]
    blocks += INDENTED.findall(FENCED.sub("", text))
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        for part in line.split("./dp ")[1:]:
            found.append(SHELL_END.split(part)[0].split())
    return found


class Program:
    def __init__(self, dp):
        self.dp = dp
        definitions = (ROOT / "src/tools/commands.def").read_text()
        self.script_commands = set(re.findall(r"DP_SCRIPT_COMMAND\((\w+)", definitions))

    @functools.lru_cache(maxsize=None)
    def help(self, *words):
        result = subprocess.run([self.dp, *words, "--help"], capture_output=True, text=True)
        # For a word that it does not know, the program may explain the command before it.
        return result.stdout if result.returncode == 0 and f"Usage: dp {' '.join(words)} " in result.stdout else None

    def problems(self, words):
        """Of one command; empty: none."""
        if not words or words[0].startswith("-") or words[0].isupper() or words[0] in self.script_commands:
            return []
        if "--" in words:  # ./dp launch -n 2 -- train ...
            cut = words.index("--")
            return self.problems(words[:cut]) + self.problems(words[cut + 1:])
        path = [words[0]]
        text = self.help(*path)
        if text is None:
            return [f"there is no command {words[0]}"]
        if "\nSubcommands:" in text and len(words) > 1 and not words[1].startswith("-") and words[1] not in ("...", "TASK"):
            path.append(words[1])
            text = self.help(*path)
            if text is None:
                return [f"there is no command {' '.join(path)}"]
        known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", text))
        return [f"{' '.join(path)} has no option {word.split('=')[0]}" for word in words[len(path):]
                if re.match(r"--?[a-zA-Z]", word) and word.split("=")[0] not in known]


def shell_problems(document, program):
    found, problems = commands(document), []
    for words in found:
        problems += [f"./dp {' '.join(words)}: {problem}" for problem in program.problems(words)]
    return len(found), problems


def compile_blocks(blocks, compiler, includes):
    """Problems of the blocks of one document."""
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "installed/deltaproduct").mkdir(parents=True)
        for source in [*ROOT.glob("src/core/*"), *ROOT.glob("src/lab/*")]:
            if source.is_dir():
                (folder / "installed/deltaproduct" / source.name).symlink_to(source)
        for header in ROOT.glob("include/deltaproduct/*.h"):
            (folder / "installed/deltaproduct" / header.name).symlink_to(header)
        flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
        for path in (folder / "src/core", folder / "src/lab", ROOT / "src/core", ROOT / "src/lab", folder / "installed"):
            flags += ["-I", str(path)]
        # /usr/include is searched anyway; named, it would come before the compiler's own headers.
        flags += sum((["-isystem", path] for path in includes if path != "/usr/include"), [])
        for number, block in enumerate(blocks):
            named = re.match(r"// (src/\S+\.(?:h|cpp))\n", block)
            file = folder / (named.group(1) if named else f"block{number}.cpp")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block)
            if file.suffix == ".h":  # "#pragma once" is for files that are included
                file = folder / "include_it.cpp"
                file.write_text(f'#include "{folder / named.group(1)}"\n')
            result = subprocess.run([compiler, *flags, "-x", "c++", str(file)], capture_output=True, text=True)
            if result.returncode:
                problems.append(f"C++ block {number + 1}: {result.stderr[:2000]}")
    return problems


def json_problems(text):
    problems = []
    for language, body in FENCED.findall(text):
        if language == "json":
            try:
                json.loads(body)
            except ValueError as error:
                problems.append(f"JSON block: {error}")
    return problems


def check_the_checker(program, compiler, includes):
    """The checks above find what they are for."""
    wrong = "Text\n\n    ./dp train word-problem --grup S3 --out x   # comment --no\n    ./dp fly\n    echo 1 | ./dp predict x\n"
    count, problems = shell_problems(wrong, program)
    assert count == 3 and len(problems) == 2, problems
    assert "no option --grup" in problems[0] and "no command fly" in problems[1], problems
    count, problems = shell_problems("```sh\n./dp launch -n 2 -- train parity \\\n  --seeed 3 --out x\n```\n", program)
    assert count == 1 and problems == ["./dp launch -n 2 -- train parity --seeed 3 --out x: train parity has no option --seeed"], problems
    block = "int main() { std::cout << 1; }\n"
    assert compile_blocks([block], compiler, includes) and not compile_blocks(["#include <iostream>\n" + block], compiler, includes)
    assert json_problems("```json\n{,}\n```\n")


def main():
    program, compiler, includes = Program(sys.argv[1]), sys.argv[2], sys.argv[3:]
    check_the_checker(program, compiler, includes)
    failed, blocks, lines = [], 0, 0
    for document in DOCUMENTS:
        text = document.read_text()
        count, problems = shell_problems(text, program)
        found = cpp_blocks(text)
        problems += compile_blocks(found, compiler, includes) + json_problems(text)
        blocks, lines = blocks + len(found), lines + count
        failed += [f"{document.relative_to(ROOT)}: {problem}" for problem in problems]
    print("\n".join(failed) or f"{blocks} C++ blocks compile, {lines} commands have the options they use")
    sys.exit(bool(failed) or blocks < 2 or lines < 50)


if __name__ == "__main__":
    main()
