#include "axonn/config/option_table.hpp"

#include <cmath>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "axonn/config/command_line.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Scratch;

enum class Color { red, green };
enum class Device { cpu, cuda };

}  // namespace

template <>
struct Names<Color> {
  static constexpr Named<Color> all[] = {{"red", Color::red}, {"green", Color::green}};
};

template <>
struct Names<Device> {
  static constexpr Named<Device> all[] = {{"cpu", Device::cpu}, {"cuda", Device::cuda}};
};

namespace {

struct Config {
  int64_t hidden = 128;
  int layers = 4;
  bool tied = true;
  int64_t micro_batch = 1;
  double rate = 3e-4;
  Device device = Device::cpu;
  std::vector<std::string> data;
  std::vector<int64_t> multipliers = {1, 2, 2};
  Color color = Color::red;
  std::optional<Color> shade;
  std::vector<Color> colors;
  int64_t tokens = 1024;
};

struct Program {
  Config config;
  OptionTable table;
  CLI::App app{"a program", "gpt"};

  Program() {
    table.add("model", "hidden", config.hidden, "features of the residual stream");
    table.add("model", "layers", config.layers, "blocks");
    table.add("train", "micro_batch", config.micro_batch, "samples per rank per forward pass");
    table.add("train", "rate", config.rate, "learning rate");
    table.add("model", "tied", config.tied, "the head shares the embedding");
    table.add("train", "device", config.device, "where to compute");
    table.add("model", "multipliers", config.multipliers, "channels per level, in multiples of base");
    table.add("data", "data", config.data, "files and directories");
    table.add("data", "color", config.color, "color of the progress bar");
    table.add("data", "shade", config.shade, "shade of the bar's end; auto: as it fits");
    table.add("data", "colors", config.colors, "colors of the curves");
    table.add("data", "tokens", config.tokens, "tokens of a sequence",
              {.least = 1, .most = 1 << 24, .suffixes = Suffixes::binary});
    table.add_flags(app);
  }

  std::optional<std::string> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "gpt");
    return parse_command_line(app, words);
  }
};

