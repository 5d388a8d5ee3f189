#!/usr/bin/env python3
"""Hostile HTTP requests: http_requests.py DP --seed N --count N.

Fields and their ranges come from the server's own /openapi.json; values lie at and beyond them, bodies are cut and changed
byte by byte, clients leave early. Promises: every answer is HTTP with a known status; errors have OpenAI's shape and
one line of message; the server lives, and ends with the memory that it told at the start and with the files it began with."""
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import attack
from tiny_model import make_model

STATUSES = {200, 400, 403, 404, 405, 408, 411, 413, 414, 415, 429, 431, 503}
PATHS = ["/v1/completions"] * 12 + ["/v1/chat/completions"] * 10 + ["/", "/metrics", "/health", "/nothing", "/openapi.json", "/v1/models", "/" + "a" * 9000]


def value(draw, schema, depth=0, wild=0.1):
    """Something for a field: usually what it declares, often at the edge, sometimes anything; wild 0: always what it declares."""
    if draw.random() < wild:
        return draw.choice([None, True, -1, 0, 1e308, 2 ** 63, -2 ** 63, "", "x" * 3000, [], {}, [[]], [{}], {"a": {}}, [None] * 300, "\u0000", "\ud800"])
    if "oneOf" in schema:
        return value(draw, draw.choice(schema["oneOf"]), depth, wild)
    if "enum" in schema:
        return draw.choice(schema["enum"])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        low, high = schema.get("minimum", 0), min(schema.get("maximum", 300), 1 << 40)
        edge = [low, low - 1, low + 1, min(high, 64), high, high + 1]
        inside = draw.randint(low, max(low, min(high, 40)))
        return draw.choice(edge) if draw.random() < 2 * wild else min(inside + 0.5, high) if kind == "number" else inside
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "array":
        return [value(draw, schema["items"], depth + 1, wild) for _ in range(draw.choice([0, 1, 2, 5, 70] if wild else [1, 2, 3]) if depth < 2 else 1)]
    if kind == "object":
        if "properties" in schema:
            return {name: value(draw, inner, depth + 1, wild) for name, inner in schema["properties"].items() if draw.random() < 0.9 or not wild}
        return {draw.choice(["0", "5", "257", "258", "-1", "x", "99999999999"] if wild else ["5"]): value(draw, schema["additionalProperties"], depth + 1, wild) for _ in range(draw.randrange(4))}
    return draw.choice(["", "a", "hello", "ü", "<|im_end|>", "a" * 500, "tiny", "user", "assistant", "\n"] if wild else ["tiny"])


def body(draw, schema):
    wild = draw.choice([0, 0, 0.02, 0.2])
    fields = {name: value(draw, inner, 0, wild) for name, inner in schema["properties"].items()
              if draw.random() < (0.9 if name in ("prompt", "messages") else 0.25)}
    if "best_of" in fields and draw.random() < 0.8:
        fields["best_of"] = fields.get("n", 1)
    if "top_logprobs" in fields and draw.random() < 0.8:
        fields["logprobs"] = True
    if draw.random() < 0.05:
        fields["x" * draw.choice([1, 5000])] = 1
    text = json.dumps(fields).encode()
    if draw.random() < 0.2 and text:  # damage
        at = draw.randrange(len(text))
        text = draw.choice([text[:at], text[:at] + bytes([draw.randrange(256)]) + text[at + 1:], text + text, text[at:], b"[" * 5000])
    return text


