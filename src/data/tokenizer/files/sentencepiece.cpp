#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/files/readers.hpp"
#include "data/tokenizer/files/wire_reader.hpp"

// The names of fields and their numbers are those of SentencePiece's sentencepiece_model.proto.
namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";
constexpr const char* kSpaceLetter = "\u2581";
constexpr size_t kMostBytes = 1024;  // per piece: 16 characters are usual

enum class PieceType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Piece {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::normal;
};

struct Model {
  std::vector<Piece> pieces;
  uint64_t type = 1;  // an algorithm; the values are in kTypes
  int64_t begin = 1, end = 2;
  bool adds_space = true, removes_spaces = true, marks_spaces = true, spaces_behind = false;
  std::string_view normalizer;
  bool has_rules = false;  // whether the normalizer does more than nothing
};

constexpr std::string_view kTypes[] = {"?", "UNIGRAM", "BPE", "WORD", "CHAR"};

Piece read_piece(const FileText& file, std::string_view bytes) {
  Piece piece;
  WireReader reader(file.name(), bytes);
  while (const auto field = reader.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) piece.score = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->number == 3) piece.type = static_cast<PieceType>(std::min<uint64_t>(field->value, 7));
  }
  AXONN_CHECK(!piece.text.empty() && piece.text.size() <= kMostBytes && !first_invalid_utf8(piece.text) &&
                  std::isfinite(piece.score) && piece.type >= PieceType::normal && piece.type <= PieceType::byte,
              kWhere, file.name(), " has a broken piece '", printable(piece.text.substr(0, 80)),
              "'; download it again");
  return piece;
}

void read_trainer(const FileText& file, std::string_view bytes, Model& model) {
  WireReader reader(file.name(), bytes);
  while (const auto field = reader.next()) {
    if (field->number == 3) model.type = field->value;
    if (field->number == 24) model.spaces_behind = field->value != 0;
    if (field->number == 41) model.begin = static_cast<int64_t>(field->value);
    if (field->number == 42) model.end = static_cast<int64_t>(field->value);
  }
}

void read_normalizer(const FileText& file, std::string_view bytes, Model& model) {
  WireReader reader(file.name(), bytes);
  while (const auto field = reader.next()) {
    if (field->number == 1) model.normalizer = field->bytes;
    if (field->number == 2) model.has_rules = !field->bytes.empty();
    if (field->number == 3) model.adds_space = field->value != 0;
    if (field->number == 4) model.removes_spaces = field->value != 0;
    if (field->number == 5) model.marks_spaces = field->value != 0;
  }
}

Model read_message(const FileText& file) {
  Model model;
  WireReader reader(file.name(), file.text);
  while (const auto field = reader.next()) {
    if (field->number == 1) model.pieces.push_back(read_piece(file, field->bytes));
    if (field->number == 2) read_trainer(file, field->bytes, model);
    if (field->number == 3) read_normalizer(file, field->bytes, model);
  }
  AXONN_CHECK(!model.pieces.empty(), kWhere, file.name(), " has no pieces; download it again");
  return model;
}

void refuse_if(bool asks, const FileText& file, std::string_view what, std::string_view known) {
  AXONN_CHECK(!asks, kWhere, file.name(), " asks for ", what, "; axonn's tokenizers have only ", known);
}

void check_known(const FileText& file, const Model& model) {
  const std::string type(kTypes[model.type < std::size(kTypes) ? model.type : 0]);
  refuse_if(type != "BPE", file, "the model " + type, "BPE; choose a model with such a tokenizer");
  refuse_if(model.has_rules, file, "the normalizer " + printable(model.normalizer), "identity");
  refuse_if(model.removes_spaces, file, "remove_extra_whitespaces", "text as it is");
  refuse_if(!model.marks_spaces, file, "escape_whitespaces = false", "U+2581 in the place of a space");
  refuse_if(model.spaces_behind, file, "treat_whitespace_as_suffix", "spaces before a word");
  const bool unused = std::ranges::count(model.pieces, PieceType::unused, &Piece::type) > 0;
  refuse_if(unused, file, "unused pieces", "pieces that are used");
}

// Rank 0 has the highest score. Pieces of the same score have the same rank.
std::vector<uint32_t> ranks_of(const std::vector<float>& scores) {
  std::vector<float> order = scores;
  std::ranges::sort(order, std::greater{});
  order.erase(std::ranges::unique(order).begin(), order.end());
  std::vector<uint32_t> ranks;
  for (const float score : scores)
    ranks.push_back(static_cast<uint32_t>(std::ranges::lower_bound(order, score, std::greater{}) - order.begin()));
  return ranks;
}

void add_piece(const Piece& piece, int32_t token, TokenizerRules& rules) {
  rules.texts.emplace_back(piece.text);
  std::string& bytes = rules.bytes.emplace_back();
  switch (piece.type) {
    case PieceType::byte: {
      const auto byte = byte_of_name(piece.text);
      if (byte) rules.bpe.byte_tokens[*byte] = token;
      if (byte) bytes = static_cast<char>(*byte);
      break;
    }
    case PieceType::control:
      rules.special.push_back(token);
      break;
    case PieceType::unknown:
      rules.bpe.unknown = token;
      rules.special.push_back(token);
      bytes = " \u2047 ";  // as SentencePiece shows it
      break;
    default:
      bytes = with_spaces(piece.text);
      if (piece.type == PieceType::user_defined)
        rules.normalized_added.push_back({.content = std::string(piece.text), .token = token});
  }
}

void add_pieces(const FileText& file, const Model& model, TokenizerRules& rules) {
  std::vector<float> scores;
  Vocabulary seen(file.name());
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto token = static_cast<int32_t>(i);
    seen.add(piece.text, token, model.pieces.size());
    add_piece(piece, token, rules);
    if (piece.type != PieceType::normal && piece.type != PieceType::user_defined) continue;
    rules.bpe.pieces.emplace_back(piece.text, token);
    scores.push_back(piece.score);
  }
  AXONN_CHECK(rules.bpe.unknown >= 0, kWhere, file.name(), " has no unknown piece; download it again");
  rules.bpe.merges = merges_of_ranks(rules.bpe.pieces, ranks_of(scores));
}

std::optional<int32_t> control_token(const Model& model, int64_t id) {
  const bool found =
      id >= 0 && id < std::ssize(model.pieces) && model.pieces[static_cast<size_t>(id)].type == PieceType::control;
  return found ? std::optional(static_cast<int32_t>(id)) : std::nullopt;
}

}  // namespace

TokenizerRules read_sentencepiece(const FileText& file, const TokenizerConfig& config) {
  const Model model = read_message(file);
  check_known(file, model);
  TokenizerRules rules;
  if (model.adds_space) {
    rules.normalizers.push_back({.kind = Rewrite::Kind::prepend, .to = kSpaceLetter});
    rules.strip = TokenizerRules::Strip::one_space;
  }
  rules.normalizers.push_back({.kind = Rewrite::Kind::replace, .from = " ", .to = kSpaceLetter});
  rules.bpe.fuses_unknown = true;
  add_pieces(file, model, rules);
  rules.begin = control_token(model, model.begin);
  rules.end = control_token(model, model.end);
  if (rules.begin && config.adds_begin.value_or(true)) rules.before = {*rules.begin};
  if (rules.end && config.adds_end.value_or(false)) rules.after = {*rules.end};
  return rules;
}

}  // namespace axonn
