#!/usr/bin/env python3
"""Runs the program as a user would: cli_test.py PATH_TO_DP [unittest arguments]."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/data/golden"
DP = sys.argv.pop(1)


def dp(*arguments):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=600)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def assert_refused(self, result, *texts):
        """Exit code 2 and one line of explanation that contains each of `texts`."""
        self.assertEqual(result.returncode, 2, result)
        self.assertTrue(result.stderr.startswith("dp: error: "), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)


class Usage(Case):
    def test_help_lists_every_command(self):
        for arguments in ([], ["--help"]):
            result = dp(*arguments)
            self.assertEqual(result.returncode, 0)
            for command in ("demo", "test", "bench", "selfcheck"):
                self.assertRegex(result.stdout, rf"(?m)^  {command} ")
        for command in (["demo"], ["bench"], ["bench", "op"], ["selfcheck"]):
            result = dp(*command, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("Usage: dp " + " ".join(command), result.stdout)

    def test_version(self):
        self.assertRegex(dp("--version").stdout, r"^dp \d+\.\d+\.\d+\n$")

    def test_unknown_words_get_a_suggestion(self):
        self.assert_refused(dp("bnech"), "unknown command 'bnech'", "did you mean 'bench'?")
        self.assert_refused(dp("frobnicate"), "unknown command 'frobnicate'", "'dp --help'")
        self.assert_refused(dp("bench", "opp"), "unknown command 'opp' for 'dp bench'", "did you mean 'op'?")
        self.assert_refused(dp("bench", "op", "--shap=1,1,1,1,1,1"), "unknown option '--shap' for 'dp bench op'",
                            "did you mean '--shape'?")
        self.assert_refused(dp("selfcheck", "--fixture", GOLDEN), "did you mean '--fixtures'?")
        self.assert_refused(dp("--quick", "demo"), "unknown option '--quick' for 'dp'")
        self.assert_refused(dp("demo", "bench"), "'bench'")

    def test_bad_values(self):
        self.assert_refused(dp("bench"), "subcommand is required")
        self.assert_refused(dp("selfcheck"), "--fixtures is required")
        self.assert_refused(dp("bench", "op", "--threads", "0"), "--threads")
        self.assert_refused(dp("bench", "op", "--threads", "two"), "--threads", "two")
        self.assert_refused(dp("bench", "op", "--peer", "jax"), "--peer", "jax")
        for shape in ("", "1,2,3", "1,2,3,4,5,0", "1,2,3,4,5,6,7", "1,2,3,4,5,x", "-1,2,3,4,5,6", "1,2,3,4,5,99999999999"):
            self.assert_refused(dp("bench", "op", "--shape=" + shape), "B,T,H,K,V,n")

    def test_json_that_cannot_be_written_is_found_out_first(self):
        for path in (self.folder, self.folder / "missing" / "x.json"):
            self.assert_refused(dp("bench", "op", "--json", path), "cannot write", str(path))
            self.assert_refused(dp("selfcheck", "--fixtures", GOLDEN, "--json", path), "cannot write", str(path))
        self.assertEqual(list(self.folder.iterdir()), [])


class Selfcheck(Case):
    def test_golden_files_pass(self):
        output = self.folder / "x.json"
        result = dp("selfcheck", "--fixtures", GOLDEN, "--json", output)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[-1], "5 passed, 0 failed")
        self.assertRegex(result.stdout, r"(?m)^PASS op_1_n1_T1: largest relative error \S+e-\d+ in \w+ of ")
        self.assertEqual(sum(line.startswith("SKIP model_") for line in lines), 5)
        report = json.loads(output.read_text())
        self.assertEqual((report["passed"], report["failed"], report["skipped"]), (5, 0, 5))
        self.assertEqual(len(report["files"]), 10)

    def change(self, edit):
        """A directory with one good file and one that went through edit(header, data)."""
        shutil.copy(GOLDEN / "op_1_n1_T1.safetensors", self.folder)
        content = (GOLDEN / "op_2_n2_T7.safetensors").read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8:8 + length]), bytearray(content[8 + length:])
        data = edit(header, data) or data
        header = json.dumps(header).encode()
        (self.folder / "op_2.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
        return dp("selfcheck", "--fixtures", self.folder)

    def assert_one_failed(self, result, *texts):
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stdout.splitlines()[-1], "1 passed, 1 failed")
        line = next(line for line in result.stdout.splitlines() if line.startswith("FAIL op_2"))
        for text in texts:
            self.assertIn(text, line)

    def test_wrong_number_fails(self):
        for tensor in ("o", "ht", "dq", "dk", "dv", "dbeta"):
            def edit(header, data):
                data[header[tensor]["data_offsets"][0] + 3] ^= 0x80  # the sign of the first element
            with self.subTest(tensor):
                self.assert_one_failed(self.change(edit), f" in {tensor} of ")

    def test_nan_fails(self):
        def edit(header, data):
            begin = header["o"]["data_offsets"][0]
            data[begin:begin + 4] = b"\x00\x00\xc0\x7f"
        self.assert_one_failed(self.change(edit), " in o of ")

    def test_malformed_file_fails_with_a_sentence(self):
        self.assert_one_failed(self.change(lambda header, data: data[:-1]), "op_2.safetensors", "tensor 'v'")
        self.assert_one_failed(self.change(lambda header, data: header["q"].update(shape=[2, 3, 7, 16])),
                               "tensor 'k' has 14 rows, which is not a multiple of the 3 of 'q'")
        self.assert_one_failed(self.change(lambda header, data: header["dq"].update(shape=[2, 7, 16, 3])),
                               "tensor 'dq' must have shape [2, 7, 3, 16], got [2, 7, 16, 3]")

        def rename(header, data):
            header["x"] = header.pop("dbeta")
        self.assert_one_failed(self.change(rename), "has no tensor 'dbeta'")

    def test_directories_without_fixtures(self):
        self.assert_refused(dp("selfcheck", "--fixtures", self.folder / "missing"), "missing' is not a directory")
        self.assert_refused(dp("selfcheck", "--fixtures", self.folder), "holds no op_*.safetensors")
        (self.folder / "model_x").mkdir()
        result = dp("selfcheck", "--fixtures", self.folder)
        self.assertEqual((result.returncode, result.stdout.splitlines()[-1]), (0, "0 passed, 0 failed"))


class Bench(Case):
    def test_op_writes_what_it_prints(self):
        output = self.folder / "x.json"
        result = dp("bench", "op", "--shape", "1,16,2,8,8,2", "--shape", "2,8,1,5,7,1", "--seconds", "0",
                    "--threads", "1", "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        self.assertEqual(report["threads"], 1)
        self.assertEqual(len(report["rows"]), 2)
        for row in report["rows"]:
            for key in ("B", "T", "H", "K", "V", "n", "forward_ms", "forward_backward_ms", "useful_gflops",
                        "sgemm_gflops", "forward_ratio", "step_ratio"):
                self.assertGreater(row[key], 0, key)
            flops = row["B"] * row["H"] * row["T"] * (4 * row["n"] + 2) * row["K"] * row["V"]
            self.assertAlmostEqual(row["useful_gflops"] * row["forward_ms"] * 1e6 / flops, 1)
            self.assertAlmostEqual(row["useful_gflops"] / row["sgemm_gflops"], row["forward_ratio"])
            self.assertAlmostEqual(row["forward_backward_ms"] / row["forward_ms"], row["step_ratio"])
        self.assertGreater(report["decode"]["ratio"], 0)

    def test_op_beside_pytorch(self):
        output = self.folder / "x.json"
        result = dp("bench", "op", "--shape", "1,16,2,8,8,2", "--seconds", "0", "--peer", "torch", "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("times", result.stdout)
        peer = json.loads(output.read_text())["rows"][0]["peer"]
        for key in ("loop_forward_ms", "loop_forward_backward_ms", "chunked_forward_ms", "chunked_forward_backward_ms"):
            self.assertGreater(peer[key], 0, key)


class Demo(Case):
    def test_quick(self):
        output = self.folder / "x.json"
        result = dp("demo", "--quick", "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        self.assertEqual(report["n2_correct"], report["tokens"])
        self.assertLess(report["n1_best_accuracy"], 0.3)
        self.assertRegex(result.stdout, r"100\.000 %")


class Script(Case):
    """The script at the root, alone in a folder and among stand-ins for the tools that it calls."""

    def setUp(self):
        super().setUp()
        for name in ("dp", "CMakePresets.json", "src/cli/commands.def"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.folder / name)
        (self.folder / "bin").mkdir()
        self.stand_in("dpkg-query", 'echo installed')
        self.stand_in("cmake", 'echo the cmake of this test fails; exit 1')

    def stand_in(self, name, script):
        path = self.folder / "bin" / name
        path.write_text(f'#!/bin/bash\necho {name} "$@" >>"{self.folder}/calls"\n{script}\n')
        path.chmod(0o755)

    def run_script(self, *arguments, **environment):
        return subprocess.run([self.folder / "dp", *arguments], capture_output=True, text=True, cwd="/",
                              env={"PATH": f"{self.folder}/bin:/usr/bin:/bin", **environment})

    def calls(self, name):
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if line.startswith(name + " ")]

    def test_help_lists_what_the_program_has(self):
        listed = [line.split()[0] for line in dp("--help").stdout.split("Subcommands:")[1].splitlines() if line.strip()]
        for arguments in ([], ["--help"], ["help"]):
            result = self.run_script(*arguments)
            self.assertEqual(result.returncode, 0)
            for command in listed:
                self.assertRegex(result.stdout, rf"(?m)^  {command} +\w")
        self.assertEqual(self.calls("cmake"), [], "help needs no build")

    def test_mistakes_need_no_build(self):
        self.assert_refused(self.run_script("frobnicate"), "unknown command 'frobnicate'", "selfcheck")
        self.assert_refused(self.run_script("demo", DP_PRESET="fast"), "DP_PRESET=fast", "asan")
        self.assertEqual(self.calls("cmake"), [])

    def test_says_what_to_install_when_it_may_not(self):
        self.stand_in("dpkg-query", '[[ ${@: -1} == libhwy-dev ]] || echo installed')
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", "exit 1")
        result = self.run_script("demo")
        self.assert_refused(result, "sudo apt-get update && sudo apt-get install -y --no-install-recommends libhwy-dev\n")
        self.assertEqual(self.calls("cmake"), [])

    def test_installs_what_is_missing_once(self):
        self.stand_in("dpkg-query", '[[ ${@: -1} == libhwy-dev ]] || echo installed')
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", "")
        self.run_script("demo")
        update, install = self.calls("apt-get")
        self.assertIn("update", update)
        self.assertTrue(install.endswith(" libhwy-dev"), install)
        self.run_script("demo")
        self.assertEqual(len(self.calls("apt-get")), 2)

    def test_failed_build_shows_why(self):
        result = self.run_script("demo")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the cmake of this test fails", result.stderr)
        self.assertIn("build/release.log", result.stderr)


unittest.main()
