#pragma once

#include <optional>
#include <string>

#include "axonn/layers/add_to.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "kernels/dropout_draw.hpp"

namespace axonn {

// The mask of dropout() for values like `value`; nullopt for probability 0.
std::optional<DropoutDraw> feature_dropout(const Context& context, const Value& value, double probability,
                                           const std::string& name);
// The mask of what a layer adds; nullopt if `add` is null.
std::optional<DropoutDraw> feature_dropout(const Context& context, const AddTo* add);

// The mask of dropout_attention() for probabilities of the sizes and type of `like`; undefined for
// probability 0.
at::Tensor attention_dropout(const Context& context, const at::Tensor& like, double probability,
                             const std::string& name, const ProbabilitiesPlace& place);

}  // namespace axonn
