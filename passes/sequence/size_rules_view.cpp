// SPDX-License-Identifier: Apache-2.0
// Sizes through views and parts: reshape, permute, expand, slice, select, split, cat, pad.
#include <algorithm>

#include "core/base/strings.h"
#include "passes/sequence/rules.h"
#include "passes/sequence/size_rules.h"

namespace spscope::passes {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

namespace {

constexpr std::int64_t kNear = 4;  ///< a literal at most so far from the end belongs to the end

long long ll(std::int64_t n) { return static_cast<long long>(n); }

/// Where a bound that the literal leaves open belongs; kOpen: cannot be told.
SizeCut::Bound guess(std::int64_t at, std::int64_t n) {
  if (at * 4 <= n) return SizeCut::Bound::kStart;
  if (n - at <= kNear && at * 2 > n) return SizeCut::Bound::kEnd;
  return SizeCut::Bound::kOpen;
}

}  // namespace

// --- reshape --------------------------------------------------------------------------------------------------------

std::vector<AtomList> SizeRules::reshaped(const Node& n, const std::vector<AtomList>& from, const ir::Dims& shape,
                                          const std::vector<bool>& inferred) {
  std::vector<Atom> pieces;
  for (const AtomList& list : from) pieces.insert(pieces.end(), list.begin(), list.end());
  std::vector<AtomList> out(shape.size());
  std::size_t next = 0, k = 0;
  while (k < shape.size()) {
    if (shape[k] == 1) {
      ++k;
      continue;
    }
    // The smallest group of pieces and dims with equal products.
    std::vector<std::size_t> group;
    AtomList used;
    std::int64_t dims_product = 1, pieces_product = 1;
    do {
      if (dims_product <= pieces_product && k < shape.size()) {
        if (shape[k] != 1) group.push_back(k), dims_product *= shape[k];
        ++k;
      } else if (next < pieces.size()) {
        used.push_back(pieces[next]);
        pieces_product *= system_.oldSize(pieces[next++]);
      } else {
        break;
      }
    } while (dims_product != pieces_product || used.empty());
    if (dims_product != pieces_product) {  // an empty value, or a shape that is not the operand's
      for (std::size_t d : group) out[d] = fixed(shape[d], "the sizes of " + n.op.str() + " are not those of its operand");
      system_.pin(used, "the sizes of " + n.op.str() + " are not those of its operand", n.id);
      continue;
    }
    // Consume the pieces left to right; one that is larger than what a dim still needs is split.
    bool fits = true;
    std::size_t at = 0;
    AtomList rest = used;
    for (std::size_t d : group) {
      std::int64_t need = shape[d];
      while (need > 1 && fits) {
        const std::int64_t size = system_.oldSize(rest[at]);
        if (need % size == 0) {
          out[d].push_back(rest[at++]);
          need /= size;
        } else if (size % need == 0) {
          bool inner_inferred = false;  // [4, -1] of S: the second one follows
          for (std::size_t other : group) inner_inferred = inner_inferred || (other > d && inferred[other]);
          const auto [outer, inner] = system_.split(rest[at], need, inner_inferred && !inferred[d], n.id);
          out[d].push_back(outer);
          rest[at] = inner;
          need = 1;
        } else {
          fits = false;
        }
      }
    }
    if (fits) continue;
    SizeEquation e;
    e.at = n.id;
    for (std::size_t d : group) {
      out[d] = literal(shape[d], n.id);
      e.lhs.push_back(out[d][0]);
      if (inferred[d]) e.prefer.push_back(out[d][0]);
    }
    e.terms = {used};
    e.reason = "a reshape mixes the parts of several dims: [" + join(shape, ", ") + "]";
    system_.add(std::move(e));
  }
  return out;
}

void SizeRules::view(const Node& n) {
  const ValueId x = operands(n)[0];
  std::vector<bool> inferred(shape(n.outputs[0]).size(), false);
  for (const char* name : {"size", "shape"})
    if (const auto given = ir::intListArg(n, name); given && given->size() == inferred.size())
      for (std::size_t d = 0; d < inferred.size(); ++d) inferred[d] = (*given)[d] == -1;
  if (const auto sizes = ir::intListArg(n, "sizes")) {  // unflatten
    const int at = normDim(ir::intArg(n, "dim", 0), rank(x));
    for (std::size_t i = 0; i < sizes->size(); ++i) inferred[static_cast<std::size_t>(at) + i] = (*sizes)[i] == -1;
  }
  std::vector<AtomList> from = dims(x);
  const std::string_view base = ir::baseName(n.op);
  std::vector<AtomList> out;
  if (base == "view_as_real") {
    out = from;
    out.push_back(fixed(2, "a complex number has two parts"));
  } else if (base == "view_as_complex") {
    out.assign(from.begin(), from.end() - 1);
  } else {
    out = reshaped(n, from, shape(n.outputs[0]), inferred);
  }
  set(n, 0, std::move(out));
}

void SizeRules::permute(const Node& n) {
  const ValueId x = operands(n)[0];
  const int r = rank(x);
  std::vector<int> order(static_cast<std::size_t>(r));
  for (int i = 0; i < r; ++i) order[static_cast<std::size_t>(i)] = i;
  const std::string_view base = ir::baseName(n.op);
  if (base == "permute") {
    const auto given = ir::intListArg(n, "dims");
    for (std::size_t i = 0; given && i < given->size(); ++i) order[i] = normDim((*given)[i], r);
  } else if (base == "numpy_T") {
    std::reverse(order.begin(), order.end());
  } else if (base == "mT" || base == "t") {
    if (r >= 2) std::swap(order[static_cast<std::size_t>(r) - 1], order[static_cast<std::size_t>(r) - 2]);
  } else if (r > 0) {
    const bool axes = base == "swapaxes";
    std::swap(order[static_cast<std::size_t>(normDim(ir::intArg(n, axes ? "axis0" : "dim0", 0), r))],
              order[static_cast<std::size_t>(normDim(ir::intArg(n, axes ? "axis1" : "dim1", 1), r))]);
  }
  std::vector<AtomList> out;
  for (int d : order) out.push_back(dims(x)[static_cast<std::size_t>(d)]);
  set(n, 0, std::move(out));
}

void SizeRules::expand(const Node& n) {
  const ValueId x = operands(n)[0];
  const ValueId other = ir::useArg(n, "other");  // expand_as
  const ir::Dims& want = shape(n.outputs[0]);
  const int k = static_cast<int>(want.size()) - rank(x);
  std::vector<AtomList> out(want.size());
  for (std::size_t d = 0; d < want.size(); ++d) {
    const int dx = static_cast<int>(d) - k;
    if (dx >= 0 && shape(x)[static_cast<std::size_t>(dx)] == want[d]) {
      out[d] = dims(x)[static_cast<std::size_t>(dx)];
      if (other != kNone) system_.unify(out[d], dims(other)[d], n.id);
    } else {
      out[d] = other != kNone ? dims(other)[d] : literal(want[d], n.id);
    }
  }
  set(n, 0, std::move(out));
}

void SizeRules::repeat(const Node& n) {
  const ValueId x = operands(n)[0];
  const auto repeats = ir::intListArg(n, ir::baseName(n.op) == "tile" ? "dims" : "repeats");
  const ir::Dims& want = shape(n.outputs[0]);
  if (!repeats || repeats->size() != want.size()) return unknown(n);
  const int k = static_cast<int>(want.size()) - rank(x);
  std::vector<AtomList> out(want.size());
  for (std::size_t d = 0; d < want.size(); ++d) {
    out[d] = literal((*repeats)[d], n.id);
    if (static_cast<int>(d) >= k)
      for (Atom a : dims(x)[d - static_cast<std::size_t>(k)]) out[d].push_back(a);
  }
  set(n, 0, std::move(out));
}

void SizeRules::repeatInterleave(const Node& n) {
  const ValueId x = ir::useArg(n, "self");
  const ir::Attribute* dim = n.find("dim");
  const std::int64_t count = ir::intArg(n, "repeats", 0);
  if (x == kNone || count < 1 || !dim || !std::holds_alternative<std::int64_t>(*dim)) return unknown(n);
  std::vector<AtomList> out = dims(x);
  for (Atom a : literal(count, n.id)) out[static_cast<std::size_t>(normDim(std::get<std::int64_t>(*dim), rank(x)))].push_back(a);
  set(n, 0, std::move(out));
}

// --- parts ----------------------------------------------------------------------------------------------------------

void SizeRules::slice(const Node& n) {
  const ValueId x = operands(n)[0];
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(x)));
  const std::int64_t size = shape(x)[d], part = shape(n.outputs[0])[d], step = ir::intArg(n, "step", 1);
  const std::int64_t start = ir::intArg(n, "start", 0), end = ir::intArg(n, "end", INT64_MAX);
  std::vector<AtomList> out = dims(x);
  const bool to_the_end = end >= size;
  if (step != 1) {
    if (size % step == 0 && to_the_end && start >= 0 && start < step) {  // every step-th element
      out[d] = part == 1 ? AtomList{} : AtomList{system_.free(part, n.id)};
      if (part != 1) {
        SizeEquation e;
        e.lhs = dims(x)[d];
        e.terms = {{system_.pinned(step, strf("the slice has the step %lld", ll(step))), out[d][0]}};
        e.prefer = {out[d][0]};
        e.at = n.id;
        system_.add(std::move(e));
      }
    } else {
      system_.pin(dims(x)[d], strf("a slice from %lld to %lld in steps of %lld", ll(start), ll(end), ll(step)), n.id);
      out[d] = fixed(part, "a strided slice");
    }
    set(n, 0, std::move(out));
    return;
  }
  const bool table = !dims(x)[d].empty() && system_.isPinned(dims(x)[d]);
  if (part == size && !(table && end == size)) {
    // The whole dim; an explicit end on what is no table is the length itself.
    if (end != INT64_MAX && end > size) {
      SizeCut cut{dims(x)[d], kNone, 0, end, size, SizeCut::Bound::kStart, SizeCut::Bound::kStart, true, {}};
      cuts_[n.id] = cut;  // "the first 1024": checked against the new length
      cut_order_.push_back(n.id);
    }
    set(n, 0, std::move(out));
    return;
  }
  SizeCut cut;
  cut.whole = dims(x)[d];
  cut.n = size;
  cut.start = std::clamp<std::int64_t>(start < 0 ? start + size : start, 0, size);
  cut.end = std::clamp<std::int64_t>(end < 0 ? end + size : end, 0, size);
  cut.start_at = start < 0 ? SizeCut::Bound::kEnd : start == 0 ? SizeCut::Bound::kStart : SizeCut::Bound::kOpen;
  cut.end_at = end < 0 || end == INT64_MAX || end > size ? SizeCut::Bound::kEnd : SizeCut::Bound::kOpen;
  if (table) {  // what is taken of a table is known by its use
    const bool stored = graph_.value(x).producer == kNone;
    if (part == 1) out[d] = {};
    else if (cut.end_at == SizeCut::Bound::kEnd) out[d] = fixed(part, "a slice to the end: " + system_.reasonOf(dims(x)[d]));
    else out[d] = {system_.free(part, n.id, stored)};
    cut.start_at = SizeCut::Bound::kStart;
    cut.decided = true;
  } else {
    out[d] = part == 1 ? AtomList{} : AtomList{system_.free(part, n.id)};
  }
  cut.part = out[d].empty() ? kNone : out[d][0];
  cuts_[n.id] = cut;
  cut_order_.push_back(n.id);
  set(n, 0, std::move(out));
}

