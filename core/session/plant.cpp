// SPDX-License-Identifier: Apache-2.0
#include "core/session/plant.h"

#include <algorithm>

#include "core/base/strings.h"
#include "passes/faults/plant.h"

namespace spscope::session {
namespace {

using passes::Fault;
using passes::FaultInfo;

const ir::Graph* stageAfter(const passes::Compiled& compiled, std::string_view pass) {
  for (const passes::StageRecord& stage : compiled.stages)
    if (stage.name == pass) return stage.graph.get();
  return nullptr;
}

/// splitmix64: the same draws on every machine.
std::uint64_t draw(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

std::vector<FaultSite> faultSitesOf(const passes::Compiled& compiled, int ranks) {
  std::vector<FaultSite> out;
  for (const FaultInfo& info : passes::faultKinds())
    for (const std::string_view pass : info.passes)
      if (const ir::Graph* graph = stageAfter(compiled, pass))
        for (const ir::NodeId id : passes::faultSites(*graph, info.kind, ranks)) out.push_back({info.kind, std::string(pass), graph->node(id).name});
  return out;
}

Result<Fault> resolveFault(const Fault& fault, const std::vector<FaultSite>& sites, const passes::Compiled& compiled, int ranks) {
  Fault out = fault;
  std::uint64_t state = fault.seed;
  if (fault.random) {  // first the kind, so that common nodes do not crowd out rare kinds
    std::vector<passes::FaultKind> kinds;
    for (const FaultSite& s : sites)
      if (s.kind != passes::FaultKind::kLocalAttention && (kinds.empty() || kinds.back() != s.kind)) kinds.push_back(s.kind);
    if (kinds.empty()) return makeError("fault-no-site", "there is no node at which any fault could be made", Outcome::kUsage);
    out.random = false;
    out.kind = kinds[draw(state) % kinds.size()];
  }
  const FaultInfo& info = passes::infoOf(out.kind);
  std::vector<const FaultSite*> fit;
  std::vector<std::string> names;
  for (const FaultSite& s : sites) {
    if (s.kind != out.kind || (!out.pass.empty() && s.pass != out.pass)) continue;
    names.push_back(s.node);
    if (out.node.empty() || out.node == s.node) fit.push_back(&s);
  }
  if (fit.empty()) {
    Error e = makeError("fault-no-site", strf("there is no node%s at which the fault %s could be made", out.node.empty() ? "" : (" %" + out.node).c_str(), std::string(info.name).c_str()),
                        Outcome::kUsage);
    const std::string near = nearest(out.node, names);
    if (!near.empty()) names = {near};
    if (names.size() > 8) names.resize(8), names.emplace_back("...");
    e.legal = join(names, ", ");
    return e;
  }
  // Where one is enough to be named, the first of the usual pass; by the seed where there is one.
  const FaultSite& site = *(fault.random || fault.seed != 0 ? fit[draw(state) % fit.size()] : fit.front());
  out.pass = site.pass;
  const bool everywhere = out.kind == passes::FaultKind::kLocalAttention && fault.node.empty();
  if (!everywhere) out.node = site.node;
  if (info.one_rank && out.rank < 0) out.rank = static_cast<int>(draw(state) % static_cast<std::uint64_t>(ranks));
  if (fault.random) out.seed = draw(state);
  if (out.rank >= ranks) return makeError("usage", strf("--plant: there is no rank %d: they are 0 to %d", out.rank, ranks - 1), Outcome::kUsage);
  if (out.rank >= 0 && !info.one_rank) return makeError("usage", strf("--plant: %s is made on all ranks, or they would run different programs", std::string(info.name).c_str()), Outcome::kUsage);
  ir::Graph copy = *stageAfter(compiled, out.pass);
  for (const ir::NodeId id : copy.order)
    if (copy.node(id).name == site.node) {
      SP_ASSIGN(const ir::NodeId planted, passes::plantFault(copy, out, id, ranks));
      out.planted = copy.node(planted).name;
      break;
    }
  return out;
}

Result<std::vector<Fault>> resolveFaults(const Model& model, const passes::Settings& settings, const std::vector<std::string>& texts, const Request& request) {
  std::vector<Fault> out;
  if (texts.empty()) return out;
  if (settings.dp > 1) return makeError("usage", "--plant: faults are made on the sequence axis only: --dp 1", Outcome::kUsage);
  std::vector<Fault> asked;
  for (const std::string& text : texts) {
    SP_ASSIGN(Fault fault, passes::parseFault(text));
    asked.push_back(std::move(fault));
  }
  CompileRequest what;
  what.settings = settings;
  DiagnosticSink quiet;  // the compilation with the faults says the same
  Request inner = request;
  inner.diagnostics = &quiet;
  SP_ASSIGN(const CompileOutcome right, compile(model, what, inner));
  const std::vector<FaultSite> sites = faultSitesOf(right.compiled, settings.sp);
  for (const Fault& fault : asked) {
    SP_ASSIGN(Fault resolved, resolveFault(fault, sites, right.compiled, settings.sp));
    request.diagnostics->warn("fault-planted", strf("as asked, the result is made wrong: %s in %s, at %%%s", std::string(passes::infoOf(resolved.kind).summary).c_str(), resolved.pass.c_str(),
                                                    resolved.planted.c_str()), "%" + resolved.planted);
    out.push_back(std::move(resolved));
  }
  return out;
}

}  // namespace spscope::session
