#!/usr/bin/env python3
"""Chooses the learning rate of every model and task by the results of choose.json, and writes the sweep table-seeds.json.

The rule: the highest mean scaled accuracy on validation sequences of 40, 64 and 80 tokens at the end of training; of equal ones the
smaller learning rate. Test sequences have no part in it. The chosen settings run with seeds 1, 2 and 3, which choosing never saw.

    python3 experiments/chomsky/table.py
"""
import json
import pathlib

FOLDER = pathlib.Path(__file__).parent
LONGEST = 80


def validation_score(run):
    last = run["training"]["evaluations"][-1]["lengths"]
    scores = [row["scaled_accuracy"] for row in last if row["length"] <= LONGEST]
    return sum(scores) / len(scores)


def chosen(runs):
    """(task, model) -> (score, -learning rate, run)"""
    best = {}
    for run in runs:
        key = run["task"], run["model"]
        entry = validation_score(run), -run["settings"]["training"]["learning_rate"], run["name"]
        if key not in best or entry > best[key]:
            best[key] = entry
    return best


def main():
    choose = json.loads((FOLDER / "choose.json").read_text())
    results = json.loads((FOLDER / "results" / "choose.json").read_text())
    best = chosen(results["runs"])
    cells = []
    for (task, model), (score, negative_lr, _) in sorted(best.items()):
        print(f"{task:20} {model:24} lr {-negative_lr:<6g} {score:.3f} on validation sequences of up to {LONGEST} tokens")
        variant = next(v for v in choose["grid"]["variant"] if is_variant(v, model))
        cells.append({"task": task, **variant, "lr": -negative_lr})
    sweep = {**choose, "comment": "Written by table.py: the settings that it chose, with seeds that choosing never saw.",
             "grid": {"cell": cells, "seed": [1, 2, 3]}}
    (FOLDER / "table-seeds.json").write_text(json.dumps(sweep, indent=1) + "\n")


def is_variant(variant, model):
    """Whether a variant of choose.json is called `model` in results, such as DeltaProduct_2 [-1,1]."""
    names = {"transformer": "Transformer", "mlstm": "mLSTM", "slstm": "sLSTM", "mamba": "Mamba", "delta-net": "DeltaNet",
             "deltaproduct": f"DeltaProduct_{variant.get('num-householder')}"}
    name = names[variant["model"]]
    return model == (f"{name} [{variant['eigenvalues']}]" if "eigenvalues" in variant else name)


if __name__ == "__main__":
    main()
