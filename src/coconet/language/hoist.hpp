#pragma once

#include "axonn/coconet/language/dataflow.hpp"

namespace axonn::coconet {

// Gives a statement of its own to every operation that must stand at the root of one, named after
// the statement in whose text it stands.
void hoist(ProgramParts& parts);

}  // namespace axonn::coconet
