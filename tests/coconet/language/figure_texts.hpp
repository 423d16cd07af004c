#pragma once

#include <array>
#include <string_view>

namespace axonn::coconet {

// CoCoNet's figures and the optimizers beside them, as to_text() prints them.
struct Figure {
  std::string_view name, text;
};

inline constexpr std::array<Figure, 9> kFigures = {{
    {"Adam", R"(program adam
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
tensor m fp32 [N] replicated
tensor v fp32 [N] replicated
scalar lr = 0.001
scalar beta1 = 0.9
scalar beta2 = 0.999
scalar step
sum = all_reduce(+, g)
m1 = update(m, beta1 * m + (1 - beta1) * sum)
v1 = update(v, beta2 * v + (1 - beta2) * sum * sum)
w1 = update(w, w - lr * (m1 / (1 - beta1 ^ step)) / sqrt(v1 / (1 - beta2 ^ step)))
return w1
)"},
    {"AdamFused", R"(program adam
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
tensor m fp32 [N] sliced(0)
tensor v fp32 [N] sliced(0)
scalar lr = 0.001
fuse ar {
  rs = reduce_scatter(+, g, dim=0)
  m1 = update(m, 0.9 * m + 0.1 * rs)
  v1 = update(v, 0.999 * v + 0.001 * rs * rs)
  w1.slice = slice(w, dim=0) - lr * m1 / sqrt(v1)
  w1.gather = all_gather(w1.slice)
  w1 = update(w, w1.gather)
}
return w1
)"},
    {"Lamb", R"(program lamb
size T, K
tensor g fp32 [T, K] local
tensor w fp32 [T, K] replicated
tensor m fp32 [T, K] replicated
tensor v fp32 [T, K] replicated
scalar lr = 0.002
scalar decay = 0.01
sum = all_reduce(+, g)
m1 = update(m, 0.9 * m + 0.1 * sum)
v1 = update(v, 0.999 * v + 0.001 * sum ^ 2)
u = m1 / (sqrt(v1) + 1e-06) + decay * w
rw = norm(w, dims=[1])
ru = norm(u, dims=[1])
ratio = cast(select(rw > 0, rw / ru, 1), fp32)
w1 = update(w, w - lr * ratio * u)
return w1
)"},
    {"Momentum", R"(program sgd
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
tensor m fp32 [N] sliced(0)
scalar lr
rs = reduce_scatter(+, g, dim=0)
m1 = update(m, 0.9 * m + rs / ranks)
gathered = all_gather(m1)
w1 = update(w, w - lr * gathered)
)"},
    {"Clipped", R"(program clipped
size N
tensor g fp32 [N] local
tensor w fp32 [N] replicated
scalar lr = 0.1
scalar most = 1
rs = reduce_scatter(+, g, dim=0)
squares = reduce_tensor(+, rs * rs)
total = all_reduce(+, squares)
factor = min(most / sqrt(total), 1)
w1.slice = slice(w, dim=0) - lr * factor * rs
w1.gather = all_gather(w1.slice)
w1 = update(w, w1.gather)
return w1, total
)"},
    {"MixedPrecision", R"(program mixed
size N
tensor g bf16 [N] local
tensor w fp32 [N] replicated
tensor h bf16 [N] replicated
scalar lr = 0.1
sum = all_reduce(+, g)
w1 = update(w, w - lr * cast(sum, fp32))
h1 = update(h, cast(w1, bf16))
return w1, h1
)"},
    {"SelfAttention", R"(program attention
size B, H, S
tensor in fp16 [B, S, H] sliced(2)
tensor w fp16 [H, H] sliced(0)
tensor b fp16 [H] replicated
tensor r fp16 [B, S, H] replicated
layer = matmul(in, w)
sum = all_reduce(+, layer)
out = dropout(sum + b, 0.1, stream=7) + r
return out
)"},
    {"SelfAttentionOverlap", R"(program attention
size B, H, S
tensor in fp16 [B, S, 4*H] sliced(2)
tensor w fp16 [4*H, H] sliced(0)
tensor b fp16 [H] replicated
tensor r fp16 [B, S, H] replicated
overlap all {
  layer = matmul(in, w)
  fuse ar {
    rs = reduce_scatter(+, layer, dim=1)
    part = dropout(rs + b, 0.1) + slice(r, dim=1)
    out = all_gather(part)
  }
}
return out
)"},
    {"PipelineBorder", R"(program border
groups 2
size B, H
tensor in fp16 [B, H] local
tensor b fp16 [H] replicated
tensor r fp16 [B, H] replicated
tensor back fp16 [B, H] local on 1
overlap all {
  rs = reduce_scatter(+, in, dim=0)
  fuse border {
    part = dropout(rs + b, 0.1) + slice(r, dim=0)
    there = send(part, GroupRank(GROUP+1, RANK))
  }
  out = all_gather(there)
}
here = send(back, GroupRank(GROUP-1, RANK))
return out, here
)"},
}};

}  // namespace axonn::coconet
