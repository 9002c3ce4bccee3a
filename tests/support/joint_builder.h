// SPDX-License-Identifier: Apache-2.0
// Joint graphs for tests of the memory passes, without libtorch: a Llama's forward on one rank of P, op by op as
// autograd sees it (t, view, mm, _unsafe_view, rope pieces, sp.all_to_all, fused attention, log_softmax ...), and the
// backward that a tape gives, in autograd's order, with storages as libtorch would share them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph.h"
#include "core/ir/sp_ops.h"

namespace spscope::testing {

struct LlamaShape {
  int layers = 4;
  std::int64_t seq = 8192;  ///< whole sequence
  std::int64_t ranks = 2;
  std::int64_t hidden = 512, heads = 8, kv_heads = 8, ffn = 1408, vocab = 1024;
  ir::DType dtype = ir::DType::kBF16;
  bool factors = true;      ///< leave the sequence tag on what the planned graph would have held
};

/// Enough to see everything, small enough to run a policy on in milliseconds.
inline LlamaShape smallShape(int layers) {
  LlamaShape shape;
  shape.layers = layers;
  shape.seq = 256;
  shape.hidden = 64;
  shape.heads = shape.kv_heads = 4;
  shape.ffn = 96;
  shape.vocab = 128;
  return shape;
}

class JointBuilder {
 public:
  using V = ir::ValueId;
  ir::Graph graph;

  JointBuilder() { graph.form = ir::Form::kJoint; }

  // --- inputs and nodes -----------------------------------------------------------------------------------------
  V input(const std::string& name, ir::DType element, ir::Dims shape, ir::InputKind kind, bool trainable = false) {
    const V v = graph.addValue(name, element, std::move(shape));
    graph.value(v).storage_bytes = graph.value(v).localBytes();
    ir::Input in;
    in.value = v;
    in.kind = kind;
    in.name = name;
    in.trainable = trainable;
    graph.inputs.push_back(in);
    return v;
  }
  V parameter(const std::string& name, ir::Dims shape) {
    return input(name, dtype, std::move(shape), ir::InputKind::kParameter, true);
  }
  /// A node with one result that has its own storage.
  V op(const char* name, std::vector<std::pair<const char*, ir::Attribute>> args, ir::DType type, ir::Dims shape) {
    const ir::NodeId n = node(name, std::move(args));
    const V v = graph.addOutput(n, type, std::move(shape));
    graph.value(v).storage_bytes = graph.value(v).localBytes();
    return v;
  }
  /// A node whose result shares `of`'s storage.
  V view(const char* name, V of, std::vector<std::pair<const char*, ir::Attribute>> args, ir::Dims shape) {
    args.insert(args.begin(), {"self", use(of)});
    const ir::NodeId n = node(name, std::move(args));
    const V v = graph.addOutput(n, graph.value(of).dtype, std::move(shape));
    graph.value(v).storage = graph.value(of).storage == ir::kNone ? of : graph.value(of).storage;
    return v;
  }
  static ir::Attribute use(V v) { return ir::Use{v}; }
  const ir::Dims& dims(V v) const { return graph.value(v).local; }
  ir::DType type(V v) const { return graph.value(v).dtype; }
  void inModule(const std::string& path) {
    auto location = std::make_shared<ir::Location>();
    location->module_path = path;
    location_ = location;
  }
  /// Marks dimension `dim` as the sequence, as plan-sequence would have.
  V sequence(V v, std::size_t dim) {
    if (!with_factors) return v;
    ir::Value& value = graph.value(v);
    value.factors = ir::plainFactors(value.shape);
    for (ir::Factor& f : value.factors[dim]) f.tag = ir::Tag::kSequence;
    return v;
  }

