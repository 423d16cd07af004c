#pragma once

#include <map>
#include <memory>

#include "axonn/coconet/language/dataflow.hpp"
#include "axonn/comm/environment.hpp"
#include "axonn/comm/programs/sliced_transfer.hpp"

namespace axonn {

// The ranks of a program's run: this rank's group, and the same rank of the groups that it sends to
// or receives from. Every rank of the job makes one.
class ExecutorRanks {
 public:
  // UserError unless the program has one group.
  ExecutorRanks(const coconet::Program& program, Communicator& group);
  // UserError unless each group of the program can have equally many ranks.
  ExecutorRanks(const coconet::Program& program, Environment& environment);

  int number() const { return number_; }  // the group's
  Communicator& group() const { return *group_; }
  SlicedTransfer& to(int group) { return transfers_.at(group); }

 private:
  int number_ = 0;
  std::unique_ptr<Communicator> made_;
  Communicator* group_ = nullptr;
  std::map<int, SlicedTransfer> transfers_;  // by the other group
};

}  // namespace axonn
