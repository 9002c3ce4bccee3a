// SPDX-License-Identifier: Apache-2.0
// spscope inspect: what a file holds, without reading a weight.
#include "core/io/inspect.h"

#include <algorithm>

#include "app/commands/command.h"
#include "app/options.h"
#include "core/base/strings.h"
#include "core/session/stage.h"

namespace spscope::app {
namespace {

std::string shapeText(const ir::Dims& shape, const std::vector<std::string>& symbols) {
  std::vector<std::string> parts;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::string part = std::to_string(shape[d]);
    if (d < symbols.size() && !symbols[d].empty()) part += " (" + symbols[d] + ")";
    parts.push_back(std::move(part));
  }
  return "[" + join(parts, ", ") + "]";
}

Json inputsJson(const std::vector<io::UserInput>& inputs) {
  Json out = Json::array();
  for (const io::UserInput& in : inputs) {
    if (in.input == ir::kNone) continue;  // a constant that the program was traced for
    Json entry = {{"name", in.name}, {"dtype", ir::longName(in.dtype)}, {"shape", in.shape}};
    if (std::any_of(in.symbols.begin(), in.symbols.end(), [](const std::string& s) { return !s.empty(); }))
      entry["symbols"] = in.symbols;
    out.push_back(std::move(entry));
  }
  return out;
}

void fill(Report& report, const io::Inspection& seen) {
  Json& json = report.json;
  json["inputs"] = inputsJson(seen.inputs);
  json["nodes"] = seen.nodes;
  json["ops"] = Json::object();
  for (const auto& [op, count] : seen.ops) json["ops"][op] = count;
  json["attention"] = Json::array();
  for (const io::AttentionInfo& a : seen.attention)
    json["attention"].push_back({{"node", a.node}, {"kind", a.kind}, {"mask", a.mask}, {"heads", a.heads},
                                 {"kv_heads", a.kv_heads}, {"head_dim", a.head_dim},
                                 {"mask_per_head", a.mask_per_head}, {"source", a.source}});
  json["parameters"] = seen.parameters;
  json["trainable"] = seen.trainable;
  json["parameter_bytes"] = seen.parameter_bytes;
  json["written_buffers"] = seen.written_buffers;
  json["sequence"] = {{"input", seen.sequence_input.empty() ? Json() : Json(seen.sequence_input)},
                      {"dim", seen.sequence_input.empty() ? Json() : Json(seen.sequence_dim)},
                      {"length", seen.sequence_input.empty() ? Json() : Json(seen.sequence_length)},
                      {"dynamic", seen.dynamic}};
}

void describe(Page& page, const io::Inspection& seen) {
  page.heading("Inputs");
  std::vector<std::vector<std::string>> rows{{"name", "type", "shape"}};
  for (const io::UserInput& in : seen.inputs)
    rows.push_back({in.name, in.input == ir::kNone ? "constant" : std::string(ir::longName(in.dtype)),
                    in.input == ir::kNone ? "" : shapeText(in.shape, in.symbols)});
  page.table(std::move(rows));
  if (!seen.sequence_input.empty())
    page.line(strf("Sequence: dim %d of %s, length %lld, %s", seen.sequence_dim, seen.sequence_input.c_str(),
                   static_cast<long long>(seen.sequence_length), seen.dynamic ? "symbolic" : "fixed"));
  page.heading("Parameters");
  page.line(strf("%lld elements (%lld trainable), %s", static_cast<long long>(seen.parameters),
                 static_cast<long long>(seen.trainable), formatBytes(seen.parameter_bytes).c_str()));
  for (const std::string& buffer : seen.written_buffers) page.line("The program writes buffer " + buffer);
  page.heading("Attention");
  if (seen.attention.empty()) page.line("none found");
  // Layers repeat: equal ones are one row.
  std::vector<std::vector<std::string>> kinds{{"kind", "mask", "heads", "kv heads", "head dim", "times", "first"}};
  for (const io::AttentionInfo& a : seen.attention) {
    std::vector<std::string> row{a.kind, a.mask, std::to_string(a.heads), std::to_string(a.kv_heads),
                                 std::to_string(a.head_dim), "1", "%" + a.node};
    const auto same = std::find_if(kinds.begin() + 1, kinds.end(), [&](const auto& other) {
      return std::equal(row.begin(), row.begin() + 5, other.begin());
    });
    if (same == kinds.end()) kinds.push_back(std::move(row));
    else (*same)[5] = std::to_string(std::stoi((*same)[5]) + 1);
  }
  if (kinds.size() > 1) page.table(std::move(kinds));
  page.heading(strf("Operators: %lld nodes, %zu kinds", static_cast<long long>(seen.nodes), seen.ops.size()));
  std::vector<std::pair<std::string, std::int64_t>> ops(seen.ops.begin(), seen.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::vector<std::string>> counts{{"op", "times"}};
  for (std::size_t i = 0; i < ops.size() && i < 20; ++i) counts.push_back({ops[i].first, std::to_string(ops[i].second)});
  page.table(std::move(counts));
  if (ops.size() > 20) page.line(strf("and %zu more kinds; all of them with --json", ops.size() - 20));
}

class Inspect : public Command {
 public:
  std::string name() const override { return "inspect"; }
  std::string summary() const override { return "what a file holds: inputs, operators, attention, parameters"; }
  std::string description() const override {
    return "Shows what a .pt2 file or a saved stage holds: inputs and which of their dimensions is the sequence, parameters, attention, and how often each "
           "operator occurs. No weight is read, so a file of any size opens at once.\n"
           "Start here with a new model: it says whether the file is one that compile takes.";
  }
  std::string examples() const override {
    return "  spscope inspect resources/samples/llama_gqa.pt2\n"
           "  spscope inspect resources/samples/llama_gqa.pt2 --check   checksums of every entry too\n"
           "  spscope inspect stages/04-plan-sequence.txt              a stage saved by compile --stages";
  }
  std::string meaningOfNo() const override { return "a checksum differs, or an output could not be written"; }
  void declare(CLI::App& command) override {
    model_.declare(command, false);
    command.option_defaults()->group("Model");
    command.add_flag("--check", check_, "compare every entry of the archive with its checksum");
  }

  bool mayBeAbandoned() const override { return true; }
  Result<int> run(Report& report, const session::Request& request) override {
    report.setModel(model_.path);
    SP_ASSIGN(const auto stage, session::readStage(model_.path));
    if (stage) {
      const io::Inspection seen = io::inspect(stage->graph);
      fill(report, seen);
      for (const auto& [key, value] : stage->header.entries) report.json["header"][key] = value;
      const std::string* name = stage->header.find("stage");
      report.page.line("A graph in text form" + (name ? ": stage " + *name : std::string()));
      describe(report.page, seen);
      return 0;
    }
    SP_ASSIGN(const session::OpenRequest what, model_.request());
    io::OpenOptions options;
    options.graph_name = what.graph_name;
    options.seq = what.seq;
    options.batch = what.batch;
    options.sequence_marks = what.sequence_marks;
    options.structure_only = true;
    options.cancel = request.cancel;
    SP_ASSIGN(const io::ImportedModel model, io::openModel(model_.path, options, report.diagnostics));
    const io::Inspection seen = io::inspect(model);
    fill(report, seen);
    addFile(report, model);
    describe(report.page, seen);
    if (check_) {
      SP_TRY(model.archive->checkCrcs());
      report.json["checked"] = true;
      report.page.line(strf("\nAll %zu entries match their checksums.", model.archive->entries().size()));
    }
    return 0;
  }

 private:
  static void addFile(Report& report, const io::ImportedModel& model) {
    Json& json = report.json;
    json["file"] = {{"torch", model.torch_version},
                    {"schema", strf("%d.%d", model.schema_major, model.schema_minor)},
                    {"bytes", model.archive->fileSize()},
                    {"graphs", model.graph_names},
                    {"graph", model.graph_name},
                    {"weightless", model.weightless},
                    {"autocast", model.autocast}};
    json["symbols"] = Json::array();
    for (const io::SymbolInfo& s : model.symbols)
      json["symbols"].push_back({{"name", s.name}, {"min", s.min}, {"max", s.max}, {"hint", s.hint}, {"value", s.value}});
    report.page.line(strf("%s: exported program of torch %s, %s%s", model.archive->path().c_str(),
                          model.torch_version.empty() ? "<= 2.7" : model.torch_version.c_str(),
                          formatBytes(static_cast<std::int64_t>(model.archive->fileSize())).c_str(),
                          model.weightless ? ", without weights" : ""));
    if (model.graph_names.size() > 1)
      report.page.line("Graph " + model.graph_name + " of " + join(model.graph_names, ", "));
    for (const io::SymbolInfo& s : model.symbols)
      report.page.line(strf("Symbol %s: %lld at export, declared from %lld to %s", s.name.c_str(),
                            static_cast<long long>(s.hint), static_cast<long long>(s.min),
                            s.max == INT64_MAX ? "any" : std::to_string(s.max).c_str()));
  }

  ModelFlags model_;
  bool check_ = false;
};

}  // namespace

std::unique_ptr<Command> makeInspect() { return std::make_unique<Inspect>(); }

}  // namespace spscope::app
