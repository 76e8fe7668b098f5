// What lies between the matrix products of many models' convolutional layers, each as one pass over the memory.
//
// A map holds the activations of all lanes, [group of lanes][sample, row, column][lane in the group][channel]; with one
// lane in a group these are the lanes one after another. Threads work on eight channels at a time. Sums over the
// samples are made in two stages, both in a fixed order. `lane_of` says which row of the parameters a lane trains; below
// zero it is idle: computed along, and not written. `present` is the number of samples of a lane that are there, the
// first ones of its batch: others do not count in the statistics, and their gradient is zero.

#ifdef HALF
typedef unsigned short T;  // bfloat16
__device__ __forceinline__ void load8(const T* from, float* out) {
  uint4 v = *reinterpret_cast<const uint4*>(from);
  unsigned int words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ unsigned int packed(float low, float high) {
  unsigned int both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ void store8(T* to, const float* v) {
  *reinterpret_cast<uint4*>(to) = make_uint4(packed(v[0], v[1]), packed(v[2], v[3]), packed(v[4], v[5]), packed(v[6], v[7]));
}
__device__ __forceinline__ void load2(const T* from, float* out) {
  unsigned int both = *reinterpret_cast<const unsigned int*>(from);
  out[0] = __uint_as_float(both << 16);
  out[1] = __uint_as_float(both & 0xffff0000u);
}
__device__ __forceinline__ void store2(T* to, const float* v) { *reinterpret_cast<unsigned int*>(to) = packed(v[0], v[1]); }
__device__ __forceinline__ float number(T v) { return __uint_as_float((unsigned int)v << 16); }
__device__ __forceinline__ T stored(float v) { return (T)(packed(v, 0.0f) & 0xffffu); }
#else
typedef float T;
__device__ __forceinline__ void load8(const T* from, float* out) {
#pragma unroll
  for (int i = 0; i < 8; i += 4) {
    float4 v = *reinterpret_cast<const float4*>(from + i);
    out[i] = v.x; out[i + 1] = v.y; out[i + 2] = v.z; out[i + 3] = v.w;
  }
}
__device__ __forceinline__ void store8(T* to, const float* v) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
  *reinterpret_cast<float4*>(to + 4) = make_float4(v[4], v[5], v[6], v[7]);
}
__device__ __forceinline__ void load2(const T* from, float* out) { out[0] = from[0]; out[1] = from[1]; }
__device__ __forceinline__ void store2(T* to, const float* v) { to[0] = v[0]; to[1] = v[1]; }
__device__ __forceinline__ float number(T v) { return v; }
__device__ __forceinline__ T stored(float v) { return v; }
#endif
__device__ __forceinline__ float rounded(float v) { return number(stored(v)); }

typedef long long Long;

// Where a lane's numbers begin in a map; `rows` is the number of (sample, row, column).
__device__ __forceinline__ Long begin(int lane, int group, int rows, int channels) {
  return (Long)(lane / group) * rows * group * channels + (Long)(lane % group) * channels;
}

__device__ __forceinline__ bool thread_of(int lanes, int rows, int channels, int& lane, int& row, int& first) {
  int eighths = channels / 8;
  Long at = (Long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= (Long)lanes * rows * eighths) return false;
  int rest = (int)(at % ((Long)rows * eighths));
  lane = (int)(at / ((Long)rows * eighths));
  row = rest / eighths;
  first = rest % eighths * 8;
  return true;
}

#define SIZES samples, height, width, channels, out_height, out_width, kernel, padding, stride
#define SHAPE int samples, int height, int width, int channels, int out_height, int out_width, int kernel, int padding, int stride

// The columns [lane][output position][tap][channel] of a map: the pixels that each output depends on.
// K is the size of the kernel if it is known in advance, else 0.
template <int K>
__device__ __forceinline__ void columns_(const T* __restrict__ x, int group, T* __restrict__ out, int lanes, SHAPE) {
  int positions = samples * out_height * out_width, lane, row, first;
  if (!thread_of(lanes, positions, channels, lane, row, first)) return;
  if (K) kernel = K;
  int column = row % out_width, line = row / out_width % out_height, n = row / (out_width * out_height);
  const T* from = x + begin(lane, group, samples * height * width, channels) + first;
  T* to = out + ((Long)lane * positions + row) * kernel * kernel * channels + first;
#pragma unroll(K ? K * K : 1)
  for (int tap = 0; tap < kernel * kernel; ++tap) {
    int y = line * stride + tap / kernel - padding, z = column * stride + tap % kernel - padding;
    float v[8] = {};
    if (y >= 0 && y < height && z >= 0 && z < width)
      load8(from + (Long)((n * height + y) * width + z) * group * channels, v);
    store8(to + tap * channels, v);
  }
}

extern "C" __global__ void columns(const T* __restrict__ x, int group, T* __restrict__ out, int lanes, SHAPE) {
  if (kernel == 3) columns_<3>(x, group, out, lanes, SIZES);
  else columns_<0>(x, group, out, lanes, SIZES);
}

// The same for the images of the samples, channels first and in float32; the columns are filled up to `wide`.
extern "C" __global__ void image_columns(const float* images, const int* chosen, T* __restrict__ out, int lanes, int wide, SHAPE) {
  int positions = samples * out_height * out_width, lane, row, first;
  if (!thread_of(lanes, positions, wide, lane, row, first)) return;
  int column = row % out_width, line = row / out_width % out_height, n = row / (out_width * out_height);
  const float* from = images + (Long)max(chosen[lane * samples + n], 0) * channels * height * width;
  float v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    int tap = (first + i) / channels, c = (first + i) % channels;
    int y = line * stride + tap / kernel - padding, z = column * stride + tap % kernel - padding;
    bool inside = tap < kernel * kernel && y >= 0 && y < height && z >= 0 && z < width;
    v[i] = inside ? from[(c * height + y) * width + z] : 0.0f;
  }
  store8(out + ((Long)lane * positions + row) * wide + first, v);
}