bool SizeRules::applyCut(NodeId at, SizeCut& cut, bool decide) {
  using Bound = SizeCut::Bound;
  if (cut.decided) return false;
  if (cut.part != kNone && system_.lengthOf(cut.whole) == Length::kWidth && system_.difference(cut.whole, decide)) {
    // Halves of a head, thirds of a product: parts of a width stay the same part of it.
    const std::int64_t part = cut.end - cut.start;
    if (part <= 0) {  // what is left of a head behind a rotary part that is all of it: nothing
      system_.pin(cut.part, "an empty part", at);
      cut.start_at = cut.start == cut.n ? SizeCut::Bound::kEnd : SizeCut::Bound::kStart;
      cut.decided = true;
      return true;
    }
    if (cut.n % part != 0 || cut.start % part != 0) {
      system_.refuse({at, Length::kWidth, cut.n, 0, "a slice that is no whole part of its dim"});
      return false;
    }
    SizeEquation e;
    e.lhs = cut.whole;
    e.terms = {{system_.pinned(cut.n / part, "parts of a dim"), cut.part}};
    e.at = at;
    system_.add(std::move(e));
    cut.places = cut.start / part;
    cut.decided = true;
    return true;
  }
  if (all_ && decide && cut.part != kNone && !system_.difference(cut.part) && system_.difference(cut.whole, false) == 0) {
    system_.pin(cut.part, "a part of a dim that stays", at);
    return true;
  }
  const auto whole = system_.difference(cut.whole, decide);
  const auto part = cut.part == kNone ? std::optional<std::int64_t>(0) : system_.difference(cut.part);
  if (whole && *whole != 0) {
    Bound start = cut.start_at, end = cut.end_at;
    if (decide || part) {  // by use: the part keeps its size, or changes as the whole does
      if (part && end == Bound::kOpen && start == Bound::kStart) end = *part == *whole ? Bound::kEnd : *part == 0 ? Bound::kStart : Bound::kOpen;
      if (part && start == Bound::kOpen && end == Bound::kEnd && cut.part != kNone)
        start = *part == *whole ? Bound::kStart : *part == 0 ? Bound::kEnd : Bound::kOpen;
    }
    if ((start == Bound::kOpen || end == Bound::kOpen) && decide) {
      if (start == Bound::kOpen) start = guess(cut.start, cut.n);
      if (end == Bound::kOpen) end = guess(cut.end, cut.n);
      if (start == Bound::kOpen || end == Bound::kOpen) {
        const bool is_end = end == Bound::kOpen;
        system_.refuse({at, system_.lengthOf(cut.whole), cut.n, cut.n + *whole,
                        strf("the slice's %s %lld may be counted from the start or from the end", is_end ? "end" : "start",
                             ll(is_end ? cut.end : cut.start))});
        return false;
      }
    }
    if (start == Bound::kOpen || end == Bound::kOpen) return false;
    cut.start_at = start, cut.end_at = end;
    cut.decided = true;
    if (cut.part == kNone) return true;
    if (end == Bound::kEnd && start == Bound::kStart) {
      SizeEquation e;  // the part moves with the whole
      e.lhs = {cut.part};
      e.terms = {cut.whole};
      e.at = at;
      system_.add(std::move(e));
    } else if (end != start) {
      system_.refuse({at, system_.lengthOf(cut.whole), cut.n, cut.n + *whole, "a slice from near the end to near the start"});
    } else {
      system_.pin(cut.part, strf("a slice keeps %lld entries", ll(system_.oldSize(cut.part))), at);
    }
    return true;
  }
  if (decide && part && *part != 0 && cut.whole.size() == 1 && !system_.difference(cut.whole[0]) &&
      cut.start_at != Bound::kEnd && guess(cut.end, cut.n) == Bound::kEnd) {
    // The part follows a length and ends where the whole ends: the whole (a range, say) follows too.
    cut.start_at = Bound::kStart, cut.end_at = Bound::kEnd;
    cut.decided = true;
    system_.unify(cut.part, cut.whole[0], at);
    return true;
  }
  return false;
}

