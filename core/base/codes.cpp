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
        // --- files
        {"archive-compressed", "Entries of the archive are compressed; torch.export.save stores them.",
         "Save the program again with torch.export.save, or pack the folder with zip -0."},
        {"archive-corrupt", "The directory of the archive and its contents do not agree.",
         "The file was damaged: copy or save it again."},
        {"archive-crc", "The bytes of an entry do not match the checksum in the archive.",
         "The file was damaged: copy or save it again."},
        {"archive-encrypted", "An entry of the archive is encrypted.", "Save the program with torch.export.save."},
        {"archive-entry-missing", "The archive lacks an entry that a .pt2 file must hold.",
         "Save the program again with torch.export.save."},
        {"archive-kind", "The file is a zip archive, but not one that torch.export.save wrote.",
         "Export the training graph: torch.export.save(torch.export.export(model, ...), \"model.pt2\")."},
        {"archive-not-zip", "The file is not a zip archive; a .pt2 file is one.",
         "Export the training graph: torch.export.save(torch.export.export(model, ...), \"model.pt2\")."},
        {"archive-old-weights", "The archive is of torch 2.8 or older, whose weights are pickled.",
         "Load it and save it again with torch 2.9 or later; inspect opens it as it is."},
        {"archive-truncated", "The file ends before the directory of the archive.",
         "The copy or download did not finish: fetch the file again."},
        {"argument-unsupported", "An argument of the program has a type that SPScope does not handle.",
         "Change the call that the message names, or report it with the model's code."},
        {"dead-input", "An integer input of the model is used by nothing.",
         "Pass distinct tensors at export (labels=input_ids.clone()), else both arguments read one of them."},
        {"file-empty", "The file has no bytes.", "Save or copy it again."},
        {"file-is-folder", "A file was expected and a folder given.", "Name the file."},
        {"file-missing", "There is no such file.", "Check the path."},
        {"file-unreadable", "The operating system does not let the file be read.", "Check its permissions."},
        {"file-unwritable", "The operating system does not let the file be written.",
         "Check the folder's permissions and the free space."},
        {"graph-choose", "The archive holds several graphs.", "Choose one with --graph NAME."},
        {"graph-unknown", "The archive holds no graph of that name.", "See the names in the message."},
        {"json-syntax", "A JSON text inside the file is not valid.", "The file was damaged: save it again."},
        {"length-not-possible", "The chosen length cannot be reached with the sizes that the file allows.",
         "Choose a length that the expression in the message can have."},
        {"metadata-unreadable", "Module paths of some nodes cannot be read; the graph is complete without them.",
         "Nothing to do; those nodes show no module."},
        {"no-loss", "No output of the program is a scalar float.",
         "Export a module whose forward returns the loss. Several files from one model: a graph break, see fullgraph=True."},
        {"program-corrupt", "The program in the archive contradicts itself.", "Save it again with torch.export.save."},
        {"safetensors-corrupt", "The header of a safetensors file is not valid.", "The file was damaged: write it again."},
        {"safetensors-truncated", "A safetensors file ends before its header says.",
         "The copy or download did not finish: fetch the file again."},
        {"schema-unknown", "The program's schema is newer or older than those known.",
         "Save the model with torch 2.9 to 2.15."},
        {"seq-out-of-range", "The chosen length lies outside the range that was declared at export.",
         "The graph may be wrong there: export again with a larger Dim(max=...)."},
        {"size-unknown", "A size depends on data, or on a length in a way that is not known.",
         "Make the size a function of the inputs' shapes, or export with the length that is wanted."},
        {"subgraph-unsupported", "The program uses control flow or another higher-order op that cannot be compiled.",
         "Replace cond, while_loop, map and the like in the model's code by straight tensor code."},
        {"sym-syntax", "A symbolic size is not understood.", "Please report it with the text in the message."},
        {"tensor-missing", "A file of tensors lacks one that is needed.", "See the names that it holds in the message."},
        {"tensor-mismatch", "A tensor in a file has another type or shape than the graph's input of that name.",
         "Write it with the shape and type in the message."},
        {"weight-missing", "The archive holds no values for a parameter or buffer.",
         "Save the program again, or use --seed-weights K."},
        {"weight-pickled", "A tensor is stored as a pickled object.",
         "Replace tensor subclasses in the model by plain tensors before the export."},
        {"weight-record-missing", "The table of weights names a record that the archive lacks.",
         "The file was damaged: save it again."},
        {"weight-size-mismatch", "The bytes of a weight do not fit its shape, or two tables disagree about it.",
         "The file was damaged: save it again."},
        {"weightless", "The file was exported without values (on meta tensors).",
         "Give random ones with --seed-weights K, or export with the weights loaded."},
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
        {"nothing-long", "No value of the program grows with the sequence: nothing is recomputed in the backward.",
         "Name what is the sequence with --sequence NAME:DIM."},
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
