// SPDX-License-Identifier: Apache-2.0
// Opens a .pt2 file of torch.export.save as a graph: symbolic lengths bound, sub-graphs inlined, tied weights merged,
// autocast made explicit, scalars on sizes computed away. No weight is read. Needs no libtorch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/cancel.h"
#include "core/base/diagnostics.h"
#include "core/base/result.h"
#include "core/io/archive.h"
#include "core/ir/graph.h"

namespace spscope::io {

struct OpenOptions {
  std::string graph_name;   ///< which program, where the archive holds several; "" : the only one
  std::int64_t seq = 0;     ///< length bound to the sequence symbol; 0: the length at export
  std::int64_t batch = 0;   ///< the same for the batch
  /// What is cut, "NAME:DIM"; empty: dim 1 of 2-D input_ids, labels, position_ids, attention_mask (else of any 2-D
  /// integer input). Inputs only; names of other values are for later passes and are skipped here.
  std::vector<std::pair<std::string, int>> sequence_marks;
  bool structure_only = false;  ///< weights that cannot be read are a warning: the graph is wanted, not to run it
  CancelToken cancel;
};

/// A symbol of the file: its declared range, the value at export and the one that the graph was built with.
struct SymbolInfo {
  std::string name;
  std::int64_t min = 0;
  std::int64_t max = INT64_MAX;
  std::int64_t hint = 0;
  std::int64_t value = 0;
};

/// An argument of forward().
struct UserInput {
  std::string name;
  ir::DType dtype = ir::DType::kUnknown;
  ir::Dims shape;
  std::vector<std::string> symbols;  ///< per dimension: "s38", "8*s1", "" where it is fixed
  int input = ir::kNone;             ///< index into Graph::inputs; kNone: a constant (int, None) that was folded in
};

struct ImportedModel {
  ir::Graph graph;  ///< Form::kGlobal
  std::shared_ptr<const Archive> archive;
  std::string graph_name;
  std::vector<std::string> graph_names;  ///< all programs of the archive
  std::string torch_version;             ///< "2.15.0+cu132"; "" where the file does not say
  int schema_major = 0, schema_minor = 0;
  std::vector<SymbolInfo> symbols;
  std::vector<UserInput> user_inputs;    ///< in the order of the signature
  std::string sequence_input;            ///< the input that the length was taken from, "" where none was found
  int sequence_dim = 1;
  std::int64_t file_seq = 0, file_batch = 0;  ///< at export; 0: no sequence input
  std::int64_t seq = 0, batch = 0;            ///< of the graph. A static file keeps its own whatever was asked for
  bool dynamic = false;        ///< the sequence length is a symbol
  bool dynamic_batch = false;
  bool weightless = false;     ///< parameters have no values in the file (exported on meta tensors)
  bool autocast = false;       ///< casts of torch.autocast were made explicit
  std::int64_t file_nodes = 0; ///< nodes in the file, sub-graphs included, before anything was dropped
  std::map<std::string, std::int64_t> file_ops;  ///< how often each op occurs among them
};

/// Errors: those of Archive, archive-kind (some other kind of zip), graph-choose, graph-unknown, those of
/// WeightIndex::read, schema-unknown, json-syntax, program-corrupt, sym-syntax, size-unknown, subgraph-unsupported,
/// argument-unsupported, cancelled. Warnings go to `diagnostics`: schema-newer, metadata-unreadable, seq-out-of-range,
/// dead-input, no-loss, weight-missing.
Result<ImportedModel> openModel(const std::string& path, const OpenOptions& options, DiagnosticSink& diagnostics);
Result<ImportedModel> openModel(std::shared_ptr<const MappedFile> file, const OpenOptions& options,
                                DiagnosticSink& diagnostics);

}  // namespace spscope::io
