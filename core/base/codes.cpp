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
        {"verify-wait", "A started collective is not waited for exactly once, or its buffer is read before.",
         "A fault of the pass named in the report: please send the reproducer file."},
        {"collectives-differ", "Two ranks' programs would issue other collectives: a run would hang.",
         "Please report it with the model's graph (spscope compile --stages); another --sp may do."},
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
        {"graph-unknown", "The archive holds no graph of that name.", "Take one of the names in the message."},
        {"json-syntax", "A JSON text inside the file is not valid.", "The file was damaged: save it again."},
        {"length-not-possible", "The chosen length cannot be reached with the sizes that the file allows.",
         "Choose a length that the expression in the message can have."},
        {"metadata-unreadable", "Module paths of some nodes cannot be read; the graph is complete without them.",
         "Nothing to do; those nodes show no module."},
        {"no-loss", "No output of the program is a scalar float.",
         "Export a module whose forward returns the loss. Several files from one model: a graph break, see fullgraph=True."},
        {"pickle-corrupt", "The pickle in which torch 2.8 and older list the weights is damaged.",
         "The file was damaged: save it again, with torch 2.9 or later if you can."},
        {"program-corrupt", "The program in the archive contradicts itself.", "Save it again with torch.export.save."},
        {"safetensors-corrupt", "The header of a safetensors file is not valid.", "The file was damaged: write it again."},
        {"safetensors-truncated", "A safetensors file ends before its header says.",
         "The copy or download did not finish: fetch the file again."},
        {"schema-newer", "The program was saved by a torch newer than those known; what it added is ignored.",
         "Nothing to do while the figures are right; spscope verify proves them."},
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
        {"dtype-unsupported", "The program cannot be run in that element type.",
         "Choose --dtype float64 or float32."},
        {"stage-source", "A saved stage cannot stand for its model: the model is gone, has changed, or is not named.",
         "Name the .pt2 file itself, or compile it again with --stages."},
        {"weight-missing", "The archive holds no values for a parameter or buffer.",
         "Save the program again, or use --seed-weights K."},
        {"weight-big-endian", "The weights were saved on a machine with another byte order.",
         "Load the program and save it again with torch 2.9 or later on a little-endian machine."},
        {"weight-pickled", "Weights are stored as pickled objects other than plain tensors.",
         "Replace tensor subclasses in the model by plain tensors before the export, and save with torch 2.9 or later."},
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
        {"gradient-incomplete", "A gradient or the loss would still differ between the ranks after the backward.",
         "A fault of the passes: please report it with the model's graph (spscope compile --stages)."},
        {"gradient-repeated", "A sum over the ranks is taken of a value that is already complete on each of them.",
         "A fault of the passes: please report it with the model's graph (spscope compile --stages)."},
        {"mutates-input", "The program writes into a parameter or a user input.",
         "Write into a clone of it in the model's code, or register it as a buffer."},
        {"mutation-unknown", "An op writes into its operand in a way that has no functional twin here.",
         "Replace the in-place op in the model's code by its functional form."},
        {"nothing-trainable", "No parameter of the graph requires a gradient.",
         "Export the model with requires_grad left on (model.train(), no freezing of everything)."},
        {"random-op-sharded", "An op draws from a sequential random generator, whose numbers on a shard would be others.",
         "Export with dropout p = 0, or use --sp 1."},
        // --- ranks
        {"collective-dtype", "A collective cannot work on this element type.", "Convert the value before the collective."},
        {"collective-mismatch", "The ranks are not doing the same collective, or not with sizes that fit each other.",
         "The ranks run different programs: same model, options and version on all; otherwise please report it."},
        {"collective-timeout", "Another rank did not come to a collective before the deadline.",
         "See what that rank was doing in the table of ranks; --timeout SECONDS allows more."},
        {"launch-env", "The variables of the launcher are missing, set by half or contradict each other.",
         "Start through torchrun --no-python, srun or mpirun, or leave --launched out to start ranks on this machine."},
        {"launch-world", "--sp times --dp is not the number of ranks.", "Choose --sp and --dp so that their product is it."},
        {"cupti-unavailable", "The GPU cannot be recorded here: the profile holds host events only.",
         "spscope doctor says what is missing; CUPTI comes with torch's CUDA wheels (nvidia-cuda-cupti)."},
        {"nccl-failed", "NCCL or the CUDA driver reports an error in a collective.",
         "See the message; NCCL_DEBUG=INFO in the environment makes NCCL say more."},
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
        {"resume-mismatch", "What was saved belongs to another model.", "Resume with the model that it was saved from."},
        {"resume-missing", "The folder holds no saved step.", "Give the folder of --save-to, or one step-… folder in it."},
        {"run-directory", "The private directory of a run cannot be made or used.", "Check TMPDIR: it needs space and permission."},
        // --- other lengths of static files
        {"batch-static", "The file was exported with a fixed batch, and the place named cannot take another.",
         "Use the file's batch, or export with torch.export.Dim for the batch dim."},
        {"position-table-short", "A table of positions has fewer rows than the sequence would have positions.",
         "Fine where position_ids restart (packed documents); otherwise use a shorter sequence."},
        {"seq-literal", "The file was exported with a fixed sequence length, and the place named cannot take another.",
         "Use the file's length, or export with torch.export.Dim for the sequence dim."},
        {"seq-literal-kept", "A number equal to the file's sequence length stayed as it is: nothing shows that it is the length.",
         "Check the line named; where it is the length, export with torch.export.Dim for the sequence dim."},
        {"seq-unmarked", "No input is known to carry the sequence, so its length cannot be changed.",
         "Name the sequence with --sequence NAME:DIM."},
        // --- pipeline
        {"gathered", "A value is made whole on every rank, because no rule keeps it cut there. Right, but it does not scale.",
         "See the reason; where the op can be written with ATen ops that have rules, do so."},
        {"mark-dim", "--sequence names a dimension that the value does not have.", "Count the dimensions from 0; spscope inspect shows the shapes."},
        {"mark-unknown", "--sequence names neither an input nor a value of the graph.", "See spscope inspect for the inputs, compile --stages for the values."},
        {"sequence-assumed", "An input that nobody named is cut like the named ones, since it has their shape.",
         "Fine where it runs along the sequence. Otherwise name what is cut with --sequence NAME:DIM,..."},
        {"setting-device", "--device is neither cpu nor cuda.", "Choose one of the two."},
        {"setting-dp", "This version compiles no data parallel replicas.", "Use --dp 1."},
        {"setting-optimizer", "--optimizer is not known.", "Choose adamw or sgd."},
        {"setting-save", "--save is not a policy that this version knows.", "Choose all, sac, min-cut or budget=F with F from 0 to 1."},
        {"setting-sp", "--sp is no number of ranks.", "Choose a number from 1 to 4096."},
        {"no-attention", "The graph holds no attention op, fused or eager; decomposed exports lose it.",
         "Export without run_decompositions(), or with scaled_dot_product_attention taken out of its table."},
        {"nothing-long", "No value of the program grows with the sequence: nothing is recomputed in the backward.",
         "Name what is the sequence with --sequence NAME:DIM."},
        {"nothing-sharded", "No value could be sharded: every rank would compute everything.",
         "Name what is the sequence with --sequence NAME:DIM."},
        // --- execution
        {"gradient-shape", "A gradient does not have the shape or type of its parameter, or of the one it is compared with.",
         "Please report it: the program's outputs are wrong."},
        {"input-dtype", "A given input has another type than the program takes.",
         "Convert it; floating types are converted among each other, and integers widened."},
        {"input-missing", "An input of the program is not given.", "Give a tensor of that name, or none at all for seeded inputs."},
        {"input-out-of-range", "An input holds an index beyond the table or the classes that it is used for.",
         "Check the tokenizer against the model's vocabulary."},
        {"input-shape", "A given input has another shape than the program takes.", "Give it that shape, or choose --seq and --batch."},
        {"input-unused", "A given tensor is no input of the program.", "Check its name."},
        {"capture-failed", "The forward and backward graph could not be recorded: an op has no shape function, changes a view in place, "
         "or gives another shape than planned.",
         "See the message: it names the op and the line of the model. An op whose result has a size that depends on "
         "values (nonzero, unique, item) has to leave the training graph."},
        {"op-failed", "An op failed while the step ran.", "See the message: libtorch says what it did not accept, and the node says where."},
        {"op-unknown", "The graph holds an op that libtorch does not have.",
         "Export the model so that it uses ATen ops only (for grouped experts: another experts implementation)."},
        {"op-argument", "An argument of an op does not fit what libtorch takes.", "Please report it with the node's text."},
        {"optimizer-dtype", "A trainable parameter cannot be updated: it holds no floating-point numbers or is not contiguous.",
         "Train another parameter, or export it as a dense floating-point tensor."},
        {"optimizer-state", "A saved optimizer does not fit the parameters.", "Resume with the model that it was saved with."},
        {"program-invalid", "A graph is not a program that one rank can run.", "Please report it with the stage's text."},
        {"rank-programs-differ", "Two ranks would not do the same ops in the same order.", "Please report it with the stage's text."},
        {"sp-op", "An sp.* op and its operand do not fit each other.", "Please report it with the stage's text."},
        {"tensor-bytes", "The bytes given for a tensor do not fit its shape and type.", "Check the shape and type."},
        {"tensor-dtype", "A tensor has a type that this use of it does not take.", "Convert it."},
        {"tensor-shape", "A tensor does not have the number of elements that is wanted.", "Check the name."},
        {"trace-no-critical-path", "The critical path of a trace could not be found.",
         "The message says what stands in the way: ranks on different clocks, dependences that contradict the times, or nothing recorded."},
        {"trace-not-alignable", "The ranks of a trace cannot be put on one clock, so nothing is compared between them.",
         "Record with the start barrier and with the collectives' sequence numbers (run --profile does); figures of each rank alone hold."},
        {"value-not-live", "A value does not exist at this moment of the step.",
         "It is not computed yet, or was freed after its last use: stop between the two."},
        {"weight-dtype", "A weight has another type than the program takes.", "Load it through the model's file."},
        {"loss-not-finite", "The loss of a training step is not a number.",
         "Check the learning rate, the weights, and that the batch holds a label that counts."},
        {"reference-not-finite", "The unsharded graph has no finite loss either: nothing can be compared.",
         "Check that the batch holds a label that counts (not only -100), and that weights and inputs are numbers."},
        {"weight-not-finite", "A weight holds values that are not numbers.", "The loss will not be a number either: check the file."},
        {"weight-shape", "A weight has another shape than the program takes.", "Load it through the model's file."},
        {"weightless-buffer", "A buffer has no values in the file, and its name does not say what it should hold.",
         "Export the model with real buffers; only its parameters may be on meta tensors."},
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

std::string codesMarkdown() {
  std::string out =
      "# Error and warning codes\n\n"
      "Written by `spscope explain --markdown`; a test compares it with core/base/codes.cpp.\n\n"
      "| code | meaning | remedy |\n|---|---|---|\n";
  const auto cell = [&](std::string_view text) {
    for (const char c : text) {
      if (c == '|') out += '\\';
      out += c;
    }
    out += " |";
  };
  for (const CodeInfo& row : allCodes()) {
    out += "| `";
    out += row.code;
    out += "` | ";
    cell(row.meaning);
    out += ' ';
    cell(row.remedy);
    out += '\n';
  }
  return out;
}

}  // namespace spscope
