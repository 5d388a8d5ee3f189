"""Runs that nobody has trained: the files of training and evaluation with plausible numbers, for pages to show."""
import json
import math
from random import Random


def make_text_run(run, settings, n, seed=0, gate=False, loss=4.0, rise=0.0, climb=0.0, tested=True, data="data/corpus"):
    """A language model: `rise` of the loss and `climb` of the ranks per doubling of the length beyond 512. `settings`
    are those of any run."""
    run.mkdir(parents=True)
    random = Random(f"{run.name} {seed}")
    settings = json.loads(json.dumps(settings))
    settings["task"] = {"name": "text", "data": data, "reset_at_documents": False}
    settings["model"].update(num_householder=n, allow_neg_eigval=True, use_forget_gate=gate, num_hidden_layers=4,
                             hidden_size=256, num_heads=4, head_dim=64, vocab_size=8000, bos_token_id=None)
    settings["training"].update(length=512, steps=2000, batch_size=16, seed=seed, curriculum_first_length=0,
                                curriculum_first_letters=0)
    (run / "run.json").write_text(json.dumps(settings))
    with open(run / "metrics.jsonl", "w") as metrics:
        for step in range(2000):
            trained = loss + 4.6 * (1 + step / 30) ** -0.9
            line = {"step": step, "loss": trained + random.gauss(0, 0.08), "accuracy": 0.3, "length": 512, "learning_rate": 3e-4,
                    "gradient_norm": 0.5, "tokens": 8192 * (step + 1), "seconds": (1.1 + 0.25 * n) * (step + 1)}
            if (step + 1) % 250 == 0:
                valid = trained + 0.03
                line["evaluation"] = [{"length": 512, "loss": valid, "perplexity": math.exp(valid), "token_accuracy": 0.28}]
            print(json.dumps(line), file=metrics)
    if tested:
        (run / "eval.json").write_text(json.dumps(made_up_evaluation(random, loss, rise, climb, data)))


def made_up_evaluation(random, loss, rise, climb, data):
    """As dp eval writes it."""
    at = lambda position: (loss + 1.1 * (position / 40 + 1) ** -0.7
                           + rise * max(0.0, math.log2(position / 512)) + random.gauss(0, 0.01))
    documents, end = [], 0
    while (end := end + random.randrange(300, 1500)) < 16384:
        documents.append(end)
    ranks = range(128, 16385, 128)
    since = lambda position: position - max([0] + [it for it in documents if it <= position])
    layers = [[[min(60, 6 + 5 * layer + 3 * head + climb * (1 + head) / 2 * max(0.0, math.log2(position / 512))
                    + (3 * math.exp(-since(position) / 400) if head == 1 else 0) + random.gauss(0, 0.3))
                for position in ranks] for head in range(4)] for layer in range(4)]
    positions = [round(251 * (16134 / 251) ** (i / 400)) for i in range(401)]
    return {
        "task": "text", "data": f"{data}/validation", "training_length": 512,
        "perplexity": {"tokens": 400000, "loss": loss + 0.05, "perplexity": math.exp(loss + 0.05), "bits_per_byte": loss / 2.77},
        "lengths": [{"length": length, "loss": at(length * 0.75), "perplexity": math.exp(at(length * 0.75))}
                    for length in (512, 1024, 2048, 4096, 8192, 16384)],
        "by_position": {"sequences": 16, "length": 16384, "window": 501, "positions": positions, "loss": [at(p) for p in positions]},
        "effective_rank": {"every": 128, "sequences": 1, "positions": list(ranks), "documents": documents, "layers": layers},
        "choices": [{"file": "tests/choices.jsonl", "items": 500, "accuracy": 0.4 - loss / 50, "accuracy_normalised": 0.35}],
        "last_word": [{"file": "last_words.jsonl.gz", "items": 300, "accuracy": 0.5 - loss / 20, "perplexity": 40 + 3 * loss}]}
