// SPDX-License-Identifier: Apache-2.0
#include "app/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <thread>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/session/rule_file.h"

namespace spscope::app {

CLI::Validator numberFrom(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        if (numberIn(text, least, most)) return std::string();
        const bool open = most == std::numeric_limits<double>::max();
        const auto said = [](double x) { return strf(std::abs(x) < 1e15 ? "%.15g" : "%g", x); };  // 1000000, not 1e+06
        return text + " is no number from " + said(least) + (open ? " on" : " to " + said(most));
      },
      "");
}

void ModelFlags::declare(CLI::App& command, bool with_dtype) {
  command.option_defaults()->group("Model");
  command.add_option("MODEL", path, "a .pt2 file of torch.export.save, or a stage saved by compile --stages")->required()->type_name("FILE");
  command.add_option("--graph", graph, "which graph, where the file holds several")->type_name("NAME");
  command.add_option("--seq", seq, "sequence length (default: the file's)")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))->type_name("N");
  command.add_option("--batch", batch, "batch size (default: the file's)")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))->type_name("B");
  command.add_option("--sequence", sequence, "what is cut: an input or value and its dimension (default: dim 1 of input_ids, labels, position_ids, attention_mask)")
      ->delimiter(',')->type_name("NAME:DIM");
  if (with_dtype)
    command.add_option("--dtype", dtype, "compute everything in float64, float32 or bfloat16, also what autocast or the file has in bfloat16 (default: the file's types)")->type_name("float64|float32|bfloat16");
}

Result<std::vector<std::pair<std::string, int>>> ModelFlags::marks() const {
  std::vector<std::pair<std::string, int>> out;
  for (const std::string& mark : sequence) {
    const std::size_t colon = mark.rfind(':');
    int dim = 0;
    const char* first = colon == std::string::npos ? nullptr : mark.data() + colon + 1;
    const char* last = mark.data() + mark.size();
    const bool number = first && first != last && std::from_chars(first, last, dim).ptr == last;
    if (!number || colon == 0) {
      Error error = makeError("usage", "--sequence " + mark + " is not NAME:DIM", Outcome::kUsage);
      error.legal = "--sequence input_ids:1,labels:1";
      return error;
    }
    out.emplace_back(mark.substr(0, colon), dim);
  }
  return out;
}

Result<session::OpenRequest> ModelFlags::request() const {
  session::OpenRequest out;
  out.path = path;
  out.graph_name = graph;
  out.seq = seq;
  out.batch = batch;
  SP_ASSIGN(out.sequence_marks, marks());
  if (!dtype.empty()) {
    out.dtype = ir::parseDType(dtype);
    if (out.dtype != ir::DType::kF64 && out.dtype != ir::DType::kF32 && out.dtype != ir::DType::kBF16) {
      Error error = makeError("usage", "--dtype " + dtype + " is not supported", Outcome::kUsage);
      error.legal = "--dtype float64, float32 or bfloat16";
      return error;
    }
  }
  return out;
}

