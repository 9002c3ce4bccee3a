// SPDX-License-Identifier: Apache-2.0
// A rank's place in its group. Left properly only when all is well: taking a group down after a failure may wait for ranks
// that will never answer, and the failure would not be reported.
#pragma once

#include <memory>

#include "core/dist/collectives.h"

namespace spscope::dist {

class Membership {
 public:
  explicit Membership(std::unique_ptr<Collectives> group) : group_(std::move(group)) {}
  /// Without leave(): the group is abandoned, its threads stay. See endWithoutDestructors().
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  Collectives* get() const { return group_.get(); }
  Collectives* operator->() const { return group_.get(); }
  Collectives& operator*() const { return *group_; }
  /// Takes the group down.
  void leave() { group_.reset(); }

 private:
  std::unique_ptr<Collectives> group_;
};

/// From here on exit() ends the process with its code and the written streams, but without the destructors of static
/// objects: threads of an abandoned group may still use them.
void endWithoutDestructors();

}  // namespace spscope::dist