std::pair<std::int64_t, std::int64_t> SizeRules::newBounds(const SizeCut& cut) const {
  const std::int64_t moved = system_.difference(cut.whole, true).value_or(0);
  if (cut.part == kNone && cut.end > cut.n) return {cut.start, cut.end};  // clamped
  if (cut.places) return {*cut.places * system_.newSize(cut.part), (*cut.places + 1) * system_.newSize(cut.part)};
  const std::int64_t start = cut.start + (cut.start_at == SizeCut::Bound::kEnd ? moved : 0);
  return {start, start + (cut.part == kNone ? 1 : system_.newSize(cut.part))};
}

void SizeRules::select(const Node& n) {
  const ValueId x = operands(n)[0];
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(x)));
  picks_[n.id] = {dims(x)[d], ir::intArg(n, "index", 0)};
  std::vector<AtomList> out = dims(x);
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(d));
  set(n, 0, std::move(out));
}

std::int64_t SizeRules::newIndex(const SizePick& pick) const {
  const std::int64_t moved = system_.difference(pick.whole, true).value_or(0);
  if (pick.index < 0 || moved == 0) return pick.index;
  switch (guess(pick.index + 1, system_.oldSize(pick.whole))) {
    case SizeCut::Bound::kEnd: return pick.index + moved;
    case SizeCut::Bound::kStart: return pick.index;
    case SizeCut::Bound::kOpen: return pick.index == 0 ? 0 : -1 - pick.index;  // refused by check()
  }
  return pick.index;
}

