// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug/breakpoint.h"


#include "core/base/numbers.h"
#include "core/base/strings.h"

namespace spscope::session::debug {
namespace {

using Kind = Condition::Kind;

Error usage(std::string message) {
  Error error = makeError("usage", std::move(message), Outcome::kUsage);
  error.legal = "WHAT [if nan|inf|abs>X|zeros>SHARE|ranks|differs[>SHARE] [hit N]] [do stop|log|save PATH] [rank R]";
  return error;
}

/// Takes the first word; "" where there is none.
std::string take(std::vector<std::string>& words) {
  if (words.empty()) return {};
  std::string out = words.front();
  words.erase(words.begin());
  return out;
}

Status parseCondition(std::vector<std::string>& words, Condition& out) {
  bool any = false;
  while (!words.empty() && words.front() != "do" && words.front() != "rank") {
    std::string word = take(words);
    if (word == "hit") {
      if (!readNumber(take(words), out.hit) || out.hit < 1) return usage("hit needs a number from 1 on");
      any = true;
      continue;
    }
    // "abs > 3" is "abs>3"
    if (!words.empty() && words.front() == ">") word += take(words);
    if (word.ends_with('>')) word += take(words);
    const std::size_t at = word.find('>');
    const std::string name = word.substr(0, at);
    if (name == "nan") out.kind = Kind::kNan;
    else if (name == "inf") out.kind = Kind::kInf;
    else if (name == "abs") out.kind = Kind::kAbs;
    else if (name == "zeros") out.kind = Kind::kZeros;
    else if (name == "ranks") out.kind = Kind::kRanks;
    else if (name == "differs") out.kind = Kind::kDiffers;
    else return usage("there is no condition " + word);
    const bool takes = out.kind == Kind::kAbs || out.kind == Kind::kZeros || out.kind == Kind::kDiffers;
    const bool has = at != std::string::npos;
    if (has && (!takes || !readNumber(std::string_view(word).substr(at + 1), out.limit, 0.0, std::numeric_limits<double>::infinity()))) return usage(word + " is no condition");
    if (!has && takes && out.kind != Kind::kDiffers) return usage(name + " needs a bound, as " + name + ">0.5");
    any = true;
  }
  return any ? Status() : usage("if what?");
}

}  // namespace

std::string Condition::text() const {
  static constexpr const char* kNames[] = {"", "nan", "inf", "abs", "zeros", "ranks", "differs"};
  std::string out = kNames[static_cast<std::size_t>(kind)];
  const bool bound = kind == Kind::kAbs || kind == Kind::kZeros || (kind == Kind::kDiffers && limit > 0);
  if (bound) out += ">" + formatDouble(limit);
  if (hit > 1) out += (out.empty() ? "hit " : " hit ") + std::to_string(hit);
  return out;
}

std::string Breakpoint::text() const {
  std::string out = where.text();
  if (const std::string when = condition.text(); !when.empty()) out += " if " + when;
  if (action == Action::kLog) out += " do log";
  if (action == Action::kSave) out += " do save " + path;
  if (rank >= 0) out += " rank " + std::to_string(rank);
  return out;
}

Result<Breakpoint> parseBreakpoint(std::vector<std::string> words) {
  Breakpoint out;
  if (words.empty()) return usage("where?");
  if (words.front() != "if") {
    SP_ASSIGN(out.where, takeQuery(words));
  }
  while (!words.empty()) {
    const std::string word = take(words);
    if (word == "if") {
      SP_TRY(parseCondition(words, out.condition));
    } else if (word == "do") {
      const std::string what = take(words);
      if (what == "stop") out.action = Action::kStop;
      else if (what == "log") out.action = Action::kLog;
      else if (what == "save") out.action = Action::kSave, out.path = take(words);
      else return usage(what.empty() ? "do what?" : "there is no action " + what);
      if (out.action == Action::kSave && !out.path.ends_with(".npy") && !out.path.ends_with(".safetensors")) return usage("save to which file, .npy or .safetensors?");
    } else if (word == "rank") {
      if (!readNumber(take(words), out.rank) || out.rank < 0) return usage("rank needs a number");
    } else {
      return usage(word + " is not understood");
    }
  }
  return out;
}

}  // namespace spscope::session::debug
