#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <axonn/core/error.hpp>
#include <axonn/core/join.hpp>
#include <axonn/core/log.hpp>
#include <axonn/hugging_face/config_file.hpp>
#include <axonn/model/decoder/model.hpp>
#include <axonn/program/checkpoint_command.hpp>
#include <axonn/tasks/text/generation.hpp>
#include <axonn/tasks/text/streamed_text.hpp>

#include "commands.hpp"
#include "directory_model.hpp"
#include "gpt_options.hpp"

namespace {

constexpr const char* kWhere = "gpt.generate";

class GenerateCommand : axonn::HoldsOptions<GptOptions>, public axonn::CheckpointCommand {
 public:
  GenerateCommand() : CheckpointCommand(options) {
    flags().add("generate", "prompt_file", prompt_file_, "file with the text to continue");
    flags().add("generate", "tokens", generation_.tokens, "most tokens to add");
    flags().add("generate", "temperature", generation_.temperature,
                "randomness of the draws; 0: always the most likely token");
    flags().add("generate", "top_k", generation_.top_k, "draw only from this many most likely tokens; 0: from all");
    flags().add("generate", "top_p", generation_.top_p,
                "draw only from the most likely tokens that have this probability together");
    flags().add("generate", "stop", stops_, "words that end the text; they are not written");
    flags().add("generate", "ignore_eos", ignore_eos_,
                "go on behind the tokens that end a text by the model's generation_config.json or tokenizer");
    flags().add("generate", "special", special_,
                "add the tokens that the tokenizer puts around a text, such as one that begins it");
    flags().add("generate", "sampling_seed", seed_, "seed of the draws");
    flags().add("generate", "cache", generation_.cached,
                "keep keys and values of earlier tokens, or compute them again for each token");
  }

  void set_verbose(bool verbose) override { verbose_ = verbose; }

  std::string name() const override { return "generate"; }
  std::string help() const override { return "write text with a trained model"; }

  void add_flags(CLI::App& app) override {
    CheckpointCommand::add_flags(app);
    app.add_option("--prompt", prompts_,
                   "text to continue (several times: several texts at once); empty: a line break, or the first "
                   "character of a vocabulary that has none");
    app.add_option("--ids", ids_, "token ids to continue, in the place of a text: 1,2,3; writes ids")->delimiter(',');
  }

 private:
  void check_flags() const override {
    AXONN_CHECK(generation_.tokens >= 0 && generation_.temperature >= 0 && generation_.top_k >= 0 && seed_ >= 0, kWhere,
                "--tokens, --temperature, --top-k and --sampling-seed must not be negative");
    AXONN_CHECK(generation_.top_p > 0 && generation_.top_p <= 1, kWhere, "--top-p must be above 0 and at most 1, got ",
                generation_.top_p);
    const int given = !prompts_.empty() + !prompt_file_.empty() + !ids_.empty();
    AXONN_CHECK(given <= 1, kWhere, "give one of --prompt, --prompt-file and --ids");
    axonn::StreamedText{stops_};  // its error
  }

  std::unique_ptr<axonn::TrainedModel> open_other(const std::string& path) override {
    return open_directory(path, options);
  }

  void check_model(const axonn::TrainedModel& model, const axonn::GridShape& grid) override {
    axonn::check_decoder(options.model, grid);
    tokenizer_ = tokenizer_of(model);
    if (!ignore_eos_) generation_.end_tokens = end_tokens(files_of(model));
    if (!ids_.empty()) return take_ids();
    AXONN_CHECK(tokenizer_, kWhere, "the model has no tokenizer; give token ids with --ids");
    for (const std::string& text : texts()) begin_with(text);
    generation_.vocabulary = tokenizer_->vocabulary_size();
    check_lengths();
  }

  std::vector<int32_t> end_tokens(const std::filesystem::path& files) const {
    const std::vector<int32_t> named = axonn::read_end_tokens(files);
    if (!named.empty() || !tokenizer_ || !tokenizer_->end_token()) return named;
    return {*tokenizer_->end_token()};
  }

  bool ends(int32_t token) const {
    return std::ranges::find(generation_.end_tokens, token) != generation_.end_tokens.end();
  }

  // As Hugging Face's library does: with a token that begins a text, and special tokens by name.
  void begin_with(const std::string& text) {
    begins_.push_back(text.empty() ? tokenizer_->beginning()
                                   : tokenizer_->encode(text, {.find_special = true, .add_special = special_}));
    const auto& begin = begins_.back();
    const auto alone = tokenizer_->encode("", {.add_special = special_});
    if (begin.size() > 1 && !alone.empty() && begin[0] == alone[0] && begin[1] == alone[0])
      axonn::log::warn(
          "the prompt begins twice: it has the token that the tokenizer puts before a text; leave it "
          "out, or use --no-special");
    shown_.push_back(text.empty() ? tokenizer_->decode(begins_.back(), {.skip_special = true}) : text);
  }

