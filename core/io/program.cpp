// SPDX-License-Identifier: Apache-2.0
#include "core/io/program.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/io/importer.h"

namespace spscope::io {
namespace {

Result<std::string> chooseProgram(const Archive& archive, const std::string& wanted) {
  const auto& names = archive.programs();
  if (wanted.empty()) {
    if (names.size() == 1) return names[0];
    Error error = makeError("graph-choose", strf("%s holds %zu graphs: %s", archive.path().c_str(), names.size(),
                                                 join(names, ", ").c_str()), Outcome::kUsage);
    error.legal = "--graph " + join(names, ", ");
    return error;
  }
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  const std::string near = nearest(wanted, names);
  Error error = makeError("graph-unknown", archive.path() + " holds no graph " + wanted +
                                               (near.empty() ? "" : "; did you mean " + near + "?"), Outcome::kUsage);
  error.legal = "--graph " + join(names, ", ");
  return error;
}

}  // namespace

Result<ImportedModel> openModel(const std::string& path, const OpenOptions& options, DiagnosticSink& diagnostics) {
  SP_ASSIGN(auto file, MappedFile::open(path));
  return openModel(std::move(file), options, diagnostics);
}

Result<ImportedModel> openModel(std::shared_ptr<const MappedFile> file, const OpenOptions& options,
                                DiagnosticSink& diagnostics) {
  SP_ASSIGN(auto archive, Archive::open(std::move(file)));
  const std::string& path = archive->path();
  if (archive->kind() == ArchiveKind::kOther)
    return makeError("archive-kind", path + " is " + archive->description() + ", not a file of torch.export.save");
  ImportedModel model;
  SP_ASSIGN(model.graph_name, chooseProgram(*archive, options.graph_name));
  model.graph_names = archive->programs();
  model.archive = archive;
  model.graph.name = identifier(archive->root().empty() ? model.graph_name : archive->root());

  const std::string entry = archive->kind() == ArchiveKind::kProgramOld ? "serialized_exported_program.json"
                                                                        : "models/" + model.graph_name + ".json";
  SP_ASSIGN(const auto text, archive->read(entry));
  JsonDocument document;
  SP_TRY(document.parse(text, archive->slackAfter(text), path + ":" + entry));
  SP_TRY(options.cancel.check());
  auto weights = WeightIndex::read(*archive, model.graph_name);
  const bool readable = weights.has_value();
  if (!readable) {
    if (!options.structure_only) return std::move(weights).error();
    diagnostics.warn(weights.error().code, weights.error().message + "; the graph can be looked at, not run");
    weights = WeightIndex();
  }
  Importer importer(document.root(), *weights, readable, options, diagnostics, model);
  SP_TRY(importer.run());
  return model;
}

}  // namespace spscope::io