// The gradient of a map from the gradient of its columns.
template <int K>
__device__ __forceinline__ void from_columns_(const T* __restrict__ grad, T* __restrict__ out, int group, int lanes, SHAPE) {
  int positions = samples * out_height * out_width, lane, row, first;
  if (!thread_of(lanes, samples * height * width, channels, lane, row, first)) return;
  if (K) kernel = K;
  int column = row % width, line = row / width % height, n = row / (width * height);
  const T* from = grad + (Long)lane * positions * kernel * kernel * channels + first;
  float sum[8] = {};
#pragma unroll(K ? K * K : 1)
  for (int tap = 0; tap < kernel * kernel; ++tap) {
    int y = line + padding - tap / kernel, z = column + padding - tap % kernel;
    bool whole = stride == 1 || (y % stride == 0 && z % stride == 0);
    if (stride != 1) { y /= stride; z /= stride; }
    float v[8] = {};
    if (whole && y >= 0 && y < out_height && z >= 0 && z < out_width)
      load8(from + ((Long)((n * out_height + y) * out_width + z) * kernel * kernel + tap) * channels, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += v[i];
  }
  store8(out + begin(lane, group, samples * height * width, channels) + (Long)row * group * channels + first, sum);
}

extern "C" __global__ void from_columns(const T* __restrict__ grad, T* __restrict__ out, int group, int lanes, SHAPE) {
  if (kernel == 3 && stride == 1) from_columns_<3>(grad, out, group, lanes, SIZES);
  else from_columns_<0>(grad, out, group, lanes, SIZES);
}

// Adds what the threads of a block hold for the same channels, and writes [lane][part][2][channel].
__device__ __forceinline__ void write_parts(float (*sums)[8], int across, int down, int channels, float* parts) {
  __shared__ float held[2][8][256];
#pragma unroll
  for (int k = 0; k < 2; ++k)
#pragma unroll
    for (int i = 0; i < 8; ++i) held[k][i][threadIdx.x] = sums[k][i];
  __syncthreads();
  Long to = ((Long)blockIdx.y * gridDim.x + blockIdx.x) * 2 * channels;
  for (int at = threadIdx.x; at < 2 * channels; at += blockDim.x) {
    int tx = at % across, i = at / across % 8, k = at / channels;
    float total = 0.0f;
    for (int t = 0; t < down; ++t) total += held[k][i][t * across + tx];
    parts[to + k * channels + tx * 8 + i] = total;
  }
}

// The rows of a block's share that a thread works on, for eight channels from `first`.
#define EACH_ROW(rows)                                                                            \
  int across = channels / 8, down = blockDim.x / across, first = threadIdx.x % across * 8;        \
  int lane = blockIdx.y, end = min(rows, (int)(blockIdx.x + 1) * rows_per_block);                 \
  int begins = threadIdx.x / across < down ? blockIdx.x * rows_per_block + threadIdx.x / across : end;

// Sums of a map's numbers and of their squares, both after subtraction of the first one, which saves digits.
extern "C" __global__ void moments(const T* __restrict__ x, int group, float* parts, const int* present, int rows, int per_sample,
                                   int channels, int rows_per_block) {
  EACH_ROW(present[blockIdx.y] * per_sample)
  float sums[2][8] = {}, origin[8];
  const T* from = x + begin(lane, group, rows, channels) + first;
  load8(from, origin);
#pragma unroll 8
  for (int row = begins; row < end; row += down) {
    float v[8];
    load8(from + (Long)row * group * channels, v);
#pragma unroll
    for (int i = 0; i < 8; ++i) { float d = v[i] - origin[i]; sums[0][i] += d; sums[1][i] += d * d; }
  }
  write_parts(sums, across, down, channels, parts);
}

// Of every lane and channel: mean, 1 / deviation, and the factor and the summand that normalisation amounts to.
// Running statistics change in place. Positions of parameters below zero: there is no such parameter.
extern "C" __global__ void finish_moments(
    const float* parts, int count, const T* __restrict__ x, int group, const int* present, int rows, int per_sample,
    int channels, const int* lane_of, const float* w, int size, int gamma, int beta, int bias, float* running_mean, float* running_var, Long* batches, float momentum,
    float eps, float* stats) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, lane = blockIdx.y, model = lane_of[lane];
  if (c >= channels) return;
  const float* own = w + (Long)(model < 0 ? 0 : model) * size;
  float* to = stats + (Long)lane * 6 * channels + c;
  float added = bias < 0 ? 0.0f : own[bias + c];
  if (gamma < 0) {
    to[0] = 0.0f; to[channels] = 1.0f; to[2 * channels] = 1.0f; to[3 * channels] = added;
    return;
  }
  float sum = 0.0f, squares = 0.0f;
  for (int p = 0; p < count; ++p) {
    const float* part = parts + ((Long)lane * count + p) * 2 * channels + c;
    sum += part[0]; squares += part[channels];
  }
  float counted = present[lane] * per_sample, off = sum / counted, var = fmaxf(squares / counted - off * off, 0.0f);
  float mean = number(x[begin(lane, group, rows, channels) + c]) + off, inverse = rsqrtf(var + eps);
  float scale = own[gamma + c] * inverse;
  to[0] = mean; to[channels] = inverse; to[2 * channels] = scale; to[3 * channels] = own[beta + c] - mean * scale;
  if (model < 0) return;
  Long at = (Long)model * channels + c;
  running_mean[at] += momentum * (mean + added - running_mean[at]);
  running_var[at] += momentum * (var * counted / (counted - 1.0f) - running_var[at]);
  if (c == 0) batches[model] += 1;
}

