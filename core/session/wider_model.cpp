// SPDX-License-Identifier: Apache-2.0
#include "core/session/wider_model.h"

#include "core/ir/convert_dtype.h"

namespace spscope::session {

Result<std::shared_ptr<const Model>> widerModel(const Model& model, ir::DType type) {
  auto wide = std::make_shared<Model>(model);
  ir::Graph graph = *model.graph;
  ir::ConvertOptions options;
  options.low_precision = true;
  SP_TRY(ir::convertFloats(graph, type, options));
  wide->graph = std::make_shared<const ir::Graph>(std::move(graph));
  wide->working_dtype = wide->computing_dtype = type;
  return std::shared_ptr<const Model>(std::move(wide));
}

}  // namespace spscope::session
