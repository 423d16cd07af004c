#include "axonn/data/tokens/token_source.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

constexpr int64_t kBlock = 4096;           // tokens
constexpr int64_t kWholeTokens = 1 << 24;  // a shard of at most so many is read as a whole
constexpr int64_t kBlocks = 256;           // blocks of a larger one

// Calls use(begin, count) for the parts of a shard that are looked at before it is used.
template <typename Use>
void for_some_parts(int64_t tokens, const Use& use) {
  if (tokens <= kWholeTokens) {
    for (int64_t begin = 0; begin < tokens; begin += kBlock) use(begin, std::min(kBlock, tokens - begin));
    return;
  }
  const double between = static_cast<double>(tokens - kBlock) / static_cast<double>(kBlocks - 1);
  for (int64_t i = 0; i < kBlocks; ++i)
    use(std::min(static_cast<int64_t>(between * static_cast<double>(i)), tokens - kBlock), kBlock);
}

}  // namespace

class TokenSource::Row {
 public:
  Row(std::string name, int64_t tokens) : name_(std::move(name)), tokens_(tokens) {}
  virtual ~Row() = default;
  const std::string& name() const { return name_; }
  int64_t tokens() const { return tokens_; }

  virtual void read(int64_t begin, std::span<int64_t> into) const = 0;
  virtual void check_some_ids() const {}
  virtual uint64_t fingerprint() const = 0;

 protected:
  void check_range(int64_t begin, int64_t count) const {
    AXONN_CHECK(begin >= 0 && begin <= tokens() && count <= tokens() - begin, "data.token_source", name(), " has ",
                tokens(), " tokens; there are no ", count, " from number ", begin, " on");
  }

 private:
  std::string name_;
  int64_t tokens_;
};

class TokenSource::TextRow final : public Row {
 public:
  TextRow(std::string name, std::vector<int32_t> tokens)
      : Row(std::move(name), std::ssize(tokens)), all_(std::move(tokens)) {}

  void read(int64_t begin, std::span<int64_t> into) const override {
    check_range(begin, std::ssize(into));
    std::copy_n(all_.begin() + begin, into.size(), into.begin());
  }

  uint64_t fingerprint() const override {
    disk::Hash64 hash;
    hash.update(std::as_bytes(std::span(all_)));
    return hash.digest();
  }

 private:
  std::vector<int32_t> all_;
};

class TokenSource::ShardRow final : public Row {
 public:
  ShardRow(TokenShard shard, int64_t vocabulary)
      : Row(shard.name(), shard.tokens()), shard_(std::move(shard)), vocabulary_(vocabulary) {}

  void read(int64_t begin, std::span<int64_t> into) const override {
    shard_.read(begin, into);
    check_ids(begin, std::ssize(into));
  }

  void check_some_ids() const override {
    for_some_parts(tokens(), [&](int64_t begin, int64_t count) { check_ids(begin, count); });
  }

  uint64_t fingerprint() const override {
    disk::Hash64 hash;
    const int64_t count_of_all = tokens();
    hash.update(std::as_bytes(std::span(&count_of_all, 1)));
    std::vector<int32_t> part(kBlock);
    for_some_parts(tokens(), [&](int64_t begin, int64_t count) {
      const std::span<int32_t> some = std::span(part).first(static_cast<size_t>(count));
      shard_.read(begin, some);
      hash.update(std::as_bytes(some));
    });
    return hash.digest();
  }

 private:
  void check_ids(int64_t begin, int64_t count) const {
    shard_.check_vocabulary(vocabulary_, {.begin = begin, .end = begin + count});
  }

  TokenShard shard_;
  int64_t vocabulary_;
};

class TokenSource::PartsRow final : public Row {
 public:
  PartsRow(std::string name, std::vector<TokenShard> parts, int64_t vocabulary, uint64_t fingerprint)
      : Row(std::move(name), ends_of(parts).back()),
        parts_(std::move(parts)),
        ends_(ends_of(parts_)),
        vocabulary_(vocabulary),
        fingerprint_(fingerprint) {}

  void read(int64_t begin, std::span<int64_t> into) const override {
    check_range(begin, std::ssize(into));
    auto part = static_cast<size_t>(std::ranges::upper_bound(ends_, begin) - ends_.begin());
    while (!into.empty()) {
      const int64_t first = begin - (part == 0 ? 0 : ends_[part - 1]);
      const int64_t count = std::min(std::ssize(into), ends_[part] - begin);
      parts_[part].read(first, into.first(static_cast<size_t>(count)));
      parts_[part].check_vocabulary(vocabulary_, {.begin = first, .end = first + count});
      into = into.subspan(static_cast<size_t>(count));
      begin += count;
      ++part;
    }
  }

  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // The number of tokens up to and with each part.
  static std::vector<int64_t> ends_of(const std::vector<TokenShard>& parts) {
    std::vector<int64_t> ends;
    for (const TokenShard& part : parts) ends.push_back((ends.empty() ? 0 : ends.back()) + part.tokens());
    return ends;
  }

  std::vector<TokenShard> parts_;
  std::vector<int64_t> ends_;
  int64_t vocabulary_;
  uint64_t fingerprint_;
};

TokenSource::TokenSource(std::string name, std::vector<int32_t> tokens)
    : row_(std::make_shared<const TextRow>(std::move(name), std::move(tokens))) {}

TokenSource::TokenSource(TokenShard shard, int64_t vocabulary)
    : row_(std::make_shared<const ShardRow>(std::move(shard), vocabulary)) {}

TokenSource::TokenSource(std::string name, std::vector<TokenShard> parts, int64_t vocabulary, uint64_t fingerprint)
    : row_(std::make_shared<const PartsRow>(std::move(name), std::move(parts), vocabulary, fingerprint)) {}

const std::string& TokenSource::name() const { return row_->name(); }
int64_t TokenSource::tokens() const { return row_->tokens(); }
void TokenSource::read(int64_t begin, std::span<int64_t> into) const { row_->read(begin, into); }
void TokenSource::check_some_ids() const { row_->check_some_ids(); }
uint64_t TokenSource::fingerprint() const { return row_->fingerprint(); }

}  // namespace axonn
