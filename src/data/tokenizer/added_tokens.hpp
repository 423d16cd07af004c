#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace axonn {

// A token that is found in a text as a whole, before the text is split into words.
struct AddedToken {
  std::string content;  // not empty
  int32_t token = 0;
  bool special = false;  // a control token: a text that only shows it must not become it
  // Whether it takes the white space before and after it, too.
  bool takes_left = false, takes_right = false;
};

// Finds added tokens in texts: the leftmost, and of those that begin at one place the longest.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls use(part, token) for all parts of `text` in order, which is valid UTF-8: for added
  // tokens, and with nullptr for what lies between, if it is not empty. Special tokens count as
  // text unless `find_special`.
  template <typename Use>
  void split(std::string_view text, bool find_special, const Use& use) const {
    size_t done = 0;  // bytes given to `use`
    for (size_t at = 0; !tokens_.empty() && (at = next_begin(text, at)) < text.size();) {
      const AddedToken* const found = longest_at(text, at);
      const size_t end = at + (found == nullptr ? 1 : found->content.size());
      if (found == nullptr || (found->special && !find_special)) {
        at = end;
        continue;
      }
      const size_t from = found->takes_left ? before_white(text, done, at) : at;
      const size_t to = found->takes_right ? after_white(text, end) : end;
      if (from > done) use(text.substr(done, from - done), nullptr);
      use(text.substr(from, to - from), found);
      at = done = to;
    }
    if (done < text.size()) use(text.substr(done), nullptr);
  }

 private:
  // A node of the tree of all contents; the first is the root.
  struct Node {
    int32_t token = -1;  // index of the content that ends here
    std::vector<std::pair<char, int32_t>> next;
  };

  int32_t next_node(int32_t node, char letter) const;
  size_t next_begin(std::string_view text, size_t at) const;
  const AddedToken* longest_at(std::string_view text, size_t at) const;
  static size_t before_white(std::string_view text, size_t least, size_t at);
  static size_t after_white(std::string_view text, size_t at);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  // by first byte
};

}  // namespace axonn
