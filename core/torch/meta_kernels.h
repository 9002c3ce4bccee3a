// SPDX-License-Identifier: Apache-2.0
// Shape functions that libtorch has only in Python.
#pragma once

namespace spscope::exec {

/// Registers a Meta kernel for each aten op of our list that has none, once per process. Any thread.
void registerMetaKernels();

/// Part of registerMetaKernels: the element-wise ones.
void registerPointwiseMetaKernels();

}  // namespace spscope::exec
