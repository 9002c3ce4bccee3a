// SPDX-License-Identifier: Apache-2.0
#include "core/session/debug_wire.h"

#include <cstdlib>

#include "core/base/strings.h"

namespace spscope::session {
namespace {

std::string dimsText(const ir::Dims& dims) { return join(dims, ","); }

ir::Dims dimsFrom(const std::string& text) {
  ir::Dims out;
  if (text.empty()) return out;
  for (const std::string& part : split(text, ',')) out.push_back(intFrom(part));
  return out;
}

}  // namespace

std::int64_t intFrom(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }
std::size_t sizeFrom(const std::string& text) { return static_cast<std::size_t>(std::strtoull(text.c_str(), nullptr, 10)); }

Result<dist::Packet> packetOf(exec::TensorBag value) {
  const exec::TensorBag::Entry entry = value.entry(0);
  SP_ASSIGN(const std::span<const std::byte> bytes, value.bytesOf(entry.name));
  dist::Packet out;
  out.head = {"value", {{"dtype", std::string(ir::longName(entry.dtype))}, {"shape", dimsText(entry.shape)}}};
  out.body.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out;
}

Result<exec::TensorBag> valueFrom(const dist::Packet& packet, const std::string& name) {
  const auto dtype = ir::parseDType(packet.head.at("dtype"));
  if (packet.head.kind != "value" || !dtype) return makeError("internal", "a rank sent what is no value", Outcome::kRunFailed);
  exec::TensorBag out;
  SP_TRY(out.add(name, *dtype, dimsFrom(packet.head.at("shape")), std::as_bytes(std::span(packet.body.data(), packet.body.size()))));
  return out;
}

dist::Message toMessage(const exec::ValueScan& scan) {
  std::vector<std::string> strange;
  for (const ir::Dims& index : scan.strange) strange.push_back(dimsText(index));
  return {"scan", {{"count", std::to_string(scan.count)}, {"nan", std::to_string(scan.nan)}, {"inf", std::to_string(scan.inf)},
                   {"zeros", std::to_string(scan.zeros)}, {"abs_max", formatDouble(scan.abs_max)}, {"strange", join(strange, "\n")},
                   {"listed", std::to_string(strange.size())}}};
}

exec::ValueScan scanFrom(const dist::Message& m) {
  exec::ValueScan out;
  out.count = intFrom(m.at("count"));
  out.nan = intFrom(m.at("nan"));
  out.inf = intFrom(m.at("inf"));
  out.zeros = intFrom(m.at("zeros"));
  out.abs_max = std::strtod(m.at("abs_max").c_str(), nullptr);
  if (m.at("listed") != "0")  // the index of a scalar is an empty line
    for (const std::string& line : split(m.at("strange"), '\n')) out.strange.push_back(dimsFrom(line));
  return out;
}

dist::Message failedMessage(const Error& error, std::size_t at, const std::string& serial) {
  dist::Message out = dist::toMessage(error);
  out.kind = "failed";
  out.fields["at"] = std::to_string(at);
  out.fields["serial"] = serial;
  return out;
}

}  // namespace spscope::session