void CompileFlags::declare(CLI::App& command) {
  command.option_defaults()->group("Plan");
  command.add_option("--sp", sp, "ranks that share a sequence")->capture_default_str()->type_name("P");
  command.add_option("--dp", dp, "replicas that share the rows of a batch; ranks are dp x sp")->capture_default_str()->type_name("D");
  command.add_option("--zero", zero, "1: optimizer states in blocks over all ranks")->check(CLI::Range(0, 1))->capture_default_str()->type_name("0|1");
  command.add_option("--accumulate", accumulate, "batches per step of the optimizer")->check(CLI::Range(1, 1 << 20))->capture_default_str()->type_name("K");
  command.add_option("--device", device, "where it is to run: which attention kernels are chosen")->capture_default_str()->type_name("cpu|cuda");
  command.add_option("--save", save, "what is kept for the backward: all, sac, min-cut, layer-inputs or budget=F (0: least memory, 1: as all)")->capture_default_str()->type_name("POLICY");
  command.add_option("--optimizer", optimizer, "what updates the weights; adamw keeps two moments of each")->capture_default_str()->type_name("adamw|sgd");
  command.add_option("--master-weights", master_weights, "on: 16-bit parameters are trained on float32 copies, with float32 optimizer states")
      ->check(CLI::IsMember({"on", "off"}))->capture_default_str()->type_name("on|off");
  command.add_option("--grad-dtype", grad_dtype, "in what gradients of 16-bit parameters are summed over the ranks; param: in their own type")
      ->check(CLI::IsMember({"float32", "param"}))->capture_default_str()->type_name("float32|param");
  command.add_option("--communication", communication, "overlap: fused and behind compute; fused: together, but waited for at once; plain: one by one")
      ->check(CLI::IsMember({"overlap", "fused", "plain"}))->capture_default_str()->type_name("overlap|fused|plain");
  command.add_option("--bucket", bucket_mib, "gradients that are summed together, at most, in MiB")->check(numberFrom(0.0, 1e6))->capture_default_str()->type_name("MIB");
  command.add_flag("--tile-loss", tile_loss, "head and cross entropy a block of tokens at a time: the logits never exist whole");
  command.add_flag("--whole-masks", whole_masks, "leave attention masks as the file has them: S x S elements");
  command.add_option("--rules", rules, "how ops of other libraries may be cut, and what they compute (TOML; docs/sharding.md)")->type_name("FILE");
  command.add_option("--threads", threads, "threads per rank (default: cores / ranks)")->check(CLI::Range(1, 4096))->type_name("N");
}

Result<passes::Settings> CompileFlags::settings(const ModelFlags& model) const {
  passes::Settings out;
  out.sp = sp;
  out.dp = dp;
  out.zero = zero;
  out.accumulate = accumulate;
  out.master_weights = master_weights == "on";
  out.wide_gradients = grad_dtype == "float32";
  out.device = device;
  out.save = save;
  out.optimizer = optimizer;
  out.communication = communication;
  out.tile_loss = tile_loss;
  out.read_masks = !whole_masks;
  out.bucket_bytes = static_cast<std::int64_t>(bucket_mib * 1024 * 1024);
  out.seq = model.seq;
  out.batch = model.batch;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  out.threads = threads > 0 ? threads : std::max(1, cores / std::max(1, sp * dp));
  SP_ASSIGN(out.sequence_marks, model.marks());
  if (!rules.empty()) {
    SP_ASSIGN(out.rules, session::readRules(rules));
  }
  return out;
}

void FaultFlags::declare(CLI::App& command) {
  command.option_defaults()->group("Practice");
  command.add_option("--plant", plant, "make the program wrong on purpose, to practise or to test a gate: a kind of fault, its node, rank, pass and seed; or all by a seed (docs/debugging.md)")
      ->type_name("KIND[@NODE][,rank=R][,pass=PASS][,seed=N]|random:SEED")->allow_extra_args(false);
}

void DataFlags::declare(CLI::App& command) {
  command.option_defaults()->group("Data");
  command.add_option("--inputs", inputs, "a safetensors file with the graph's input names, or a folder of them (default: random)")
      ->type_name("PATH");
  command.add_option("--seed", seed, "of random inputs and dropout")->check(numberFrom(0.0, 18446744073709551615.0))->capture_default_str()->type_name("K");
  command.add_option("--seed-weights", seed_weights, "random weights with this seed instead of the file's")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()))->type_name("K");
}

Result<session::DataRequest> DataFlags::request() const {
  session::DataRequest out;
  out.seed = seed;
  if (seed_weights >= 0) out.seed_weights = static_cast<std::uint64_t>(seed_weights);
  if (inputs.empty()) return out;
  namespace fs = std::filesystem;
  std::error_code failed;
  if (fs::is_directory(inputs, failed)) {
    for (const auto& entry : fs::directory_iterator(inputs, failed))
      if (entry.path().extension() == ".safetensors") out.inputs.push_back(entry.path().string());
    std::sort(out.inputs.begin(), out.inputs.end());
    if (out.inputs.empty()) return makeError("usage", "--inputs " + inputs + ": the folder holds no .safetensors file", Outcome::kUsage);
  } else if (fs::exists(inputs, failed)) {
    out.inputs.push_back(inputs);
  } else {
    return makeError("file-missing", "there is no file " + inputs);
  }
  return out;
}

}  // namespace spscope::app