  // --- autograd -------------------------------------------------------------------------------------------------
  void onBackward(V result, std::function<void(V gradient)> f) { tape_.push_back({result, std::move(f)}); }
  bool learned(V v) const { return at(learned_, v); }
  void setLearned(V v) {
    if (static_cast<std::size_t>(v) >= learned_.size()) learned_.resize(static_cast<std::size_t>(v) + 1, false);
    learned_[static_cast<std::size_t>(v)] = true;
  }
  void accumulate(V v, V gradient) {
    if (!learned(v)) return;
    if (static_cast<std::size_t>(v) >= gradients_.size()) gradients_.resize(graph.valueCount(), ir::kNone);
    V& slot = gradients_[static_cast<std::size_t>(v)];
    slot = slot == ir::kNone ? gradient : op("aten.add.Tensor", {{"self", use(slot)}, {"other", use(gradient)}}, type(v), dims(v));
  }
  void backward(V loss) {
    phase_ = ir::Phase::kBackward;
    V seed = op("aten.ones_like.default", {{"self", use(loss)}}, type(loss), {});
    gradients_.resize(graph.valueCount(), ir::kNone);
    gradients_[static_cast<std::size_t>(loss)] = seed;
    for (auto entry = tape_.rbegin(); entry != tape_.rend(); ++entry) {
      location_ = graph.node(graph.value(entry->first).producer).location;
      if (const V gradient = at(gradients_, entry->first, ir::kNone); gradient != ir::kNone) entry->second(gradient);
    }
    graph.outputs.push_back({loss, ir::OutputKind::kLoss, ir::kNone});
    for (std::size_t i = 0; i < graph.inputs.size(); ++i)
      if (graph.inputs[i].trainable)
        graph.outputs.push_back({at(gradients_, graph.inputs[i].value, ir::kNone), ir::OutputKind::kGradient, static_cast<int>(i)});
  }

