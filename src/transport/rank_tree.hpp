#pragma once

#include <vector>

namespace axonn {

// The ranks of a job as a tree with rank 0 at its root; of up to five ranks, a star. The table of
// addresses goes along it, and so do notices of the job's end and letters about a hang. So no rank
// deals with many others.
int parent_of(int rank);  // any rank but 0 has one
std::vector<int> children_of(int rank, int ranks);

int ranks_below(int rank, int ranks);  // all levels, and `rank` itself
int tree_levels(int ranks);            // below rank 0
bool is_below(int rank, int other);    // or is `other` itself

}  // namespace axonn