// The numbers of one window after normalisation, and which of them is passed on: its place, or -1 if ReLU cuts it off.
template <int P>
__device__ __forceinline__ void winners(const float (*v)[8], const float* scale, const float* shift, bool relu,
                                        float* best, int* place) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    best[i] = rounded(v[0][i] * scale[i] + shift[i]);
    place[i] = 0;
#pragma unroll
    for (int k = 1; k < P * P; ++k) {
      float u = rounded(v[k][i] * scale[i] + shift[i]);
      if (u > best[i] || u != u) { best[i] = u; place[i] = k; }
    }
    if (relu && best[i] <= 0.0f) { best[i] = 0.0f; place[i] = -1; }
  }
}

__device__ __forceinline__ void load_stats(const float* stats, int lane, int channels, int which, int first, float* out) {
  const float4* from = reinterpret_cast<const float4*>(stats + ((Long)lane * 6 + which) * channels + first);
  float4 low = from[0], high = from[1];
  out[0] = low.x; out[1] = low.y; out[2] = low.z; out[3] = low.w;
  out[4] = high.x; out[5] = high.y; out[6] = high.z; out[7] = high.w;
}

// The numbers of a window of a map; outside of the map they are zero.
template <int P>
__device__ __forceinline__ void load_window(const T* __restrict__ from, int n, int py, int px, int height, int width, Long step,
                                            float (*v)[8]) {
#pragma unroll
  for (int k = 0; k < P * P; ++k) {
    int y = py * P + k / P, z = px * P + k % P;
    if (y < height && z < width) load8(from + (Long)((n * height + y) * width + z) * step, v[k]);
    else
      for (int i = 0; i < 8; ++i) v[k][i] = 0.0f;
  }
}

