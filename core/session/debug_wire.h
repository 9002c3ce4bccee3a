// SPDX-License-Identifier: Apache-2.0
// What goes between a debugger and a rank that is a process, over its control line. Down, and what comes up for it:
//
//   program {} + graph text             ready {version}                once, at the beginning; the rank is then at the beginning of a step
//   begin {step, seed, keep}            begun {}                       the step from its beginning; `keep`: values to remember, a name a line
//   run {to, serial}                    stopped {at, serial, ns, took} or failed {at, serial, ...error}
//   hold {}                             held {at, limit}               at once, also in the middle of a node: it stops before the next one
//   ping {}                             pong {at}                      likewise
//   value {name}, kept {name}           value {dtype, shape} + bytes, or none {}
//   live {name}                         live {}, or none {}
//   scan {name, places}                 scan {...}, or none {}
//   plain {}                            stopped {...}                  the whole step as a run makes it, to compare with
//   end {}                              -                              the rank leaves
//
// Times are CLOCK_MONOTONIC, which all processes of a machine share. Anything may be answered by error {...}.
#pragma once

#include "core/dist/control_line.h"
#include "core/torch/tensor_bag.h"
#include "core/torch/value_window.h"

namespace spscope::session {

/// The bag holds one tensor.
Result<dist::Packet> packetOf(exec::TensorBag value);
/// A bag of one tensor of that name. Error internal: the packet is no value.
Result<exec::TensorBag> valueFrom(const dist::Packet& packet, const std::string& name);

dist::Message toMessage(const exec::ValueScan& scan);  ///< kind "scan"
exec::ValueScan scanFrom(const dist::Message& message);

/// The error as another kind of message that also says something else.
dist::Message failedMessage(const Error& error, std::size_t at, const std::string& serial);

std::size_t sizeFrom(const std::string& text);
std::int64_t intFrom(const std::string& text);

}  // namespace spscope::session
