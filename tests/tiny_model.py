"""A model directory with random weights and a vocabulary of bytes, for tests of what generates text."""
import array
import json
import math
import random

HIDDEN, LAYERS, HEADS, HEAD_DIM, FACTORS, MLP, VOCAB, CONV = 32, 2, 2, 8, 2, 48, 258, 4


def shapes(vocab):
    width = HEADS * HEAD_DIM
    yield "model.embeddings.weight", (vocab, HIDDEN)
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        for name, size in (("q", width), ("k", FACTORS * width), ("v", FACTORS * width)):
            yield f"{layer}attn.{name}_proj.weight", (size, HIDDEN)
            yield f"{layer}attn.{name}_conv1d.weight", (size, 1, CONV)
        yield layer + "attn.b_proj.weight", (FACTORS * HEADS, HIDDEN)
        yield layer + "attn.a_proj.weight", (HEADS, HIDDEN)
        yield layer + "attn.A_log", (HEADS,)
        yield layer + "attn.dt_bias", (HEADS,)
        yield layer + "attn.g_proj.weight", (width, HIDDEN)
        yield layer + "attn.o_norm.weight", (HEAD_DIM,)
        yield layer + "attn.o_proj.weight", (HIDDEN, width)
        yield layer + "attn_norm.weight", (HIDDEN,)
        yield layer + "mlp_norm.weight", (HIDDEN,)
        yield layer + "mlp.gate_proj.weight", (MLP, HIDDEN)
        yield layer + "mlp.up_proj.weight", (MLP, HIDDEN)
        yield layer + "mlp.down_proj.weight", (HIDDEN, MLP)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (vocab, HIDDEN)


def make_model(directory, vocab=VOCAB, seed=1, eos=257):
    """Writes config.json and model.safetensors. The weights are large, so that no two tokens are almost equal; the last
    token, which ends a text, is practically never chosen."""
    directory.mkdir(parents=True)
    draw = random.Random(seed)
    header, data = {}, bytearray()
    for name, shape in shapes(vocab):
        if "norm" in name:
            values = [1.0] * math.prod(shape)
        else:
            scale = (6 if name == "lm_head.weight" else 2) / math.sqrt(shape[-1]) if len(shape) > 1 else 0.5
            values = [draw.gauss(0, scale) for _ in range(math.prod(shape))]
        if name == "lm_head.weight":
            values[-HIDDEN:] = [0.0] * HIDDEN
        begin = len(data)
        data += array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
    (directory / "config.json").write_text(json.dumps({
        "model_type": "gated_deltaproduct", "architectures": ["GatedDeltaProductForCausalLM"], "vocab_size": vocab,
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_heads": HEADS, "head_dim": HEAD_DIM, "expand_v": 1,
        "num_householder": FACTORS, "allow_neg_eigval": True, "use_forget_gate": True, "use_output_gate": True,
        "use_short_conv": True, "conv_size": CONV, "intermediate_size": MLP, "tie_word_embeddings": False,
        "bos_token_id": 256, "eos_token_id": eos, "torch_dtype": "float32"}))
    return directory