// Normalisation, ReLU and max-pooling of P x P.
template <int P>
__device__ __forceinline__ void activate_(const T* __restrict__ y, int y_group, T* __restrict__ out, int out_group, const float* stats, int relu,
                                          int samples, int height, int width, int channels, int rows_per_block) {
  int ph = height / P, pw = width / P, windows = samples * ph * pw;
  EACH_ROW(windows)
  float scale[8], shift[8];
  load_stats(stats, lane, channels, 2, first, scale);
  load_stats(stats, lane, channels, 3, first, shift);
  const T* from = y + begin(lane, y_group, samples * height * width, channels) + first;
  T* to = out + begin(lane, out_group, windows, channels) + first;
#pragma unroll 4
  for (int row = begins; row < end; row += down) {
    float v[P * P][8], best[8];
    int place[8];
    load_window<P>(from, row / (pw * ph), row / pw % ph, row % pw, height, width, (Long)y_group * channels, v);
    winners<P>(v, scale, shift, relu, best, place);
    store8(to + (Long)row * out_group * channels, best);
  }
}

// Sums over the samples of the gradient before normalisation, and of its product with the normalised numbers.
template <int P>
__device__ __forceinline__ void gradient_sums_(const T* __restrict__ grad, int grad_group, const T* __restrict__ y, int y_group, const float* stats,
                                               int relu, float* parts, const int* present, int samples, int height, int width,
                                               int channels, int rows_per_block) {
  int ph = height / P, pw = width / P, windows = samples * ph * pw;
  EACH_ROW(present[blockIdx.y] * ph * pw)
  float sums[2][8] = {}, mean[8], inverse[8], scale[8], shift[8];
  load_stats(stats, lane, channels, 0, first, mean);
  load_stats(stats, lane, channels, 1, first, inverse);
  load_stats(stats, lane, channels, 2, first, scale);
  load_stats(stats, lane, channels, 3, first, shift);
  const T* from = y + begin(lane, y_group, samples * height * width, channels) + first;
  const T* of_out = grad + begin(lane, grad_group, windows, channels) + first;
#pragma unroll(P == 1 ? 4 : 2)
    for (int row = begins; row < end; row += down) {
      float v[P * P][8], g[8], best[8];
      int place[8];
      load8(of_out + (Long)row * grad_group * channels, g);
      load_window<P>(from, row / (pw * ph), row / pw % ph, row % pw, height, width, (Long)y_group * channels, v);
      winners<P>(v, scale, shift, relu, best, place);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float won = 0.0f;
#pragma unroll
        for (int k = 0; k < P * P; ++k) won = place[i] == k ? v[k][i] : won;
        float d = place[i] < 0 ? 0.0f : g[i];
        sums[0][i] += d;
        sums[1][i] += d * (won - mean[i]) * inverse[i];
      }
    }
  write_parts(sums, across, down, channels, parts);
}

// The rule of one SGD step: see Rule in wide_ops.py.
struct Rule { float eta, decay, pull; };
__device__ __forceinline__ float stepped(float w, float gradient, const float* start, Long at, Rule rule) {
  float down = rule.eta * gradient + rule.decay * w;
  if (rule.pull != 0.0f) down += rule.pull * (w - start[at]);
  return w - down;
}
__device__ __forceinline__ void step_one(float* w, float gradient, const float* start, Long at, Rule rule) {
  w[at] = stepped(w[at], gradient, start, at, rule);
}

