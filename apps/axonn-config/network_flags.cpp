// Which network: a model, sizes by flags, or both.
#include <algorithm>
#include <variant>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/network/gpt/gpt_network.hpp>
#include <axonn/network/unet/unet_network.hpp>
#include <axonn/perfmodel/network_file.hpp>

#include "network_flags.hpp"

namespace {

constexpr const char* kWhere = "axonn_config.network";

void set(int64_t& size, int64_t given) {
  if (given != 0) size = given;
}

void set(std::vector<int64_t>& sizes, const std::vector<int64_t>& given) {
  if (!given.empty()) sizes = given;
}

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

void NetworkFlags::add_flags(CLI::App& app) {
  const auto number = [&](const char* flag, int64_t& size, const char* help, const char* group) {
    app.add_option(flag, size, help)->group(group);
  };
  const auto list = [&](const char* flag, std::vector<int64_t>& sizes, const char* help) {
    app.add_option(flag, sizes, help)->delimiter(',')->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->group("UNet");
  };
  app.add_option("--model", model,
                 "gpt5b .. gpt80b, gpt-124m, gpt-tiny; unet250m .. unet4b, unet-cifar, unet-tiny; a .toml file of the trainer; Hugging "
                 "Face's config.json of a transformer; the flags below override its sizes")
      ->group("network");
  number("--heads", heads, "attention heads", "network");
  number("--layers", layers, "transformer blocks", "transformer");
  number("--hidden", hidden, "features of the residual stream", "transformer");
  number("--sequence", sequence, "tokens of a sequence", "transformer");
  number("--vocab", vocabulary, "vocabulary", "transformer");
  app.add_flag("--tied", tied, "the head's weight is the embedding")->group("transformer");
  number("--image", image, "height and width of a picture", "UNet");
  number("--channels", channels, "of a picture", "UNet");
  number("--base", base, "channels of the first level", "UNet");
  list("--multipliers", multipliers, "of base, one a level: 1,2,2,2");
  number("--blocks", blocks, "residual blocks a level", "UNet");
  list("--attention", attention, "heights that have attention: 16,8");
  number("--groups", groups, "of every norm", "UNet");
  number("--classes", classes, "0: no class conditioning", "UNet");
  app.add_flag("--scale-shift", scale_shift, "the time embedding scales the second norm of a block")->group("UNet");
  app.add_flag("--learned-variance", learned_variance, "twice the channels come out")->group("UNet");
}

const char* NetworkFlags::transformers_own() const {
  return layers != 0       ? "--layers"
         : hidden != 0     ? "--hidden"
         : sequence != 0   ? "--sequence"
         : vocabulary != 0 ? "--vocab"
         : tied            ? "--tied"
                           : nullptr;
}

const char* NetworkFlags::unets_own() const {
  if (base != 0) return "--base";
  if (image != 0 || channels != 0) return image != 0 ? "--image" : "--channels";
  if (!multipliers.empty() || !attention.empty()) return multipliers.empty() ? "--attention" : "--multipliers";
  if (blocks != 0 || groups != 0 || classes != 0) return blocks != 0 ? "--blocks" : groups != 0 ? "--groups" : "--classes";
  return scale_shift ? "--scale-shift" : learned_variance ? "--learned-variance" : nullptr;
}

axonn::NetworkModel NetworkFlags::network() const {
  const char *of_transformer = transformers_own(), *of_unet = unets_own();
  AXONN_CHECK(
      !model.empty() || of_transformer != nullptr || of_unet != nullptr || heads != 0, kWhere,
      "which network? --model gpt80b or unet2b; or --layers, --hidden, --heads, --sequence and --vocab; or --base, --multipliers, ...");
  axonn::NetworkShape shape;
  if (!model.empty())
    shape = axonn::find_network(model);
  else if (of_unet != nullptr)
    shape = axonn::UnetShape();
  const bool unet = std::holds_alternative<axonn::UnetShape>(shape);
  const char* foreign = unet ? of_transformer : of_unet;
  AXONN_CHECK(foreign == nullptr, kWhere, foreign, " is a size of ", unet ? "transformers, and " : "UNets, and ",
              model.empty() ? "the other flags describe" : model + " is", unet ? " a UNet" : " a transformer");
  return unet ? axonn::unet_network(model.empty() ? "unet" : model, overridden(std::get<axonn::UnetShape>(shape)))
              : axonn::gpt_network(model.empty() ? "transformer" : model, overridden(std::get<axonn::GptShape>(shape)));
}

axonn::GptShape NetworkFlags::overridden(axonn::GptShape shape) const {
  set(shape.layers, layers);
  set(shape.hidden, hidden);
  set(shape.heads, heads);
  set(shape.sequence, sequence);
  set(shape.vocabulary, vocabulary);
  shape.tied_head = shape.tied_head || tied;
  return shape;
}

axonn::UnetShape NetworkFlags::overridden(axonn::UnetShape shape) const {
  set(shape.image, image);
  set(shape.channels, channels);
  set(shape.base, base);
  set(shape.multipliers, multipliers);
  set(shape.blocks, blocks);
  set(shape.attention, attention);
  set(shape.heads, heads);
  set(shape.groups, groups);
  set(shape.classes, classes);
  shape.scale_shift = shape.scale_shift || scale_shift;
  shape.learned_variance = shape.learned_variance || learned_variance;
  return shape;
}

std::string NetworkFlags::repeated() const {
  std::string flags = model.empty() ? "" : " --model " + model;
  const auto number = [&](const char* flag, int64_t value) {
    if (value != 0) flags += std::string(" ") + flag + " " + std::to_string(value);
  };
  const auto list = [&](const char* flag, const std::vector<int64_t>& values) {
    if (!values.empty()) flags += std::string(" ") + flag + " " + joined(values);
  };
  number("--heads", heads);
  number("--layers", layers);
  number("--hidden", hidden);
  number("--sequence", sequence);
  number("--vocab", vocabulary);
  number("--image", image);
  number("--channels", channels);
  number("--base", base);
  list("--multipliers", multipliers);
  number("--blocks", blocks);
  list("--attention", attention);
  number("--groups", groups);
  number("--classes", classes);
  if (tied) flags += " --tied";
  if (scale_shift) flags += " --scale-shift";
  if (learned_variance) flags += " --learned-variance";
  return flags;
}
