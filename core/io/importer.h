// SPDX-License-Identifier: Apache-2.0
// One import of one program: the steps between a parsed program and an ImportedModel. Used by program.cpp only.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/graph_builder.h"
#include "core/io/program.h"
#include "core/io/weight_index.h"

namespace spscope::io {

class Importer {
 public:
  Importer(const Json& root, const WeightIndex& weights, bool weights_readable, const OpenOptions& options,
           DiagnosticSink& diagnostics, ImportedModel& model)
      : root_(root), weights_(weights), weights_readable_(weights_readable), options_(options),
        diagnostics_(diagnostics), model_(model), builder_(model.graph, symbols_, metadata_, options.cancel) {}

  Status run();

 private:
  struct Slot {  // a user input of the signature, before it becomes a value
    std::string name;
    std::string_view key;
    Json meta;
  };

  Status readHeader();
  Status readSignature();
  Status learnSymbols();
  void bindLengths();
  void bindLength(const std::string& input, const Json& size, std::int64_t wanted, std::string_view flag);
  bool isSequenceInput(const std::string& name, const Json& meta, int* dim) const;
  Status addInputs();
  Status addStored(const Json& spec, ir::InputKind kind, std::string_view name_key);
  Status addUserInput(const Json& argument, std::size_t position);
  Status addOutputs();
  void aliasesWithoutPlaceholder();
  void tieWeightless();
  void warn();
  void summarise();
  int inputNamed(std::string_view name) const;
  std::optional<Json> tensorMeta(std::string_view value) const;

  Json root_;
  const WeightIndex& weights_;
  bool weights_readable_;
  const OpenOptions& options_;
  DiagnosticSink& diagnostics_;
  ImportedModel& model_;
  SymbolTable symbols_;
  MetadataReader metadata_;
  GraphBuilder builder_;
  Json graph_;
  JsonArray input_specs_, output_specs_, graph_inputs_;
  Scope scope_;
  std::unordered_map<std::string_view, Json> tensor_values_;
  std::unordered_map<std::string, int> stored_;  ///< while inputs are added: index of each name's input
  std::vector<const WeightEntry*> input_entries_;  ///< per graph input; nullptr for user inputs
};

}  // namespace spscope::io
