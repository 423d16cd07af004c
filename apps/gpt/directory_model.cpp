#include "directory_model.hpp"

#include <filesystem>
#include <utility>

#include <axonn/model/hugging_face/model_directory.hpp>
#include <axonn/model/hugging_face/write_model.hpp>

#include "run_origin.hpp"

namespace {

class OfDirectory : public axonn::TrainedModel {
 public:
  explicit OfDirectory(axonn::ModelDirectory directory) : directory_(std::move(directory)) {}
  const std::filesystem::path& directory() const override { return directory_.path(); }
  void load(axonn::Context& context, const axonn::Parameters& parameters) const override {
    directory_.load(context, parameters);
  }

 private:
  axonn::ModelDirectory directory_;
};

}  // namespace

std::filesystem::path files_of(const axonn::TrainedModel& model) {
  return model.state() == nullptr ? model.directory() : axonn::origin_of_run(model.directory().parent_path());
}

std::optional<axonn::Tokenizer> tokenizer_of(const axonn::TrainedModel& model) {
  const std::filesystem::path files = files_of(model);
  if (model.state() != nullptr && model.state()->tokenizer == kNoTokenizer) return std::nullopt;
  if (model.state() != nullptr) return axonn::Tokenizer::from_json(model.state()->tokenizer, files);
  if (!axonn::Tokenizer::is_in(files)) return std::nullopt;
  return axonn::Tokenizer::from_files(files);
}

std::unique_ptr<axonn::TrainedModel> open_directory(const std::string& path, GptOptions& options) {
  if (!axonn::is_model_directory(path)) return nullptr;
  axonn::ModelDirectory directory(path);
  options.model.shape = directory.config().shape;
  return std::make_unique<OfDirectory>(std::move(directory));
}
