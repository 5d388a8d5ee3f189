#!/usr/bin/env python3
"""Training on several ranks, and what happens to them: distributed_test.py PATH_TO_DP [unittest arguments]."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

DP = sys.argv.pop(1)
TIMEOUT = 16  # seconds within which ranks end when one is gone
SLACK = 10  # until they have begun, on a busy machine
MODEL = ["--hidden", 16, "--heads", 2, "--head-dim", 8, "--mlp", 32]
WORD_PROBLEM = ["word-problem", "--group", "S3", "--num-householder", 2, *MODEL, "--batch", 8, "--length", 16, "--eval-every", 25,
                "--eval-lengths", "16,32", "--eval-sequences", 30, "--checkpoint-every", 10]


def train(out, *more, task=WORD_PROBLEM, steps=50, timeout=60):
    """What comes later replaces what was said before. The timeout is long, for busy machines, where nobody is to be missed."""
    words = [*map(str, task), "--steps", str(steps), "--rank-timeout", str(timeout), "--out", str(out)]
    more = list(map(str, more))
    for i, word in enumerate(more):
        if word and word.startswith("--") and word in words:
            place = words.index(word)
            words[place + 1] = more[i + 1]
            more[i:i + 2] = [None, None]
    return ["train", *words, *(word for word in more if word is not None)]


def launch(ranks, words, *more):
    return [DP, "launch", "-n", str(ranks), "--threads-per-rank", "1", *map(str, more), "--", *words]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def metrics(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.005)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def run_well(self, words, **options):
        result = subprocess.run(words, capture_output=True, text=True, timeout=300, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def start(self, ranks, words_of, dp_of=lambda rank: DP, address="127.0.0.1", prefix_of=lambda rank: []):
        """One process per rank, as torchrun starts them."""
        port = free_port()
        processes = []
        for rank in range(ranks):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": address,
                           "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
            processes.append(subprocess.Popen([*prefix_of(rank), dp_of(rank), *words_of(rank)], env=environment, text=True,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
            self.addCleanup(processes[-1].stderr.close)
            self.addCleanup(processes[-1].wait)
            self.addCleanup(processes[-1].kill)
        return processes

    def last_lines(self, processes, seconds):
        """What each has to say at its end, which comes within so many seconds."""
        end = time.monotonic() + seconds
        lines = []
        for process in processes:
            _, errors = process.communicate(timeout=max(0.1, end - time.monotonic()))
            lines.append(errors.strip().splitlines()[-1])
        return lines

    def assert_same_bits(self, a, b):
        for name in ("model.safetensors", "best/model.safetensors"):
            self.assertEqual((a / name).read_bytes(), (b / name).read_bytes(), name)

    def assert_same_curve(self, got, want, delta=1e-5):
        self.assertEqual([line["step"] for line in got], [line["step"] for line in want])
        for a, b in zip(got, want):
            self.assertEqual(a["tokens"], b["tokens"])
            self.assertAlmostEqual(a["loss"], b["loss"], delta=delta, msg=f"step {a['step']}")
            self.assertAlmostEqual(a["gradient_norm"], b["gradient_norm"], delta=delta, msg=f"step {a['step']}")
            self.assertEqual("evaluation" in a, "evaluation" in b)


class Curves(Case):
    def compare(self, task, ranks, *more):
        whole = self.folder / f"whole-{task[0]}"
        if not whole.exists():
            self.run_well([DP, *train(whole, "--threads", 1, *more, task=task)])
        for n in ranks:
            out = self.folder / f"{task[0]}-{n}"
            self.run_well(launch(n, train(out, *more, task=task)))
            self.assert_same_curve(metrics(out), metrics(whole))

    def test_ranks_have_the_curve_of_one_process(self):
        self.compare(WORD_PROBLEM, (2, 4))

    # Answers of unequal number, batches in parts, ranks with unequal shares.
    def test_other_tasks_and_models(self):
        common = [*MODEL, "--length", 16, "--eval-every", 25, "--eval-lengths", "16,32", "--eval-sequences", 30]
        self.compare(["parity", *common, "--batch", 9, "--answers", "every"], (2,), "--accumulation", 2)
        self.compare(["mod-arith", *common, "--batch", 5, "--layers", 2, "--model", "gla", "--curriculum", 4], (4,), "--recompute")

    def test_text(self):
        source = self.folder / "text.jsonl"
        source.write_text("".join(json.dumps({"text": f"The {i}th line is not the {i * i % 97}th."}) + "\n" for i in range(400)))
        self.run_well([DP, "data", "prepare", source, "--tokenizer", "bytes", "--validation", "0.1", "--out", self.folder / "data"])
        self.compare(["text", "--data", self.folder / "data", "--reset-at-documents", *MODEL, "--layers", 1, "--batch", 4,
                      "--length", 32, "--eval-every", 25, "--eval-sequences", 7], (2,))

    def test_the_same_bits_again(self):
        for out in ("a", "b"):
            self.run_well(launch(2, train(self.folder / out)))
        self.assert_same_bits(self.folder / "a", self.folder / "b")

    def test_go_on_with_another_number_of_ranks(self):
        whole, out = self.folder / "whole", self.folder / "out"
        self.run_well([DP, *train(whole, "--threads", 1, steps=100)])
        for n in (2, 1):
            before = len(list((out / "checkpoints").glob("step-*"))) and max((out / "checkpoints").iterdir()).name
            words = train(out, "--resume", steps=100)
            process = subprocess.Popen(launch(n, words) if n > 1 else [DP, *words, "--threads", "1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: any(path.name > str(before) for path in (out / "checkpoints").glob("step-*")))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(60), 130)
        self.assertLess(len(metrics(out)), 100)
        self.run_well(launch(4, train(out, "--resume", steps=100)))
        self.assert_same_curve(metrics(out), metrics(whole), delta=1e-4)
        self.run_well([DP, "eval", out, "--lengths", "16", "--sequences", "8"])
        self.run_well([DP, "convert", out, self.folder / "hf"])

    def test_each_rank_has_its_share_of_the_state(self):
        result = self.run_well(launch(4, train(self.folder / "out", "--hidden", 128, "--mlp", 512, steps=2)))
        here, whole = map(float, re.search(r"4 ranks; optimiser state on rank 0: ([\d.]+) of ([\d.]+) MB", result.stderr).groups())
        self.assertGreater(whole, 0.5)
        self.assertAlmostEqual(here, whole / 4, delta=0.02)

    def test_too_many_ranks(self):
        result = subprocess.run(launch(3, train(self.folder / "out", "--batch", 2)), capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("a batch of 2 is too small for 3 ranks, expected a sequence for each", result.stderr)


class Launchers(Case):
    """What others start ranks with, where it is installed."""

    def environment(self):
        # USE_LIBUV: Debian builds torch without it.
        return {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port()), "USE_LIBUV": "0"}

    def compare(self, *launcher):
        self.run_well(launch(2, train(self.folder / "ours")))
        self.run_well([*launcher, DP, *train(self.folder / "theirs")], env=self.environment())
        self.assert_same_bits(self.folder / "ours", self.folder / "theirs")

    def test_mpirun(self):
        if not shutil.which("mpirun"):
            self.skipTest("no mpirun here")
        self.compare("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2")

    # torchrun as a library: the command of Debian 12 fails in its own reading of options.
    def test_torchrun(self):
        script = ("import sys; from torch.distributed.launcher.api import LaunchConfig, elastic_launch; "
                  "elastic_launch(LaunchConfig(1, 1, 2, rdzv_backend='c10d', rdzv_endpoint='localhost:0', run_id='dp', "
                  "monitor_interval=1), "
                  "sys.argv[1])(*sys.argv[2:])")
        python = os.environ.get("DP_PYTHON")  # found by cmake/Python.cmake
        if not python:
            self.skipTest("no python3 with torch here")
        alone = subprocess.run([python, "-c", script, "true"], env=self.environment(), capture_output=True, text=True)
        if "without libuv support" in alone.stderr:  # torch 2.6 demands it whatever USE_LIBUV says
            self.skipTest("torchrun cannot even start 'true' here: this torch was built without libuv")
        self.compare(python, "-c", script)

    def test_srun(self):
        if not shutil.which("sinfo") or subprocess.run("sinfo", capture_output=True).returncode != 0:
            self.skipTest("no Slurm here")
        self.compare("srun", "--ntasks", "2")


class Faults(Case):
    STEPS = 150

    def uninterrupted(self, ranks):
        out = self.folder / f"whole-{ranks}"
        self.run_well(launch(ranks, train(out, steps=self.STEPS)))
        return out

    def assert_goes_on(self, out, ranks):
        """The last checkpoint loads, and the end is that of a run without faults."""
        self.run_well(launch(ranks, train(out, "--resume", steps=self.STEPS)))
        self.assert_same_bits(out, self.uninterrupted(ranks))

    def begin(self, ranks, out, **options):
        processes = self.start(ranks, lambda rank: train(out, steps=self.STEPS, timeout=TIMEOUT), **options)
        wait_until(lambda: list((out / "checkpoints").glob("step-*")))
        return processes

    def test_a_killed_rank_is_named(self):
        for victim in (1, 0):
            out = self.folder / f"killed-{victim}"
            processes = self.begin(3, out)
            processes[victim].kill()
            survivors = [process for process in processes if process is not processes[victim]]
            for line in self.last_lines(survivors, TIMEOUT):
                self.assertEqual(line, f"dp: error: rank {victim} is gone: its connection was closed")
            self.assertEqual([process.returncode for process in survivors], [1, 1])
        self.assert_goes_on(out, 3)

    def test_launch_starts_again(self):
        out = self.folder / "out"
        launcher = subprocess.Popen(launch(2, train(out, steps=self.STEPS), "--max-restarts", 2), text=True,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        children = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        wait_until(lambda: list((out / "checkpoints").glob("step-*")))
        os.kill(int(children.read_text().split()[1]), signal.SIGKILL)
        _, errors = launcher.communicate(timeout=120)
        self.assertEqual(launcher.returncode, 0, errors)
        self.assertIn("dp: rank 1 was killed by signal 9 (Killed)", errors)
        self.assertIn("dp: error: rank 1 is gone: its connection was closed", errors)
        self.assertIn("restart 1 of 2", errors)
        self.assert_same_bits(out, self.uninterrupted(2))

    def test_ranks_end_with_the_launcher(self):
        out = self.folder / "out"
        launcher = subprocess.Popen(launch(2, train(out, steps=100000)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: list((out / "checkpoints").glob("step-*")))
        ranks = pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
        self.assertEqual(len(ranks), 2)
        launcher.kill()
        launcher.wait()
        wait_until(lambda: not any(self.runs(pid) for pid in ranks), 10)

    @staticmethod
    def runs(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except FileNotFoundError:
            return False

    def test_another_config(self):
        processes = self.start(2, lambda rank: train(self.folder / "out", "--seed", 5 * rank))
        for line in self.last_lines(processes, SLACK):
            self.assertEqual(line, "dp: error: rank 1 has training/seed = 5, rank 0 has 0, expected the same options on all ranks")
        self.assertEqual([process.returncode for process in processes], [2, 2])
        self.assertFalse((self.folder / "out").exists())

    def test_another_build(self):
        other = self.folder / "dp"  # starts the dp-lab beside it
        shutil.copy(DP, other)
        shutil.copy(f"{DP}-lab", self.folder)
        with (self.folder / "dp-lab").open("ab") as file:
            file.write(b"\0")
        processes = self.start(2, lambda rank: train(self.folder / "out"), dp_of=lambda rank: other if rank == 1 else DP)
        for line in self.last_lines(processes, SLACK):
            self.assertRegex(line, r"^dp: error: rank 1 runs dp \S+, build (\w+), rank 0 runs dp \S+, build (?!\1)\w+, "
                                   "expected the same program on all ranks$")
        self.assertEqual([process.returncode for process in processes], [2, 2])

    def test_a_rank_that_never_comes(self):
        processes = self.start(2, lambda rank: ["--version"] if rank == 1 else train(self.folder / "out", timeout=TIMEOUT))
        self.assertEqual(self.last_lines(processes[:1], TIMEOUT + SLACK),
                         [f"dp: error: rank 1 is not there: nothing from it within {TIMEOUT} s"])

    def test_a_truncated_checkpoint(self):
        out = self.folder / "out"
        processes = self.begin(2, out)
        wait_until(lambda: len(list((out / "checkpoints").glob("step-*"))) > 1)
        for process in processes:
            process.kill()
            process.wait()
        last = max((out / "checkpoints").glob("step-*")) / "optimiser.safetensors"
        os.truncate(last, last.stat().st_size // 2)
        result = self.run_well(launch(2, train(out, "--resume", steps=self.STEPS)))
        self.assertRegex(result.stderr, f"{re.escape(str(last))}.*; looking for an older checkpoint")
        self.assert_same_bits(out, self.uninterrupted(2))

    def test_a_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode != 0:
            self.skipTest("may not mount a small disk")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        out = disk / "out"
        processes = self.begin(2, out)
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass
        lines = self.last_lines(processes, TIMEOUT)
        self.assertRegex(lines[0], "^dp: error: .*(No space left on device|is the disk full)")
        self.assertEqual(lines[1], "dp: error: rank 0 stopped: " + lines[0].removeprefix("dp: error: "))
        filler.unlink()
        self.assert_goes_on(out, 2)


class Networks(Case):
    """Ranks in network namespaces of their own, joined by a cable that can be pulled."""

    def setUp(self):
        super().setUp()
        self.names = [f"dp{os.getpid()}{side}" for side in "ab"]
        a, b = self.names
        for words in (f"netns add {a}", f"netns add {b}", f"link add veth0 netns {a} type veth peer name veth0 netns {b}",
                      f"-n {a} addr add 10.77.0.1/24 dev veth0", f"-n {b} addr add 10.77.0.2/24 dev veth0",
                      *(f"-n {name} link set {device} up" for name in self.names for device in ("lo", "veth0"))):
            try:
                allowed = subprocess.run(["ip", *words.split()], capture_output=True).returncode == 0
            except FileNotFoundError:
                allowed = False
            if not allowed:
                self.skipTest(f"may not make network namespaces: ip {words}")
            if words.startswith("netns add"):
                self.addCleanup(subprocess.run, ["ip", "netns", "del", words.split()[-1]], check=True)

    def begin(self, out, steps, timeout):
        processes = self.start(2, lambda rank: train(out, steps=steps, timeout=timeout), address="10.77.0.1",
                               prefix_of=lambda rank: ["ip", "netns", "exec", self.names[rank]])
        wait_until(lambda: list((out / "checkpoints").glob("step-*")))
        return processes

    def cable(self, state):
        subprocess.run(["ip", "-n", self.names[1], "link", "set", "veth0", state], check=True)

    def test_a_cable_cut_for_good(self):
        out = self.folder / "out"
        processes = self.begin(out, 100000, TIMEOUT)
        self.cable("down")
        lines = self.last_lines(processes, TIMEOUT)
        for rank in (0, 1):
            self.assertRegex(lines[rank], f"^dp: error: rank {1 - rank} is gone: ")
        self.assertEqual([process.returncode for process in processes], [1, 1])

    def test_a_cable_cut_for_ten_seconds(self):
        out, whole = self.folder / "out", self.folder / "whole"
        processes = self.begin(out, 400, 60)
        self.cable("down")
        time.sleep(10)
        ended = [process for process in processes if process.poll() is not None]
        self.assertEqual(self.last_lines(ended, 1), [])
        self.cable("up")
        errors = [process.communicate(timeout=120)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], errors)
        self.run_well(launch(2, train(whole, steps=400)))
        self.assert_same_bits(out, whole)


class Torture(Case):
    def test_a_few_kills(self):
        for ranks, kills, damages in ((1, 8, 3), (2, 4, 0)):
            result = self.run_well([DP, "torture", "--kills", str(kills), "--damages", str(damages), "-n", str(ranks), "--seed", "3",
                                    "--out", self.folder / str(ranks)])
            self.assertRegex(result.stdout, f"^{kills} kills of {ranks} ranks? and {damages} damaged checkpoints in .*: "
                                            "the weights of the run left alone, to the bit")


unittest.main(verbosity=2)
