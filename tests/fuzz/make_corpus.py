#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of the corpora: small whole files of each format, from the models in tests/data. What fuzzing
found later lies beside them under names of its own.

  make_corpus.py SPSCOPE_PROGRAM    (the program saves the stages that are the corpus of graph_text)"""

import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).parent
DATA = HERE.parent / "data"
CORPUS = HERE / "corpus"


def save(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def slim(program):
    """The program without what takes most of its bytes: stack traces."""
    program = json.loads(program)
    for node in program["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {k: v[-160:] for k, v in node.get("metadata", {}).items() if k in ("nn_module_stack", "stack_trace")}
    program["graph_module"]["module_call_graph"] = []
    return json.dumps(program, separators=(",", ":"))


def raw_layout():
    """The model of torch 2.8's archive in the layout of torch 2.9 and later."""
    out = io.BytesIO()
    size = lambda n: {"as_int": n}
    meta = lambda sizes, strides, grad: {
        "dtype": 7, "sizes": [size(n) for n in sizes], "requires_grad": grad, "device": {"type": "cpu", "index": None},
        "strides": [size(n) for n in strides], "storage_offset": size(0), "layout": 7}
    row = lambda path, sizes, strides, grad: {"path_name": path, "is_param": grad, "use_pickle": False,
                                              "tensor_meta": meta(sizes, strides, grad)}
    with zipfile.ZipFile(DATA / "zoo/old/torch_2.8.0.pt2") as source, zipfile.ZipFile(out, "w") as archive:
        root = source.namelist()[0].split("/")[0]
        inner = lambda kind: zipfile.ZipFile(io.BytesIO(source.read(f"{root}/data/{kind}/model.pt")))
        archive.writestr("r/models/model.json", slim(source.read(f"{root}/models/model.json")))
        archive.writestr("r/data/weights/model_weights_config.json", json.dumps({"config": {
            "e.weight": row("weight_0", [16, 8], [8, 1], True), "h.weight": row("weight_0", [16, 8], [8, 1], True),
            "q.weight": row("weight_1", [24, 8], [8, 1], True)}}))
        for i in (0, 1):
            archive.writestr(f"r/data/weights/weight_{i}", inner("weights").read(f"archive/data/{i}"))
        archive.writestr("r/data/constants/model_constants_config.json", json.dumps({"config": {
            "tri": row("tensor_0", [4, 4], [4, 1], False)}}))
        archive.writestr("r/data/constants/tensor_0", inner("constants").read("archive/data/0"))
    return out.getvalue()


