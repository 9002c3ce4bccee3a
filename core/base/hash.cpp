// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/strings.h"

namespace spscope {

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
void Hasher::bytes(const void* data, std::size_t size) { XXH3_128bits_update(&state_->xxh, data, size); }
void Hasher::text(std::string_view s) {
  number(static_cast<std::int64_t>(s.size()));
  bytes(s.data(), s.size());
}
std::string Hasher::hex() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return strf("%016llx%016llx", static_cast<unsigned long long>(h.high64), static_cast<unsigned long long>(h.low64));
}

std::string hashHex(std::string_view data) {
  Hasher h;
  h.bytes(data.data(), data.size());
  return h.hex();
}

}  // namespace spscope
