#include "axonn/tasks/text/text_task.hpp"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/network/decoder/decoder_network.hpp"
#include "axonn/tasks/text/evaluation.hpp"
#include "core/files.hpp"
#include "kernels/gpu/placed.hpp"
#include "tasks/sample_file.hpp"
#include "train/evaluating.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr int64_t kIds = 0, kTargets = 1, kBegins = 2;

// Row `index` of one of the planes (planes, rows, sequence).
std::span<int64_t> row(const Tensor& planes, int64_t which, int64_t index) {
  const int64_t sequence = planes.size(2);
  return {planes.mutable_data_ptr<int64_t>() + (which * planes.size(1) + index) * sequence,
          static_cast<size_t>(sequence)};
}

}  // namespace

TextTask::TextTask(Context& context, Decoder& model, const TokenData& data, uint64_t seed, int64_t validation_rows,
                   std::optional<int32_t> document_end)
    : context_(context),
      model_(model),
      data_(data),
      windows_(data, model.config().shape.sequence, seed),
      validation_rows_(validation_rows),
      document_end_(document_end) {
  AXONN_CHECK(data.vocabulary() <= model.config().shape.vocabulary, "model.gpt", "the tokenizer has ",
              data.vocabulary(), " tokens, more than the model's vocabulary of ", model.config().shape.vocabulary,
              "; raise --vocab (0 takes the tokenizer's)");
}

double TextTask::paper_flops_per_sample() const { return checkpointed_flops(model_.config().shape, 1); }

double TextTask::flops_per_sample() const {
  return model_flops_per_token(model_.config().shape) * static_cast<double>(model_.config().shape.sequence);
}

Tensor TextTask::planes_of(int64_t rows) const {
  return at::zeros({document_end_ ? 3 : 2, rows, model_.config().shape.sequence}, at::kLong);
}

// The document of a token begins behind the last end of one before it, or with the row.
void TextTask::set_begins(const Tensor& planes, int64_t index) const {
  if (!document_end_) return;
  const std::span<const int64_t> ids = row(planes, kIds, index);
  const std::span<int64_t> begins = row(planes, kBegins, index);
  for (size_t i = 1; i < ids.size(); ++i)
    begins[i] = ids[i - 1] == *document_end_ ? static_cast<int64_t>(i) : begins[i - 1];
}

Tensor TextTask::loss_of(const Tensor& planes) {
  return model_.loss_sum(planes[kIds], planes[kTargets], document_end_ ? planes[kBegins] : Tensor());
}

std::vector<Tensor> TextTask::inputs(int64_t first, int64_t count) {
  const Tensor planes = planes_of(count);
  for (int64_t i = 0; i < count; ++i) {
    windows_.read(first + i, row(planes, kIds, i), row(planes, kTargets, i));
    set_begins(planes, i);
  }
  return {planes};
}

Tensor TextTask::loss_sum(const std::vector<Tensor>& inputs) { return loss_of(inputs[0]); }

std::string TextTask::why_no_validation() const {
  const int64_t sequence = model_.config().shape.sequence, held_out = data_.validation_tokens();
  if (windows_.validation_windows() > 0) return "";
  if (held_out == 0) return "--validation-fraction is 0, so no text is held out";
  return detail::concatenate("the held-out part of the data has ", held_out, " tokens, and one sequence needs ",
                             sequence + 1, "; a larger --validation-fraction or --val-data holds more out");
}

std::optional<double> TextTask::epochs(int64_t samples) const {
  const std::optional<int64_t> epoch = windows_.epoch();
  if (!epoch) return std::nullopt;
  return static_cast<double>(samples) / static_cast<double>(*epoch);
}

// Of the tokens, not of the windows' texts: a text may lose a space where it begins.
int64_t TextTask::count_validation_bytes() {
  const auto sequence = static_cast<size_t>(model_.config().shape.sequence);
  std::vector<int64_t> ids(sequence), targets(sequence);
  int64_t bytes = 0;
  for (int64_t window = 0; window < windows_.validation_windows(); ++window) {
    windows_.read_validation(window, ids, targets);
    for (const int64_t target : targets)
      if (const auto token = static_cast<int32_t>(target); !data_.tokenizer()->is_special(token))
        bytes += std::ssize(data_.tokenizer()->bytes_of(token));
  }
  return bytes;
}

std::optional<double> TextTask::bits_per_byte(double validation_loss) {
  if (!data_.tokenizer()) return std::nullopt;
  if (!validation_bytes_) validation_bytes_ = count_validation_bytes();
  if (*validation_bytes_ == 0) return std::nullopt;
  const int64_t tokens = windows_.validation_windows() * model_.config().shape.sequence;
  return TextScore{.nats = validation_loss * static_cast<double>(tokens), .tokens = tokens}.bits_per_byte(
      *validation_bytes_);
}

void TextTask::set_samples(const TextSamples& samples) {
  check_samples(samples, data_.tokenizer(), model_.config().shape.sequence);
  samples_ = samples;
}

std::vector<std::filesystem::path> TextTask::write_samples(const std::filesystem::path& run_directory, int64_t step) {
  const auto text =
      continued_text(context_, model_, data_.tokenizer().value(), samples_, [this] { return is_to_stop(); });
  if (context_.rank() != 0 || !text) return {};
  const std::filesystem::path file = sample_file(run_directory, step, ".txt");
  disk::write_synced(file, *text + "\n");
  return {file};
}

std::optional<double> TextTask::validate() {
  const int64_t sequence = model_.config().shape.sequence, windows = windows_.validation_windows();
  if (windows == 0) return std::nullopt;
  const Evaluating evaluating(model_, context_, Phase::evaluate);
  const RowShare share = context_.row_share();
  const auto device = context_.options().device;
  double sum = 0;
  // Every rank runs the same number of forwards; rows past the last window contribute nothing.
  for (int64_t begin = 0; begin < windows; begin += share.groups * validation_rows_) {
    if (is_to_stop()) return std::nullopt;
    const int64_t rows = share.rows(windows - begin, validation_rows_);
    Tensor planes = planes_of(rows);
    planes[kTargets].fill_(kIgnoredTarget);
    for (int64_t i = 0; i < rows; ++i)
      if (const int64_t window = begin + share.mine * rows + i; window < windows) {
        windows_.read_validation(window, row(planes, kIds, i), row(planes, kTargets, i));
        set_begins(planes, i);
      }
    planes = placed(planes, device);
    sum += loss_of(planes).item<double>();
  }
  Tensor total = at::scalar_tensor(sum, at::kDouble).to(device);
  total = context_.scheduler().all_reduce(std::move(total), kRowAxes, "validation loss").wait();
  return total.item<double>() / static_cast<double>(windows * sequence);
}

}  // namespace axonn
