#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/wide_vectors.hpp"

// Passes over a row of attention's scores in fp32 or fp64, for bodies of with_wide_vectors().
namespace axonn {

template <typename T>
struct Wide;
template <>
struct Wide<float> {
  using Vector = float __attribute__((vector_size(64)));
  using Words = int32_t __attribute__((vector_size(64)));
  static constexpr float kLeast = -87, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F, kRounds = 12582912;
  static constexpr int kMantissa = 23, kTerms = 7;
};
template <>
struct Wide<double> {
  using Vector = double __attribute__((vector_size(64)));
  using Words = int64_t __attribute__((vector_size(64)));
  static constexpr double kLeast = -708, kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10,
                          kRounds = 6755399441055744;
  static constexpr int kMantissa = 52, kTerms = 13;
};
template <typename T>
using WideVector = typename Wide<T>::Vector;

template <typename T>
inline constexpr int64_t kWidth = 64 / static_cast<int64_t>(sizeof(T));

template <typename T>
constexpr int64_t padded(int64_t columns) {
  return (columns + kWidth<T> - 1) / kWidth<T> * kWidth<T>;
}

template <typename T>
AXONN_INLINE void load(const T* from, WideVector<T>& to) {
  std::memcpy(&to, from, sizeof to);
}
template <typename T>
AXONN_INLINE void store(const WideVector<T>& from, T* to) {
  std::memcpy(to, &from, sizeof from);
}

// x = exp(x) to a few units in the last place: 0 where x is below kLeast. Of n = round(x / ln 2)
// and the rest r: 2^n times the Taylor series of exp(r). Adding kRounds leaves n in the last bits.
template <typename T>
AXONN_INLINE void exponential(WideVector<T>& x) {
  using Words = typename Wide<T>::Words;
  const WideVector<T> rounded = x * static_cast<T>(1.44269504088896340736) + Wide<T>::kRounds,
                      whole = rounded - Wide<T>::kRounds,
                      rest = x - whole * Wide<T>::kLn2High - whole * Wide<T>::kLn2Low;
  WideVector<T> sum = rest / static_cast<T>(Wide<T>::kTerms) + 1;
  for (int term = Wide<T>::kTerms - 1; term > 0; --term) sum = sum * rest * (1 / static_cast<T>(term)) + 1;
  Words words, exponents;
  std::memcpy(&words, &sum, sizeof words);
  std::memcpy(&exponents, &rounded, sizeof exponents);
  words += exponents << Wide<T>::kMantissa;
  std::memcpy(&sum, &words, sizeof sum);
  x = x < Wide<T>::kLeast ? WideVector<T>{} : sum;
}

// A row of a tile of scores: its columns from `begin` to `end` are seen by its query.
template <typename T>
struct ScoreRow {
  T* scores;
  int64_t columns;  // padded()
  int64_t begin, end;

  AXONN_INLINE bool empty() const { return begin >= end; }
  // Those of whole vectors around the seen ones.
  AXONN_INLINE int64_t first() const { return begin / kWidth<T> * kWidth<T>; }
  AXONN_INLINE int64_t last() const { return padded<T>(end); }

  AXONN_INLINE void add(const T* some) const {
    AXONN_INDEPENDENT for (int64_t i = begin; i < end; ++i) scores[i] += some[i];
  }
  AXONN_INLINE void multiply(const T* some) const {
    AXONN_INDEPENDENT for (int64_t i = begin; i < end; ++i) scores[i] *= some[i];
  }
  // Minus infinity in place of what is not seen, from first() to last().
  AXONN_INLINE void hide() const {
    std::fill(scores + first(), scores + begin, -std::numeric_limits<T>::infinity());
    std::fill(scores + end, scores + last(), -std::numeric_limits<T>::infinity());
  }
  // 0 before first() and from last() on.
  AXONN_INLINE void clear_rest(T* row) const {
    std::fill(row, row + first(), T{0});
    std::fill(row + last(), row + columns, T{0});
  }
};

template <typename T>
AXONN_INLINE T greatest_of(const ScoreRow<T>& row) {
  WideVector<T> most, some;
  load<T>(row.scores + row.first(), most);
  for (int64_t i = row.first() + kWidth<T>; i < row.last(); i += kWidth<T>) {
    load<T>(row.scores + i, some);
    most = most > some ? most : some;
  }
  T greatest = most[0];
  for (int64_t i = 1; i < kWidth<T>; ++i) greatest = std::max(greatest, most[i]);
  return greatest;
}

// scores = exp(scores - from); their sum.
template <typename T>
AXONN_INLINE T exponentials(const ScoreRow<T>& row, T from) {
  WideVector<T> sums = {}, some;
  for (int64_t i = row.first(); i < row.last(); i += kWidth<T>) {
    load<T>(row.scores + i, some);
    some -= from;
    exponential<T>(some);
    store<T>(some, row.scores + i);
    sums += some;
  }
  T sum = sums[0];
  for (int64_t i = 1; i < kWidth<T>; ++i) sum += sums[i];
  return sum;
}

// The state of a query after the keys that it has seen so far.
template <typename T>
struct SeenSoFar {
  T& greatest;
  T& sum;
  T* output;
  int64_t features;
};

// scores = exp(scores + added - greatest), times `factors`, with the greatest score so far.
template <typename T>
AXONN_INLINE void see(const ScoreRow<T>& row, const T* added, const T* factors, const SeenSoFar<T>& query) {
  if (row.empty()) return std::fill(row.scores, row.scores + row.columns, T{0});
  if (added != nullptr) row.add(added);
  row.hide();
  const T greatest = std::max(query.greatest, greatest_of(row)),
          from = greatest == -std::numeric_limits<T>::infinity() ? T{0} : greatest;
  const T sum = exponentials(row, from);
  if (greatest != query.greatest) {
    const T shrunk = std::exp(query.greatest - from);
    for (int64_t i = 0; i < query.features; ++i) query.output[i] *= shrunk;
    query.sum *= shrunk;
    query.greatest = greatest;
  }
  query.sum += sum;
  if (factors != nullptr) row.multiply(factors);
  row.clear_rest(row.scores);
}

// scores = probabilities, as they were kept after dropout; changes, the gradients of these, become
// those of the scores. `logarithm` is that of the query's sum, `dot` that of output and gradient.
template <typename T>
AXONN_INLINE void see_backward(const ScoreRow<T>& row, T* changes, const T* added, const T* factors, T logarithm,
                               T dot) {
  if (row.empty()) {
    std::fill(row.scores, row.scores + row.columns, T{0});
    return std::fill(changes, changes + row.columns, T{0});
  }
  if (added != nullptr) row.add(added);
  row.hide();
  if (factors != nullptr) {
    AXONN_INDEPENDENT for (int64_t i = row.begin; i < row.end; ++i) changes[i] *= factors[i];
  }
  WideVector<T> probability, change;
  for (int64_t i = row.first(); i < row.last(); i += kWidth<T>) {
    load<T>(row.scores + i, probability);
    load<T>(changes + i, change);
    probability -= logarithm;
    exponential<T>(probability);
    store<T>(probability, row.scores + i);
    change = probability * (change - dot);
    store<T>(change, changes + i);
  }
  if (factors != nullptr) row.multiply(factors);
  row.clear_rest(row.scores);
  row.clear_rest(changes);
}

}  // namespace axonn