TEST(Options, EveryKindIsReadFromTheCommandLine) {
  Program p;
  EXPECT_EQ(p.parse({"--hidden",
                     "384",
                     "--layers=6",
                     "--no-tied",
                     "--micro-batch",
                     "2k",
                     "--rate",
                     "1e-3",
                     "--device",
                     "cuda",
                     "--data",
                     "a",
                     "b",
                     "--color",
                     "green",
                     "--multipliers",
                     "1",
                     "3",
                     "--shade",
                     "red",
                     "--colors",
                     "red,green",
                     "--tokens",
                     "8k"}),
            std::nullopt);
  EXPECT_EQ(p.config.hidden, 384);
  EXPECT_EQ(p.config.layers, 6);
  EXPECT_FALSE(p.config.tied);
  EXPECT_EQ(p.config.micro_batch, 2000);
  EXPECT_EQ(p.config.rate, 1e-3);
  EXPECT_EQ(p.config.device, Device::cuda);
  EXPECT_EQ(p.config.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.config.color, Color::green);
  EXPECT_EQ(p.config.multipliers, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(p.config.shade, Color::red);
  EXPECT_EQ(p.config.colors, (std::vector<Color>{Color::red, Color::green}));
  EXPECT_EQ(p.config.tokens, 8192);
  p.parse({"--shade", "auto", "--multipliers", "1,2,2"});
  EXPECT_EQ(p.config.shade, std::nullopt);
  EXPECT_EQ(p.config.multipliers, (std::vector<int64_t>{1, 2, 2}));
}

TEST(Options, AListOfNumbersMayBeEmpty) {
  Program p;
  p.parse({"--multipliers", "--hidden", "1"});
  EXPECT_EQ(p.config.multipliers, std::vector<int64_t>());
  EXPECT_USER_ERROR(p.parse({"--multipliers", "1", "x"}), "--multipliers must be a whole number, got 'x'");
}

TEST(Options, TheLastOfTwoFlagsHolds) {
  Program p;
  p.parse({"--hidden", "1", "--tied", "--hidden", "2", "--no-tied", "--data", "a", "--data", "b"});
  EXPECT_EQ(p.config.hidden, 2);
  EXPECT_FALSE(p.config.tied);
  EXPECT_EQ(p.config.data, (std::vector<std::string>{"a", "b"}));
}

TEST(Options, NegativeNumbersAreValues) {
  Program p;
  p.parse({"--hidden", "-3", "--rate", "-0.5"});
  EXPECT_EQ(p.config.hidden, -3);
  EXPECT_EQ(p.config.rate, -0.5);
}

TEST(Options, EveryKindIsReadFromToml) {
  Program p;
  p.table.read_toml(
      "[model]\nhidden = 384\nlayers = 6\ntied = false\nmultipliers = [2, 4]\n[train]\nmicro_batch = 3\nrate = "
      "1\ndevice = 'cuda'\n"
      "[data]\ndata = ['a', 'b']\ncolor = 'green'\n",
      "my.toml");
  EXPECT_EQ(p.config.hidden, 384);
  EXPECT_EQ(p.config.layers, 6);
  EXPECT_FALSE(p.config.tied);
  EXPECT_EQ(p.config.micro_batch, 3);
  EXPECT_EQ(p.config.rate, 1.0);
  EXPECT_EQ(p.config.device, Device::cuda);
  EXPECT_EQ(p.config.data, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.config.color, Color::green);
  EXPECT_EQ(p.config.multipliers, (std::vector<int64_t>{2, 4}));
  p.table.read_toml("[data]\nshade = 'green'\ncolors = ['green', 'red']\ntokens = '2k'\n", "my.toml");
  EXPECT_EQ(p.config.shade, Color::green);
  EXPECT_EQ(p.config.colors, (std::vector<Color>{Color::green, Color::red}));
  EXPECT_EQ(p.config.tokens, 2048);
  p.table.read_toml("[data]\ndata = 'one'\n", "my.toml");
  EXPECT_EQ(p.config.data, (std::vector<std::string>{"one"}));
}

TEST(Options, FlagBeatsFileBeatsCheckpointBeatsDefaultInAnyOrder) {
  Program p;
  p.parse({"--hidden", "3"});
  p.table.read_toml("[model]\nhidden = 2\nlayers = 2\n", "my.toml");
  p.table.read_json(R"({"model": {"hidden": 1, "layers": 1, "tied": false}})", "step-000001");
  EXPECT_EQ(p.config.hidden, 3);
  EXPECT_EQ(p.config.layers, 2);
  EXPECT_FALSE(p.config.tied);
  EXPECT_EQ(p.config.micro_batch, 1);
  EXPECT_EQ(p.table.source("hidden"), OptionTable::Source::flag);
  EXPECT_EQ(p.table.source("layers"), OptionTable::Source::file);
  EXPECT_EQ(p.table.source("tied"), OptionTable::Source::checkpoint);
  EXPECT_EQ(p.table.source("rate"), OptionTable::Source::fallback);
}

TEST(Options, AnUnknownKeyNamesTheLineAndTheNearestKey) {
  Scratch scratch;
  Program p;
  const std::string path = scratch.file("my.toml", "# mine\n\n[model]\nlayers = 4\nhiden = 3\n");
  EXPECT_EQ(test::user_error([&] { p.table.read_toml_file(path); }),
            path + ":5: unknown key 'hiden' in [model]; did you mean 'hidden'?");
}

TEST(Options, AnUnknownSectionNamesTheNearest) {
  Program p;
  EXPECT_USER_ERROR(p.table.read_toml("[modle]\n", "my.toml"),
                    "my.toml:1: unknown section [modle]; did you mean 'model'?");
}

TEST(Options, AKeyInTheWrongPlaceNamesItsSection) {
  Program p;
  EXPECT_USER_ERROR(p.table.read_toml("[train]\nhidden = 3\n", "my.toml"),
                    "my.toml:2: unknown key 'hidden' in [train]; it belongs in [model]");
  EXPECT_USER_ERROR(p.table.read_toml("hidden = 3\n", "my.toml"),
                    "my.toml:1: key 'hidden' stands outside of a section; it belongs in [model]");
}

TEST(Options, AWrongTypeSaysWhatItIsAndMustBe) {
  Program p;
  const auto refused = [&](const std::string& section, const std::string& line) {
    return test::user_error([&] { p.table.read_toml("[" + section + "]\n" + line + "\n", "my.toml"); });
  };
  EXPECT_EQ(refused("model", "hidden = \"abc\""),
            "my.toml:2: 'hidden' in [model] is a string (\"abc\"), it must be a whole number");
  EXPECT_EQ(refused("model", "hidden = 3.5"),
            "my.toml:2: 'hidden' in [model] is a number with a fraction (3.5), it must be a whole number");
  EXPECT_EQ(refused("model", "tied = 1"),
            "my.toml:2: 'tied' in [model] is a whole number (1), it must be true or false");
  EXPECT_EQ(refused("train", "rate = true"),
            "my.toml:2: 'rate' in [train] is true or false (true), it must be a number");
  EXPECT_EQ(refused("data", "data = [1]"),
            "my.toml:2: 'data' in [data] is a list ([1]), it must be a string or a list of strings");
  EXPECT_EQ(refused("model", "layers = 3000000000"), "my.toml:2: 'layers' in [model] is out of range: 3000000000");
  EXPECT_EQ(refused("train", "rate = inf"), "my.toml:2: 'rate' in [train] must be a finite number");
  EXPECT_EQ(refused("train", "device = 'cudda'"),
            "my.toml:2: 'device' in [train] must be one of cpu, cuda, got 'cudda'; did you mean 'cuda'?");
  EXPECT_EQ(refused("model", "layers = 1979-05-27"),
            "my.toml:2: 'layers' in [model] is a value of another kind (null), it must be a whole number");
}

TEST(Options, AWrongValueInAFileIsRefusedEvenWhenAFlagWins) {
  Program p;
  p.parse({"--hidden", "3"});
  EXPECT_USER_ERROR(p.table.read_toml("[model]\nhidden = 'abc'\n", "my.toml"), "it must be a whole number");
}

TEST(Options, BrokenTomlNamesTheLine) {
  Program p;
  EXPECT_USER_ERROR(p.table.read_toml("[model]\nhidden = = 3\n", "my.toml"), "my.toml:2: ");
  EXPECT_USER_ERROR(p.table.read_toml_file("no/such.toml"), "no/such.toml");
}

TEST(Options, AnUnknownFlagNamesTheNearest) {
  EXPECT_EQ(test::user_error([] { Program().parse({"--hiden", "3"}); }),
            "unknown flag '--hiden'; did you mean '--hidden'?");
  EXPECT_EQ(test::user_error([] { Program().parse({"--micro_batch=3"}); }),
            "unknown flag '--micro_batch'; did you mean '--micro-batch'?");
  EXPECT_EQ(test::user_error([] { Program().parse({"--no-teid"}); }),
            "unknown flag '--no-teid'; did you mean '--no-tied'?");
  EXPECT_EQ(test::user_error([] { Program().parse({"3"}); }), "unexpected argument '3'");
}

TEST(Options, SubcommandsTakeSectionsOfTheirOwn) {
  Program p;
  CLI::App* generate = p.app.add_subcommand("generate", "writes text");
  p.table.add_flags(*generate, {"train"});
  EXPECT_EQ(test::user_error([&] { p.parse({"generate", "--devise", "cpu"}); }),
            "unknown flag '--devise'; did you mean '--device'?");
  EXPECT_EQ(test::user_error([&] { p.parse({"generat"}); }), "unexpected argument 'generat'; did you mean 'generate'?");
  p.parse({"generate", "--device", "cuda"});
  EXPECT_EQ(p.config.device, Device::cuda);
}

TEST(Options, AWrongFlagValueNamesTheFlag) {
  EXPECT_EQ(test::user_error([] { Program().parse({"--hidden", "12a"}); }),
            "--hidden must be a whole number, got '12a'");
  EXPECT_EQ(test::user_error([] { Program().parse({"--layers", "99999999999"}); }),
            "--layers must be a whole number, got '99999999999'");
  EXPECT_EQ(test::user_error([] { Program().parse({"--rate", "nan"}); }), "--rate must be a finite number, got 'nan'");
  EXPECT_EQ(test::user_error([] { Program().parse({"--device", "gpu"}); }),
            "--device must be one of cpu, cuda, got 'gpu'; did you mean 'cpu'?");
  EXPECT_USER_ERROR(Program().parse({"--hidden"}), "--hidden");
}

TEST(Options, HelpListsEveryFlagWithDefaultAndUnit) {
  const auto text = Program().parse({"--help"});
  ASSERT_TRUE(text);
  for (const char* part : {"[model]", "--hidden INT", "(default: 128)", "--tied,--no-tied",
                           "per rank per forward pass (default: 1)", "cpu|cuda", "red|green"})
    EXPECT_NE(text->find(part), std::string::npos) << part << "\n" << *text;
  EXPECT_EQ(text->find("{false}"), std::string::npos) << *text;
}

TEST(Options, FlagsForExpertsAreInHelpAllOnly) {
  Program p;
  CLI::App app("a program", "gpt"), plain("another", "plain");
  p.table.for_experts({"model", "train.rate"});
  CLI::App& command = *app.add_subcommand("generate", "writes text");
  p.table.add_flags(app);
  p.table.add_flags(command);
  app.add_flag("--fast")->group(expert_group("Options"));
  const auto help = [](CLI::App& of, std::vector<const char*> words) { return parse_command_line(of, words).value(); };
  for (const std::vector<const char*>& words : {std::vector{"gpt"}, {"gpt", "generate"}}) {
    std::vector<const char*> first = words, all = words;
    first.push_back("--help");
    all.push_back("--help-all");
    const std::string every = help(app, all), page = help(app, first);
    for (const std::string flag : {"--hidden", "--rate"}) {
      EXPECT_EQ(page.find(flag), std::string::npos) << page;
      EXPECT_NE(every.find(flag), std::string::npos) << every;
    }
    for (const std::string& text : {page, every}) {
      EXPECT_NE(text.find("--micro-batch"), std::string::npos) << text;
      EXPECT_EQ(text.find("experts)"), std::string::npos) << text;
    }
    EXPECT_NE(page.find("--help-all"), std::string::npos) << page;
    EXPECT_EQ(every.find("[train]"), every.rfind("[train]")) << every;
  }
  EXPECT_NE(help(app, {"gpt", "--help-all"}).find("--fast"), std::string::npos);
  EXPECT_EQ(help(app, {"gpt", "--help"}).find("--fast"), std::string::npos);
  EXPECT_FALSE(parse_command_line(app, std::vector<const char*>{"gpt", "--hidden", "7"}));
  EXPECT_EQ(p.config.hidden, 7);
  EXPECT_EQ(test::user_error([&] { help(plain, {"plain", "--help-all"}); }), "unknown flag '--help-all'");
}

TEST(Options, WhatIsWrittenReadsBackBitForBit) {
  Program a;
  a.config = {.hidden = -7,
              .layers = 9,
              .tied = false,
              .micro_batch = int64_t{1} << 60,
              .rate = 0.1 + 0.2,
              .device = Device::cuda,
              .data = {"a \"b\"\n\\", "é\x01"},
              .multipliers = {},
              .color = Color::green};
  const auto expect_same = [&](const Config& b) {
    EXPECT_EQ(b.hidden, a.config.hidden);
    EXPECT_EQ(b.layers, a.config.layers);
    EXPECT_EQ(b.tied, a.config.tied);
    EXPECT_EQ(b.micro_batch, a.config.micro_batch);
    EXPECT_EQ(b.rate, a.config.rate);
    EXPECT_EQ(b.device, a.config.device);
    EXPECT_EQ(b.data, a.config.data);
    EXPECT_EQ(b.multipliers, a.config.multipliers);
    EXPECT_EQ(b.color, a.config.color);
  };
  Program from_toml, from_json;
  from_toml.table.read_toml(a.table.to_toml(), "own");
  expect_same(from_toml.config);
  from_json.table.read_json(a.table.to_json(), "own");
  expect_same(from_json.config);
}

// Names of files are any bytes; JSON and TOML are UTF-8.
TEST(Options, PathsOfAnyBytesComeBack) {
  Program a;
  a.config.data = {"caf\xe9/\xff\xc3", "größe", "line\nbreak"};
  Program from_toml, from_json;
  from_toml.table.read_toml(a.table.to_toml(), "own");
  EXPECT_EQ(from_toml.config.data, a.config.data);
  from_json.table.read_json(a.table.to_json(), "own");
  EXPECT_EQ(from_json.config.data, a.config.data);
  EXPECT_FALSE(a.table.first_difference(from_json.table.to_json(), std::vector<std::string>{"data"}));
  EXPECT_NE(a.table.to_json().find("caf\\u0000e9"), std::string::npos) << a.table.to_json();
}

TEST(Options, LettersBeyondAsciiStandInStringsAlone) {
  Program p;
  p.table.read_toml("[data]  # für alle\ndata = 'größe'\n", "my.toml");
  EXPECT_EQ(p.config.data, std::vector<std::string>{"größe"});
  EXPECT_USER_ERROR(p.table.read_toml("[model]\nhidden = é\n", "my.toml"),
                    "my.toml:2: a letter that is not ASCII may stand only in a string or a comment");
}

TEST(Options, WhatDiffersFromAFileIsFound) {
  Program a, b;
  a.config.multipliers = {1, 3};
  a.config.rate = 0.5;
  const auto differs = [&](std::vector<std::string> keys) { return a.table.first_difference(b.table.to_json(), keys); };
  EXPECT_FALSE(differs({"hidden", "tied", "color"}));
  ASSERT_TRUE(differs({"hidden", "multipliers", "rate"}));
  EXPECT_EQ(differs({"hidden", "multipliers", "rate"})->key, "multipliers");
  EXPECT_EQ(differs({"multipliers"})->mine, "1,3");
  EXPECT_EQ(differs({"multipliers"})->theirs, "1,2,2");
  EXPECT_EQ(differs({"rate"})->mine, "0.5");
  EXPECT_FALSE(a.table.first_difference("{}", std::vector<std::string>{"rate"})) << "a key that the file does not know";
}

TEST(Options, WrittenTomlGroupsKeysBySection) {
  EXPECT_EQ(Program().table.to_toml(),
            "[model]\nhidden = 128\nlayers = 4\ntied = true\nmultipliers = [1, 2, 2]\n\n[train]\nmicro_batch = 1\nrate "
            "= 0.0003\ndevice = "
            "\"cpu\"\n\n"
            "[data]\ndata = []\ncolor = \"red\"\nshade = \"auto\"\ncolors = []\ntokens = 1024\n");
}

TEST(Options, NumbersHaveLimits) {
  EXPECT_EQ(test::user_error([] { Program().parse({"--tokens", "0"}); }), "--tokens must be from 1 to 16777216, got 0");
  EXPECT_EQ(test::user_error([] { Program().table.read_toml("[data]\ntokens = 0\n", "my.toml"); }),
            "my.toml:2: 'tokens' in [data] must be from 1 to 16777216, got 0");
}

TEST(Options, OnlyTheNamedPlacesOfAFileAreRead) {
  Program p;
  p.table.read_toml("[model]\nhidden = 7\n[data]\ncolor = 'green'\ncolour = 1\n[other]\nx = 1\n", "my.toml",
                    {"model", "data.color"});
  EXPECT_EQ(p.config.hidden, 7);
  EXPECT_EQ(p.config.color, Color::green);
  EXPECT_USER_ERROR(p.table.read_toml("[model]\nhiden = 7\n", "my.toml", {"model"}), "unknown key 'hiden'");
}

TEST(Options, GivenFlagsAreRepeated) {
  Program p;
  p.parse({"--hidden", "1k", "--no-tied", "--multipliers", "1", "2", "--device", "cuda"});
  EXPECT_EQ(p.table.given_flags(), " --hidden 1000 --no-tied --multipliers 1,2 --device cuda");
  EXPECT_EQ(p.table.given_flags({"train"}), " --device cuda");
}

TEST(Options, FlagsOfTwoFieldsSetBoth) {
  OptionTable table(OptionTable::Use::flags);
  int64_t one = 1, other = 1;
  table.add("transformer", "heads", one, "attention heads");
  table.add("UNet", "heads", other, "attention heads");
  CLI::App app;
  table.add_flags(app);
  parse_command_line(app, std::vector<const char*>{"program", "--heads", "8"});
  EXPECT_EQ(one, 8);
  EXPECT_EQ(other, 8);
  EXPECT_EQ(table.given_flags(), " --heads 8");
}

TEST(Options, AFormerKeyIsReadEverywhereAndWrittenNowhere) {
  const auto made = [](int64_t& images, OptionTable& table, CLI::App& app) {
    table.add("data", "images", images, "number of images");
    table.add_former("images", "pictures");
    table.add_flags(app);
  };
  int64_t from_flag = 1, from_file = 1, from_checkpoint = 1;
  OptionTable flags, files, checkpoints;
  CLI::App first{"first"}, second{"second"}, third{"third"};
  made(from_flag, flags, first);
  made(from_file, files, second);
  made(from_checkpoint, checkpoints, third);
  ASSERT_EQ(parse_command_line(first, std::vector<const char*>{"first", "--pictures", "5"}), std::nullopt);
  files.read_toml("[data]\npictures = 6\n", "my.toml");
  checkpoints.read_json(R"({"data": {"pictures": 7}})", "manifest.json");
  EXPECT_EQ(from_flag, 5);
  EXPECT_EQ(from_file, 6);
  EXPECT_EQ(from_checkpoint, 7);
  EXPECT_EQ(files.to_toml(), "[data]\nimages = 6\n");
  EXPECT_EQ(files.source("images"), OptionTable::Source::file);
  const std::vector<std::string> keys = {"images"};
  const auto difference = files.first_difference(R"({"data": {"pictures": 7}})", keys);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->key + difference->mine + difference->theirs, "images67");
}

