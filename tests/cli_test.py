#!/usr/bin/env python3
"""Runs the program as a user would: cli_test.py PATH_TO_DP [unittest arguments]."""
import array
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from tiny_model import make_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/data/golden"
DP = sys.argv.pop(1)


def dp(*arguments, environment={}):
    return subprocess.run([DP, *map(str, arguments)], capture_output=True, text=True, timeout=600,
                          env=os.environ | environment)


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    return {name: (entry["dtype"], entry["shape"], content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


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
        definitions = (ROOT / "src/tools/commands.def").read_text()
        commands = [name.replace("_", "-") for name in re.findall(r"(?m)^DP_\w*COMMAND\((\w+),", definitions)]
        self.assertGreater(len(commands), 20)
        for arguments in ([], ["--help"]):
            result = dp(*arguments)
            self.assertEqual(result.returncode, 0)
            for command in commands:
                self.assertRegex(result.stdout, rf"(?m)^  {command} ")
        for command in sorted(set(commands) - {"test"}):  # which is the script's
            self.check_help([command])

    def check_help(self, command):
        """--help of a command, and of every subcommand that it lists."""
        result = dp(*command, "--help")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("Usage: dp " + " ".join(command), result.stdout)
        for subcommand in re.findall(r"(?m)^  ([a-z-]+) ", result.stdout.partition("\nSubcommands:\n")[2].partition("\n\n")[0]):
            self.check_help(command + [subcommand])

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
        self.assertEqual(lines[-1], "10 passed, 0 failed")
        self.assertRegex(result.stdout, r"(?m)^PASS op_1_n1_T1: largest relative error \S+e-\d+ in \w+ of ")
        self.assertRegex(result.stdout, r"(?m)^PASS model_a_gated_n2: largest error \S+e-\d+ in \w+ of ")
        report = json.loads(output.read_text())
        self.assertEqual((report["passed"], report["failed"]), (10, 0))
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

    def change_model(self, name, edit):
        """selfcheck of a model one of whose files went through edit(header, data)."""
        target = self.folder / "model_x"
        shutil.copytree(GOLDEN / "model_a_gated_n2", target)
        content = (target / name).read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, data = json.loads(content[8:8 + length]), bytearray(content[8 + length:])
        edit(header, data)
        header = json.dumps(header).encode()
        (target / name).write_bytes(len(header).to_bytes(8, "little") + header + data)
        result = dp("selfcheck", "--fixtures", self.folder)
        shutil.rmtree(target)
        self.assertEqual(result.returncode, 1, result)
        self.assertEqual(result.stdout.splitlines()[-1], "0 passed, 1 failed")
        return result.stdout.splitlines()[0]

    def test_wrong_model_fails(self):
        def flip(tensor):
            def edit(header, data):
                data[header[tensor]["data_offsets"][0] + 3] ^= 0x80
            return edit
        for tensor in ("logits", "hidden.1", "prompt_logits", "state0", "conv0_k"):
            with self.subTest(tensor):
                self.assertIn(f" in {tensor} of ", self.change_model("expected.safetensors", flip(tensor)))
        self.assertIn("FAIL model_x: ", self.change_model("model.safetensors", flip("model.layers.1.attn.A_log")))

        def other_token(header, data):
            data[header["greedy_ids"]["data_offsets"][0]] ^= 1
        self.assertIn("greedy continuation", self.change_model("expected.safetensors", other_token))

        def rename(header, data):
            header["model.layers.0.attn.x_proj.weight"] = header.pop("model.layers.0.attn.b_proj.weight")
        self.assertIn("'model.layers.0.attn.b_proj.weight'", self.change_model("model.safetensors", rename))

    def test_directories_without_fixtures(self):
        self.assert_refused(dp("selfcheck", "--fixtures", self.folder / "missing"), "missing' is not a directory")
        self.assert_refused(dp("selfcheck", "--fixtures", self.folder), "holds no op_*.safetensors")
        (self.folder / "model_x").mkdir()
        result = dp("selfcheck", "--fixtures", self.folder)
        self.assertEqual((result.returncode, result.stdout.splitlines()[-1]), (1, "0 passed, 1 failed"))


class Models(Case):
    MODEL = GOLDEN / "model_a_gated_n2"

    def test_info(self):
        output = self.folder / "x.json"
        result = dp("info", "392m_n2", "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("392318976  392.3M", result.stdout)
        self.assertIn("DeltaProduct_2 [-1,1], 24 layers of width 1024, 8 heads of 128", result.stdout)
        report = json.loads(output.read_text())
        self.assertEqual(report["parameters"], 392318976)
        self.assertEqual(sum(report[part] for part in ("embeddings", "mixers", "mlps", "norms", "head")), 392318976)
        self.assertEqual(dp("info", self.MODEL).returncode, 0)
        self.assertEqual(dp("info", self.MODEL / "config.json").returncode, 0)
        self.assert_refused(dp("info", "393m"), "'393m' is neither", "392m_n2")
        (self.folder / "config.json").write_text('{"model_type": "gated_deltaproduct", "num_heads": -1}')
        self.assert_refused(dp("info", self.folder), "config.json: field 'num_heads' is '-1', expected an integer")

    def test_match(self):
        output = self.folder / "config.json"
        result = dp("match", "--target", "392M", "--num-householder", 3, "--by", "heads", "--out", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("hidden 1024, 24 layers, 6 heads of 128", result.stdout)
        self.assertIn("392.4M", dp("info", output).stdout)
        for by in ("head-dim", "mlp"):
            report = self.folder / "x.json"
            result = dp("match", "--target", "20M", "--num-householder", 2, "--by", by, "--vocab-size", 1000,
                        "--json", report)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertLess(abs(json.loads(report.read_text())["deviation"]), 0.01)
        self.assert_refused(dp("match", "--target", "many"), "'many' is not a count")

    def test_generate(self):
        result = dp("generate", self.MODEL, "--ids", "1 5 7", "--max-tokens", 8)
        self.assertEqual(result.returncode, 0, result.stderr)
        tokens = result.stdout.split()
        self.assertEqual(len(tokens), 8)
        self.assertEqual(dp("generate", self.MODEL, "--ids", "1,5,7", "--max-tokens", 8).stdout, result.stdout)
        stopped = dp("generate", self.MODEL, "--ids", "1 5 7", "--stop", tokens[3]).stdout.split()
        self.assertEqual(stopped, tokens[:tokens.index(tokens[3])])
        sampled = [dp("generate", self.MODEL, "--ids", "1", "--temperature", 1.5, "--top-p", 0.9, "--top-k", 50,
                      "--repetition-penalty", 1.1, "--seed", seed, "--ignore-eos").stdout for seed in (1, 1, 2)]
        self.assertEqual(sampled[0], sampled[1])
        self.assertNotEqual(sampled[0], sampled[2])

    def test_generate_goes_on_from_a_saved_state(self):
        whole = dp("generate", self.MODEL, "--ids", "1 5 7", "--max-tokens", 8).stdout.split()
        state = self.folder / "state"
        first = dp("generate", self.MODEL, "--ids", "1 5 7", "--max-tokens", 5, "--state", state).stdout.split()
        second = dp("generate", self.MODEL, "--max-tokens", 3, "--state", state).stdout.split()
        self.assertEqual(first + second, whole)
        result = dp("generate", GOLDEN / "model_c_noconv_n1", "--ids", "1", "--state", state)
        self.assert_refused(result, "saved with another model")

    def test_memory_does_not_depend_on_the_prompts_length(self):
        def peak_megabytes(tokens):
            process = subprocess.Popen([DP, "generate", self.MODEL, "--ids", "7 " * tokens, "--max-tokens", "1"],
                                       stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            self.assertEqual(status, 0)
            return usage.ru_maxrss / 1024
        # One activation of width 64 for the longer prompt would take 15 MB by itself.
        self.assertLess(peak_megabytes(60000) - peak_megabytes(1000), 10)

    def test_generate_refuses(self):
        self.assert_refused(dp("generate", self.MODEL), "prompt has no tokens")
        self.assert_refused(dp("generate", self.MODEL, "--ids", "1 97"), "tokens must be from 0 to 96, got 97")
        self.assert_refused(dp("generate", self.MODEL, "--ids", "1 x 2"), "'x'", "character 3")
        self.assert_refused(dp("generate", self.folder, "--ids", "1"), "is not a model")
        self.assert_refused(dp("generate", self.MODEL, "--ids", "1", "--top-p", 2), "--top-p")

    def test_convert_and_back(self):
        for name, layout in (("model_a_gated_n2", "legacy"), ("model_legacy_deltaproduct_n3", "current")):
            source, there, back = GOLDEN / name, self.folder / "there", self.folder / "back"
            self.assertEqual(dp("convert", source, there, "--layout", layout).returncode, 0)
            other = "current" if layout == "legacy" else "legacy"
            self.assertEqual(dp("convert", there, back, "--layout", other).returncode, 0)
            for model in (there, back):
                shutil.copy(source / "expected.safetensors", model)
                model.rename(self.folder / ("model_" + model.name))
            result = dp("selfcheck", "--fixtures", self.folder)
            self.assertEqual(result.stdout.splitlines()[-1], "2 passed, 0 failed", result.stdout)
            for model in ("model_there", "model_back"):
                shutil.rmtree(self.folder / model)

    def test_convert_to_bfloat16(self):
        target = self.folder / "half"
        self.assertEqual(dp("convert", self.MODEL, target, "--dtype", "bf16").returncode, 0)
        self.assertEqual(json.loads((target / "config.json").read_text())["torch_dtype"], "bfloat16")
        before, after = (read_safetensors(folder / "model.safetensors") for folder in (self.MODEL, target))
        self.assertEqual(before.keys(), after.keys())
        for name, (dtype, shape, values) in after.items():
            self.assertEqual(before[name][1], shape, name)
            self.assertEqual(dtype, "BF16", name)
            nearest = [(bits + 0x7FFF + (bits >> 16 & 1)) >> 16 for bits in array.array("I", before[name][2])]  # ties to even
            self.assertEqual(list(array.array("H", values)), nearest, name)
        self.assertEqual(dp("generate", target, "--ids", "1 5 7", "--max-tokens", 3).returncode, 0)

    def test_convert_to_fewer_bits(self):
        (self.folder / "source").mkdir()
        for file in self.MODEL.iterdir():
            shutil.copy(file, self.folder / "source")
        (self.folder / "source/tokenizer_config.json").write_text("{}")
        sizes = [(self.MODEL / "model.safetensors").stat().st_size]
        for dtype in ("int8", "int4"):
            target = self.folder / dtype
            self.assertEqual(dp("convert", self.folder / "source", target, "--dtype", dtype).returncode, 0)
            sizes.append((target / "model.safetensors").stat().st_size)
            self.assertEqual(json.loads((target / "config.json").read_text())["torch_dtype"], dtype)
            self.assertTrue((target / "tokenizer_config.json").exists())
            self.assertEqual(dp("generate", target, "--ids", "1 5 7", "--max-tokens", 3).returncode, 0)
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assert_refused(dp("convert", self.folder / "int8", self.folder / "x", "--dtype", "int4"), "is quantised already")
        self.assertEqual(dp("compile", "group", "Z2", "--out", self.folder / "z2").returncode, 0)
        self.assert_refused(dp("convert", self.folder / "z2", self.folder / "x", "--dtype", "int8"),
                            "is a compiled model, which is exact in f32 and bf16 only")
        self.assertFalse((self.folder / "x").exists())

    def test_a_file_that_shrinks_in_use_is_named_as_the_reason(self):
        model = self.folder / "model"
        shutil.copytree(self.MODEL, model)
        process = subprocess.Popen([DP, "generate", model, "--ids", "1", "--max-tokens", str(10 ** 8), "--ignore-eos",
                                    "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(1)
        os.truncate(model / "model.safetensors", 0)
        process.stdout.close()
        with process.stderr:
            message = process.stderr.read().decode()
        self.assertEqual(process.wait(), 1, message)
        self.assertIn("has become shorter", message)

    def test_convert_refuses(self):
        self.assert_refused(dp("convert", self.MODEL, self.folder), "exists already")
        self.assert_refused(dp("convert", self.folder / "none", self.folder / "x"), "none' is not a model")
        broken = self.folder / "broken"
        shutil.copytree(self.MODEL, broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1])
        self.assert_refused(dp("convert", broken, self.folder / "x"), "model.safetensors")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["broken"])


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

    def test_blas_runs_kernels_for_this_cpu(self):
        output = self.folder / "x.json"

        def kernels(**environment):
            result = dp("bench", "op", "--shape", "1,4,1,4,4,1", "--seconds", "0", "--json", output, environment=environment)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(output.read_text())["blas_kernels"]

        if " avx2 " in pathlib.Path("/proc/cpuinfo").read_text():
            self.assertNotIn(kernels(), ("Prescott", "Core2", "Nehalem", "Sandybridge"))
            self.assertEqual(kernels(OPENBLAS_CORETYPE="Nehalem"), "Nehalem")  # who asks for them has them

    def test_op_beside_pytorch(self):
        output = self.folder / "x.json"
        result = dp("bench", "op", "--shape", "1,16,2,8,8,2", "--seconds", "0", "--peer", "torch", "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("times", result.stdout)
        peer = json.loads(output.read_text())["rows"][0]["peer"]
        for key in ("loop_forward_ms", "loop_forward_backward_ms", "chunked_forward_ms", "chunked_forward_backward_ms"):
            self.assertGreater(peer[key], 0, key)

    def test_distributed_beside_one_process(self):
        config = json.loads((ROOT / "configs/state_tracking.json").read_text())
        config.update(hidden_size=16, num_heads=2, head_dim=8, vocab_size=11)
        path, output = self.folder / "config.json", self.folder / "x.json"
        path.write_text(json.dumps(config))
        result = dp("bench", "distributed", "--model", path, "--batch", 4, "--length", 20, "--ranks", "2,4", "--seconds", 0,
                    "--rounds", 1, "--threads", 2, "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        self.assertEqual([row["ranks"] for row in report["rows"]], [1, 2, 4])
        for row in report["rows"]:
            self.assertAlmostEqual(row["efficiency"], report["rows"][0]["step_ms"] / row["step_ms"])
            n = row["ranks"]  # gradients there, weights back, some padding, and a few numbers
            self.assertGreaterEqual(row["bytes_sent"], 2 * 4 * row["parameters"] * (n - 1) / n)
            self.assertLessEqual(row["bytes_sent"], (2 * 4 * row["parameters"] + 4096) * (n - 1))
            # docs/distributed.md, on one machine
            core_ns = row["parameters"] * (report["compute_ns"] * row["tokens"] + report["update_ns"])
            core_ns += report["sending_ns"] * 8 * row["parameters"] * (n - 1)
            sums = 3 * report["latency_ms"] if n > 1 else 0
            self.assertAlmostEqual(row["model_ms"], 1e-6 * core_ns / report["cores"] + sums)

    def test_distributed_with_too_small_a_batch(self):
        self.assert_refused(dp("bench", "distributed", "--batch", 2, "--ranks", "2,4"), "--batch 2 is too small for 4 ranks")

    def test_train_beside_its_products_and_pytorch(self):
        config = json.loads((ROOT / "configs/state_tracking.json").read_text())
        config.update(hidden_size=16, num_heads=2, head_dim=8, vocab_size=11)
        path, output = self.folder / "config.json", self.folder / "x.json"
        path.write_text(json.dumps(config))
        result = dp("bench", "train", "--model", path, "--batch", 2, "--length", 20, "--seconds", 0, "--peer", "torch",
                    "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        row, = json.loads(output.read_text())["rows"]
        self.assertEqual((row["B"], row["T"], row["n"]), (2, 20, 2))
        self.assertAlmostEqual(row["ratio"], row["step_ms"] / row["products_ms"])
        for form in ("loop", "chunked"):
            self.assertAlmostEqual(row["peer"][form + "_speedup"], row["peer"][form + "_ms"] / row["step_ms"])

    def test_decode_beside_memory(self):
        output = self.folder / "x.json"
        model = GOLDEN / "model_b_deltaproduct_n3_tied"
        result = dp("bench", "decode", "--model", model, "--load-model", model, "--seconds", 0, "--prompt-tokens", 40,
                    "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        self.assertEqual([row["dtype"] for row in report["rows"]], ["float32", "bfloat16", "int8", "int4"])
        for row in report["rows"]:
            moved = row["tokens_per_s"] * row["bytes_per_token"]
            self.assertAlmostEqual(row["bandwidth_ratio"], moved / row["read_bytes_per_s"])
        sizes = [row["bytes_per_token"] for row in report["rows"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertGreater(report["first_token_s"], 0)
        self.assertGreater(report["read_s"], 0)
        self.assertAlmostEqual(report["prompt"]["ratio"], report["prompt"]["seconds"] / report["prompt"]["products_s"])

    def test_start(self):
        model, output = GOLDEN / "model_c_noconv_n1", self.folder / "x.json"
        result = dp("bench", "start", "--model", model, "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        for key in ("version_s", "first_token_s", "read_s"):
            self.assertGreater(report[key], 0)
        self.assertGreater(report["predict"]["cpu_per_symbol_s"], 0)

    def test_quality(self):
        model, output, text = self.folder / "model", self.folder / "x.json", self.folder / "text"
        make_model(model)
        text.write_bytes(bytes(i * i % 256 for i in range(300)))
        result = dp("bench", "quality", model, "--text", text, "--window", 64, "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(output.read_text())["rows"]
        self.assertEqual([row["dtype"] for row in rows], ["float32", "bfloat16", "int8", "int4"])
        self.assertEqual((rows[0]["kl_per_token"], rows[0]["perplexity_ratio"]), (0, 1))
        self.assertGreater(rows[3]["kl_per_token"], rows[2]["kl_per_token"])
        self.assertGreater(rows[2]["kl_per_token"], 0)
        self.assert_refused(dp("bench", "quality", model, "--text", self.folder / "none"), "none")


class Demo(Case):
    def test_quick(self):
        output, runs = self.folder / "x.json", self.folder / "runs"
        result = dp("demo", "--quick", "--out", runs, "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(output.read_text())
        for n in ("n=1", "n=2"):
            self.assertEqual(list(report[n]), ["128", "256", "512"])
            self.assertTrue((runs / n / "model.safetensors").exists())
        self.assertIn("this training was too short to show it", result.stdout)
        self.assertIn("</html>", (runs / "report.html").read_text())
        again = dp("demo", "--quick", "--out", runs)
        self.assertIn("2 of 2 runs are finished already", again.stdout)


class Languages(Case):
    """Tasks that ask once: parity and modular arithmetic."""
    SMALL = ["--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32, "--batch", 4, "--eval-sequences", 4, "--threads", 1]

    def train(self, task, name, *more, steps=4, every=2):
        result = dp("train", task, *self.SMALL, "--steps", steps, "--eval-every", every, *more, "--out", self.folder / name)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_train_and_eval(self):
        printed = self.train("parity", "run", "--model", "delta-net", "--answers", "every", "--eval-lengths", "8,16")
        self.assertRegex(printed, r"^parity with DeltaNet \[-1,1\], 3 layers: \S+ parameters, 1 thread, into ")
        self.assertIn("mean scaled accuracy", printed)
        run = self.folder / "run"
        settings = json.loads((run / "run.json").read_text())
        self.assertEqual(settings["task"], {"name": "parity", "min_length": 3, "answers": "every"})
        self.assertEqual(settings["model"]["model_type"], "delta_net")
        self.assertEqual((settings["model"]["num_householder"], settings["model"]["vocab_size"]), (1, 3))
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([row["length"] for row in lines[1]["evaluation"]], [8, 16])
        means = [sum(row["scaled_accuracy"] for row in line["evaluation"]) / 2 for line in lines[1::2]]
        last_is_best = means[1] >= means[0]
        same = (run / "best/model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()
        self.assertEqual(same, last_is_best, "best/ is judged by the mean scaled accuracy")

        output = self.folder / "eval.json"
        result = dp("eval", run, "--sequences", 8, "--json", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"(?m)^ +mean +-?\d\.\d{4}$")
        report = json.loads(output.read_text())
        self.assertEqual([row["length"] for row in report["lengths"]], [40, 64, 96, 128, 160, 192, 224, 256])
        for row in report["lengths"]:
            self.assertAlmostEqual(row["scaled_accuracy"], 2 * row["sequence_accuracy"] - 1)
        self.assertAlmostEqual(report["mean_scaled_accuracy"], sum(row["scaled_accuracy"] for row in report["lengths"]) / 8)

    def test_a_target_stops_training(self):
        printed = self.train("parity", "run", "--stop-at", 0.1, "--eval-lengths", "4,5", steps=40, every=1)
        lines = [json.loads(line) for line in (self.folder / "run/metrics.jsonl").read_text().splitlines()]
        means = [sum(row["scaled_accuracy"] for row in line["evaluation"]) / 2 for line in lines]
        self.assertIn("reached its target", printed)
        self.assertEqual([mean >= 0.1 for mean in means], [False] * (len(means) - 1) + [True])

    def test_predict_and_what_is_for_word_problems(self):
        self.train("mod-arith-brackets", "run")
        run = self.folder / "run"
        for text, answers in (("(1+2)=\n((3)*-4)\n\n", 3), ("", 0)):
            result = subprocess.run([DP, "predict", run], input=text, capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(result.stdout.splitlines()), answers)
        result = subprocess.run([DP, "predict", run], input="(1+7)\n", capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (2, "error\n"), result)
        self.assertIn("line 1, column 4: '7' is not a symbol of mod-arith-brackets, expected one of", result.stderr)
        self.assert_refused(dp("analyze", run), "is a run of mod-arith-brackets, and only word problems are analysed")
        self.assert_refused(dp("verify", run), "is a run of mod-arith-brackets")
        self.assert_refused(dp("train", "parity", "--resume", "--out", run), "continue it with dp train mod-arith-brackets --resume")

    def test_sweep_over_tasks_and_models(self):
        plan = {"base": {"hidden": 8, "heads": 1, "head-dim": 8, "mlp": 16, "steps": 2, "batch": 2, "eval-sequences": 2},
                "grid": {"task": ["parity", "mod-arith"],
                         "row": [{"model": "delta-net", "eigenvalues": "0,1"}, {"model": "deltaproduct", "num-householder": 2}]},
                "overrides": [{"match": {"task": "parity"}, "set": {"answers": "every"}},
                              {"match": {"model": "delta-net"}, "set": {"steps": 3}}],
                "evaluate": {"sequences": 4}}
        (self.folder / "table.json").write_text(json.dumps(plan))
        self.assertEqual(dp("sweep", self.folder / "table.json", "--only", "task=parity").returncode, 0)
        self.assertEqual([path.parent.name.split(",")[-1] for path in self.folder.glob("table/runs/*/eval.json")], ["task=parity"] * 2)
        result = dp("sweep", self.folder / "table.json", "--jobs", 2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("scaled accuracy: mean, and at length", result.stdout)
        self.assertRegex(result.stdout, r"(?m)^eigenvalues=0,1,model=delta-net,task=mod-arith +mean -?\d\.\d{4} +40: ")
        runs = self.folder / "table/runs"
        summary = json.loads((runs / "sweep.json").read_text())["runs"]
        self.assertEqual(sorted({run["task"] for run in summary}), ["mod-arith", "parity"])
        for run in summary:
            self.assertEqual(len(run["lengths"]), 8)
            self.assertEqual(run["steps"], 3 if run["options"]["model"] == "delta-net" else 2)
            self.assertAlmostEqual(run["mean_scaled_accuracy"], sum(row["scaled_accuracy"] for row in run["lengths"]) / 8)
        page = re.search('(?s)<script type="application/json" id="data">(.*?)</script>', (runs / "report.html").read_text())
        shown = json.loads(page[1])["runs"]
        self.assertEqual([(run["kind"], len(run["evaluation"]["lengths"])) for run in shown], [("formal-language", 8)] * 4)
        self.assertIn("4 of 4 runs are finished already", dp("sweep", self.folder / "table.json").stdout)
        self.assert_refused(dp("sweep", self.folder / "table.json", "--only", "seed=9"), "--only: no run of the sweep has 'seed=9'")
        # Stored without weights, on a page of all experiments.
        stored = self.folder / "experiments/chomsky/results/table.json"
        stored.parent.mkdir(parents=True)
        self.assertIn("4 finished runs", dp("report", runs, "--export", "json", "--commit", "abc", "--out", stored).stdout)
        self.assertEqual(dp("report", self.folder / "experiments", "--out", self.folder / "all.html").returncode, 0)
        page = re.search('(?s)<script type="application/json" id="data">(.*?)</script>', (self.folder / "all.html").read_text())
        results = json.loads(page[1])["results"]
        self.assertEqual([(it["file"], it["commit"], len(it["runs"])) for it in results], [("chomsky/results/table.json", "abc", 4)])
        for run in results[0]["runs"]:
            self.assertGreaterEqual(run["evaluation"]["constant_answer"]["mean_scaled_accuracy"], 0)

    def test_bad_options(self):
        for arguments, texts in [(["parity", "--model", "lstm"], ["--model", "lstm"]),
                                 (["parity", "--model", "delta-net", "--num-householder", 2], ["num-householder means nothing to the model delta-net"]),
                                 (["parity", "--group", "S3"], ["unknown option '--group' for 'dp train parity'"]),
                                 (["mod-arith", "--answers", "every"], ["unknown option '--answers'"]),
                                 (["mod-arith", "--min-length", 2], ["--min-length"]),
                                 (["mod-arith", "--length", 2], ["length: expected at least 3 for mod-arith, found 2"]),
                                 (["mod-arith", "--model", "mamba", "--hidden", 10, "--expand", 1.05], ["hidden_size * expand"]),
                                 (["word-problem", "--model", "transformer", "--head-dim", 3], ["head_dim is 3, expected an even number"]),
                                 (["chess"], ["unknown command 'chess' for 'dp train'"])]:
            with self.subTest(arguments=arguments):
                self.assert_refused(dp("train", *arguments, "--out", self.folder / "never"), *texts)
        self.assertFalse((self.folder / "never").exists())
        (self.folder / "grid.json").write_text('{"task": "chess"}')
        self.assert_refused(dp("sweep", self.folder / "grid.json"), "grid.json: task is 'chess', expected one of 'word-problem'")


class Tokenizers(Case):
    TEXT = ("The state of a layer is a matrix. A reflection per token, or two, or a few of them.\n" * 40 +
            "na\u00efve caf\u00e9 \u4e2d\u6587\n").encode()

    def pipe(self, data, *arguments):
        return subprocess.run([DP, "tokenizer", *map(str, arguments)], input=data, capture_output=True, timeout=600)

    def assert_pipe_refused(self, result, *texts):
        self.assert_refused(subprocess.CompletedProcess(result.args, result.returncode, "", result.stderr.decode()), *texts)

    def assert_comes_back(self, tokenizer, *options):
        for text in (b"", b"a", self.TEXT, bytes(range(256)) * 2, " \u2581 x  \n\n".encode(), b"<s>\xff</s>"):
            encoded = self.pipe(text, "encode", tokenizer, *options)
            self.assertEqual(encoded.returncode, 0, encoded.stderr)
            decoded = self.pipe(encoded.stdout, "decode", tokenizer)
            self.assertEqual((decoded.returncode, decoded.stdout), (0, text), decoded.stderr)

    def test_bytes(self):
        self.assertEqual(self.pipe(b"ab\n", "encode", "bytes").stdout, b"97 98 10\n")
        self.assertEqual(self.pipe(b"ab\nc", "encode", "bytes", "--lines").stdout, b"97 98\n99\n")
        self.assertEqual(self.pipe(b"ab\nc", "encode", "bytes", "--lines", "--json").stdout, b"[97, 98]\n[99]\n")
        self.assertEqual(self.pipe(b"<s>a", "encode", "bytes", "--special").stdout, b"256 97\n")
        self.assertEqual(self.pipe(b"[97, 98]\n", "decode", "bytes").stdout, b"ab")
        self.assert_comes_back("bytes", "--json")
        info = self.pipe(b"", "info", "bytes").stdout.decode()
        self.assertIn("bytes, 258 tokens, 2 of them special\nbegins a text: 256 <s>\nends a text: 257 </s>\n", info)

    def test_train(self):
        (self.folder / "texts").mkdir()
        (self.folder / "texts/a.txt").write_bytes(self.TEXT)
        (self.folder / "texts/b.jsonl").write_text(json.dumps({"text": "Reflections and rotations. " * 20}) + "\n")
        for kind, size in (("bpe", 340), ("unigram", 290)):
            model = self.folder / f"{kind}.model"
            result = self.pipe(b"", "train", self.folder / "texts", "--vocab-size", size, "--type", kind, "--out", model)
            self.assertEqual((result.returncode, result.stderr), (0, b""), result.stdout)
            self.assertRegex(result.stdout.decode(), rf"(?s)^{kind} of {size} pieces from 0.0 MB of text in 2 files.*\nwrote {model}\n$")
            self.assert_comes_back(model)
            self.assert_comes_back(model, "--special")
            output = self.folder / "x.json"
            info = self.pipe(b"", "info", model, "--json", output)
            self.assertIn(f"sentencepiece, {size} tokens, 2 of them special", info.stdout.decode())
            report = json.loads(output.read_text())
            self.assertEqual((report["kind"], report["vocab_size"], report["bos"], report["eos"]), ("sentencepiece", size, 1, 2))
            self.assertTrue(report["fingerprint"].startswith(f"tokenizer.model-{size}-"))

    def test_tokenizer_json_in_a_directory(self):
        corpus = ROOT / "fuzz/corpus/tokenizer_json/gpt2.json"
        shutil.copy(corpus, self.folder / "tokenizer.json")
        self.assertIn(b"byte-level BPE, 262 tokens, 1 of them special", self.pipe(b"", "info", self.folder).stdout)
        self.assert_comes_back(self.folder)
        self.assertEqual(self.pipe(b"<x>", "encode", corpus, "--special").stdout, b"260\n")

    def test_refusals(self):
        out = self.folder / "x.model"
        (self.folder / "a.txt").write_bytes(self.TEXT)
        train = lambda *options: self.pipe(b"", "train", self.folder / "a.txt", "--out", out, *options)
        self.assert_pipe_refused(train("--vocab-size", 100), "a vocabulary of 100", "260")
        self.assert_pipe_refused(train("--vocab-size", 9000), "cannot train a tokenizer of 9000 pieces", "vocabulary size too high (9000); please set it to a value <= ")
        self.assert_pipe_refused(train("--type", "word"), "--type", "word")
        self.assert_pipe_refused(self.pipe(b"", "train", self.folder / "no", "--out", out), "no")
        self.assert_pipe_refused(self.pipe(b"", "train", self.folder / "a.txt", "--out", self.folder / "no" / "x"), "cannot write")
        self.assertFalse(out.exists())
        self.assert_pipe_refused(self.pipe(b"", "encode", self.folder / "no"), "no' does not exist", "'bytes'")
        self.assert_pipe_refused(self.pipe(b"", "encode", self.folder / "a.txt"), "a.txt", "neither a tokenizer.json nor")
        self.assert_pipe_refused(self.pipe(b"1 2 300", "decode", "bytes"), "'300' behind 2 tokens", "0 to 257")
        self.assert_pipe_refused(self.pipe(b"1 x", "decode", "bytes"), "'x' behind 1 tokens")
        self.assert_pipe_refused(self.pipe(b"", "encode"), "tokenizer is required")
        self.assert_pipe_refused(self.pipe(b""), "subcommand is required")


class Script(Case):
    """The script at the root, alone in a folder and among stand-ins for the tools that it calls."""

    def setUp(self):
        super().setUp()
        for name in ("dp", "CMakePresets.json", "src/tools/commands.def"):
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
        listed = re.findall(r"(?m)^  ([a-z-]+) ", dp("--help").stdout.split("Subcommands:")[1])
        self.assertGreater(len(listed), 20)
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

    def test_installs_what_only_some_releases_have_where_it_is(self):
        self.stand_in("dpkg-query", '[[ ${@: -1} =~ ^(gap-core|python3-transformers)$ ]] || echo installed')
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", "")
        for known, packages in (("", " gap-core"), ("echo 'python3-transformers | 5.12 | Packages'", " gap-core python3-transformers")):
            (self.folder / "calls").unlink(missing_ok=True)
            self.stand_in("apt-cache", known)
            self.run_script("test")
            self.assertTrue(self.calls("apt-get")[1].endswith(packages), self.calls("apt-get"))
            (self.folder / "build" / "installed-packages").unlink()

    def test_waits_for_apts_lock(self):
        lock = self.folder / "lists-lock"
        script = self.folder / "dp"
        script.write_text(script.read_text().replace("/var/lib/apt/lists/lock", str(lock)).replace("sleep 5", "sleep 0.2"))
        self.stand_in("dpkg-query", '[[ ${@: -1} == libhwy-dev ]] || echo installed')
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", f'[[ $1 != update || ! -e "{self.folder}/busy" ]]')
        (self.folder / "busy").touch()
        # Another process has the lock, as apt takes it, until its input ends.
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
                                   "print(flush=True); sys.stdin.read()", lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdout.readline()
        with subprocess.Popen([script, "demo"], stderr=subprocess.PIPE, text=True, cwd="/",
                              env={"PATH": f"{self.folder}/bin:/usr/bin:/bin"}) as waiting:
            while len(self.calls("apt-get")) < 3:
                self.assertIsNone(waiting.poll())
                time.sleep(0.05)
            (self.folder / "busy").unlink()
            holder.communicate()
            error = waiting.communicate(timeout=60)[1]
        self.assertIn("another program installs packages; waiting for it", error)
        self.assertIn("install", self.calls("apt-get")[-1])
        self.assertEqual(len(self.calls("cmake")), 1, "and went on to build")
        # A failure for another reason is not waited for.
        self.stand_in("apt-get", "exit 100")
        (self.folder / "build" / "installed-packages").unlink()
        self.assertEqual(self.run_script("demo").returncode, 1)

    def test_failed_build_shows_why(self):
        result = self.run_script("demo")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the cmake of this test fails", result.stderr)
        self.assertIn("build/release.log", result.stderr)


unittest.main(verbosity=2)
