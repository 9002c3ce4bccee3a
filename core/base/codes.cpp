// SPDX-License-Identifier: Apache-2.0
// One row per code, sorted by code. docs/errors.md is this table; a test compares them.
#include "core/base/codes.h"

#include <algorithm>

namespace spscope {

const std::vector<CodeInfo>& allCodes() {
  static const std::vector<CodeInfo> codes = [] {
    std::vector<CodeInfo> rows = {
        // --- general
        {"cancelled", "The request was cancelled before it finished.", "Start it again; nothing was changed."},
        {"internal", "A fault of SPScope itself: an invariant does not hold.",
         "Please report it with the reproducer file named in the message."},
        {"usage", "The command line is not understood.", "See spscope COMMAND --help."},
        // --- graphs: text form, verifier, manager
        {"text-syntax", "The text of a graph is not understood at the place shown.",
         "Correct the line; docs/ir.md holds the grammar. Stages are best written by spscope compile --stages."},
        {"verify-collective", "An sp.* node's arguments, blocks and shapes do not agree.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-gradient", "A gradient does not have the shape of its parameter.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-ids", "Ids of nodes and values do not agree with each other.",
         "A fault of the pass named in the report, or a text edited by hand."},
        {"verify-local", "A local shape is not the one that the placement gives.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-mutation", "An op that writes into its operand is left after functionalization.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-name", "Two nodes or two values have one name, or one has none.",
         "A fault of the pass named in the report, or a text edited by hand."},
        {"verify-output", "An output of the graph does not exist or does not say what it belongs to.",
         "A fault of the pass named in the report, or a text edited by hand."},
        {"verify-phase", "A node of the forward stands behind one of the backward.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-placement", "Factors or block sizes of a value do not fit its shape.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-replicated", "An op other than sp.* makes a replicated value of one that is not, or the other way round.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"verify-use", "A value is used before it is defined.",
         "A fault of the pass named in the report, or a text edited by hand."},
        {"pass-dishonest", "A pass said that it changed nothing and did, or the other way round.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"pass-form", "A pass was given a graph in a form that it does not take, or left another than it promises.",
         "Run the passes in the order of the pipeline."},
        // --- training passes
        {"attention-dropout", "Attention with dropout cannot be reproduced across shards.",
         "Export the model with attention dropout 0."},
        {"attention-math", "An attention does not fit the device's fused kernel and runs as separate matrix products.",
         "Right but slower and larger; see the reason in the message."},
        {"mutates-input", "The program writes into a parameter or a user input.",
         "Write into a clone of it in the model's code, or register it as a buffer."},
        {"mutation-unknown", "An op writes into its operand in a way that has no functional twin here.",
         "Replace the in-place op in the model's code by its functional form."},
        // --- ranks
        {"collective-dtype", "A collective cannot work on this element type.", "Convert the value before the collective."},
        {"collective-mismatch", "The ranks are not doing the same collective, or not with sizes that fit each other.",
         "The ranks run different programs: same model, options and version on all; otherwise please report it."},
        {"collective-timeout", "Another rank did not come to a collective before the deadline.",
         "See what that rank was doing in the table of ranks; --timeout SECONDS allows more."},
        {"launch-env", "The variables of the launcher are missing, set by half or contradict each other.",
         "Start through torchrun --no-python, srun or mpirun, or leave --launched out to start ranks on this machine."},
        {"launch-world", "--sp times --dp is not the number of ranks.", "Choose --sp and --dp so that their product is it."},
        {"nccl-unavailable", "Ranks on GPUs cannot run here.", "Use --ranks gloo; spscope doctor says what is missing."},
        {"peer-lost", "The connection to another rank broke: it ended or failed.", "See the output of the rank that failed first."},
        {"rank-died", "A rank's process ended before its work was done.", "See the end of its output; signal 9 is often a lack of memory."},
        {"rank-stalled", "A rank made no progress before the deadline.", "See its last node; --timeout SECONDS allows more."},
        {"rank-start", "A rank's process could not be started.", "See the reason in the message."},
        {"ranks-disagree", "The ranks are about to run different programs.", "Give all ranks the same model, options and version."},
        {"rendezvous-failed", "A rank could not reach the place where the ranks meet.",
         "Check MASTER_ADDR and MASTER_PORT; another program may hold the port."},
        {"rendezvous-timeout", "Not all ranks came to the place where they meet.",
         "Check that all were started (srun, not sbatch alone) and reach MASTER_ADDR."},
        {"run-directory", "The private directory of a run cannot be made or used.", "Check TMPDIR: it needs space and permission."},
        // --- pipeline
        {"no-attention", "The graph holds no attention op, fused or eager; decomposed exports lose it.",
         "Export without run_decompositions(), or with scaled_dot_product_attention taken out of its table."},
        {"nothing-sharded", "No value could be sharded: every rank would compute everything.",
         "Name what is the sequence with --sequence NAME:DIM."},
    };
    std::sort(rows.begin(), rows.end(), [](const CodeInfo& a, const CodeInfo& b) { return a.code < b.code; });
    return rows;
  }();
  return codes;
}

const CodeInfo* findCode(std::string_view code) {
  const auto& codes = allCodes();
  const auto it = std::lower_bound(codes.begin(), codes.end(), code,
                                   [](const CodeInfo& row, std::string_view c) { return row.code < c; });
  return it != codes.end() && it->code == code ? &*it : nullptr;
}

}  // namespace spscope
