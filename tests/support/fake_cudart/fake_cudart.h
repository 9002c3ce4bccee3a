// SPDX-License-Identifier: Apache-2.0
// What a test tells the stand-in for libcudart.so.
#pragma once

#include <cstddef>

void fakeCudaCapacity(std::size_t bytes);  ///< of the one device; only while nothing is allocated
std::size_t fakeCudaGiven();               ///< bytes that the device has given
void fakeCudaReached(void* stream);        ///< events that were recorded on this stream have happened; until then they have not