  // --- differentiable ops -----------------------------------------------------------------------------------------
  V reshape(V x, ir::Dims shape, const char* name = "aten.view.default") {
    const V y = view(name, x, {{"size", shape}}, shape);
    return derived(y, {x}, [=, this](V g) { accumulate(x, view("aten.view.default", g, {{"size", dims(x)}}, dims(x))); });
  }
  V transpose(V x, std::int64_t a, std::int64_t b) {
    const V y = rawTranspose(x, a, b);
    return derived(y, {x}, [=, this](V g) { accumulate(x, rawTranspose(g, a, b)); });
  }
  V mul(V x, V y) {
    const V z = op("aten.mul.Tensor", {{"self", use(x)}, {"other", use(y)}}, wider(x, y), broadcast(x, y));
    return derived(z, {x, y}, [=, this](V g) {
      if (learned(y)) accumulate(y, reduceTo(op("aten.mul.Tensor", {{"self", use(g)}, {"other", use(x)}}, type(g), dims(g)), y));
      if (learned(x)) accumulate(x, reduceTo(op("aten.mul.Tensor", {{"self", use(g)}, {"other", use(y)}}, type(g), dims(g)), x));
    });
  }
  V add(V x, V y) {
    const V z = op("aten.add.Tensor", {{"self", use(x)}, {"other", use(y)}}, wider(x, y), broadcast(x, y));
    return derived(z, {x, y}, [=, this](V g) {
      accumulate(x, reduceTo(g, x));
      accumulate(y, reduceTo(g, y));
    });
  }
  V cast(V x, ir::DType to) {
    if (type(x) == to) return x;
    const V y = op("aten._to_copy.default", {{"self", use(x)}, {"dtype", to}}, to, dims(x));
    return derived(y, {x}, [=, this](V g) {
      accumulate(x, op("aten._to_copy.default", {{"self", use(g)}, {"dtype", type(x)}}, type(x), dims(x)));
    });
  }
  V linear(V x, V weight) {
    const std::int64_t k = dims(x).back(), n = dims(weight)[0], m = ir::numel(dims(x)) / k;
    const V wt = rawTranspose(weight, 0, 1, "aten.t.default");
    const V flat = view("aten.view.default", x, {{"size", ir::Dims{m, k}}}, {m, k});
    const V product = op("aten.mm.default", {{"self", use(flat)}, {"mat2", use(wt)}}, type(x), {m, n});
    ir::Dims shape = dims(x);
    shape.back() = n;
    const V y = view("aten._unsafe_view.default", product, {{"size", shape}}, shape);
    return derived(y, {x, weight}, [=, this](V g) {
      const V gm = view("aten.view.default", g, {{"size", ir::Dims{m, n}}}, {m, n});
      const V gt = rawTranspose(gm, 0, 1, "aten.t.default");
      const V dw = op("aten.mm.default", {{"self", use(gt)}, {"mat2", use(flat)}}, type(x), {n, k});
      accumulate(weight, rawTranspose(rawTranspose(dw, 0, 1, "aten.t.default"), 0, 1, "aten.t.default"));
      if (!learned(x)) return;
      const V back = rawTranspose(wt, 0, 1, "aten.t.default");
      const V dx = op("aten.mm.default", {{"self", use(gm)}, {"mat2", use(back)}}, type(x), {m, k});
      accumulate(x, view("aten.view.default", dx, {{"size", dims(x)}}, dims(x)));
    });
  }
  V silu(V x) {
    const V y = op("aten.silu.default", {{"self", use(x)}}, type(x), dims(x));
    return derived(y, {x}, [=, this](V g) {
      accumulate(x, op("aten.silu_backward.default", {{"grad_output", use(g)}, {"self", use(x)}}, type(x), dims(x)));
    });
  }
  V dropout(V x, double p) {
    const ir::NodeId n = node("aten.native_dropout.default", {{"input", use(x)}, {"p", p}, {"train", true}});
    const V y = graph.addOutput(n, type(x), dims(x));
    const V mask = graph.addOutput(n, ir::DType::kBool, dims(x));
    for (const V o : {y, mask}) graph.value(o).storage_bytes = graph.value(o).localBytes();
    return derived(y, {x}, [=, this](V g) {
      accumulate(x, op("aten.native_dropout_backward.default", {{"grad_output", use(g)}, {"mask", use(mask)}, {"scale", 1 / (1 - p)}}, type(x), dims(x)));
    });
  }
  /// Of all elements, as the loss.
  V sum(V x) {
    const V y = op("aten.sum.default", {{"self", use(x)}}, type(x), {});
    return derived(y, {x}, [=, this](V g) { accumulate(x, view("aten.expand.default", g, {{"size", dims(x)}}, dims(x))); });
  }
  V rmsNorm(V x, V weight) {
    const V wide = cast(x, ir::DType::kF32);
    ir::Dims rows = dims(x);
    rows.back() = 1;
    const V square = op("aten.pow.Tensor_Scalar", {{"self", use(wide)}, {"exponent", std::int64_t{2}}}, ir::DType::kF32, dims(x));
    derived(square, {wide}, [=, this](V g) {
      const V power = op("aten.pow.Tensor_Scalar", {{"self", use(wide)}, {"exponent", 1.0}}, ir::DType::kF32, dims(x));
      const V twice = op("aten.mul.Scalar", {{"self", use(power)}, {"other", 2.0}}, ir::DType::kF32, dims(x));
      accumulate(wide, op("aten.mul.Tensor", {{"self", use(g)}, {"other", use(twice)}}, ir::DType::kF32, dims(x)));
    });
    const V mean = op("aten.mean.dim", {{"self", use(square)}, {"dim", ir::Dims{-1}}, {"keepdim", true}}, ir::DType::kF32, rows);
    derived(mean, {square}, [=, this](V g) {
      const V wide_g = view("aten.expand.default", g, {{"size", dims(x)}}, dims(x));
      accumulate(square, op("aten.div.Scalar", {{"self", use(wide_g)}, {"other", static_cast<double>(dims(x).back())}}, ir::DType::kF32, dims(x)));
    });
    const V shifted = op("aten.add.Scalar", {{"self", use(mean)}, {"other", 1e-6}}, ir::DType::kF32, rows);
    derived(shifted, {mean}, [=, this](V g) { accumulate(mean, g); });
    const V scale = op("aten.rsqrt.default", {{"self", use(shifted)}}, ir::DType::kF32, rows);
    derived(scale, {shifted}, [=, this](V g) {
      const V cube = op("aten.pow.Tensor_Scalar", {{"self", use(scale)}, {"exponent", std::int64_t{3}}}, ir::DType::kF32, rows);
      const V half = op("aten.mul.Scalar", {{"self", use(g)}, {"other", -0.5}}, ir::DType::kF32, rows);
      accumulate(shifted, op("aten.mul.Tensor", {{"self", use(half)}, {"other", use(cube)}}, ir::DType::kF32, rows));
    });
    return mul(weight, cast(mul(wide, scale), type(x)));
  }
  V slice(V x, std::int64_t dim, std::int64_t from, std::int64_t to) {
    ir::Dims shape = dims(x);
    shape[static_cast<std::size_t>(dim)] = to - from;
    const V y = view("aten.slice.Tensor", x, {{"dim", dim}, {"start", from}, {"end", to}}, shape);
    return derived(y, {x}, [=, this](V g) {
      accumulate(x, op("aten.slice_backward.default", {{"grad_output", use(g)}, {"input_sizes", dims(x)}, {"dim", dim},
                       {"start", from}, {"end", to}, {"step", std::int64_t{1}}}, type(x), dims(x)));
    });
  }
  V neg(V x) {
    const V y = op("aten.neg.default", {{"self", use(x)}}, type(x), dims(x));
    return derived(y, {x}, [=, this](V g) { accumulate(x, op("aten.neg.default", {{"self", use(g)}}, type(x), dims(x))); });
  }
  V cat(V a, V b) {
    ir::Dims shape = dims(a);
    shape.back() += dims(b).back();
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    const V y = op("aten.cat.default", {{"tensors", ir::UseList{{a}, {b}}}, {"dim", last}}, type(a), shape);
    return derived(y, {a, b}, [=, this](V g) {
      const std::int64_t middle = dims(a).back();
      accumulate(a, view("aten.slice.Tensor", g, {{"dim", last}, {"start", std::int64_t{0}}, {"end", middle}}, dims(a)));
      accumulate(b, view("aten.slice.Tensor", g, {{"dim", last}, {"start", middle}, {"end", shape.back()}}, dims(b)));
    });
  }
  V rotate(V x, V cos, V sin) {
    const std::int64_t d = dims(x).back();
    const V straight = mul(x, cos);
    const V left = slice(x, 3, 0, d / 2), right = slice(x, 3, d / 2, d);
    return add(straight, mul(cat(neg(right), left), sin));
  }
  /// gather_dim becomes whole, scatter_dim this rank's block.
  V allToAll(V x, std::int64_t gather, std::int64_t scatter) {
    const V y = rawAllToAll(x, gather, scatter);
    return derived(y, {x}, [=, this](V g) { accumulate(x, rawAllToAll(g, scatter, gather)); });
  }
  V attention(V q, V k, V v) {
    const ir::NodeId n = node("aten._scaled_dot_product_flash_attention_for_cpu.default",
                              {{"query", use(q)}, {"key", use(k)}, {"value", use(v)}, {"dropout_p", 0.0}, {"is_causal", true}});
    const V out = graph.addOutput(n, type(q), dims(q));
    const V lse = graph.addOutput(n, ir::DType::kF32, {dims(q)[0], dims(q)[1], dims(q)[2]});
    for (const V o : {out, lse}) graph.value(o).storage_bytes = graph.value(o).localBytes();
    return derived(out, {q, k, v}, [=, this](V g) {
      const ir::NodeId b = node("aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
                                {{"grad_out", use(g)}, {"query", use(q)}, {"key", use(k)}, {"value", use(v)}, {"out", use(out)},
                                 {"logsumexp", use(lse)}, {"dropout_p", 0.0}, {"is_causal", true}});
      std::vector<V> grads;
      for (const V of : {q, k, v}) {
        grads.push_back(graph.addOutput(b, type(of), dims(of)));
        graph.value(grads.back()).storage_bytes = graph.value(grads.back()).localBytes();
      }
      accumulate(q, grads[0]);
      accumulate(k, grads[1]);
      accumulate(v, grads[2]);
    });
  }
  V embedding(V weight, V ids) {
    ir::Dims shape = dims(ids);
    shape.push_back(dims(weight)[1]);
    const V y = op("aten.embedding.default", {{"weight", use(weight)}, {"indices", use(ids)}}, type(weight), shape);
    return derived(y, {weight}, [=, this](V g) {
      accumulate(weight, op("aten.embedding_dense_backward.default", {{"grad_output", use(g)}, {"indices", use(ids)},
                            {"num_weights", dims(weight)[0]}, {"padding_idx", std::int64_t{-1}}, {"scale_grad_by_freq", false}},
                            type(weight), dims(weight)));
    });
  }
  V crossEntropy(V logits, V labels) {  // rows, classes; labels: rows
    const V lp = op("aten._log_softmax.default", {{"self", use(logits)}, {"dim", std::int64_t{1}}, {"half_to_float", false}}, ir::DType::kF32, dims(logits));
    derived(lp, {logits}, [=, this](V g) {
      accumulate(logits, op("aten._log_softmax_backward_data.default", {{"grad_output", use(g)}, {"output", use(lp)},
                            {"dim", std::int64_t{1}}, {"input_dtype", ir::DType::kF32}}, ir::DType::kF32, dims(logits)));
    });
    const ir::NodeId n = node("aten.nll_loss_forward.default", {{"self", use(lp)}, {"target", use(labels)}, {"weight", std::monostate{}},
                              {"reduction", std::int64_t{1}}, {"ignore_index", std::int64_t{-100}}});
    const V loss = graph.addOutput(n, ir::DType::kF32, {});
    const V total = graph.addOutput(n, ir::DType::kF32, {});
    for (const V o : {loss, total}) graph.value(o).storage_bytes = 4;
    return derived(loss, {lp}, [=, this](V g) {
      accumulate(lp, op("aten.nll_loss_backward.default", {{"grad_output", use(g)}, {"self", use(lp)}, {"target", use(labels)},
                        {"weight", std::monostate{}}, {"reduction", std::int64_t{1}}, {"ignore_index", std::int64_t{-100}},
                        {"total_weight", use(total)}}, ir::DType::kF32, dims(lp)));
    });
  }