void SizeRules::splitAnywhere(const Node& n, ValueId x, std::size_t d) {  // q, k and v of one product: each follows its use
  SizeEquation e;
  e.lhs = dims(x)[d];
  e.prefer = dims(x)[d];
  e.at = n.id;
  for (std::size_t i = 0; i < n.outputs.size(); ++i) {
    std::vector<AtomList> out = dims(x);
    if (n.outputs[i] == kNone) return unknown(n);
    out[d] = {system_.free(shape(n.outputs[i])[d], n.id)};
    e.terms.push_back(out[d]);
    set(n, i, std::move(out));
  }
  system_.add(std::move(e));
}

void SizeRules::split(const Node& n) {
  const ValueId x = operands(n)[0];
  const std::string_view base = ir::baseName(n.op);
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(x)));
  const std::int64_t size = shape(x)[d];
  const std::size_t parts = n.outputs.size();
  bool chunks = base == "chunk" && parts > 1 && size % static_cast<std::int64_t>(parts) == 0;
  if (all_ && parts > 1 && base != "unbind")
    chunks = std::all_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return v != kNone && shape(v)[d] * static_cast<std::int64_t>(parts) == size; });
  if (parts > 1 && !chunks && all_ && base == "split_with_sizes") return splitAnywhere(n, x, d);
  if (parts > 1 && !chunks)
    system_.pin(dims(x)[d], base == "unbind" ? strf("unbind gives %zu values", parts)
                                             : strf("%s cuts the dim of %lld at fixed places", n.op.str().c_str(), ll(size)),
                n.id);
  Atom part = kNone;
  for (std::size_t i = 0; i < parts; ++i) {
    if (n.outputs[i] == kNone) continue;
    std::vector<AtomList> out = dims(x);
    const std::int64_t m = base == "unbind" ? 1 : shape(n.outputs[i])[d];
    if (base == "unbind") {
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(d));
    } else if (chunks && m != 1) {
      if (part == kNone) {
        part = system_.free(m, n.id);
        SizeEquation e;
        e.lhs = dims(x)[d];
        e.terms = {{system_.pinned(static_cast<std::int64_t>(parts), strf("chunk makes %zu parts", parts)), part}};
        e.prefer = {part};
        e.at = n.id;
        system_.add(std::move(e));
      }
      out[d] = {part};
    } else if (parts > 1) {
      out[d] = m == 1 ? AtomList{} : fixed(m, system_.reasonOf(dims(x)[d]));
    }
    set(n, i, std::move(out));
  }
}