def raw_request(draw, path, text):
    """Three in four are right as HTTP, so that what they say is read."""
    if draw.random() < 0.75:
        method, text = ("POST", text) if "completions" in path else ("GET", b"")
        return f"{method} {path} HTTP/1.1\r\nContent-Length: {len(text)}\r\nContent-Type: application/json\r\n\r\n".encode() + text
    method = draw.choice(["POST"] * 8 + ["GET", "PUT", "HEAD", "BREW"])
    length = draw.choice([len(text)] * 12 + [-1, 2 ** 63, 2 ** 64, len(text) + 5, 0])
    head = f"{method} {path} HTTP/{draw.choice(['1.1'] * 8 + ['1.0', '2.0', '0.9'])}\r\n"
    headers = [f"Content-Length: {length}", "Content-Type: " + draw.choice(["application/json"] * 5 + ["text/plain", ""])]
    if draw.random() < 0.1:
        headers.append(draw.choice(["Host: evil.example", "Origin: http://evil.example", "Transfer-Encoding: chunked", "Expect: 100-continue", "X: " + "y" * 70000, "no colon"]))
    content = (head + "\r\n".join(headers) + "\r\n\r\n").encode() + text
    if draw.random() < 0.05:
        at = draw.randrange(len(content))
        content = content[:at] + bytes([draw.randrange(256)]) + content[at + 1:]
    return content


def check_answer(answer, content):
    if not answer:
        return  # closed without a word: the request never became one, or a client that is late
    shown = f"{content[:600]!r} was answered {answer[:600]!r}"
    found = re.match(rb"HTTP/1\.1 (\d+) [^\r\n]*\r\n", answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n"))
    if not found or int(found[1]) not in STATUSES:
        raise attack.Broken(shown)
    if int(found[1]) >= 400 and not content.startswith(b"HEAD") and b"/health" not in content[:40]:
        error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        if set(error) != {"message", "type", "param", "code"} or "\n" in error["message"] or len(error["message"]) > 1000:
            raise attack.Broken(shown)


def main():
    options = attack.arguments(__doc__, 500)
    draw = attack.stream(options.seed)
    with tempfile.TemporaryDirectory() as root:
        model = make_model(pathlib.Path(root) / "tiny")
        (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content|trim }}\n{% endfor %}")
        server = subprocess.Popen([options.dp, "serve", model, "--port", "0", "--threads", "1", "--max-tokens", "200", "--receive-seconds", "2",
                                   "--cache-mb", "16", "--drain-seconds", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            most = int(re.match(r"memory: at most (\d+) MB", server.stdout.readline())[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/openapi.json")
            paths = json.loads(connection.getresponse().read())["paths"]
            schemas = {path: at["post"]["requestBody"]["content"]["application/json"]["schema"] for path, at in paths.items()}
            files = lambda: len(list(pathlib.Path(f"/proc/{server.pid}/fd").iterdir()))
            statuses, before = {}, files()
            for _ in range(options.count):
                path = draw.choice(PATHS)
                content = raw_request(draw, path, body(draw, schemas.get(path, schemas["/v1/completions"])))
                leaves = draw.random() < 0.1
                with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
                    answer = b""
                    try:
                        client.sendall(content[:draw.randrange(len(content))] if leaves else content)
                        if not leaves:
                            client.shutdown(socket.SHUT_WR) if draw.random() < 0.3 else None
                            while part := client.recv(1 << 16):
                                answer += part
                    except ConnectionError:
                        pass  # an answer that came while this side was still sending
                check_answer(answer, content)
                status = "left" if leaves else answer[9:12].decode() or "none"
                statuses[status] = statuses.get(status, 0) + 1
                if options.verbose:
                    print(status, content[:300], flush=True)
                if server.poll() is not None:
                    raise attack.Broken(f"the server ended with {server.returncode} at {content[:2000]!r}: {server.stderr.read()}")
            memory = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            peak = int(re.search(r"VmHWM:\s+(\d+)", memory)[1]) // 1024
            end = time.monotonic() + 20
            while files() > before and time.monotonic() < end:
                time.sleep(0.1)
            if files() > before or (peak > most and options.bounded):
                raise attack.Broken(f"{files()} open files, {before} at the start; {peak} MB at the peak, {most} MB told")
            server.send_signal(signal.SIGTERM)
            if server.wait(30) != 0:
                raise attack.Broken(f"SIGTERM gave {server.returncode}: {server.stderr.read()}")
        finally:
            server.kill()
            server.wait()
            server.stdout.close(), server.stderr.close()
    print(f"requests: seed {options.seed}, {options.count} inputs, statuses {dict(sorted(statuses.items()))}, {peak} MB at the peak of {most} MB told")


main()