  ir::DType dtype = ir::DType::kBF16;
  std::int64_t ranks = 1;
  bool with_factors = true;

 private:
  template <typename T, typename U = bool>
  static T at(const std::vector<T>& list, V v, U otherwise = false) {
    return static_cast<std::size_t>(v) < list.size() ? list[static_cast<std::size_t>(v)] : T(otherwise);
  }
  ir::NodeId node(const char* name, std::vector<std::pair<const char*, ir::Attribute>> args) {
    const ir::NodeId n = graph.addNode(name, {});
    ir::Node& node = graph.node(n);
    for (auto& [key, value] : args) node.args.push_back({key, std::move(value)});
    node.phase = phase_;
    node.location = location_;
    graph.order.push_back(n);
    return n;
  }
  V derived(V result, std::initializer_list<V> from, std::function<void(V)> f) {
    bool any = false;
    for (const V v : from) any = any || learned(v);
    if (any) {
      setLearned(result);
      onBackward(result, std::move(f));
    }
    return result;
  }
  V rawTranspose(V x, std::int64_t a, std::int64_t b, const char* name = "aten.transpose.int") {
    ir::Dims shape = dims(x);
    std::swap(shape[static_cast<std::size_t>(a)], shape[static_cast<std::size_t>(b)]);
    if (std::string_view(name) == "aten.t.default") return view(name, x, {}, shape);
    return view(name, x, {{"dim0", a}, {"dim1", b}}, shape);
  }
  V rawAllToAll(V x, std::int64_t gather, std::int64_t scatter) {
    ir::Dims shape = dims(x);
    ir::Dims gathered(static_cast<std::size_t>(ranks), shape[static_cast<std::size_t>(gather)]);
    shape[static_cast<std::size_t>(gather)] *= ranks;
    shape[static_cast<std::size_t>(scatter)] /= ranks;
    ir::Dims scattered(static_cast<std::size_t>(ranks), shape[static_cast<std::size_t>(scatter)]);
    return op("sp.all_to_all.default", {{"self", use(x)}, {"gather_dim", gather}, {"gather_blocks", gathered},
              {"scatter_dim", scatter}, {"scatter_blocks", scattered}}, type(x), shape);
  }
  ir::DType wider(V x, V y) const { return ir::sizeOf(type(x)) >= ir::sizeOf(type(y)) ? type(x) : type(y); }
  ir::Dims broadcast(V x, V y) const {
    ir::Dims a = dims(x), b = dims(y);
    while (a.size() < b.size()) a.insert(a.begin(), 1);
    while (b.size() < a.size()) b.insert(b.begin(), 1);
    for (std::size_t d = 0; d < a.size(); ++d) a[d] = std::max(a[d], b[d]);
    return a;
  }
  V reduceTo(V g, V like) {
    if (dims(g) == dims(like)) return g;
    ir::Dims gone;
    const std::size_t extra = dims(g).size() - dims(like).size();
    for (std::size_t d = 0; d < dims(g).size(); ++d)
      if (d < extra || (dims(like)[d - extra] == 1 && dims(g)[d] != 1)) gone.push_back(static_cast<std::int64_t>(d));
    ir::Dims kept = dims(g);
    for (const std::int64_t d : gone) kept[static_cast<std::size_t>(d)] = 1;
    const V sum = op("aten.sum.dim_IntList", {{"self", use(g)}, {"dim", gone}, {"keepdim", true}}, type(g), kept);
    return kept == dims(like) ? sum : view("aten.view.default", sum, {{"size", dims(like)}}, dims(like));
  }