def with_subgraphs():
    """A program with what no whole model of this size has: autocast, no-grad, numbers on sizes, lists of tensors."""
    value = lambda name: {"as_tensor": {"name": name}}
    symbol = {"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s1', positive=True, integer=True))", "hint": {"as_int": 8}}}
    meta = lambda *sizes: {"dtype": 7, "sizes": list(sizes), "requires_grad": False, "device": {"type": "cpu", "index": None},
                           "strides": [], "storage_offset": {"as_int": 0}, "layout": 7}
    argument = lambda name, arg: {"name": name, "arg": arg, "kind": 1}
    def node(target, inputs, outputs, **metadata):
        return {"target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata, "is_hop_single_tensor_return": None}
    def graph(name, body, result):
        return {"as_graph": {"name": name, "graph": {"inputs": [value("a")], "outputs": [value(result)], "nodes": body,
            "tensor_values": {"a": meta({"as_int": 2}, symbol), result: meta({"as_int": 2}, symbol)}, "sym_int_values": {}, "sym_bool_values": {}}}}
    mul = node("torch.ops.aten.mul.Tensor", [argument("self", value("a")), argument("other", {"as_float": "Infinity"})], [value("m")])
    mm = node("torch.ops.aten.matmul.default", [argument("self", value("a")), argument("other", value("a"))], [value("k")])
    nodes = [
        node("torch.ops.aten.sym_size.int", [argument("self", value("x")), argument("dim", {"as_int": 1})], [{"as_sym_int": {"as_name": "n"}}]),
        node("_operator.floordiv", [argument("a", {"as_sym_int": {"as_name": "n"}}), argument("b", {"as_int": 2})], [{"as_sym_int": {"as_name": "h"}}]),
        node("torch.ops.higher_order.wrap_with_set_grad_enabled", [argument("", {"as_bool": False}), argument("", graph("g", [mul], "m")), argument("", value("x"))], [{"as_tensors": [{"name": "y"}]}]),
        node("torch.ops.higher_order.wrap_with_autocast", [argument("", {"as_string": "cpu"}), argument("", {"as_scalar_type": 13}), argument("", {"as_bool": True}),
              argument("", {"as_bool": True}), argument("", graph("h", [mm], "k")), argument("", value("y"))], [{"as_tensors": [{"name": "z"}]}],
             nn_module_stack="k,layers.0.attn,pkg.Attn[a,b]", stack_trace='  File "m.py", line 3, in forward\n'),
        node("torch.ops.aten.chunk.default", [argument("self", value("z")), argument("chunks", {"as_int": 2}), argument("dim", {"as_int": -1})], [{"as_tensors": [{"name": "c0"}, {"name": "c1"}]}]),
        node("torch.ops.aten.cat.default", [argument("tensors", {"as_tensors": [{"name": "c0"}, {"name": "c1"}]})], [value("j")]),
        node("torch.ops.aten.index.Tensor", [argument("self", value("j")), argument("indices", {"as_optional_tensors": [{"as_none": True}, value("j")]})], [value("i")]),
        node("torch.ops.aten.sum.default", [argument("self", value("i"))], [value("loss")]),
    ]
    half = {"as_expr": {"expr_str": "FloorDiv(Symbol('s1'), Integer(1))", "hint": {"as_int": 4}}}
    tensors = {"x": meta({"as_int": 2}, symbol), "y": meta({"as_int": 2}, symbol), "z": meta({"as_int": 2}, symbol), "c0": meta({"as_int": 2}, half),
               "c1": meta({"as_int": 2}, half), "j": meta({"as_int": 2}, symbol), "i": meta({"as_int": 2}, symbol), "loss": meta()}
    return json.dumps({
        "graph_module": {"graph": {"inputs": [value("x")], "outputs": [value("loss")], "nodes": nodes, "tensor_values": tensors,
                                   "sym_int_values": {"n": symbol, "h": half}, "sym_bool_values": {}},
                         "signature": {"input_specs": [{"user_input": {"arg": value("x")}}], "output_specs": [{"user_output": {"arg": value("loss")}}]}},
        "range_constraints": {"s1": {"min_val": 2, "max_val": 100}}, "schema_version": {"major": 8, "minor": 21}, "torch_version": "2.16.0"})


def main():
    for version in ("2.6.0", "2.8.0"):
        path = DATA / f"zoo/old/torch_{version}.pt2"
        save("archive", f"torch_{version}.pt2", path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".pt") and "example" not in name and "sample" not in name:
                    with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                        save("pickle", f"{version}-{pathlib.Path(name).parent.name or 'root'}-{pathlib.Path(name).stem}.pkl", inner.read("archive/data.pkl"))
                if name.endswith("exported_program.json") or "/models/" in name:
                    save("program", f"torch_{version}.json", slim(archive.read(name)))
    save("archive", "raw.pt2", raw_layout())
    save("program", "subgraphs.json", with_subgraphs())
    for name in ("variety", "meta", "subclass"):
        with zipfile.ZipFile(DATA / f"pickles/{name}.pt") as archive:
            pickle = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            save("pickle", f"{name}.pkl", archive.read(pickle))
    save("safetensors", "variety.safetensors", (DATA / "pickles/variety.safetensors").read_bytes())
    save("safetensors", "ids.safetensors", (DATA / "zoo/gpt2.inputs.safetensors").read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "compile", CORPUS / "archive/raw.pt2", "--stages", folder, "--sp", "2"], check=True, stdout=subprocess.DEVNULL)
        for stage in sorted(pathlib.Path(folder).iterdir()):
            save("graph_text", stage.name, re.sub(r"(?m)^// source: .*$", "// source: raw.pt2", stage.read_text()))


main()
