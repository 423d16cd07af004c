#include "overlap/step/gather_order.hpp"

namespace axonn {

uint64_t GatherOrder::key(const Context& context) {
  constexpr int kBits = 30;  // bits per weight number
  return static_cast<uint64_t>(context.last.phase) << (2 * kBits) | static_cast<uint64_t>(context.before + 1) << kBits |
         static_cast<uint64_t>(context.last.weight + 1);
}

bool GatherOrder::note(Place next) {
  const auto [known, added] = next_.try_emplace(key(now_), next);
  const bool foretold = !added && known->second.weight == next.weight;
  known->second = next;
  now_ = {now_.last.weight, next};
  return foretold;
}

std::vector<GatherOrder::Place>& GatherOrder::predict(int count) {
  foretold_.clear();
  for (Context context = now_; static_cast<int>(foretold_.size()) < count;) {
    const auto known = next_.find(key(context));
    if (known == next_.end()) break;
    foretold_.push_back(known->second);
    context = {context.last.weight, known->second};
  }
  return foretold_;
}

}  // namespace axonn
