#!/usr/bin/env python3
"""A real server and real clients: serve_test.py PATH_TO_DP [NODE_MODULES] [unittest arguments].

With DP_SCREENSHOTS=DIR, pictures of the playground are left there."""
import concurrent.futures
import http.client
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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "hostile"))
from attack import is_sanitized
from tiny_model import make_model

DP = sys.argv.pop(1)
MODULES = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCRIPT = pathlib.Path(__file__).resolve().with_name("playground_test.mjs")
FOLDER = pathlib.Path(tempfile.mkdtemp())
MODEL = make_model(FOLDER / "tiny")
unittest.addModuleCleanup(shutil.rmtree, FOLDER)


class Server:
    """`dp serve` in a process of its own."""

    def __init__(self, *options, env=None, model=MODEL):
        self.process = subprocess.Popen([DP, "serve", str(model), "--port", "0", "--threads", "1", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        if "serving" not in line:
            raise RuntimeError(f"no server: {line}{self.process.stderr.read()}")
        self.port = int(line.rsplit(":", 1)[1])
        self.memory = self.process.stdout.readline()

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def complete(self, expect=200, headers=None, **fields):
        status, _, content = self.request("POST", "/v1/completions", json.dumps(fields),
                                          {"Content-Type": "application/json", **(headers or {})})
        assert status == expect, (status, content)
        return json.loads(content)

    def chat(self, expect=200, **fields):
        status, _, content = self.request("POST", "/v1/chat/completions", json.dumps(fields), {"Content-Type": "application/json"})
        assert status == expect, (status, content)
        return json.loads(content)

    def used(self):
        """Resident memory in MB and open files."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024, len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stream(self, buffer=None, path="/v1/completions", **fields):
        """Events of a stream, decoded, as they come. With `buffer`, the system takes so many bytes ahead of the reader."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        if buffer:
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.request("POST", path, json.dumps({**fields, "stream": True}))
        done = False
        with connection.getresponse() as response:
            assert response.status == 200, response.read()
            assert response.getheader("Content-Type") == "text/event-stream"
            for line in response:
                line = line.rstrip(b"\n")
                if not line:
                    continue
                assert line.startswith(b"data: ") and not done, line
                done = line == b"data: [DONE]"
                if not done:
                    yield json.loads(line[6:])
        assert done

    def metric(self, name, absent=None):
        text = self.request("GET", "/metrics")[2].decode()
        found = re.search(rf"(?m)^{re.escape(name)} (\S+)$", text)
        if not found and absent is not None:
            return absent
        return float(found[1])

    def raw(self, content, shut=False, timeout=30):
        """Bytes out, all bytes in."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(content)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while part := connection.recv(65536):
                answer += part
            return answer

    def wait_until(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("waited in vain")
            time.sleep(0.02)

    def stop(self, expect=0):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        finally:
            error = self.close()
        assert self.process.returncode == expect, (self.process.returncode, error)


    def close(self):
        """What it had to say."""
        self.process.kill()
        self.process.wait()
        error = "" if self.process.stderr.closed else self.process.stderr.read()
        self.process.stdout.close(), self.process.stderr.close()
        return error


class Case(unittest.TestCase):
    def serve(self, *options, **more):
        server = Server(*options, **more)
        self.addCleanup(server.close)
        return server

    def assert_error(self, content, kind, param=None, *texts):
        error = json.loads(content)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual((error["type"], error["param"]), (kind, param), error)
        self.assertNotIn("\n", error["message"])
        for text in texts:
            self.assertIn(text, error["message"])


class Completions(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)

    def test_text_tokens_and_usage(self):
        answer = self.server.complete(prompt="hello", max_tokens=12, temperature=0)
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["model"], "tiny")
        self.assertTrue(answer["id"].startswith("cmpl-"))
        self.assertEqual(answer["usage"], {"prompt_tokens": 5, "completion_tokens": 12, "total_tokens": 17})
        choice = answer["choices"][0]
        self.assertEqual((choice["index"], choice["logprobs"], choice["finish_reason"]), (0, None, "length"))
        same = self.server.complete(prompt=list(b"hello"), max_tokens=12, temperature=0)
        self.assertEqual(same["choices"], answer["choices"])
        both = self.server.complete(prompt=[list(b"hello"), [7]], max_tokens=12, temperature=0)
        self.assertEqual(both["choices"][0], choice)
        self.assertEqual(both["choices"][1]["index"], 1)
        many = self.server.complete(prompt=["hello", "x"], max_tokens=12, temperature=0, n=2)
        self.assertEqual([c["index"] for c in many["choices"]], [0, 1, 2, 3])
        self.assertEqual([c["text"] for c in many["choices"][:2]], [choice["text"]] * 2)
        self.assertEqual(many["usage"]["prompt_tokens"], 6)
        self.assertEqual(many["usage"]["completion_tokens"], 48)
        self.assertEqual(self.server.complete(prompt="")["usage"]["prompt_tokens"], 1)  # the end of a document before

    def test_the_command_line_says_the_same(self):
        ids = list(b"hello")
        result = subprocess.run([DP, "generate", MODEL, "--ids", " ".join(map(str, ids)), "--max-tokens", "12"],
                                capture_output=True, text=True)
        made = [int(token) for token in result.stdout.split()]
        answer = self.server.complete(prompt="hello", max_tokens=12, temperature=0, logprobs=0)
        self.assertEqual([name.encode() if not name.startswith("bytes:") else
                          bytes.fromhex(name[6:].replace("\\x", "")) for name in answer["choices"][0]["logprobs"]["tokens"]],
                         [bytes([token]) for token in made])

    def test_seeds(self):
        ask = dict(prompt="abc", max_tokens=20, temperature=4, top_p=0.95)
        first = [c["text"] for c in self.server.complete(**ask, seed=5, n=3)["choices"]]
        self.assertEqual(first, [c["text"] for c in self.server.complete(**ask, seed=5, n=3)["choices"]])
        self.assertEqual(len(set(first)), 3)
        self.assertNotEqual(first[0], self.server.complete(**ask, seed=99)["choices"][0]["text"])
        self.assertEqual(len({self.server.complete(**ask)["choices"][0]["text"] for _ in range(4)}), 4)

    def test_stop_strings(self):
        whole = self.server.complete(prompt="abc", max_tokens=40, temperature=0)["choices"][0]["text"]
        stop = whole[10:12]
        for form in (stop, [stop, "never to be seen"]):
            answer = self.server.complete(prompt="abc", max_tokens=40, temperature=0, stop=form, logprobs=0)
            choice = answer["choices"][0]
            self.assertEqual(choice["text"], whole[:whole.index(stop)])
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertTrue(all(offset < len(choice["text"]) for offset in choice["logprobs"]["text_offset"]))
        pieces = list(self.server.stream(prompt="abc", max_tokens=40, temperature=0, stop=stop))
        self.assertEqual("".join(p["choices"][0]["text"] for p in pieces), whole[:whole.index(stop)])
        self.assertEqual(pieces[-1]["choices"][0]["finish_reason"], "stop")

    def test_tokens_that_end_a_text(self):
        ask = dict(prompt="abc", max_tokens=20, temperature=0, logprobs=1)
        whole = self.server.complete(**ask)["choices"][0]["logprobs"]
        names = whole["tokens"]
        at = next(i for i in range(3, 20) if names[i] not in names[:i] and len(names[i]) == 1)
        server = self.serve(model=make_model(FOLDER / "ends", eos=[1, ord(names[at])]))
        answer = server.complete(**ask)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(answer["usage"]["completion_tokens"], at + 1)
        self.assertEqual(choice["logprobs"]["tokens"], names[:at + 1])
        events = [event["choices"][0] for event in server.stream(**ask)]
        self.assertEqual("".join(event["text"] for event in events), choice["text"])
        self.assertEqual([t for event in events for t in event["logprobs"]["tokens"]], names[:at + 1])
        del ask["logprobs"]
        self.assertEqual(server.complete(**ask)["choices"][0]["text"], choice["text"])
        self.assertLess(len(choice["text"]), at + 1)

    def test_streams_are_the_same_text(self):
        ask = dict(prompt=["hello", "worlds"], max_tokens=30, temperature=0.9, seed=3, n=2, logprobs=2)
        answer = self.server.complete(**ask)
        events = list(self.server.stream(**ask, stream_options={"include_usage": True}))
        self.assertEqual(events[-1]["usage"], answer["usage"])
        self.assertEqual(events[-1]["choices"], [])
        for choice in answer["choices"]:
            mine = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(c["text"] for c in mine), choice["text"])
            self.assertEqual([c["finish_reason"] for c in mine], [None] * (len(mine) - 1) + ["length"])
            for key in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
                self.assertEqual([x for c in mine for x in c["logprobs"][key]], choice["logprobs"][key])
        self.assertEqual(len({event["id"] for event in events}), 1)

    def test_logprobs_and_echo(self):
        prompt = "Some text, ä."
        answer = self.server.complete(prompt=prompt, max_tokens=0, echo=True, logprobs=3)
        choice, tokens = answer["choices"][0], prompt.encode()
        self.assertEqual(choice["text"], prompt)
        self.assertEqual(answer["usage"]["completion_tokens"], 0)
        logprobs = choice["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), len(tokens))
        self.assertEqual(logprobs["tokens"][0], "S")
        self.assertEqual(logprobs["tokens"][11], "bytes:\\xc3")
        self.assertEqual(logprobs["text_offset"][10:], [10, 11, 11, 12])
        self.assertIsNone(logprobs["token_logprobs"][0])
        self.assertIsNone(logprobs["top_logprobs"][0])
        for token, value, top in list(zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
            self.assertEqual(top[token], value)
            self.assertGreaterEqual(len(top), 3)
            self.assertLessEqual(value, max(top.values()))
        # As lm-eval asks: one more token, tokens in, lists of lists.
        again = self.server.complete(prompt=[list(tokens)], max_tokens=1, echo=True, logprobs=3, temperature=0, seed=1234)
        again = again["choices"][0]["logprobs"]
        for got, want in zip(again["token_logprobs"][1:-1], logprobs["token_logprobs"][1:]):
            self.assertAlmostEqual(got, want, places=4)
        self.assertEqual(again["token_logprobs"][-1], max(again["top_logprobs"][-1].values()))

    def test_sixty_four_streams_are_each_as_alone(self):
        prompts = [f"{i * i} bottles of {'beer ' * (i % 5)}on the wall" for i in range(64)]
        alone = [self.server.complete(prompt=p, max_tokens=24, temperature=0)["choices"][0]["text"] for p in prompts]

        def run(prompt):
            return "".join(e["choices"][0]["text"] for e in self.server.stream(prompt=prompt, max_tokens=24, temperature=0))
        fresh = [p + "!" for p in prompts]  # not in the prefix cache as a whole
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            together = list(pool.map(run, prompts + fresh))
        self.assertEqual(together[:64], alone)
        for prompt, text in list(zip(fresh, together[64:]))[::7]:
            self.assertEqual(text, self.server.complete(prompt=prompt, max_tokens=24, temperature=0)["choices"][0]["text"])

    def test_long_prompts_are_reused(self):
        hits, known = self.server.metric("dp_prefix_cache_hits_total"), self.server.metric("dp_prefix_cache_tokens_total")
        prompt = "All work and no play makes Jack a dull boy. " * 30
        first = self.server.complete(prompt=prompt, max_tokens=10, temperature=0)
        second = self.server.complete(prompt=prompt, max_tokens=10, temperature=0)
        self.assertEqual(first["choices"], second["choices"])
        self.server.complete(prompt=prompt + "And so on.", max_tokens=1)
        self.assertEqual(self.server.metric("dp_prefix_cache_hits_total"), hits + 2)
        self.assertEqual(self.server.metric("dp_prefix_cache_tokens_total"), known + 2 * len(prompt))

    def test_wrong_requests_get_a_sentence(self):
        for field, value in (("prompt", 5), ("prompt", []), ("prompt", [1, "a"]), ("prompt", [-1]), ("prompt", [258]),
                             ("max_tokens", "many"), ("max_tokens", -1), ("max_tokens", 10 ** 9), ("temperature", -1),
                             ("temperature", "x"), ("top_p", 2), ("n", 0), ("n", 1000), ("logprobs", 100), ("echo", 1),
                             ("stream", "yes"), ("stop", 3), ("seed", "s"), ("model", 1), ("best_of", 5),
                             ("suffix", "x"), ("user", 1), ("logit_bias", {"258": 1}), ("presence_penalty", 3), ("tools", []), ("unknown", [1])):
            with self.subTest(field=field, value=value):
                status, headers, content = self.server.request("POST", "/v1/completions", json.dumps({"prompt": "a", field: value}))
                self.assertEqual((status, headers["Content-Type"]), (400, "application/json"))
                self.assert_error(content, "invalid_request_error", field)
        for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": "\xff"}', b'{"a": 1, "a": 2}', b"[" * 100000):
            status, _, content = self.server.request("POST", "/v1/completions", body)
            self.assertEqual(status, 400)
            self.assert_error(content, "invalid_request_error")
        self.server.complete(prompt="a", user="u", logit_bias=None)

    def test_other_paths(self):
        self.assertEqual(self.server.request("GET", "/health")[::2], (200, b'{"status": "ok"}\n'))
        models = json.loads(self.server.request("GET", "/v1/models")[2])
        self.assertEqual((models["object"], models["data"][0]["id"]), ("list", "tiny"))
        for method, path, status in (("GET", "/nothing", 404), ("POST", "/v1/chat", 404), ("GET", "/v1/completions", 405),
                                     ("POST", "/health", 405), ("DELETE", "/v1/models", 405), ("GET", "/../etc/passwd", 404),
                                     ("PUT", "/v1/completions", 405)):
            with self.subTest(path=path, method=method):
                got, _, content = self.server.request(method, path, b"{}" if method in ("POST", "PUT") else None)
                self.assertEqual(got, status)
                self.assert_error(content, "invalid_request_error")
        page = self.server.request("GET", "/")
        self.assertEqual(page[1]["Content-Type"], "text/html; charset=utf-8")
        self.assertNotIn(b"{{", page[2])
        self.assertNotRegex(page[2], rb"https?://(?!www\.w3\.org)")

    def test_metrics(self):
        self.server.complete(prompt="abc", max_tokens=3)
        self.server.complete(prompt=0, expect=400)
        text = self.server.request("GET", "/metrics")[2].decode()
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) dp_\w+ .+|dp_\w+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+0-9.e]+)$')
        for name in ('dp_requests_total{path="/v1/completions",status="200"}', 'dp_requests_total{path="/v1/completions",status="400"}',
                     "dp_prompt_tokens_total", "dp_generated_tokens_total", "dp_request_seconds_count", "dp_step_seconds_sum",
                     "dp_first_token_seconds_count", "dp_steps_total"):
            self.server.wait_until(lambda: self.server.metric(name, absent=0) > 0)  # an answer is counted after it is sent
        for name in ("dp_active_sequences", "dp_waiting_sequences"):
            self.server.wait_until(lambda: self.server.metric(name) == 0)

    def test_penalties_and_biases(self):
        ask = dict(prompt="abc", max_tokens=20, temperature=0, logprobs=0)
        forced = self.server.complete(**ask, logit_bias={"120": 100})["choices"][0]
        self.assertEqual(forced["text"], "x" * 20)
        self.assertEqual(self.server.complete(**ask, logit_bias={"120": 100}, presence_penalty=0)["choices"][0], forced)
        some = {str(token): 50 for token in range(97, 123)}  # letters alone, and then none of them again
        mixed = self.server.complete(**ask, logit_bias=some, frequency_penalty=2, presence_penalty=2)["choices"][0]["text"]
        plain = self.server.complete(**ask, logit_bias=some)["choices"][0]["text"]
        self.assertGreater(len(set(mixed)), len(set(plain)))

    def test_another_model(self):
        self.assertEqual(self.server.complete(prompt="a", model="tiny")["model"], "tiny")
        error = self.server.complete(prompt="a", model="gpt-4", expect=404)["error"]
        self.assertEqual((error["param"], error["code"]), ("model", "model_not_found"))
        self.assertIn("'gpt-4'", error["message"])

    def test_only_json_and_only_for_itself(self):
        for headers, status in (({"Content-Type": "text/plain"}, 415), ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
                                ({"Content-Type": "Application/JSON; charset=utf-8"}, 200), ({"Host": "evil.example"}, 403),
                                ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "localhost:1"}, 200),
                                ({"Origin": f"http://127.0.0.1:{self.server.port}"}, 200)):
            got, _, content = self.server.request("POST", "/v1/completions", b'{"prompt": "a"}', headers)
            self.assertEqual(got, status, (headers, content))
            if status != 200:
                self.assert_error(content, "invalid_request_error")
        self.assertEqual(self.server.request("GET", "/", headers={"Host": "evil.example"})[0], 403)

    def test_answers_that_would_be_huge(self):
        ask = {"prompt": "a" * 32768, "max_tokens": 0, "logprobs": 20, "echo": True}
        error = self.server.complete(**ask, n=64, expect=400)["error"]
        self.assertEqual((error["param"], error["code"]), ("logprobs", "answer_too_large"))
        self.assertIn("expected at most 256", error["message"])

    def test_curl(self):
        url = f"http://127.0.0.1:{self.server.port}/v1/completions"
        for more in ([], ["--http1.0"], ["--compressed"], ["-H", "Transfer-Encoding: chunked"], ["-H", "Expect: 100-continue"]):
            result = subprocess.run(["curl", "-sS", *more, "-H", "Content-Type: application/json", "-d", '{"prompt": "abc", "max_tokens": 4}', url], capture_output=True,
                                    text=True, timeout=60)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(json.loads(result.stdout)["usage"]["completion_tokens"], 4)
        result = subprocess.run(["curl", "-sSN", "-H", "Content-Type: application/json", "-d", '{"prompt": "abc", "max_tokens": 4, "stream": true}', url],
                                capture_output=True, text=True, timeout=60)
        self.assertTrue(result.stdout.endswith("data: [DONE]\n\n"), result.stdout)

    def test_effective_rank(self):
        ranks = [e["x_effective_rank"] for e in self.server.stream(prompt="abcdef", max_tokens=20, x_effective_rank=4) if "x_effective_rank" in e]
        self.assertGreaterEqual(len(ranks), 2)
        for layers in ranks:
            self.assertEqual([len(layer) for layer in layers], [2, 2])
            self.assertTrue(all(1 <= rank <= 8 for layer in layers for rank in layer), layers)


CHATML = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}\n{% endfor %}"
          "{% if messages[-1].role == 'assistant' %}{{ raise_exception('who answers?') }}{% endif %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


class Chats(Case):
    @classmethod
    def setUpClass(cls):
        model = make_model(FOLDER / "chat")
        (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
        cls.server = Server(model=model)
        cls.addClassCleanup(cls.server.stop)
        cls.ask = dict(messages=[{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": " hi "}, {"type": "text", "text": "you"}]}],
                       max_tokens=12, temperature=0)
        cls.prompt = "<|system|>s\n<|user|>hi you\n<|assistant|>"

    def test_is_the_completion_of_its_template(self):
        answer = self.server.chat(**self.ask)
        plain = self.server.complete(prompt=self.prompt, max_tokens=12, temperature=0)
        self.assertEqual(answer["object"], "chat.completion")
        self.assertTrue(answer["id"].startswith("chatcmpl-"))
        self.assertEqual(answer["usage"], plain["usage"])
        self.assertEqual(answer["usage"]["prompt_tokens"], len(self.prompt))
        self.assertEqual(answer["choices"], [{"index": 0, "message": {"role": "assistant", "content": plain["choices"][0]["text"]},
                                              "logprobs": None, "finish_reason": "length"}])
        newer = {**self.ask, "max_completion_tokens": 12}
        del newer["max_tokens"]
        self.assertEqual(self.server.chat(**newer)["choices"], answer["choices"])

    def test_streams_are_the_same_text(self):
        ask = dict(self.ask, n=2, temperature=0.9, seed=4)
        answer = self.server.chat(**ask)
        events = list(self.server.stream(path="/v1/chat/completions", **ask, stream_options={"include_usage": True}))
        self.assertEqual(events[-1]["usage"], answer["usage"])
        self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
        for choice in answer["choices"]:
            mine = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual(mine[0]["delta"]["role"], "assistant")
            self.assertTrue(all("role" not in e["delta"] for e in mine[1:]))
            self.assertEqual("".join(e["delta"]["content"] for e in mine), choice["message"]["content"])
            self.assertEqual(mine[-1]["finish_reason"], choice["finish_reason"])

    def test_logprobs(self):
        choice = self.server.chat(**self.ask, logprobs=True, top_logprobs=2)["choices"][0]
        tokens = choice["logprobs"]["content"]
        self.assertEqual(len(tokens), 12)
        self.assertEqual(bytes(b for token in tokens for b in token["bytes"]).decode(errors="replace"), choice["message"]["content"])
        for token in tokens:
            self.assertEqual(len(token["top_logprobs"]), 2)
            self.assertEqual({k: token[k] for k in ("token", "logprob", "bytes")}, token["top_logprobs"][0])

    def test_wrong_requests_get_a_sentence(self):
        for fields, param in (({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": "hi"}, "messages"),
                              ({"messages": [{"role": "user"}]}, "messages"), ({"messages": [{"content": "x"}]}, "messages"),
                              ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
                              ({"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]}, "messages"),
                              ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
                              ({"prompt": "x"}, "prompt"), ({"tools": [{}]}, "tools"), ({"response_format": {"type": "json_object"}}, "response_format"),
                              ({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": 2}, "logprobs"), ({"max_completion_tokens": 5}, "max_completion_tokens"),
                              ({"nonsense": 1}, "nonsense")):
            with self.subTest(fields=fields):
                error = self.server.chat(**{**self.ask, **fields}, expect=400)["error"]
                self.assertEqual((error["type"], error["param"]), ("invalid_request_error", param), error)
                self.assertNotIn("\n", error["message"])
        self.assertIn("who answers?", self.server.chat(messages=[{"role": "assistant", "content": "x"}], expect=400)["error"]["message"])
        self.server.chat(**self.ask, tools=[], response_format={"type": "text"}, user="me")

    def test_models_without_a_template(self):
        error = self.serve().chat(**self.ask, expect=400)["error"]
        self.assertEqual(error["code"], "no_chat_template")
        model = make_model(FOLDER / "strange")
        (model / "chat_template.jinja").write_text("{% import 'x' %}")
        server = self.serve(model=model)
        self.assertIn("the statement 'import' is not known here", server.chat(**self.ask, expect=400)["error"]["message"])
        server.complete(prompt="a")
        server.process.terminate()
        server.process.wait(60)
        self.assertIn("warning: no chats", server.close())

    def test_the_end_of_an_answer(self):
        free = self.server.chat(**self.ask, logprobs=True)["choices"][0]
        names = [token["token"] for token in free["logprobs"]["content"]]
        at = next(i for i in range(2, 12) if names[i] not in names[:i] and len(names[i]) == 1)
        model = make_model(FOLDER / "chat-ends")
        (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
        (model / "generation_config.json").write_text(json.dumps({"eos_token_id": [ord(names[at])]}))
        choice = self.serve(model=model).chat(**self.ask)["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertLess(len(choice["message"]["content"]), len(free["message"]["content"]))


class Memory(Case):
    def assert_below(self, mb, most):
        if not is_sanitized(DP):  # which take memory of their own
            self.assertLess(mb, most)

    def test_is_told_and_kept(self):
        """2000 requests of all kinds, among them ones whose client leaves: memory and files are as after the first 200."""
        server = self.serve("--cache-mb", 8, "--max-body-mb", 1)
        most = int(re.match(r"memory: at most (\d+) MB: weights", server.memory)[1])
        large = b'{"prompt": "a", "x": [' + b"{}," * 300000 + b"{}]}"

        def leave(body):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

        def one(i):
            kind = i % 10
            if kind < 4:
                server.complete(prompt=f"text {i}", max_tokens=4, n=1 + i % 3)
            elif kind == 4:
                list(server.stream(prompt="abc" * (i % 50), max_tokens=8, logprobs=3))
            elif kind == 5:
                leave(json.dumps({"prompt": "abc", "max_tokens": 4000, "n": 8, "stream": bool(i % 20 < 10)}).encode())
            elif kind == 6:
                server.request("POST", "/v1/completions", b"[" * (i % 3000))
            elif kind == 7:
                server.complete(prompt="a" * 2000, max_tokens=0, echo=True, logprobs=20)
            elif kind == 8 and i % 50 == 8:
                self.assertEqual(server.request("POST", "/v1/completions", large)[0], 400)
            elif kind == 8:
                leave(b'{"prompt": "' + b"a" * 5000)
            else:
                server.request("GET", "/metrics")

        def run(first, last):
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                list(pool.map(one, range(first, last)))
            server.wait_until(lambda: server.metric("dp_active_sequences") + server.metric("dp_waiting_sequences") == 0)
            server.wait_until(lambda: server.used()[1] <= files + 1)
            time.sleep(2.5)  # an idle server returns free memory within a second or two
            return server.used()[0]

        files = server.used()[1]
        early = run(0, 200)
        late = run(200, 2000)
        print(f"memory of the server: {early:.0f} MB after 200 requests, {late:.0f} MB after 2000, at most {most} MB were told", file=sys.stderr)
        self.assert_below(late, early + 12)  # of which the prefix cache has 8
        self.assert_below(late, most)
        peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) / 1024
        self.assert_below(peak, most)

    @unittest.skipIf(is_sanitized(DP), "sanitizers take time and memory of their own")
    def test_of_large_answers(self):
        """The same answer 64 times costs what it is, not several times as much; several at once have to wait."""
        server = self.serve("--max-answer-mb", 256, "--max-requests-mb", 300)
        ask = {"prompt": "a" * 32768, "max_tokens": 0, "logprobs": 20, "echo": True}
        self.assertEqual(server.complete(**ask, n=64, expect=400)["error"]["code"], "answer_too_large")
        size = len(json.dumps(server.complete(**ask, n=3)))
        peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) / 1024
        print(f"an answer of {size >> 20} MB took {peak:.0f} MB at the peak", file=sys.stderr)
        self.assertLess(peak, 300)
        self.assertEqual(server.complete(**ask, n=7, expect=429)["error"]["code"], "memory_full")

    @unittest.skipIf(is_sanitized(DP), "sanitizers take time and memory of their own")
    def test_large_bodies_do_not_hold_up_others(self):
        server = self.serve("--receive-seconds", 30)
        body = b'{"x": [' + b"{}," * 340000 + b"{}]}"
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            waiting = [pool.submit(server.request, "POST", "/v1/completions", body) for _ in range(24)]
            start = time.monotonic()
            server.complete(prompt="a", max_tokens=2)
            small = time.monotonic() - start
            self.assertEqual({future.result()[0] for future in waiting}, {400})
        self.assertLess(small, max(2, (time.monotonic() - start) / 2))


class Fairness(Case):
    def test_a_small_request_among_large_ones(self):
        """Four requests of 64 sequences each do not keep a small one waiting for their end."""
        server = self.serve("--max-tokens", 50000)
        clients = []
        self.addCleanup(lambda: [client.close() for client in clients])
        for i in range(4):
            body = json.dumps({"prompt": f"large {i}", "max_tokens": 50000, "n": 64, "temperature": 1}).encode()
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            clients.append(client)
        server.wait_until(lambda: server.metric("dp_active_sequences") == 64)
        start, before = time.monotonic(), server.metric("dp_steps_total")
        server.complete(prompt="small", max_tokens=8)
        steps = server.metric("dp_steps_total") - before
        print(f"8 tokens beside 256 sequences: {time.monotonic() - start:.2f} s, {steps:.0f} steps", file=sys.stderr)
        self.assertLess(steps, 200)
        start = time.monotonic()
        for client in clients:
            client.close()
        server.wait_until(lambda: server.metric("dp_active_sequences") + server.metric("dp_waiting_sequences") == 0, seconds=10)
        print(f"decoding ended {time.monotonic() - start:.1f} s after the clients left", file=sys.stderr)


class Connections(Case):
    def test_malformed_http(self):
        server = self.serve("--receive-seconds", 1)
        for content in (b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"BREW / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
                        b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nbroken\r\n: x\r\n" + b"h" * 9000 + b": x\r\n\r\n",
                        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{\"prompt\""):
            with self.subTest(content=content[:40]):
                answer = server.raw(content)
                head, _, body = answer.partition(b"\r\n\r\n")
                self.assertRegex(head, rb"^HTTP/1.1 4\d\d ")
                self.assert_error(body, "invalid_request_error")
        self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_lengths_that_cannot_be(self):
        server = self.serve()
        for length, status in ((b"-1", 400), (b"x", 400), (b"%d" % 2 ** 63, 400), (b"%d" % 2 ** 62, 413), (b"%d" % 2 ** 64, 400)):
            answer = server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Length: " + length + b"\r\n\r\n{}")
            self.assertTrue(answer.startswith(b"HTTP/1.1 %d " % status), (length, answer))
            self.assert_error(answer.partition(b"\r\n\r\n")[2], "invalid_request_error")

    def test_a_stream_without_chunks(self):
        body = b'{"prompt": "abc", "max_tokens": 4, "stream": true}'
        answer = self.serve().raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head, _, events = answer.partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head)
        self.assertTrue(events.startswith(b"data: {") and events.endswith(b"data: [DONE]\n\n"), events)

    def test_slow_and_half_closed_clients(self):
        server = self.serve("--receive-seconds", 4)
        body = json.dumps({"prompt": "abc", "max_tokens": 5, "temperature": 0}).encode()
        request = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        whole = server.raw(request, shut=True)
        self.assertTrue(whole.startswith(b"HTTP/1.1 200"), whole)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow:  # but in time
            for i in range(0, len(request), 16):
                slow.sendall(request[i:i + 16])
                time.sleep(0.05)
            self.assertTrue(slow.recv(100).startswith(b"HTTP/1.1 200"))
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as trickle:  # never ends
            trickle.sendall(b"POST /v1/completions HTTP/1.1\r\n")
            trickle.settimeout(0.2)
            answer = b""
            while time.monotonic() < start + 40:
                try:
                    trickle.sendall(b"X: y\r\n")
                    part = trickle.recv(1000)
                    answer += part
                    if not part:
                        break
                except TimeoutError:
                    pass
                except OSError:
                    break
            self.assertLess(time.monotonic() - start, 30)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as silent:
            self.assertEqual(silent.recv(10), b"")  # closed without a word after the time for requests
        self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_who_leaves_stops_the_generation(self):
        server = self.serve("--max-tokens", 10 ** 7)
        stream = server.stream(prompt="abc", max_tokens=10 ** 7)
        next(stream)
        self.assertEqual(server.metric("dp_active_sequences"), 1)  # who has its first token is counted
        made = server.metric("dp_generated_tokens_total")
        server.wait_until(lambda: server.metric("dp_generated_tokens_total") > made)  # and goes on
        self.assertEqual(server.metric("dp_active_sequences"), 1)
        stream.close()  # and with it the connection
        server.wait_until(lambda: server.metric("dp_active_sequences") == 0)
        self.assertLess(server.metric("dp_generated_tokens_total"), 10 ** 7)

    def test_who_leaves_without_a_stream_stops_it_too(self):
        server = self.serve("--max-tokens", 10 ** 7)
        body = b'{"prompt": "abc", "max_tokens": 10000000}'
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_until(lambda: server.metric("dp_active_sequences") == 1)
        server.wait_until(lambda: server.metric("dp_active_sequences") == 0)
        self.assertLess(server.metric("dp_generated_tokens_total"), 10 ** 7)

    def test_decoding_for_nobody_ends_soon(self):
        server = self.serve("--max-tokens", 10 ** 7)
        body = b'{"prompt": "abc", "max_tokens": 10000000}'
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_until(lambda: server.metric("dp_active_sequences") == 1)
        server.wait_until(lambda: server.metric("dp_active_sequences") == 0, seconds=3)  # 1.2 s, and some for a busy machine

    def test_a_reader_that_stands_still_does_not_hold_up_others(self):
        server = self.serve("--max-tokens", 10 ** 6)
        with socket.create_connection(("127.0.0.1", server.port)) as still:
            still.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = json.dumps({"prompt": "abc", "max_tokens": 10 ** 6, "stream": True}).encode()
            still.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_until(lambda: server.metric("dp_active_sequences") == 1)
            self.assertEqual(server.complete(prompt="x", max_tokens=5)["usage"]["completion_tokens"], 5)
        server.wait_until(lambda: server.metric("dp_active_sequences") == 0)

    def test_too_many_connections(self):
        server = self.serve("--max-connections", 2, "--receive-seconds", 20)
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        server.wait_until(lambda: server.raw(b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503 "))
        answer = server.raw(b"GET /health HTTP/1.1\r\n\r\n")
        self.assertTrue(answer.startswith(b"HTTP/1.1 503 "), answer)
        self.assert_error(answer.partition(b"\r\n\r\n")[2], "overloaded_error")
        for connection in held:
            connection.close()
        server.wait_until(lambda: server.request("GET", "/health")[0] == 200)


class Limits(Case):
    def test_sizes(self):
        server = self.serve("--max-body-mb", 1, "--max-prompt", 50, "--max-tokens", 20, "--max-sequences", 4)
        status, _, content = server.request("POST", "/v1/completions", json.dumps({"prompt": "a" * (2 << 20)}))
        self.assertEqual(status, 413)
        self.assert_error(content, "invalid_request_error", None, "too large")
        chunked = b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % (3 << 20) + b"a" * (3 << 20)
        try:
            answer = server.raw(chunked)
            self.assertRegex(answer, rb"^HTTP/1.1 4(13|00) ")
        except (ConnectionResetError, BrokenPipeError):
            pass  # the answer came while this side was still sending
        for fields, param in (({"prompt": "a" * 51}, "prompt"), ({"prompt": [5] * 51}, "prompt"), ({"max_tokens": 21}, "max_tokens"),
                              ({"n": 5}, "n"), ({"prompt": ["a"] * 5}, "prompt")):
            self.assertEqual(server.complete(expect=400, **fields)["error"]["param"], param)
        self.assertEqual(server.complete(prompt="a" * 51, expect=400)["error"]["code"], "context_length_exceeded")
        self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_queue(self):
        server = self.serve("--max-queue", 1, "--max-sequences", 1, "--max-tokens", 10 ** 7)
        stream = server.stream(prompt="abc", max_tokens=10 ** 7)
        next(stream)
        waiting = socket.create_connection(("127.0.0.1", server.port))
        body = b'{"prompt": "b", "max_tokens": 10000000, "stream": true}'
        waiting.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        server.wait_until(lambda: server.metric("dp_waiting_sequences") == 1)
        status, headers, content = server.request("POST", "/v1/completions", b'{"prompt": "c"}')
        self.assertEqual((status, headers["Retry-After"]), (429, "1"))
        self.assert_error(content, "rate_limit_error")
        waiting.close()
        stream.close()
        server.wait_until(lambda: server.metric("dp_active_sequences") + server.metric("dp_waiting_sequences") == 0)

    def test_time(self):
        server = self.serve("--max-seconds", 1, "--max-tokens", 10 ** 7)
        start = time.monotonic()
        answer = server.complete(prompt="abc", max_tokens=10 ** 7)
        self.assertLess(time.monotonic() - start, 40)
        self.assertLess(answer["usage"]["completion_tokens"], 10 ** 7)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertGreater(answer["usage"]["completion_tokens"], 0)

    def test_keys(self):
        file = FOLDER / "key"
        file.write_text("sesame 1\n")
        for server in (self.serve("--api-key-file", file), self.serve(env={"DP_API_KEY": "sesame 1"})):
            for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "}, {"Authorization": "sesame 1"},
                           {"Authorization": "Bearer sesame 11"}, {"Authorization": "Bearer sesame 1sesame 1"}):
                for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/metrics")):
                    status, _, content = server.request(method, path, b"{}" if method == "POST" else None, header)
                    self.assertEqual(status, 401, (header, path))
                    self.assert_error(content, "authentication_error")
            self.assertEqual(server.complete(prompt="a", headers={"Authorization": "Bearer sesame 1"})["usage"]["completion_tokens"], 16)
            self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_command_line(self):
        def refused(*arguments):
            result = subprocess.run([DP, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result)
            self.assertTrue(result.stderr.startswith("dp: error: ") and result.stderr.count("\n") == 1, result.stderr)
            return result.stderr
        self.assertIn("nowhere", refused(FOLDER / "nowhere"))
        self.assertIn("cannot listen", refused(MODEL, "--host", "203.0.113.77"))
        self.assertIn("--api-key-file", refused(MODEL, "--api-key-file", FOLDER / "nothing"))
        self.assertIn("--port", refused(MODEL, "--port", 70000))
        other = make_model(FOLDER / "other", vocab=100)
        self.assertIn("--tokenizer", refused(other))
        self.assertIn("258 tokens, expected at most the model's 100", refused(other, "--tokenizer", "bytes"))
        server = self.serve()
        self.assertIn("cannot listen", refused(MODEL, "--port", server.port))


class Signals(Case):
    def test_ends_while_large_bodies_are_parsed(self):
        server = self.serve()
        body = b'{"prompt": "a", "x": [' + b"{}," * 300000 + b"{}]}"
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(24)]
        for client in clients:
            self.addCleanup(client.close)
            client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(20), 0)  # of the 30 s that requests may take to finish

    def test_a_model_file_that_becomes_shorter(self):
        model = FOLDER / "shorter"
        shutil.copytree(MODEL, model)
        server = self.serve(model=model)
        os.truncate(model / "model.safetensors", 2000)
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            server.complete(prompt="hello", max_tokens=4)
        self.assertEqual(server.process.wait(20), 1)
        self.assertIn("has become shorter", server.process.stderr.read())

    def test_drains(self):
        server = self.serve("--max-tokens", 10 ** 6)
        # An answer of more bytes than fit between server and reader: it is not over before it is read.
        stream = server.stream(prompt="abc", max_tokens=10000, logprobs=20, buffer=1 << 16)
        first = next(stream)["choices"][0]["text"]
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: server.request("GET", "/health")[0] == 503)
        status, _, content = server.request("POST", "/v1/completions", b'{"prompt": "x"}')
        self.assertEqual(status, 503)
        self.assert_error(content, "overloaded_error")
        rest = list(stream)
        self.assertEqual(rest[-1]["choices"][0]["finish_reason"], "length")
        self.assertGreater(len(first + "".join(e["choices"][0]["text"] for e in rest)), 1000)
        self.assertEqual(server.process.wait(60), 0)

    def test_a_second_signal_ends(self):
        server = self.serve("--max-tokens", 10 ** 7)
        stream = server.stream(prompt="abc", max_tokens=10 ** 7)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        server.wait_until(lambda: server.request("GET", "/health")[0] == 503)  # it has seen the first
        self.assertIsNone(server.process.poll())
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(60), 128 + signal.SIGTERM)
        stream.close()

    def test_idle_connections_do_not_hold_up_the_end(self):
        server = self.serve("--receive-seconds", 3600)
        with socket.create_connection(("127.0.0.1", server.port)) as silent, \
                socket.create_connection(("127.0.0.1", server.port)) as half:
            half.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
            server.stop()
            for connection in (silent, half):
                try:
                    self.assertEqual(connection.recv(10), b"")
                except ConnectionResetError:
                    pass  # closed all the same: the kernel resets what had bytes that nobody read

    def test_drains_no_longer_than_it_should(self):
        server = self.serve("--max-tokens", 10 ** 7, "--drain-seconds", 1)
        stream = server.stream(prompt="abc", max_tokens=10 ** 7)
        next(stream)
        with socket.create_connection(("127.0.0.1", server.port)):
            start = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            self.assertLess(time.monotonic() - start, 10)
        stream.close()

    def test_a_server_for_all_warns(self):
        server = self.serve("--host", "0.0.0.0")
        self.assertEqual(server.request("GET", "/health", headers={"Host": "any.example"})[0], 200)
        self.assertEqual(server.request("GET", "/health", headers={"Origin": "http://any.example"})[0], 403)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        self.assertIn("warning: anyone who can reach 0.0.0.0", server.close())
        keyed = self.serve("--host", "0.0.0.0", env={"DP_API_KEY": "k"})
        keyed.process.send_signal(signal.SIGTERM)
        keyed.process.wait(60)
        self.assertNotIn("warning", keyed.close())

    def test_names_that_are_allowed(self):
        server = self.serve("--allow-host", "models.example")
        for host, status in (("models.example", 200), ("localhost", 200), ("other.example", 403)):
            self.assertEqual(server.request("GET", "/health", headers={"Host": host})[0], status)

    def test_idle_and_interrupted(self):
        server = self.serve()
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(60), 0)


class Generate(Case):
    def run_dp(self, *arguments, **more):
        return subprocess.run([DP, "generate", MODEL, *map(str, arguments)], capture_output=True, timeout=60, **more)

    def test_text(self):
        whole = self.run_dp("-p", "hello", "--max-tokens", 20)
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertRegex(whole.stderr.decode(), r"^20 tokens, [0-9.]+ per second after the first\n$")
        ids = self.run_dp("--ids", " ".join(map(str, b"hello")), "--max-tokens", 20)
        self.assertEqual(whole.stdout, b"hello" + bytes(map(int, ids.stdout.split())) + b"\n")
        alone = self.run_dp("-p", "hello", "--max-tokens", 20, "--continuation-only")
        self.assertEqual(b"hello" + alone.stdout, whole.stdout)
        named = self.run_dp("-p", "hello", "--max-tokens", 20, "--tokenizer", "bytes")
        self.assertEqual(named.stdout, whole.stdout)
        state = FOLDER / "talk.safetensors"
        parts = [self.run_dp("-p", text, "--max-tokens", 10, "--state", state) for text in ("hello", "")]
        self.assertEqual(b"".join(p.stdout[:-1] for p in parts), whole.stdout[:-1])
        self.assertEqual(self.run_dp("-p", "", "--max-tokens", 3).returncode, 0)
        for wrong in (["-p", "a", "--ids", "1"], ["-p", "a", "--tokenizer", FOLDER / "none"]):
            result = self.run_dp(*wrong)
            self.assertEqual((result.returncode, result.stderr.count(b"\n")), (2, 1), result)

    def test_interrupted(self):
        process = subprocess.Popen([DP, "generate", MODEL, "-p", "hello", "--max-tokens", str(10 ** 8), "--ignore-eos",
                                    "--state", FOLDER / "cut.safetensors"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(out.endswith(b"\n"))
        self.assertRegex(error.decode(), r"tokens, .* per second.*\nwrote ")
        self.assertTrue((FOLDER / "cut.safetensors").exists())


class Bench(Case):
    def test_runs(self):
        if not pathlib.Path(DP).with_name("dp-lab").exists():
            self.skipTest("needs dp-lab, which a build without libtorch has not")
        output = FOLDER / "bench.json"
        result = subprocess.run([DP, "bench", "serve", "--model", MODEL, "--streams", "1,4", "--tokens", "8", "--rounds", "1",
                                 "--json", output], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = json.loads(output.read_text())["rows"]
        self.assertEqual([row["streams"] for row in rows], [1, 4])
        self.assertTrue(all(row["tokens_per_second"] > 0 for row in rows))


class Playground(Case):
    def test_in_a_browser(self):
        if not (BROWSER and MODULES and (MODULES / "playwright-core").is_dir()):
            self.skipTest("needs Chromium and npm's playwright-core: ./dp test installs them")
        server = self.serve("--max-tokens", 10 ** 6)
        request = {"browser": BROWSER, "modules": str(MODULES), "page": f"http://127.0.0.1:{server.port}/",
                   "pictures": os.environ.get("DP_SCREENSHOTS")}
        result = subprocess.run(["node", SCRIPT], input=json.dumps(request), capture_output=True, text=True, timeout=400)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        seen = json.loads(result.stdout)
        self.assertEqual(seen["problems"], [])
        self.assertEqual(seen["foreign"], [])
        want = server.complete(prompt="Hello <b>there</b>", max_tokens=40, temperature=0)["choices"][0]["text"]
        self.assertEqual(seen["made"].replace("\r", "\n"), want.replace("\r\n", "\n").replace("\r", "\n"))
        self.assertEqual(seen["given"], "Hello <b>there</b>")
        self.assertRegex(seen["status"], r"^18 tokens read, 40 written, [0-9.]+ tokens/s$")
        self.assertEqual(seen["model"], "tiny")
        self.assertEqual(seen["bars"], 4)
        self.assertGreater(seen["points"], 2)
        self.assertEqual([label for label in seen["labels"] if not label.isdigit()],
                         ["layer 0", "layer 1", "after the prompt", "now"])
        self.assertTrue(seen["stopped"].startswith("stopped"), seen["stopped"])
        self.assertIn("expected", seen["refused"])
        for look in seen["looks"].values():
            self.assertLessEqual(look["page_width"], look["window_width"])
            self.assertGreater(look["contrast"], 7)
        server.wait_until(lambda: server.metric("dp_active_sequences") == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
