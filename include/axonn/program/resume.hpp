#pragma once

#include <optional>
#include <span>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/config/option_table.hpp"

namespace axonn {

// UserError if the checkpoint is of another program's network: `mine` are the options of this one.
void check_same_network(const OptionTable& mine, const CheckpointReader& reader);

// The folder that the checkpoint lies in, whatever name it was given by: a link to it, "." or
// "step-000004/". The user's own words for that folder, if they name it. As rank 0 sees it;
// collective.
std::string run_directory(Communicator& everyone, const CheckpointReader& reader);

// For a resumed run. Options that neither a flag nor a file sets are restored from the checkpoint.
// Throws UserError if one of the `kept` keys (network, data, order of samples) was set to another
// value. `out` becomes `directory`, that of the resumed run, unless it was set.
void resume_options(OptionTable& table, const CheckpointReader& reader, std::span<const std::string> kept,
                    const std::string& directory, std::string& out);

// The checkpoint as starts.jsonl names it: "step-000500" if it lies in `out`, so that a run can be
// moved; else its whole path, and what goes on from it is a run of its own. For rank 0.
std::string name_for_starts(const CheckpointReader& reader, const std::string& out);

// For a run that was resumed by the name of its directory and has been locked since. UserError if
// `reader` is no longer the newest checkpoint there: another job went on meanwhile.
void check_still_newest(const CheckpointReader& reader, const std::string& resumed);

// UserError unless the resumed run has the same data as before.
void check_same_data(const CheckpointReader& reader, uint64_t fingerprint);

// For --resume auto. Returns the newest whole checkpoint of the run in `out`, the same on every
// rank; without any, the one that the run branched off from; nothing if there is none at all.
// Rank 0 warns of each newer one that is broken. UserError if all are. Collective: they share the
// reading.
std::optional<CheckpointReader> newest_whole_checkpoint(Communicator& everyone, const std::string& out);

// UserError if `out` already holds a run, except the resumed one, or if the resumed checkpoint lies
// there and is not of its history. `may_be_lost`: metrics without a checkpoint are allowed. For
// rank 0.
void check_out(const std::string& out, const std::optional<CheckpointReader>& resumed, bool may_be_lost);

// Renames the metrics of a run that never reached a checkpoint to metrics.jsonl.1, or to the first
// number that is free. Only for rank 0.
void keep_lost_metrics(const std::string& out);

}  // namespace axonn
