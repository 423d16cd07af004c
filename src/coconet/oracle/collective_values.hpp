#pragma once

#include "axonn/coconet/language/expression.hpp"
#include "coconet/oracle/oracle_memory.hpp"

namespace axonn::coconet {

// Writes a range of the elements of a collective, on every rank. A sum needs the contributions of
// all ranks. all_gather takes each element from the owner of its index, broadcast from the root.
void communicate(const Expression& collective, const OracleEntry& from, ElementRange range, RankValues& result);

// Every rank gives its elements to the same rank of another group.
void send(const OracleEntry& from, ElementRange range, RankValues& result);

}  // namespace axonn::coconet
