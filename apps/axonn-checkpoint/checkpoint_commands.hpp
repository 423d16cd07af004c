#pragma once

#include <string>
#include <vector>

// The commands of axonn-checkpoint. Each returns the exit status.
struct CheckpointOptions {
  std::vector<std::string> paths;
  std::string group;           // tensors of one group only; empty: see tensors_of()
  bool verify = false;         // ls: compares every checksum
  bool configuration = false;  // show: the run's configuration
  bool tensors = false;        // show: every tensor
  // diff
  double tolerance = 0;
  int most = 20;  // rows of the table
  // export
  std::string out;
  std::string dtype;             // empty: as stored
  std::string shard_size = "0";  // bytes with k, M or G; 0: one file
  bool overwrite = false;
};

int list_checkpoints(const CheckpointOptions& options);
int show_checkpoint(const CheckpointOptions& options);
int verify_checkpoints(const CheckpointOptions& options);
int compare_tensors(const CheckpointOptions& options);
int export_tensors(const CheckpointOptions& options);