TEST(Options, AnOlderCheckpointHasTheValueThatItHadWithoutAChoice) {
  const std::string older = R"({"data": {"images": 7}})", newer = R"({"data": {"images": 7, "order": "sorted"}})";
  const auto read = [](const std::string& json, OptionTable& table, std::string& order, const char* flag = nullptr) {
    static int64_t images = 1;
    CLI::App app;
    table.add("data", "images", images, "number of images");
    table.add("data", "order", order, "order of images");
    table.add_absent("order", "shuffled");
    table.add_flags(app);
    parse_command_line(app, flag ? std::vector<const char*>{"p", "--order", flag} : std::vector<const char*>{"p"});
    table.read_json(json, "manifest.json");
    const std::vector<std::string> keys = {"order"};
    return table.first_difference(json, keys);
  };
  OptionTable first, second, third, fourth, fifth;
  std::string order = "sorted";
  EXPECT_FALSE(read(older, first, order));
  EXPECT_EQ(order, "shuffled");
  EXPECT_EQ(first.source("order"), OptionTable::Source::checkpoint);
  EXPECT_FALSE(read(newer, second, order));
  EXPECT_EQ(order, "sorted");
  const auto difference = read(older, third, order, "other");
  EXPECT_EQ(order, "other");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->key + " " + difference->mine + " " + difference->theirs, "order other shuffled");
  EXPECT_FALSE(read(older, fourth, order, "shuffled"));
  order = "sorted";
  EXPECT_FALSE(read("{}", fifth, order));  // a program without the section
  EXPECT_EQ(order, "sorted");
}

TEST(Options, AKeyInTwoSectionsIsABug) {
  Program p;
  EXPECT_THROW(p.table.add("other", "hidden", p.config.hidden, "again"), InternalError);
}

}  // namespace
}  // namespace axonn
