#include "comm/watch/call_signature.hpp"

#include <cstring>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

namespace axonn {

uint64_t signature_of(const FlightRecorder::Call& call, uint64_t shape, uint64_t before) {
  const bool alone = call.point_to_point();
  struct {
    int64_t bytes;
    uint64_t moment, shape, before, collective, tag;
    int64_t type, operation, root;
  } const words{.bytes = call.bytes,
                .moment = call.details.moment,
                .shape = shape,
                .before = alone ? 0 : before,
                .collective = alone ? 0 : XXH3_64bits(call.collective.data(), call.collective.size()),
                .tag = XXH3_64bits(call.tag.data(), call.tag.size()),
                .type = call.details.type,
                .operation = call.details.operation,
                .root = call.details.root};
  return XXH3_64bits(&words, sizeof words);
}

}  // namespace axonn
