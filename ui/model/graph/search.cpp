// SPDX-License-Identifier: Apache-2.0
#include "ui/model/graph/search.h"

#include <algorithm>
#include <array>

#include "core/base/strings.h"
#include "core/ir/text.h"

namespace spscope::ui {
namespace {

constexpr std::array<const char*, 7> kFields = {"name", "op", "arg", "shape", "placement", "module", "source"};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

struct Term {
  int field = -1;  ///< -1: any
  std::string text;
};

std::vector<Term> parse(const std::string& query) {
  std::vector<Term> terms;
  for (const std::string& word : split(lower(query), ' ')) {
    if (word.empty()) continue;
    Term term{-1, word};
    for (std::size_t f = 0; f < kFields.size(); ++f) {
      const std::string prefix = std::string(kFields[f]) + ":";
      if (word.starts_with(prefix) && word.size() > prefix.size()) term = {static_cast<int>(f), word.substr(prefix.size())};
    }
    terms.push_back(std::move(term));
  }
  return terms;
}

}  // namespace

struct SearchIndex::Fields {
  std::array<std::string, kFields.size()> text;
};

std::string placementText(const ir::Value& value) {
  const ir::Placement& p = value.placement;
  if (p.isReplicated()) return "replicated";
  if (p.isPartial()) return "partial";
  std::string tag;
  const auto d = static_cast<std::size_t>(p.dim), f = static_cast<std::size_t>(p.factor);
  if (d < value.factors.size() && f < value.factors[d].size())
    switch (value.factors[d][f].tag) {
      case ir::Tag::kSequence: tag = " (sequence)"; break;
      case ir::Tag::kBatch: tag = " (batch)"; break;
      default: break;
    }
  return "sharded dim " + std::to_string(p.dim) + tag;
}

SearchIndex::SearchIndex(std::shared_ptr<const GraphSource> source) : source_(std::move(source)) {
  auto fields = std::make_shared<std::vector<Fields>>();
  fields->reserve(source_->nodes.size());
  for (const SourceNode& n : source_->nodes) {
    Fields f;
    const ir::Graph& g = n.change == Change::kRemoved ? *source_->previous : *source_->graph;
    if (n.node == ir::kNone) {
      f.text[0] = lower(n.title);
      f.text[1] = "input";
      f.text[3] = lower(n.subtitle);
      f.text[4] = placementText(g.value(n.input));
    } else {
      const ir::Node& node = g.node(n.node);
      f.text[0] = lower(node.name);
      f.text[1] = lower(std::string(node.op.str()));
      for (const ir::Argument& a : node.args) f.text[2] += lower(std::string(a.name.str()) + "=" + ir::attributeText(g, a.value)) + " ";
      for (const ir::ValueId v : node.outputs) {
        if (v == ir::kNone) continue;
        f.text[3] += lower(shapeText(g, g.value(v))) + " ";
        f.text[4] += placementText(g.value(v)) + " ";
      }
      if (node.location) {
        f.text[5] = lower(node.location->module_path + " " + node.location->module_type);
        f.text[6] = lower(node.location->source);
      }
    }
    fields->push_back(std::move(f));
  }
  fields_ = std::move(fields);
}

std::vector<SearchHit> SearchIndex::find(const std::string& query, std::size_t limit, std::size_t* total) const {
  std::vector<SearchHit> hits;
  const std::vector<Term> terms = parse(query);
  if (total) *total = 0;
  if (terms.empty()) return hits;
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    const Fields& f = (*fields_)[i];
    int rank = 0, why = -1;
    bool all = true;
    for (const Term& t : terms) {
      int found = -1;
      for (std::size_t k = 0; k < kFields.size() && found < 0; ++k)
        if ((t.field < 0 || t.field == static_cast<int>(k)) && f.text[k].find(t.text) != std::string::npos) found = static_cast<int>(k);
      if (found < 0) {
        all = false;
        break;
      }
      if (found == 0)
        rank = std::max(rank, f.text[0] == t.text ? 0 : f.text[0].starts_with(t.text) ? 1 : 2);
      else
        rank = std::max(rank, 3 + found), why = why < 0 ? found : why;
    }
    if (!all) continue;
    if (total) ++*total;
    const SourceNode& n = source_->nodes[i];
    SearchHit hit;
    hit.index = static_cast<std::int32_t>(i);
    hit.node = n.node;
    hit.value = n.input;
    hit.rank = rank;
    if (why > 0) hit.why = std::string(kFields[static_cast<std::size_t>(why)]) + " " + f.text[static_cast<std::size_t>(why)].substr(0, 60);
    hits.push_back(std::move(hit));
  }
  std::stable_sort(hits.begin(), hits.end(), [](const SearchHit& a, const SearchHit& b) { return a.rank < b.rank; });
  if (hits.size() > limit) hits.resize(limit);
  for (SearchHit& hit : hits) {
    const SourceNode& n = source_->nodes[static_cast<std::size_t>(hit.index)];
    const ir::Graph& g = n.change == Change::kRemoved ? *source_->previous : *source_->graph;
    hit.title = n.node == ir::kNone ? n.title : g.node(n.node).name;
    hit.detail = n.node == ir::kNone ? "input " + n.subtitle : n.title + "  " + n.subtitle;
    if (n.node != ir::kNone && g.node(n.node).location) hit.detail += "  " + g.node(n.node).location->module_path;
  }
  return hits;
}

}  // namespace spscope::ui