  void check_lengths() const {
    const auto longest = static_cast<size_t>(options.model.shape.sequence);
    for (const auto& begin : begins_)
      AXONN_CHECK(begin.size() <= longest, kWhere, "the prompt has ", begin.size(),
                  " tokens, and this model reads at most ", longest, "; make it shorter");
  }

  void take_ids() {
    const int64_t most = options.model.shape.vocabulary;
    std::vector<int32_t> begin;
    for (const int64_t id : ids_) {
      AXONN_CHECK(id >= 0 && id < most, kWhere, "--ids must be from 0 to ", most - 1, ", got ", id);
      begin.push_back(static_cast<int32_t>(id));
    }
    begins_ = {begin};
    check_lengths();
  }

  std::vector<std::string> texts() const {
    if (prompt_file_.empty()) return prompts_.empty() ? std::vector<std::string>{""} : prompts_;
    std::ifstream in(prompt_file_, std::ios::binary);
    AXONN_CHECK(in, kWhere, "cannot read --prompt-file ", prompt_file_, "; name a text file that every rank sees");
    return {std::string(std::istreambuf_iterator<char>(in), {})};
  }

  void use(axonn::Environment& environment, axonn::Context& context, const axonn::TrainedModel& model) override {
    axonn::Decoder network(context, options.model);
    load(context, network, model);
    generation_.seed = static_cast<uint64_t>(seed_);
    const bool prints = environment.rank() == 0;
    Clock clock;
    if (!ids_.empty()) {
      const auto all = axonn::generate_texts(context, network, begins_, generation_, [&](size_t, int32_t) {
        clock.token();
        return true;
      });
      if (prints) std::printf("%s\n", axonn::join(all.front(), ",").c_str());
    } else {
      write_texts(context, network, prints, clock);
    }
    if (prints && verbose_) std::fprintf(stderr, "%s\n", clock.text().c_str());
  }

  // The time to the first token, in which the prompts are read, and that of the others.
  class Clock {
   public:
    void token() {
      ++tokens_;
      last_ = std::chrono::steady_clock::now();
      if (tokens_ == 1) first_ = last_;
    }
    std::string text() const {
      const std::chrono::duration<double> reading = first_ - begin_, writing = last_ - first_;
      if (tokens_ == 0) return "no token";
      std::string text = axonn::detail::concatenate("the first token after ", reading.count(), " s");
      if (tokens_ > 1)
        text += axonn::detail::concatenate("; ", tokens_ - 1, " more in ", writing.count(), " s, ",
                                           static_cast<double>(tokens_ - 1) / writing.count(), " per s");
      return text;
    }

   private:
    int64_t tokens_ = 0;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), first_ = begin_, last_ = begin_;
  };

  // One text goes out as it comes; several follow each other when all are done.
  void write_texts(axonn::Context& context, axonn::Decoder& network, bool prints, Clock& clock) {
    std::vector<axonn::StreamedText> texts(begins_.size(), axonn::StreamedText(stops_));
    const bool one = begins_.size() == 1;
    const auto print = [&](const std::string& some) {
      if (!prints) return;
      std::fwrite(some.data(), 1, some.size(), stdout);
      std::fflush(stdout);
    };
    if (one) print(shown_.front());
    axonn::generate_texts(context, network, begins_, generation_, [&](size_t text, int32_t token) {
      clock.token();
      const std::string some = ends(token) ? "" : texts[text].add(tokenizer_->bytes_of(token));
      if (one) print(some);
      return !texts[text].ended();
    });
    for (size_t text = 0; text < texts.size(); ++text) {
      const std::string rest = texts[text].finish();
      print(one ? rest + "\n" : shown_[text] + texts[text].text() + "\n");
    }
  }

  axonn::GenerationOptions generation_;
  int64_t seed_ = 1;
  bool verbose_ = false, ignore_eos_ = false, special_ = true;
  std::vector<std::string> prompts_, stops_;
  std::vector<int64_t> ids_;
  std::string prompt_file_;
  std::optional<axonn::Tokenizer> tokenizer_;
  std::vector<std::vector<int32_t>> begins_;  // tokens of each prompt
  std::vector<std::string> shown_;            // and its text
};

}  // namespace

std::unique_ptr<axonn::Command> make_generate_command() { return std::make_unique<GenerateCommand>(); }
