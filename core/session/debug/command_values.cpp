// SPDX-License-Identifier: Apache-2.0
// Commands that look at values: of each rank, put together, against others.
#include <algorithm>

#include "core/base/numbers.h"
#include "core/base/strings.h"
#include "core/session/debug/command_work.h"
#include "core/torch/tensor_store.h"
#include "passes/memory/save_policy.h"

namespace spscope::session::debug {
namespace {

constexpr std::int64_t kListed = 64;

Status look(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const std::string value, w.takeValue());
  if (w.words.empty()) {
    SP_ASSIGN(w.out.value, w.debugger.look(value, rank));
    return {};
  }
  SP_ASSIGN(const std::vector<exec::Range> ranges, w.takeRanges());
  SP_TRY(w.nothingLeft());
  Answer::Window window;
  SP_ASSIGN(const exec::TensorBag bag, w.valueOf(value, std::max(rank, 0), window.again));
  window.value = value;
  window.rank = std::max(rank, 0);
  SP_ASSIGN(window.cells, exec::windowOf(bag, ranges));
  w.out.window = std::move(window);
  return {};
}

Status gather(Work& w) {
  SP_ASSIGN(const std::string value, w.takeValue());
  SP_ASSIGN(const std::vector<exec::Range> ranges, w.takeRanges());
  SP_TRY(w.nothingLeft());
  Answer::Window window;
  SP_ASSIGN(const exec::TensorBag bag, w.debugger.whole(value, &window.again));
  window.value = value;
  if (ranges.empty() && ir::numel(bag.entry(0).shape) > kListed) {  // the corner, as everywhere
    SP_ASSIGN(const exec::ValueSummary summary, exec::summarize(bag));
    window.cells = {summary.slice_shape, summary.slice};
    w.out.said = "the beginning of [" + join(bag.entry(0).shape, ", ") + "]";
  } else {
    SP_ASSIGN(window.cells, exec::windowOf(bag, ranges));
  }
  w.out.window = std::move(window);
  return {};
}

Status heat(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const std::string value, w.takeValue());
  SP_TRY(w.nothingLeft());
  Answer::Window window;
  window.value = value;
  window.rank = rank;
  SP_ASSIGN(const exec::TensorBag bag, rank < 0 ? w.debugger.whole(value, &window.again) : w.valueOf(value, rank, window.again));
  SP_ASSIGN(window.cells, exec::heatMap(bag));
  w.out.heat = std::move(window);
  return {};
}

Status diff(Work& w) {
  std::vector<int> of;
  while (std::find(w.words.begin(), w.words.end(), "rank") != w.words.end()) {
    SP_ASSIGN(const int rank, w.takeRank());
    of.push_back(rank);
  }
  SP_ASSIGN(const std::string value, w.takeValue());
  SP_TRY(w.nothingLeft());
  if (of.size() == 1 || of.size() > 2) return w.usage("two ranks, or none for the unsharded value");
  SP_ASSIGN(w.out.comparison, of.empty() ? w.debugger.compare(value) : w.debugger.compareRanks(value, of[0], of[1]));
  return {};
}

Status twin(Work& w) {
  const std::string what = w.take();
  ReferenceChoice choice;
  if (what == "float64") {
    choice.kind = ReferenceChoice::Kind::kFloat64;
  } else if (what == "save") {
    choice.kind = ReferenceChoice::Kind::kSave;
    choice.save = w.take();
    SP_TRY(passes::parseSavePolicy(choice.save));
  } else if (what == "step") {
    choice.kind = ReferenceChoice::Kind::kStep;
    const std::string number = w.take();
    const auto step = numberIn<std::int64_t>(number);
    if (!step || *step < 0) return w.usage(number + " is no step: 0 is this one");
    choice.step = *step;
  } else if (!what.empty() && what != "unsharded") {
    return w.usage("what is " + what + "?");
  }
  SP_TRY(w.nothingLeft());
  if (!what.empty()) SP_TRY(w.debugger.setTwin(choice));
  w.out.said = "values are held against " + w.debugger.twinWords();
  return {};
}

Status save(Work& w) {
  SP_ASSIGN(const int rank, w.takeRank());
  SP_ASSIGN(const std::string value, w.takeValue());
  const std::string path = w.take();
  SP_TRY(w.nothingLeft());
  const bool npy = path.ends_with(".npy");
  if (!npy && !path.ends_with(".safetensors")) return w.usage("to which file, .npy or .safetensors?");
  bool again = false;
  SP_ASSIGN(const exec::TensorBag bag, rank < 0 ? w.debugger.whole(value, &again) : w.valueOf(value, rank, again));
  SP_TRY(npy ? exec::saveNpy(bag, path) : exec::saveBag(bag, path));
  w.out.said = value + ", [" + join(bag.entry(0).shape, ", ") + "], is in " + path + (again ? "; it was freed by now and was computed again" : "");
  return {};
}

}  // namespace

std::vector<Command> valueCommands() {
  return {
      {{"print", "p", "%VALUE [0,2:5,:] [rank R]", "statistics, histogram and beginning of a value on each rank; or a window of it"}, look},
      {{"gather", "g", "%VALUE [0,2:5,:]", "a value put together from the ranks by its placement"}, gather},
      {{"heat", "", "%VALUE [rank R]", "a picture of magnitudes: of the whole, or of one rank's part"}, heat},
      {{"diff", "", "%VALUE [rank A rank B]", "how far it is from the twin's value (see twin), or one rank's from another's"}, diff},
      {{"twin", "", "[unsharded | float64 | save POLICY | step N]", "what values are held against: the unsharded step (in float64), the ranks under another memory policy or N steps later"}, twin},
      {{"save", "", "%VALUE FILE.npy|FILE.safetensors [rank R]", "write it: put together, or one rank's part"}, save},
  };
}

}  // namespace spscope::session::debug
