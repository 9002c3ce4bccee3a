// SPDX-License-Identifier: Apache-2.0
// A step of all ranks that can be moved, looked at and run back. What moves it does not say: virtual ranks of this process
// (virtual_tape.h) or processes (process_tape.h). Every move is remembered by where the ranks stood before it. To go back is to run
// again: the executor is deterministic, random ops draw by their place, so the values are the same to the last bit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"
#include "core/torch/tensor_bag.h"
#include "core/torch/value_window.h"

namespace spscope::session::debug {

using Places = std::vector<std::size_t>;  ///< of each rank, in its program: of the node that it runs next

class Tape {
 public:
  virtual ~Tape() = default;

  int size() const { return static_cast<int>(programs_.size()); }
  const ir::Graph& graph(int rank) const { return *programs_[static_cast<std::size_t>(rank)]; }
  const Places& places() const { return places_; }
  /// The node that the rank runs next; nullptr at the end.
  const ir::Node* next(int rank) const;
  bool done() const;
  std::size_t moves() const { return trail_.size(); }
  /// Where the ranks stood before move `index`.
  const Places& before(std::size_t index) const { return trail_[index]; }
  /// Whether the next node of the rank is a collective, which all ranks run together.
  virtual bool meets(int rank) const = 0;

  /// One node of each rank that does not wait, or the collective that all wait for. It may be put off until settle() or until a
  /// value is asked for. Where it fails the ranks stand where they stood before it. Errors: those of the executor.
  virtual Status move() = 0;
  /// One node of one rank. Errors: also rank-waits.
  virtual Status move(int rank) = 0;
  /// Makes the moves that were put off. Where one of them fails the later ones are forgotten, and the ranks stand before it. Where a
  /// pause is asked for meanwhile (pauseWhen) they stand as soon as they could be stopped together, later moves are forgotten: false.
  virtual Result<bool> settle() { return true; }
  /// Looked at while moves are made, on the thread that makes them: true asks for a pause.
  void pauseWhen(std::function<bool()> asked) { pause_ = std::move(asked); }
  /// To where the ranks stood before move `index`; what came later is forgotten.
  virtual Status backTo(std::size_t index) = 0;

  /// A value as it is now on a rank, in a bag of one tensor. Errors: value-not-live (not computed yet, or freed), those of settle();
  /// debug-paused: the moves before were put off, and a pause came between.
  virtual Result<exec::TensorBag> value(int rank, ir::ValueId value) = 0;
  /// Whether value() would give one, without giving it. Errors: those of settle().
  virtual Result<bool> live(int rank, ir::ValueId value);
  /// What is in it, as exec::scanValue says it. Errors: also tensor-dtype.
  virtual Result<exec::ValueScan> scan(int rank, ir::ValueId value, std::size_t places);
  /// A value that a rank had right after it was computed, though it may be gone by now: the step runs again as far as needed. One
  /// entry per rank of `values` (kNone: not asked for). Errors: value-not-live (nobody reads it: it is freed at once).
  virtual Result<std::vector<exec::TensorBag>> again(const std::vector<ir::ValueId>& values) = 0;

  /// Process ids, by rank; empty: the ranks are in this process.
  virtual std::vector<int> processes() const { return {}; }
  /// The ranks are gone: only backTo() can begin anew.
  virtual bool lost() const { return false; }

  struct Figures {
    std::size_t snapshots = 0;
    std::int64_t snapshot_bytes = 0;
    std::int64_t run_again = 0;   ///< moves
    std::int64_t stop_ns = 0;     ///< processes: from when the last stop was due (the first rank had come to it, or the pause was asked for) until all ranks stood
    std::int64_t told_ns = 0;     ///< ... until this process knew that
    std::int64_t run_ns = 0;      ///< processes: what the slowest rank took for the run before it
  };
  virtual Figures figures() const = 0;

 protected:
  explicit Tape(std::vector<std::shared_ptr<const ir::Graph>> programs) : programs_(std::move(programs)), places_(programs_.size(), 0) {}
  /// The place of the node that makes the value. Error: value-not-live where none does.
  Result<std::size_t> makerOf(int rank, ir::ValueId value) const;

  std::vector<std::shared_ptr<const ir::Graph>> programs_;  ///< of each rank
  Places places_;
  std::vector<Places> trail_;
  std::function<bool()> pause_;
};

}  // namespace spscope::session::debug