// The sums of all parts, and the SGD step of the parameters that they are the gradients of.
extern "C" __global__ void finish_gradient_sums(const float* parts, int count, const int* present, int per_sample, int channels, const int* lane_of,
                                                float* w, const float* start, int size, int gamma, int beta, int bias,
                                                float eta, float decay, float pull, float* stats) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, lane = blockIdx.y, model = lane_of[lane];
  if (c >= channels) return;
  float first = 0.0f, second = 0.0f;
  for (int p = 0; p < count; ++p) {
    const float* part = parts + ((Long)lane * count + p) * 2 * channels + c;
    first += part[0]; second += part[channels];
  }
  float* to = stats + (Long)lane * 6 * channels + c;
  float counted = present[lane] * per_sample;
  to[4 * channels] = gamma < 0 ? 0.0f : first / counted;
  to[5 * channels] = gamma < 0 ? 0.0f : second / counted;
  if (model < 0) return;
  Rule rule = {eta, decay, pull};
  Long own = (Long)model * size + c;
  if (gamma >= 0) { step_one(w, second, start, own + gamma, rule); step_one(w, first, start, own + beta, rule); }
  // Normalisation takes a bias away again: then its gradient is zero.
  if (bias >= 0) step_one(w, gamma < 0 ? first : 0.0f, start, own + bias, rule);
}

// The gradient before normalisation, ReLU and pooling.
template <int P>
__device__ __forceinline__ void before_activation_(const T* __restrict__ grad, int grad_group, const T* __restrict__ y, int y_group,
                                                   const float* stats, int relu, T* __restrict__ out, const int* present,
                                                   int samples, int height, int width, int channels, int rows_per_block) {
  int ph = height / P, pw = width / P, all_h = (height + P - 1) / P, all_w = (width + P - 1) / P;
  EACH_ROW(samples * all_h * all_w)
  float mean[8], inverse[8], scale[8], shift[8], one[8], two[8];
  load_stats(stats, lane, channels, 0, first, mean);
  load_stats(stats, lane, channels, 1, first, inverse);
  load_stats(stats, lane, channels, 2, first, scale);
  load_stats(stats, lane, channels, 3, first, shift);
  load_stats(stats, lane, channels, 4, first, one);
  load_stats(stats, lane, channels, 5, first, two);
#pragma unroll
  for (int i = 0; i < 8; ++i) {  // scale * (g - one - (v - mean) * inverse * two) = scale * g - (v * two + one)
    two[i] *= inverse[i] * scale[i];
    one[i] = one[i] * scale[i] - mean[i] * two[i];
  }
  int there = present[lane];
  Long base = begin(lane, y_group, samples * height * width, channels) + first, step = (Long)y_group * channels;
  const T* of_out = grad + begin(lane, grad_group, samples * ph * pw, channels) + first;
#pragma unroll(P == 1 ? 4 : 1)
  for (int row = begins; row < end; row += down) {
    int px = row % all_w, py = row / all_w % all_h, n = row / (all_w * all_h);
    float v[P * P][8], g[8] = {}, best[8];
    int place[8];
    load_window<P>(y + base, n, py, px, height, width, step, v);
    if (py < ph && px < pw) load8(of_out + (Long)((n * ph + py) * pw + px) * grad_group * channels, g);
    winners<P>(v, scale, shift, relu, best, place);
#pragma unroll
    for (int k = 0; k < P * P; ++k) {
      int r = py * P + k / P, z = px * P + k % P;
      if (r >= height || z >= width) continue;
      float d[8];
#pragma unroll
      for (int i = 0; i < 8; ++i)
        d[i] = n < there ? (place[i] == k ? scale[i] * g[i] : 0.0f) - (v[k][i] * two[i] + one[i]) : 0.0f;
      store8(out + base + (Long)((n * height + r) * width + z) * step, d);
    }
  }
}

// The kernels for maps that are not pooled, and for those that are pooled by two.
#define FOR_POOL(P)                                                                                                     \
  extern "C" __global__ void activate##P(const T* __restrict__ y, int y_group, T* __restrict__ out, int out_group, const float* stats, int relu, \
                                         int samples, int height, int width, int channels, int rows_per_block) {       \
    activate_<P>(y, y_group, out, out_group, stats, relu, samples, height, width, channels, rows_per_block);           \
  }                                                                                                                     \
  extern "C" __global__ void gradient_sums##P(const T* __restrict__ grad, int grad_group, const T* __restrict__ y, int y_group,                  \
                                              const float* stats, int relu, float* parts, const int* present, int samples, int height, \
                                              int width, int channels, int rows_per_block) {                           \
    gradient_sums_<P>(grad, grad_group, y, y_group, stats, relu, parts, present, samples, height, width, channels,              \
                      rows_per_block);                                                                                  \
  }                                                                                                                     \
  extern "C" __global__ void before_activation##P(const T* __restrict__ grad, int grad_group, const T* __restrict__ y, int y_group,              \
                                                  const float* stats, int relu, T* __restrict__ out, const int* present, int samples, int height,       \
                                                  int width, int channels, int rows_per_block) {                       \
    before_activation_<P>(grad, grad_group, y, y_group, stats, relu, out, present, samples, height, width, channels,            \
                          rows_per_block);                                                                              \
  }