void SizeRules::cat(const Node& n) {
  std::vector<ValueId> ops;
  const ValueId out = n.outputs[0];
  for (ValueId v : operands(n))
    if (rank(v) == rank(out)) ops.push_back(v);  // an empty 1-D operand is ignored by cat
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(out)));
  std::vector<AtomList> dims_out = dims(ops[0]);
  SizeEquation e;
  for (ValueId v : ops) {
    for (std::size_t k = 0; k < dims_out.size(); ++k)
      if (k != d) system_.unify(dims_out[k], dims(v)[k], n.id);
    e.terms.push_back(dims(v)[d]);
  }
  if (ops.size() > 1) {
    dims_out[d] = AtomList{system_.free(shape(out)[d], n.id)};
    e.lhs = dims_out[d];
    e.prefer = dims_out[d];
    e.at = n.id;
    std::vector<Atom> sources;
    for (const AtomList& t : e.terms) sources.insert(sources.end(), t.begin(), t.end());
    std::stable_sort(sources.begin(), sources.end(), [&](Atom a, Atom b) { return system_.oldSize(a) > system_.oldSize(b); });
    for (Atom a : sources) e.prefer.push_back(a);
    system_.add(std::move(e));
  }
  set(n, 0, std::move(dims_out));
}

void SizeRules::stack(const Node& n) {
  const std::vector<ValueId> ops = operands(n);
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", 0), rank(n.outputs[0])));
  std::vector<AtomList> out = dims(ops[0]);
  for (ValueId v : ops)
    for (std::size_t k = 0; k < out.size(); ++k) system_.unify(out[k], dims(v)[k], n.id);
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(d),
             fixed(static_cast<std::int64_t>(ops.size()), strf("stack joins %zu values", ops.size())));
  set(n, 0, std::move(out));
}

