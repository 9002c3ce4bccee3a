// SPDX-License-Identifier: Apache-2.0
#include "core/ir/hash.h"

#include <cstring>
#include <limits>

namespace spscope::ir {
namespace {

/// Gathers small writes: one call of the hash per 16 KiB instead of one per field.
class Buffered {
 public:
  explicit Buffered(Hasher& hasher) : hasher_(hasher) {}
  void raw(const void* data, std::size_t size) {
    if (size > sizeof buffer_ - used_) {
      flush();
      if (size > sizeof buffer_) return hasher_.bytes(data, size);
    }
    if (size) std::memcpy(buffer_ + used_, data, size);
    used_ += size;
  }
  void number(std::int64_t n) { raw(&n, sizeof n); }
  void text(std::string_view s) {
    number(static_cast<std::int64_t>(s.size()));
    raw(s.data(), s.size());
  }
  void real(double v) {
    if (v != v) v = std::numeric_limits<double>::quiet_NaN();
    raw(&v, sizeof v);
  }
  void dims(const Dims& d) {
    number(static_cast<std::int64_t>(d.size()));
    raw(d.data(), d.size() * sizeof d[0]);
  }
  void flush() {
    hasher_.bytes(buffer_, used_);
    used_ = 0;
  }

 private:
  Hasher& hasher_;
  std::size_t used_ = 0;
  char buffer_[16384];
};

class GraphHash {
 public:
  GraphHash(const Graph& graph, bool with_names)
      : graph_(graph), with_names_(with_names), out_(hasher_), number_(graph.valueCount(), kNone) {}
  std::string run();

 private:
  void attribute(const Attribute& attribute);
  void value(const Value& v);
  void node(const Node& n);
  /// Values are known by the order in which they are defined.
  void use(ValueId id) { out_.number(id == kNone ? -1 : number_[static_cast<std::size_t>(id)]); }
  void define(ValueId id) {
    if (id != kNone) number_[static_cast<std::size_t>(id)] = next_++;
  }

  const Graph& graph_;
  const bool with_names_;
  Hasher hasher_;
  Buffered out_;
  std::vector<std::int32_t> number_;
  std::int32_t next_ = 0;
};

void GraphHash::attribute(const Attribute& a) {
  out_.number(static_cast<std::int64_t>(a.index()));
  struct Visitor {
    GraphHash& h;
    void operator()(std::monostate) const {}
    void operator()(const Use& u) const { h.use(u.value); }
    void operator()(const UseList& l) const {
      h.out_.number(static_cast<std::int64_t>(l.size()));
      for (const Use& u : l) h.use(u.value);
    }
    void operator()(std::int64_t v) const { h.out_.number(v); }
    void operator()(double v) const { h.out_.real(v); }
    void operator()(bool v) const { h.out_.number(v); }
    void operator()(const std::string& v) const { h.out_.text(v); }
    void operator()(const Dims& v) const { h.out_.dims(v); }
    void operator()(const std::vector<double>& v) const {
      h.out_.number(static_cast<std::int64_t>(v.size()));
      for (double d : v) h.out_.real(d);
    }
    void operator()(const std::vector<bool>& v) const {
      h.out_.number(static_cast<std::int64_t>(v.size()));
      for (bool b : v) h.out_.number(b);
    }
    void operator()(const std::vector<std::string>& v) const {
      h.out_.number(static_cast<std::int64_t>(v.size()));
      for (const std::string& s : v) h.out_.text(s);
    }
    void operator()(DType v) const { h.out_.number(static_cast<std::int64_t>(v)); }
    void operator()(MemoryFormat v) const { h.out_.number(static_cast<std::int64_t>(v)); }
    void operator()(Layout v) const { h.out_.number(static_cast<std::int64_t>(v)); }
    void operator()(const Device& v) const { h.out_.text(v.type); }
  };
  std::visit(Visitor{*this}, a);
}

void GraphHash::value(const Value& v) {
  if (with_names_) out_.text(v.name);
  out_.number(static_cast<std::int64_t>(v.dtype) * 16 + static_cast<std::int64_t>(v.placement.kind) * 2 + v.requires_grad);
  out_.dims(v.shape);
  out_.number(static_cast<std::int64_t>(v.factors.size()));
  for (const FactorList& list : v.factors) {
    out_.number(static_cast<std::int64_t>(list.size()));
    for (const Factor& f : list) {
      out_.number(f.size);
      out_.number(static_cast<std::int64_t>(f.tag));
    }
  }
  if (v.placement.isSharded()) {
    out_.number(v.placement.dim);
    out_.number(v.placement.factor);
    out_.dims(v.placement.sizes);
  }
  out_.dims(v.local);
  use(v.storage);
  out_.number(v.storage_bytes);
  out_.number(static_cast<std::int64_t>(v.keep));
}

void GraphHash::node(const Node& n) {
  if (with_names_) {
    out_.number(n.id);
    out_.number(n.forward);
    out_.text(n.name);
  }
  out_.text(n.op.str());
  out_.number(static_cast<std::int64_t>(n.phase) * 2 + n.must_save);
  out_.number(static_cast<std::int64_t>(n.args.size()));
  for (const Argument& a : n.args) {
    out_.text(a.name.str());
    attribute(a.value);
  }
  out_.number(static_cast<std::int64_t>(n.outputs.size()));
  for (ValueId id : n.outputs) {
    out_.number(id == kNone);
    if (id != kNone) value(graph_.value(id));
  }
}

std::string GraphHash::run() {
  if (with_names_) out_.text(graph_.name);
  out_.number(static_cast<std::int64_t>(graph_.form));
  out_.number(graph_.rank);
  out_.number(static_cast<std::int64_t>(graph_.mesh.axes.size()));
  for (const Mesh::Axis& axis : graph_.mesh.axes) {
    out_.text(axis.name);
    out_.number(axis.size);
  }
  // All numbers first: a value's storage may be a later value.
  for (const Input& in : graph_.inputs) define(in.value);
  for (NodeId id : graph_.order)
    for (ValueId v : graph_.node(id).outputs) define(v);
  out_.number(static_cast<std::int64_t>(graph_.inputs.size()));
  for (const Input& in : graph_.inputs) {
    out_.number(static_cast<std::int64_t>(in.kind) * 2 + in.trainable);
    out_.text(in.name);
    out_.number(static_cast<std::int64_t>(in.aliases.size()));
    for (const std::string& alias : in.aliases) out_.text(alias);
    out_.number(in.storage.has_value());
    if (in.storage) {
      out_.text(in.storage->record);
      out_.number(in.storage->offset);
      out_.dims(in.storage->strides);
      out_.number(static_cast<std::int64_t>(in.storage->dtype));
      out_.number(static_cast<std::int64_t>(in.storage->dtype));
    }
    if (in.value != kNone) value(graph_.value(in.value));
  }
  out_.number(static_cast<std::int64_t>(graph_.order.size()));
  for (NodeId id : graph_.order) node(graph_.node(id));
  out_.number(static_cast<std::int64_t>(graph_.outputs.size()));
  for (const Output& o : graph_.outputs) {
    out_.number(static_cast<std::int64_t>(o.kind));
    out_.number(o.input);
    use(o.value);
  }
  out_.flush();
  return hasher_.hex();
}

}  // namespace

std::string planHash(const Graph& graph) { return GraphHash(graph, false).run(); }
std::string contentHash(const Graph& graph) { return GraphHash(graph, true).run(); }

}  // namespace spscope::ir
