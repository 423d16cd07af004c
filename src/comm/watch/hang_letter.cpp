#include "comm/watch/hang_letter.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>
#include <string_view>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "transport/rank_tree.hpp"

namespace axonn {
namespace {

using nlohmann::json;

constexpr const char* kWhere = "comm.hang";
constexpr std::array<std::string_view, 6> kKinds = {"waits",  "ask",     "heard",
                                                    "answer", "verdict", "probe"};  // by HangLetter::Kind

json json_of(const HangState& state) {
  auto open = json::array();
  for (const auto& one : state.open)
    open.push_back({{"call", one.call}, {"members", one.members}, {"waits_for", one.waits_for}});
  return {{"rank", state.rank},
          {"host", state.host},
          {"step", state.step},
          {"waits", state.waits},
          {"open", open},
          {"last", state.last},
          {"last_numbers", state.last_numbers}};
}

HangState state_of(const json& words) {
  HangState state;
  words.at("rank").get_to(state.rank);
  words.at("host").get_to(state.host);
  words.at("step").get_to(state.step);
  words.at("waits").get_to(state.waits);
  for (const auto& one : words.at("open"))
    state.open.push_back({one.at("call"), one.at("members"), one.at("waits_for")});
  words.at("last").get_to(state.last);
  words.at("last_numbers").get_to(state.last_numbers);
  return state;
}

bool names_ranks_of(const HangState& state, int from, int ranks) {
  return state.rank < ranks && is_below(state.rank, from) &&
         std::ranges::all_of(
             state.open,
             [ranks](const HangState::Open& open) {
               return open.members.within(ranks) && open.waits_for >= -1 && open.waits_for < ranks;
             });
}

HangLetter parse(const std::vector<uint8_t>& bytes) {
  const json words = json::parse(bytes);
  const auto kind = std::ranges::find(kKinds, words.at("kind").get_ref<const std::string&>());
  if (kind == kKinds.end()) throw std::invalid_argument("it is of no known kind");
  HangLetter letter{
      .kind = static_cast<HangLetter::Kind>(kind - kKinds.begin()), .states = {}, .verdict = {}, .probe = {}};
  if (letter.kind == HangLetter::Kind::answer)
    for (const json& state : words.at("states")) letter.states.push_back(state_of(state));
  if (letter.kind == HangLetter::Kind::verdict) words.at("verdict").get_to(letter.verdict);
  if (letter.kind == HangLetter::Kind::probe) words.at("probe").get_to(letter.probe);
  return letter;
}

}  // namespace

// Texts, since their parser takes any depth of nesting. A tag may be cut within a character.
std::vector<uint8_t> HangLetter::bytes() const {
  json words = {{"kind", kKinds[static_cast<size_t>(kind)]}};
  if (kind == Kind::answer) {
    words["states"] = json::array();
    for (const HangState& state : states) words["states"].push_back(json_of(state));
  }
  if (kind == Kind::verdict) words["verdict"] = verdict;
  if (kind == Kind::probe) words["probe"] = probe;
  const std::string text = words.dump(-1, ' ', false, json::error_handler_t::replace);
  return {text.begin(), text.end()};
}

HangLetter HangLetter::read(const std::vector<uint8_t>& bytes, int from, int ranks) {
  std::string problem = "it names ranks that do not exist";
  try {
    HangLetter letter = parse(bytes);
    const auto valid = [&](const HangState& state) { return names_ranks_of(state, from, ranks); };
    if (std::ranges::all_of(letter.states, valid) && (letter.kind != Kind::probe || letter.probe.within(ranks)))
      return letter;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  throw BackendError(kWhere, detail::concatenate("a letter of rank ", from, " cannot be read: ", problem));
}

}  // namespace axonn
