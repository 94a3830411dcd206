# ===- check_gguf.py - A GGUF file against a checkpoint --------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: check_gguf.py FILE MODEL

Reads a GGUF file as its specification says, and compares its tensors and tokens with
the directory MODEL: a checkpoint of Qwen3 in f32. Then prints what else it says of the
model."""

import array
import json
import math
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "goldens"))
import safetensors_reader  # noqa: E402

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
# Elements and bytes of a block, by ggml_type.
BLOCKS = {0: ("f32", 1, 4), 1: ("f16", 1, 2), 8: ("q8_0", 32, 34), 30: ("bf16", 1, 2)}
ALIGNMENT = 32

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(SCALARS[kind])


def read(path):
    """Returns the metadata, and {name: (format, shape, bytes)}."""
    reader = Reader(pathlib.Path(path).read_bytes())
    magic, version = reader.data[:4], struct.unpack_from("<I", reader.data, 4)[0]
    assert (magic, version) == (b"GGUF", 3), (magic, version)
    reader.at = 8
    tensors, keys = reader.take("Q"), reader.take("Q")
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        assert key not in metadata, key
        metadata[key] = reader.value(reader.take("I"))
    entries = []
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.take("Q") for _ in range(reader.take("I"))][::-1]
        entries.append((name, tuple(shape), reader.take("I"), reader.take("Q")))
    begin = -(-reader.at // ALIGNMENT) * ALIGNMENT
    found, covered = {}, 0
    for name, shape, kind, offset in entries:
        form, elements, size = BLOCKS[kind]
        assert offset == covered, f"{name}: offset {offset}, expected {covered}"
        length = math.prod(shape) // elements * size
        found[name] = (form, shape, reader.data[begin + offset : begin + offset + length])
        covered = offset + -(-length // ALIGNMENT) * ALIGNMENT
    assert len(reader.data) == begin + covered, "the file is of another size"
    return metadata, found


def rename(name):
    module, _, kind = name.rpartition(".")
    layer = ""
    if module.startswith("model.layers."):
        number, module = module.removeprefix("model.layers.").split(".", 1)
        layer = f"blk.{number}."
    return f"{layer}{NAMES[module]}.{kind}"


def unpack(form, data):
    """The values, and a bound of each one's error."""
    if form == "f32":
        values = array.array("f", data)
        return values, [0] * len(values)
    if form == "f16":
        values = struct.unpack(f"<{len(data) // 2}e", data)
        return values, [2**-11 * abs(value) + 2**-25 for value in values]
    if form == "bf16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        values = struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(w << 16 for w in words)))
        return values, [2**-8 * abs(value) for value in values]
    values, bounds = [], []
    for at in range(0, len(data), 34):
        (factor,) = struct.unpack_from("<e", data, at)
        block = struct.unpack_from("<32b", data, at + 2)
        assert max(map(abs, block)) == 127, "a block does not use its range"
        values += [factor * number for number in block]
        # Half a step, and the rounding of the factor.
        bounds += [0.5 * factor + 2**-11 * factor * (abs(number) + 1) for number in block]
    return values, bounds


def main():
    path, model = sys.argv[1], pathlib.Path(sys.argv[2])
    metadata, tensors = read(path)
    weights, _ = safetensors_reader.read(model / "model.safetensors")
    renamed = {rename(name): value for name, value in weights.items()}
    assert set(renamed) == set(tensors), set(renamed) ^ set(tensors)
    for name, (shape, wanted) in renamed.items():
        form, own_shape, data = tensors[name]
        assert tuple(shape) == own_shape, (name, shape, own_shape)
        assert len(shape) > 1 or form == "f32", (name, form)
        for value, bound, want in zip(*unpack(form, data), wanted, strict=True):
            assert abs(value - want) <= bound, f"{name}: {value}, expected {want}"

    config = json.loads((model / "config.json").read_text())
    file = json.loads((model / "tokenizer.json").read_text())
    tokens = metadata["tokenizer.ggml.tokens"]
    assert len(tokens) == config["vocab_size"]
    for token, number in file["model"]["vocab"].items():
        assert tokens[number] == token, (number, tokens[number], token)
    for added in file["added_tokens"]:
        assert tokens[added["id"]] == added["content"]
        kind = metadata["tokenizer.ggml.token_type"][added["id"]]
        assert kind == (3 if added["special"] else 4), added
    pairs = [" ".join(merge) if isinstance(merge, list) else merge for merge in file["model"]["merges"]]
    assert metadata["tokenizer.ggml.merges"] == pairs

    counts = {}
    for form, _, _ in tensors.values():
        counts[form] = counts.get(form, 0) + 1
    print("tensors", ", ".join(f"{count} {form}" for form, count in sorted(counts.items())))
    for key, value in metadata.items():
        if not isinstance(value, list):
            print(key, str(value).split("\n")[0][:60])


if __name__ == "__main__":
    main()
