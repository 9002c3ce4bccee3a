// SPDX-License-Identifier: Apache-2.0
// Exported programs written by hand, as torch.export.save writes them: the JSON of one parameter and one input, to which
// a test adds nodes, values and whatever it wants to see, and the archive around it.
#pragma once

#include <string>

#include "tests/support/zip_writer.h"

namespace spscope::testing::program {

inline std::string tensor(const std::string& name, int dtype, const std::string& sizes, bool grad = false) {
  return "\"" + name + "\": {\"dtype\": " + std::to_string(dtype) + ", \"sizes\": [" + sizes +
         "], \"requires_grad\": " + (grad ? "true" : "false") +
         ", \"device\": {\"type\": \"cpu\", \"index\": null}, \"strides\": [], \"storage_offset\": {\"as_int\": 0}, \"layout\": 7}";
}
inline std::string in(const std::string& name) { return R"({"as_tensor": {"name": ")" + name + R"("}})"; }
inline std::string arg(const std::string& name, const std::string& value) {
  return R"({"name": ")" + name + R"(", "arg": )" + value + R"(, "kind": 1})";
}
inline std::string node(const std::string& target, const std::string& args, const std::string& outputs, const std::string& name,
                 const std::string& metadata = "") {
  return R"({"target": ")" + target + R"(", "inputs": [)" + args + R"(], "outputs": [)" + outputs + R"(], "metadata": {)" +
         metadata + R"(}, "is_hop_single_tensor_return": null, "name": ")" + name + R"("})";
}
inline const std::string kS = R"j({"as_expr": {"expr_str": "Symbol('s1', positive=True, integer=True)", "hint": {"as_int": 8}}})j";

/// x: f32 [2, S] user input, w: f32 [S?] parameter; the nodes come from the test. Ends with a sum named "loss".
struct Program {
  std::string nodes, tensors, specs, inputs, sym_ints, weights;
  std::string schema_major = "8";

  Program() {
    inputs = in("p_w") + ", " + in("x");
    specs = R"({"parameter": {"arg": {"name": "p_w"}, "parameter_name": "w"}}, {"user_input": {"arg": )" + in("x") + "}}";
    tensors = tensor("p_w", 7, R"({"as_int": 4})", true) + ", " + tensor("x", 7, R"({"as_int": 2}, )" + kS) + ", " +
              tensor("loss", 7, "");
    weights = R"({"config": {"w": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta":
      {"dtype": 7, "sizes": [{"as_int": 4}], "requires_grad": true, "device": {"type": "cpu", "index": null},
       "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "layout": 7}}}})";
  }
  void add(const std::string& n) { nodes += (nodes.empty() ? "" : ", ") + n; }
  void value(const std::string& t) { tensors += ", " + t; }
  std::string json() const {
    return R"({"graph_module": {"graph": {"inputs": [)" + inputs + R"(], "outputs": [)" + in("loss") +
           R"(], "nodes": [)" + nodes + R"(], "tensor_values": {)" + tensors + R"(}, "sym_int_values": {)" + sym_ints +
           R"(}, "sym_bool_values": {}}, "signature": {"input_specs": [)" + specs +
           R"(], "output_specs": [{"user_output": {"arg": )" + in("loss") +
           R"(}}]}}, "range_constraints": {"s1": {"min_val": 2, "max_val": 100}}, "schema_version": {"major": )" +
           schema_major + R"(, "minor": 20}, "torch_version": "2.15.0"})";
  }
  std::string archive(std::size_t weight_bytes = 16) const {
    ZipWriter zip;
    zip.add("r/models/model.json", json());
    zip.add("r/data/weights/model_weights_config.json", weights);
    zip.add("r/data/weights/weight_0", std::string(weight_bytes, 'w'));
    return zip.bytes();
  }
};

}  // namespace spscope::testing::program