FOR_POOL(1)
FOR_POOL(2)

// The SGD step of one layer's weights [output][input][tap] of every lane, from the gradient [output][tap][input] (filled
// up to `wide`), and their copy for the next products in the order of the gradient. Without a gradient: the copy alone.
// A block takes `tile` pairs of an output and an input through shared memory, where the order changes.
extern "C" __global__ void step_weights(float* w, const float* start, int size, int at, const int* lane_of, const T* __restrict__ grad,
                                        T* __restrict__ copy, int outputs, int inputs, int taps, int wide, int tile, float eta,
                                        float decay, float pull) {
  extern __shared__ __align__(16) float held[];
  int lane = blockIdx.y, model = lane_of[lane], pairs = outputs * inputs, first = blockIdx.x * tile;
  if (model < 0) return;
  int many = min(tile, pairs - first), numbers = many * taps;
  float* own = w + (Long)model * size + at + (Long)first * taps;
  const float* pulls = start + (own - w);
  Rule rule = {eta, decay, pull};
  bool fours = numbers % 4 == 0 && (Long)first * taps % 4 == 0;
  if (fours)
    for (int i = threadIdx.x; i < numbers / 4; i += blockDim.x)
      reinterpret_cast<float4*>(held)[i] = reinterpret_cast<const float4*>(own)[i];
  else
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) held[i] = own[i];
  __syncthreads();
  Long row = (Long)lane * outputs * wide;
  if (inputs % 2 == 0) {
    for (int p = 2 * threadIdx.x; p < many; p += 2 * blockDim.x) {
      int o = (first + p) / inputs, i = (first + p) % inputs;
#pragma unroll 9
      for (int tap = 0; tap < taps; ++tap) {
        Long there = row + (Long)o * wide + tap * inputs + i;
        float v[2] = {held[p * taps + tap], held[(p + 1) * taps + tap]};
        if (grad) {
          float g[2];
          load2(grad + there, g);
          v[0] = stepped(v[0], g[0], pulls, p * taps + tap, rule);
          v[1] = stepped(v[1], g[1], pulls, (p + 1) * taps + tap, rule);
          held[p * taps + tap] = v[0];
          held[(p + 1) * taps + tap] = v[1];
        }
        store2(copy + there, v);
      }
    }
  } else {
    for (int p = threadIdx.x; p < many; p += blockDim.x)
      for (int tap = 0; tap < taps; ++tap) {
        Long there = row + (Long)((first + p) / inputs) * wide + tap * inputs + (first + p) % inputs;
        float v = held[p * taps + tap];
        if (grad) {
          v = stepped(v, number(grad[there]), pulls, p * taps + tap, rule);
          held[p * taps + tap] = v;
        }
        copy[there] = stored(v);
      }
  }
  if (!grad) return;
  __syncthreads();
  if (fours)
    for (int i = threadIdx.x; i < numbers / 4; i += blockDim.x)
      reinterpret_cast<float4*>(own)[i] = reinterpret_cast<const float4*>(held)[i];
  else
    for (int i = threadIdx.x; i < numbers; i += blockDim.x) own[i] = held[i];
}

// The SGD step of a vector of parameters, from its gradient [lane][number].
extern "C" __global__ void step_vector(float* w, const float* start, int size, int at, const int* lane_of,
                                       const float* grad, int lanes, int count, float eta, float decay, float pull) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= lanes * count || lane_of[index / count] < 0) return;
  Rule rule = {eta, decay, pull};
  step_one(w, grad[index], start, (Long)lane_of[index / count] * size + at + index % count, rule);
}
