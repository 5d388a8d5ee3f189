"""The program: what is measured, the tables, the JSON file."""
from __future__ import annotations

import argparse
import importlib.util
import json
import platform
from typing import Any, Dict

import torch

from .model import MODEL, QUICK_MODEL, bench_model
from .operator import QUICK_SHAPES, SHAPES, bench_operator
from .timing import progress


def show_operator_head(report: Dict[str, Any]) -> None:
    print(f"torch {report['torch']}, {report['threads']} threads. Useful flops per second are relative to torch's matrix "
          "product; a ratio is how many times as long the other takes, forward / forward and backward.")
    print("   B     T   H    K  N | forward     step  ms | flops | torch operators | transformers", flush=True)


def show_operator(r: Dict[str, Any]) -> None:
    line = (f"{r['B']:4d} {r['T']:5d} {r['H']:3d} {r['K']:4d} {r['N']:2d} | {r['fused_forward_ms']:7.2f} "
            f"{r['fused_step_ms']:8.2f}     | {r['share_of_product_rate']:5.2f} | "
            f"{r['chunked_forward_ratio']:6.1f} / {r['chunked_step_ratio']:<6.1f} | ")
    if "transformers_step_ratio" in r:
        line += f"{r['transformers_forward_ratio']:6.1f} / {r['transformers_step_ratio']:.1f}"
    print(line, flush=True)


def show_model(report: Dict[str, Any]) -> None:
    f = report["model_fields"]
    print(f"\ntransformers {report['transformers']}, Qwen3.5: hidden {f['hidden_size']}, {f['num_hidden_layers']} layers, "
          f"{f['linear_num_value_heads']} heads of {f['linear_value_head_dim']}, {f['tokens']} tokens")
    print("  before ms   after ms   ratio")
    for r in report["model"]:
        print(f"{r['before_ms']:11.1f} {r['after_ms']:10.1f} {r['ratio']:7.1f}   {r['what']}")
    print("The most that the model's step, forward and backward, could gain:")
    for r in report["bounds"]:
        print(f"{r['before_ms']:11.1f} {r['after_ms']:10.1f} {r['ratio']:7.1f}   {r['what']}")


def run(quick: bool, seconds: float) -> Dict[str, Any]:
    """Prints each table as it is found; all figures, as --json writes them."""
    report: Dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads(),
                              "machine": platform.machine(), "operator": []}
    show_operator_head(report)
    for shape in QUICK_SHAPES if quick else SHAPES:
        progress("operator, B {} T {} H {} K {} N {}".format(*shape))
        report["operator"].append(bench_operator(shape, seconds))
        show_operator(report["operator"][-1])
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed: no figures for its models.")
        return report
    import transformers
    report["transformers"] = transformers.__version__
    fields = QUICK_MODEL if quick else MODEL
    report["model_fields"] = dict(fields, tokens=128 if quick else 2048)
    report["model"], report["bounds"] = bench_model(fields, report["model_fields"]["tokens"], 4 if quick else 32, seconds)
    show_model(report)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m deltaproduct.bench", description="Times the kernels against what PyTorch and transformers do without "
        "them, taking turns in one run; the ratios are what to compare. A whole run takes some minutes.")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--quick", action="store_true", help="small shapes and a small model")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line, and at least three rounds (default 2)")
    options = parser.parse_args()
    report = run(options.quick, options.seconds)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
