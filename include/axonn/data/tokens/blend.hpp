#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace axonn {

// The order in which samples come from several sources, so that after every sample each source has
// given less than one sample more or less than its share. It follows from the weights, and from
// nothing else.
//
// Of the sources that are behind their share, the next sample is from the one that has to give it
// first. That is scheduling by earliest deadline, which keeps every share if any order does
// (Baruah et al., Algorithmica 15, 1996). After a period, the sum of the weights, all begins again.
class Blend {
 public:
  // Whole numbers from 1 on, whose sum fits 62 bits. Common factors do not matter.
  explicit Blend(std::vector<int64_t> weights);

  struct Place {
    size_t source = 0;
    int64_t number = 0;  // counts the samples of this source, from 0
  };
  // The place of sample `number`, from 0. Takes one step per sample since the last call, or since
  // the beginning of the period if the number does not follow.
  Place at(int64_t number);

 private:
  size_t next();

  std::vector<int64_t> weights_, given_;  // given_: in this period
  int64_t period_ = 0, done_ = 0;
  size_t last_ = 0;
};

// "0.7" as a whole number of 10^-9. UserError unless it is a decimal number above 0, below 10^9,
// with at most 9 digits after the point; `what` names it.
int64_t parse_weight(std::string_view text, std::string_view what);

}  // namespace axonn