  ir::Phase phase_ = ir::Phase::kForward;
  ir::LocationRef location_;
  std::vector<bool> learned_;
  std::vector<V> gradients_;
  std::vector<std::pair<V, std::function<void(V)>>> tape_;
};

/// The step of rank 0 of `ranks`, as build-joint and sync-gradients leave it (without the gradients' all-reduces).
inline ir::Graph llamaJoint(const LlamaShape& s) {
  JointBuilder b;
  b.graph.name = "llama";
  b.graph.mesh.axes = {{"sp", static_cast<int>(s.ranks)}};
  b.dtype = s.dtype;
  b.ranks = s.ranks;
  b.with_factors = s.factors;
  using V = JointBuilder::V;
  const std::int64_t local = s.seq / s.ranks, head = s.hidden / s.heads;
  const auto weight = [&](const std::string& name, ir::Dims shape) {
    const V v = b.parameter(name, std::move(shape));
    b.setLearned(v);
    return v;
  };
  struct Layer { V norm1, q, k, v, o, norm2, gate, up, down; };
  const V table = weight("model.embed_tokens.weight", {s.vocab, s.hidden});
  std::vector<Layer> layers;
  for (int i = 0; i < s.layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    layers.push_back({weight(p + "input_layernorm.weight", {s.hidden}), weight(p + "self_attn.q_proj.weight", {s.heads * head, s.hidden}),
                      weight(p + "self_attn.k_proj.weight", {s.kv_heads * head, s.hidden}), weight(p + "self_attn.v_proj.weight", {s.kv_heads * head, s.hidden}),
                      weight(p + "self_attn.o_proj.weight", {s.hidden, s.heads * head}), weight(p + "post_attention_layernorm.weight", {s.hidden}),
                      weight(p + "mlp.gate_proj.weight", {s.ffn, s.hidden}), weight(p + "mlp.up_proj.weight", {s.ffn, s.hidden}),
                      weight(p + "mlp.down_proj.weight", {s.hidden, s.ffn})});
  }
  const V norm = weight("model.norm.weight", {s.hidden}), head_weight = weight("lm_head.weight", {s.vocab, s.hidden});
  const V frequencies = b.input("model.rotary_emb.inv_freq", ir::DType::kF32, {head / 2}, ir::InputKind::kBuffer);
  const V ids = b.sequence(b.input("input_ids", ir::DType::kI64, {1, s.seq}, ir::InputKind::kUser), 1);
  const V labels = b.sequence(b.input("labels", ir::DType::kI64, {1, s.seq}, ir::InputKind::kUser), 1);
  const V positions = b.sequence(b.input("position_ids", ir::DType::kI64, {1, s.seq}, ir::InputKind::kUser), 1);
  const ir::Dims blocks(static_cast<std::size_t>(s.ranks), local);
  const auto sliceSequence = [&](V x, std::int64_t dim) {
    ir::Dims shape = b.dims(x);
    shape[static_cast<std::size_t>(dim)] = local;
    return b.sequence(b.op("sp.slice.default", {{"self", b.use(x)}, {"dim", dim}, {"blocks", blocks}}, b.type(x), shape), static_cast<std::size_t>(dim));
  };

  b.inModule("model.embed_tokens");
  V x = b.sequence(b.embedding(table, sliceSequence(ids, 1)), 1);
  b.inModule("model.rotary_emb");
  const V column = b.view("aten.unsqueeze.default", positions, {{"dim", std::int64_t{2}}}, {1, s.seq, 1});
  const V angle = b.mul(b.cast(column, ir::DType::kF32), frequencies);
  const V angles = b.cat(angle, angle);
  const auto rotary = [&](const char* f) {
    const V whole = b.cast(b.op(f, {{"self", b.use(angles)}}, ir::DType::kF32, b.dims(angles)), s.dtype);
    const V part = sliceSequence(whole, 1);
    return b.view("aten.unsqueeze.default", part, {{"dim", std::int64_t{1}}}, {1, 1, local, head});
  };
  const V cos = rotary("aten.cos.default"), sin = rotary("aten.sin.default");
  for (int i = 0; i < s.layers; ++i) {
    const Layer& l = layers[static_cast<std::size_t>(i)];
    const std::string path = "model.layers." + std::to_string(i);
    b.inModule(path + ".input_layernorm");
    const V h = b.rmsNorm(x, l.norm1);
    b.inModule(path + ".self_attn");
    const auto split = [&](V t, std::int64_t n) { return b.transpose(b.reshape(t, {1, local, n, head}), 1, 2); };
    const V q0 = split(b.linear(h, l.q), s.heads), k0 = split(b.linear(h, l.k), s.kv_heads), v0 = split(b.linear(h, l.v), s.kv_heads);
    const V q = b.allToAll(b.rotate(q0, cos, sin), 2, 1), k = b.allToAll(b.rotate(k0, cos, sin), 2, 1), v = b.allToAll(v0, 2, 1);
    const V mixed = b.allToAll(b.attention(q, k, v), 1, 2);
    const V joined = b.reshape(b.transpose(mixed, 1, 2), {1, local, s.hidden}, "aten._unsafe_view.default");
    x = b.sequence(b.add(x, b.linear(joined, l.o)), 1);
    b.inModule(path + ".post_attention_layernorm");
    const V m = b.rmsNorm(x, l.norm2);
    b.inModule(path + ".mlp");
    const V gated = b.mul(b.silu(b.linear(m, l.gate)), b.linear(m, l.up));
    const V out = b.linear(gated, l.down);
    b.inModule(path);
    x = b.sequence(b.add(x, out), 1);
  }
  b.inModule("model.norm");
  const V last = b.rmsNorm(x, norm);
  b.inModule("lm_head");
  const V logits = b.cast(b.linear(last, head_weight), ir::DType::kF32);
  b.inModule("");
  const V rows = b.reshape(logits, {local, s.vocab});
  const V targets = b.view("aten.view.default", sliceSequence(labels, 1), {{"size", ir::Dims{local}}}, {local});
  b.backward(b.crossEntropy(rows, targets));
  return std::move(b.graph);
}

}  // namespace spscope::testing
