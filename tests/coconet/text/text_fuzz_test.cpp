#include <gtest/gtest.h>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/core/error.hpp"
#include "coconet/language/figure_texts.hpp"
#include "coconet/language/random_programs.hpp"

namespace axonn::coconet {
namespace {

// Changes a text as a careless hand or a broken file would.
void mutate(std::string& text, const std::vector<std::string>& texts, RandomPrograms& random) {
  static constexpr const char* kParts[] = {"(",    ")",      "[",        "]",         "{",
                                           "}",    ",",      "=",        "+",         "-",
                                           "*",    "^",      "<",        "==",        "#",
                                           "\n",   "fuse f", "overlap ", "return ",   "size",
                                           "dim=", "GROUP",  "1e-3",     "9e999",     "99999999999999999999",
                                           "on 1", "ranks",  "update(",  "sliced(1)", "fp32",
                                           ".",    "\x7f",   "max"};
  const auto place = [&](const std::string& where) {
    return static_cast<size_t>(random.number(static_cast<int>(where.size()) + 1));
  };
  const size_t at = place(text);
  const std::string& other = texts[static_cast<size_t>(random.number(static_cast<int>(texts.size())))];
  switch (random.number(8)) {
    case 0:
      text.insert(at, kParts[random.number(static_cast<int>(std::size(kParts)))]);
      break;
    case 1:
      text.insert(at, 1, static_cast<char>(random.number(256)));
      break;
    case 2:
      text.erase(at, static_cast<size_t>(random.number(3) == 0 ? random.number(60) : 1));
      break;
    case 3:
      if (const size_t with = place(text); at < text.size() && with < text.size()) std::swap(text[at], text[with]);
      break;
    case 4:
      if (random.number(8) == 0) text.resize(at);
      break;
    case 5:
      text.insert(at, other.substr(place(other), static_cast<size_t>(random.number(40))));
      break;
    case 6:  // a line of it once more
      if (const size_t line = text.find('\n', at); line != std::string::npos)
        text.insert(place(text), text.substr(line, text.find('\n', line + 1) - line));
      break;
    default:
      if (at < text.size()) text[at] = static_cast<char>('0' + random.number(64));
  }
}

TEST(ProgramTextFuzz, EveryTextIsAProgramThatIsReadBackOrAUserError) {
  RandomPrograms random(3);
  std::vector<std::string> texts;
  for (const Figure& figure : kFigures) texts.emplace_back(figure.text);
  while (texts.size() < 30)
    if (std::string text = to_text(random.program()); text.size() < 1500) texts.push_back(std::move(text));
  int programs = 0, errors = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = texts[static_cast<size_t>(i) % texts.size()];
    for (int change = random.number(2) * random.number(4); change >= 0; --change) mutate(text, texts, random);
    try {
      const Program program = parse_program_and_rest(text, "fuzz").program;
      ++programs;
      ASSERT_EQ(parse_program(to_text(program), "printed"), program) << text;
    } catch (const UserError& error) {
      ++errors;
      ASSERT_TRUE(error.sentence().starts_with("fuzz:")) << error.sentence() << "\n" << text;
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << text;
    }
  }
  EXPECT_GT(programs, 1000);
  EXPECT_GT(errors, 10000);
}

}  // namespace
}  // namespace axonn::coconet
