#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <axonn/comm/same_file.hpp>
#include <axonn/core/error.hpp>
#include <axonn/core/utf8.hpp>
#include <axonn/data/text/questions.hpp>
#include <axonn/data/text/text_data.hpp>
#include <axonn/model/decoder/model.hpp>
#include <axonn/program/checkpoint_command.hpp>
#include <axonn/program/ranks/loaded_data.hpp>
#include <axonn/tasks/text/evaluation.hpp>

#include "commands.hpp"
#include "directory_model.hpp"
#include "evaluation_report.hpp"
#include "gpt_options.hpp"
#include "progress_line.hpp"

namespace {

constexpr const char* kWhere = "gpt.eval";

class EvalCommand : axonn::HoldsOptions<GptOptions>, public axonn::CheckpointCommand {
 public:
  EvalCommand() : CheckpointCommand(options) {
    flags().add("eval", "data", data_, "files or directories of text to predict, each a text of its own");
    flags().add("eval", "choices", choices_,
                "file of questions with endings: lines of JSON, or llm.c's file of HellaSwag");
    flags().add("eval", "sequence", sequence_, "tokens of a window of a text; 0: as many as the model takes",
                {.least = 0});
    flags().add("eval", "stride", stride_,
                "tokens that a window predicts, with earlier ones as its context; 0: all, without overlap",
                {.least = 0});
    flags().add("eval", "batch", rows_, "windows or endings per rank in one forward pass", {.least = 1});
    flags().add("eval", "limit", limit_, "most windows or questions, from the first; 0: all", {.least = 0});
    flags().add("eval", "json", json_, "print one JSON object in the place of a table");
  }

  std::string name() const override { return "eval"; }
  std::string help() const override { return "measure how well a trained model predicts text or endings"; }

 private:
  void check_flags() const override {
    AXONN_CHECK(data_.empty() != choices_.empty(), kWhere, "give one of --data and --choices");
    AXONN_CHECK(choices_.empty() || (sequence_ == 0 && stride_ == 0), kWhere,
                "--sequence and --stride are for --data; leave them out");
  }

  std::unique_ptr<axonn::TrainedModel> open_other(const std::string& path) override {
    return open_directory(path, options);
  }

  void check_model(const axonn::TrainedModel& model, const axonn::GridShape& grid) override {
    axonn::check_decoder(options.model, grid);
    tokenizer_ = tokenizer_of(model);
    if (choices_.empty()) {
      take_sequence();
      return read_texts();
    }
    questions_ = axonn::read_questions(choices_, tokenizer_ ? &*tokenizer_ : nullptr);
    cut(questions_);
  }

  void take_sequence() {
    constexpr int64_t kUsual = 8192;
    const int64_t longest = options.model.shape.sequence;
    AXONN_CHECK(sequence_ <= longest, kWhere, "--sequence must be at most ", longest, ", what the model takes, got ",
                sequence_);
    AXONN_CHECK(sequence_ > 0 || longest <= kUsual, kWhere, "the model takes ", longest,
                " tokens: say how long a window is, such as --sequence ", kUsual / 4);
    if (sequence_ == 0) sequence_ = longest;
    AXONN_CHECK(stride_ <= sequence_, kWhere, "--stride must be at most --sequence, got ", stride_, " and ", sequence_);
  }

  void read_texts() {
    AXONN_CHECK(tokenizer_, kWhere, "the model has no tokenizer; give tokens: --choices with llm.c's file");
    for (const std::string& path : data_) {
      const axonn::TextData& text = texts_.emplace_back(axonn::TextData::load({path}, *tokenizer_));
      const auto windows = axonn::windows_of(text.tokens(), sequence_, stride_);
      AXONN_CHECK(!windows.empty(), kWhere, axonn::shown_name(path),
                  " has one token, and the first one is not predicted; give a longer text");
      windows_.insert(windows_.end(), windows.begin(), windows.end());
    }
    cut(windows_);
  }

  void cut(auto& all) const {
    if (limit_ > 0 && limit_ < std::ssize(all)) all.resize(static_cast<size_t>(limit_));
  }

  // Ranks that score other texts than others would wait for each other, or sum what does not belong
  // together.
  void check_same(axonn::Communicator& everyone) const {
    if (!choices_.empty()) return axonn::check_same_file(everyone, {choices_, "file of questions", "--choices"});
    axonn::LoadedData mine;
    for (const axonn::TextData& text : texts_) {
      mine.fingerprint = mine.fingerprint * 31 + text.fingerprint();
      mine.facts.push_back({"the number of tokens", std::to_string(text.tokens().size())});
      mine.left_out += text.files().left_out_text();
    }
    axonn::check_ranks_read_the_same(everyone, mine);
  }

  void use(axonn::Environment& environment, axonn::Context& context, const axonn::TrainedModel& model) override {
    check_same(environment.world());
    axonn::Decoder network(context, options.model);
    load(context, network, model);
    const bool prints = environment.rank() == 0;
    choices_.empty() ? score_texts(context, network, prints) : score_questions(context, network, prints);
  }

  void score_texts(axonn::Context& context, axonn::Decoder& network, bool prints) const {
    TextResult result{.bytes = axonn::scored_bytes(*tokenizer_, windows_),
                      .windows = std::ssize(windows_),
                      .sequence = sequence_,
                      .stride = stride_};
    {
      const ProgressLine line(prints);
      result.score = axonn::score_texts(context, network, windows_, scoring(line, "window"));
    }
    if (prints) print_result(result, json_);
  }

  void score_questions(axonn::Context& context, axonn::Decoder& network, bool prints) const {
    axonn::ChoiceScore score;
    {
      const ProgressLine line(prints);
      score = axonn::score_questions(context, network, questions_, scoring(line, "ending"));
    }
    if (prints) print_result(score, questions_, json_);
  }

  axonn::EvaluationOptions scoring(const ProgressLine& line, const char* what) const {
    return {.rows = rows_, .progress = [&line, what](int64_t done, int64_t all) {
              line.show(axonn::detail::concatenate(what, " ", done, "/", all, "  ", line.time_left(done, all)));
            }};
  }

  std::vector<std::string> data_;
  std::string choices_;
  int64_t sequence_ = 0, stride_ = 0, rows_ = 4, limit_ = 0;
  bool json_ = false;
  std::optional<axonn::Tokenizer> tokenizer_;
  std::deque<axonn::TextData> texts_;  // windows refer to them
  std::vector<axonn::ScoredText> windows_;
  std::vector<axonn::Question> questions_;
};

}  // namespace

std::unique_ptr<axonn::Command> make_eval_command() { return std::make_unique<EvalCommand>(); }
