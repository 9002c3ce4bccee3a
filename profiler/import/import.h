// SPDX-License-Identifier: Apache-2.0
// Foreign and own trace files as a Trace. The format is told from the content, never from the name:
//   Kineto / Chrome JSON   object or bare array, plain or gzip            (chrome_reader.h)
//   Nsight Systems SQLite  what `nsys export --type sqlite` writes        (nsys_reader.h)
//   SPScope SQLite         what `run --profile` writes                    (profiler/store)
// A damaged file is read as far as it goes; whatever was mended, left out or missing is counted in Trace::problems.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/cancel.h"
#include "profiler/trace/trace.h"

namespace spscope::trace {

struct ImportOptions {
  ProgressFn progress{};  ///< called about once a block: bytes of the file read, of all
  CancelToken cancel{};
  std::size_t block_bytes = 256 << 10;  ///< of text looked at together (Chrome JSON); tests make it tiny
};

/// One file. Times are on the file's own clock with its base added (Rank::base_ns); see align.h for one clock.
/// Memory grows with the number of events (58 bytes each, and their names), not with the size of the text.
/// Errors: file-missing, file-is-folder, file-unreadable, file-empty, trace-unreadable (no trace, or none that is known;
/// a database that is damaged from its first page on), trace-too-large (2^31 events), cancelled.
Result<Trace> importTrace(const std::string& path, const ImportOptions& options = {});

/// Several files: ranks of one run, in the order given (files of one rank each are sorted by their rank's number where all
/// know it). Errors: those of importTrace, with the file named; usage where the list is empty;
/// trace-ranks-clash where two files are one, hold the same rank, or bear different plan hashes.
Result<Trace> importTraces(const std::vector<std::string>& paths, const ImportOptions& options = {});

/// Bytes that stand for a file (a test's, a fuzzer's), of any format but SPScope's own; `name` is Rank::file.
Result<Trace> importBytes(std::span<const std::byte> bytes, const std::string& name, const ImportOptions& options = {});

}  // namespace spscope::trace