void SizeRules::pad(const Node& n) {
  const ValueId x = operands(n)[0], out = n.outputs[0];
  const auto pads = ir::intListArg(n, "pad");
  if (!pads) return unknown(n);
  std::vector<AtomList> result = dims(x);
  for (std::size_t i = 0; i < pads->size() / 2; ++i) {
    const std::size_t d = static_cast<std::size_t>(rank(x)) - 1 - i;
    if ((*pads)[2 * i] == 0 && (*pads)[2 * i + 1] == 0) continue;
    const std::int64_t m = shape(out)[d];
    result[d] = m == 1 ? AtomList{} : AtomList{system_.free(m, n.id)};
    SizeEquation e;  // as many entries more, whatever the length
    e.lhs = result[d];
    e.terms = {dims(x)[d]};
    e.at = n.id;
    system_.add(std::move(e));
  }
  set(n, 0, std::move(result));
}

void SizeRules::difference(const Node& n) {
  const ValueId x = ir::useArg(n, "self"), out = n.outputs[0];
  const std::size_t d = static_cast<std::size_t>(normDim(ir::intArg(n, "dim", -1), rank(x)));
  std::vector<AtomList> result = dims(x);
  if (shape(x)[d] != shape(out)[d]) {
    result[d] = shape(out)[d] == 1 ? AtomList{} : AtomList{system_.free(shape(out)[d], n.id)};
    SizeEquation e;
    e.lhs = result[d];
    e.terms = {dims(x)[d]};
    e.at = n.id;
    system_.add(std::move(e));
  }
  set(n, 0, std::move(result));
}

}  // namespace spscope::passes
